"""Derivations for the decoder at identical overlaps, in the notation of `snapdyn.analytic.overlapping_decoder`.

Rates are per unit of eta_Y s, s = t/K visits. b and c are the probabilities of another class's output and of an
output of no class; the right output has 1 - (K-1) b - (V-K) c.
"""

import sympy as sp

from snapdyn.analytic.symbolic.decoder import visits
from snapdyn.analytic.symbolic.derivation import Derivation, K, V, declare, eta_Y, h
from snapdyn.analytic.symbolic.orbit import C, D, orbit_overlap_exact, orbit_overlap_leading, overlap

g = sp.Symbol("g", positive=True)
m = 1 + overlap * V / (1 - overlap)
b, c = sp.symbols("b c", positive=True)
error = (K - 1) * b + (V - K) * c
"""1 - a: one minus the probability of the right output."""
lead_other = sp.log(m - (m - 1) * sp.exp(-g))
lead_own = (V - K) / m * (lead_other + g) + K * g

_OWN, _OTHER, _REST = sp.symbols("U W r", real=True)
_RATES = {_OWN: error, _OTHER: -b, _REST: -c}
"""Coefficients of y_n on the output of class n, of another class and of no class, with their rates, Eq. (7)."""
_COEFFICIENTS = {
    _OTHER: -g / (1 - overlap),
    _OWN: (lead_own - g) / (1 - overlap),
    _REST: -(lead_other + g) / (m * (1 - overlap)),
}
"""These coefficients as functions of g."""


def _logits() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Return the logits of class n: G times the coefficients, G = (1-rho) I + rho 1 1^T."""
    own = _OWN + (K - 1) * overlap * _OTHER
    other = _OTHER + overlap * (_OWN + (K - 2) * _OTHER)
    return own, other, (1 + (K - 1) * overlap) * _REST


def _slope(logit: sp.Expr) -> sp.Expr:
    """Return the derivative of a logit with respect to g, dg = (1-rho) b d(eta_Y s), with c/b = exp(-v)."""
    rate = sum(sp.diff(logit, coefficient) * change for coefficient, change in _RATES.items())
    return sp.expand(rate / ((1 - overlap) * b)).subs(c, b * sp.exp(-lead_other))


@declare
def overlap_lead_other() -> Derivation:
    """Return the lead v of other classes' outputs over outputs of no class."""
    _, other, rest = _logits()

    return Derivation(
        "Identical overlaps: other classes' outputs lead by v = ln(m - (m-1) exp(-g)), m = 1 + rho V/(1-rho)",
        "own, from Eq. (7); at K = V Remark 1",
        "v",
        lead_other,
        lambda claim: {"dv/dg of Eq. (7)": sp.diff(claim, g) - _slope(other - rest), "zero start": claim.subs(g, 0)},
    )


@declare
def overlap_lead_own() -> Derivation:
    """Return the lead d of the own output over other classes' outputs."""
    own, other, _ = _logits()

    return Derivation(
        "Identical overlaps: the own output leads other classes' outputs by d = ((V-K)/m)(v + g) + K g",
        "own, from Eq. (7)",
        "d",
        lead_own,
        lambda claim: {"dd/dg of Eq. (7)": sp.diff(claim, g) - _slope(own - other), "zero start": claim.subs(g, 0)},
    )


@declare
def overlap_time() -> Derivation:
    """Return eta_Y s as a function of g."""
    inner = sp.Symbol("x", positive=True)
    integral = sp.Integral(sp.exp(lead_own.subs(g, inner)), (inner, 0, g))
    claim = (integral + (K - 1) * g + (V - K) / m * (lead_other + g)) / (1 - overlap)
    # 1/b = exp(d) + K - 1 + (V-K) exp(-v).
    rate = (sp.exp(lead_own) + K - 1 + (V - K) * sp.exp(-lead_other)) / (1 - overlap)
    decoupled = eta_Y * visits.subs(h, g)
    return Derivation(
        "Identical overlaps: time as a function of g",
        "own, from Eq. (7); at rho = 0 Eq. (45)",
        r"\eta_{Y} s",
        claim,
        lambda claimed: {
            "dg = (1-rho) b d(eta_Y s)": sp.diff(claimed, g) - rate,
            "rho = 0: Eq. (45)": claimed.subs(overlap, 0).doit() - decoupled,
            "K = V: Eq. (45) at the rate (1-rho) eta_Y": (1 - overlap) * claimed.subs(K, V).doit() - decoupled,
        },
    )


def _beta() -> sp.Expr:
    """Return minus the coefficient of f_k in Y (e_n - alpha_n), k != n, in g, b and c."""
    gradient = _OTHER * error - (_OWN + (K - 2) * _OTHER) * b - (V - K) * _REST * c
    return -gradient.subs(_COEFFICIENTS, simultaneous=True)


@declare
def overlap_beta() -> Derivation:
    """Return beta of the original flow as a sum of positive terms."""
    claim = (g * (error + b) + (V - K) / m * (lead_other + g) * (b - c)) / (1 - overlap)
    own, other, rest = _logits()
    return Derivation(
        "Identical overlaps: beta = [g (1 - a + b) + ((V-K)/m)(v + g)(b - c)]/(1-rho) > 0",
        "own, from Eq. (7)",
        "beta_nk",
        claim,
        lambda claimed: {
            "-[coefficient of f_k in Y (e_n - alpha_n)]": _beta() - claimed,
            "the coefficients give the lead d": (own - other).subs(_COEFFICIENTS, simultaneous=True) - lead_own,
            "and the lead v": (other - rest).subs(_COEFFICIENTS, simultaneous=True) - lead_other,
            "and sum to 0 over outputs": (_OWN + (K - 1) * _OTHER + (V - K) * _REST).subs(
                _COEFFICIENTS, simultaneous=True
            ),
        },
    )


beta_integral = (K * g**2 / 2 + (V - K) / m * (lead_other + g) * (g - (lead_other + g) / (2 * m))) / (1 - overlap) ** 2


@declare
def overlap_beta_integral() -> Derivation:
    """Return the integral of beta over eta_Y s, which drives slow attention in the mean field."""
    rate = sp.expand(_beta() / ((1 - overlap) * b)).subs(c, b * sp.exp(-lead_other))
    return Derivation(
        "Identical overlaps: the integral of beta is elementary in g",
        "own, from Eq. (7)",
        r"\int \beta d(\eta_{Y} s)",
        beta_integral,
        lambda claim: {"d/dg": sp.diff(claim, g) - rate, "zero start": claim.subs(g, 0)},
    )


def _beta_of(derivation: Derivation) -> sp.Expr:
    """Return beta of Theorem 1 from xi_n/gamma = (K-1) rho beta."""
    return derivation.claim.subs({C: overlap, D: 1 - overlap}) / ((K - 1) * overlap)


@declare
def first_gap_modified() -> Derivation:
    """Return the gap of slow attention from the mean field to Eq. (10) with the exact beta, at t -> 0."""
    claim = overlap * (V - K + 1 + (K - 1) * overlap) / ((1 - overlap) * (1 + (K - 1) * overlap))
    # Eq. (10): beta int gamma d(eta_Y s) = beta (V-1)^2 h^2/2, h ~ eta_Y s/V. Mean field: eta_Y s ~ V g/(1-rho).
    modified = _beta_of(orbit_overlap_exact()) * (V - 1) ** 2 / (2 * V**2)
    original = sp.diff(beta_integral, g, 2).subs(g, 0) / 2 * ((1 - overlap) / V) ** 2
    return Derivation(
        "Gap of slow attention from the mean field to Eq. (10) at the start: E' (V-K+1+(K-1) rho)",
        "own, from Theorem 1 and Eq. (7); sharpens finding F4",
        r"\epsilon_{10}",
        claim,
        {"ratio of the two, minus 1": modified / original - 1},
    )


@declare
def gap_leading() -> Derivation:
    """Return the gap from the exact to the leading beta of Theorem 1, the same at every time."""
    claim = -(1 + (1 - 1 / V) * overlap) / (1 + (V - 1) * overlap)

    return Derivation(
        "Gap from the exact to the leading beta: -(1 + (1-1/V) rho)/(1 + (V-1) rho)",
        "own, from Theorem 1",
        r"\epsilon_{E'}",
        claim,
        {"ratio of beta, minus 1": _beta_of(orbit_overlap_leading()) / _beta_of(orbit_overlap_exact()) - 1},
    )
