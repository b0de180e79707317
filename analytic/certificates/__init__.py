"""Interval proofs of statements about the closed forms, on boxes, by branch and bound with Arb balls.

A certificate covers every real point of its box, rounding included; what reduces a statement to its inequalities is
said in words (`Statement.reduction`), and tested at 50 digits.
"""

from snapdyn.analytic.certificates import correlation, decoder_speed, discrete_visits, transition
from snapdyn.analytic.certificates.prover import Certificate, Inequality, Proof, Statement, prove

__all__ = ["CERTIFICATES", "Certificate", "Inequality", "Proof", "Statement", "prove"]

# Modules in the order of the paper; each declares its statements in the same order.
MODULES = (decoder_speed, discrete_visits, correlation, transition)
CERTIFICATES: dict[str, Statement] = {statement.id: statement for module in MODULES for statement in module.STATEMENTS}
"""Statements that the project certifies, by id."""
