"""Interval proofs of statements about the closed forms, each on a box, by branch and bound with Arb balls.

A certificate holds at every real point of its box, as the balls account for rounding. `Statement.reduction` says in
words how a statement follows from its inequalities; tests check that step at 50 digits.
"""

from snapdyn.analytic.certificates import correlation, decoder_speed, discrete_visits, transition
from snapdyn.analytic.certificates.prover import Certificate, Inequality, Proof, Statement, prove
from snapdyn.analytic.certificates.symbolic_inequality import CERTIFICATES, certify

__all__ = ["CERTIFICATES", "Certificate", "Inequality", "Proof", "Statement", "certify", "prove"]

# Modules in the order of the paper; each declares its statements in the same order.
MODULES = (decoder_speed, discrete_visits, correlation, transition)
CERTIFICATES.declare(statement for module in MODULES for statement in module.STATEMENTS)
