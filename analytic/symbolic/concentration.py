"""Derivations for sampled classes and finite sequences: Lemmas 10-11, 18, Corollary 1 (Eqs. 58-65, 72-73, 138)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, V, eta_Y, s, u
from snapdyn.analytic.symbolic.speed import speed_of_u, visits_of_u

DERIVATIONS = Derivations()

delta, epsilon, N = sp.symbols("delta epsilon N", positive=True)
elasticity = (sp.exp(u) + (V - 1) * u - 1) / (u * (V - 1 + sp.exp(u)))
"""d ln h/d ln s, and d ln h/d ln eta_Y, in u = V h."""


@DERIVATIONS.declare
def hoeffding_radius() -> Derivation:
    """Return the radius at which Hoeffding's bound (59), (138) is delta, for a frequency in N draws."""

    surplus = sp.Symbol("L", positive=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # delta < 2 enters as ln(2/delta) = L > 0.
        radius = claim.subs(delta, 2 * sp.exp(-surplus))
        return {
            "-ln of both sides of 2 exp(-2 N r^2) = delta": 2 * N * radius**2 - surplus,
            "r > 0": sp.sign(radius) - 1,
        }

    return Derivation(
        title="A frequency in N draws lies within sqrt(ln(2/delta)/(2 N)) of its probability, w.p. >= 1 - delta",
        source="Lemma 10, Eqs. (58)-(59); Lemma 18, Eqs. (136), (138), N = T-1",
        statement=sp.Eq(sp.Symbol("r"), sp.sqrt(sp.log(2 / delta) / (2 * N)), evaluate=False),
        steps=(("bound on the probability of leaving r", 2 * sp.exp(-2 * N * sp.Symbol("r") ** 2)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def ceiling_absorbed() -> Derivation:
    """Return the N ln(2/delta) from which the second bound of (58) covers the +1 of a rounded mean."""
    x = sp.Symbol("x", positive=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"sqrt(x/2) + 1 = sqrt(x)": sp.sqrt(claim / 2) + 1 - sp.sqrt(claim)}

    return Derivation(
        title="sqrt(x/2) + 1 < sqrt(x), x = N ln(2/delta), needs x > 6 + 4 sqrt(2)",
        source="Lemma 10, Eq. (58), second inequality",
        statement=sp.Eq(x, 6 + 4 * sp.sqrt(2), evaluate=False),
        steps=(("sqrt(x)", 1 / (1 - 1 / sp.sqrt(2))),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def h_elasticity() -> Derivation:
    """Return d ln h/d ln s = d ln h/d ln eta_Y; at most 1, since h is concave (Lemma 11)."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {
            "s h'/h": visits_of_u * speed_of_u / (u / V) - claim,
            "1 - elasticity": 1 - claim - (1 - (1 - u) * sp.exp(u)) / (u * (V - 1 + sp.exp(u))),
        }

    return Derivation(
        title="d ln h/d ln s = (exp(u) + (V-1) u - 1)/(u (V-1+exp(u))) <= 1, u = V h",
        source="own; Lemma 11, Eqs. (61), (63): s h'(s) <= h(s)",
        statement=sp.Eq(
            sp.Symbol(r"d \ln h / d \ln s"),
            elasticity,
            evaluate=False,
        ),
        steps=(("s", visits_of_u), ("1 - (1-u) exp(u), 0 at u = 0, has the slope", u * sp.exp(u))),
        residuals=residuals,
    )


@DERIVATIONS.declare
def error_slope() -> Derivation:
    """Return the largest relative change per visit of 1/(V-1+exp(V h)), reached at exp(V h) = V-1."""
    # d/ds of 1/(V-1+exp(V h)), over itself, without its minus sign.
    slope = eta_Y * V * sp.exp(u) / (V - 1 + sp.exp(u)) ** 2
    place = sp.log(V - 1)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        error = 1 / (V - 1 + sp.exp(u))
        # du/ds = V eta_Y error by Eq. (44), which cancels against the error in the relative change.
        per_visit = sp.diff(error, u) * V * eta_Y
        return {
            "value at exp(u) = V-1": slope.subs(u, place) - claim,
            "stationary there": sp.diff(slope, u).subs(u, place),
            "slope from Eq. (44)": slope + per_visit,
        }

    return Derivation(
        title="1/(V-1+exp(V h)) falls by at most the fraction V eta_Y/(4 (V-1)) per visit, < eta_Y/3 for V > 4",
        source="Lemma 11, Eqs. (62), (64)-(65)",
        statement=sp.Eq(sp.Symbol(r"\max |\dot g|/g"), V * eta_Y / (4 * (V - 1)), evaluate=False),
        steps=(("|g'|/g in u = V h", slope),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def visits_to_error() -> Derivation:
    """Return the visits until exp(V h) = V/epsilon, where the error's norm is epsilon to leading order."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        place = sp.log(V / epsilon)
        norm = (V - 1) / (V - 1 + sp.exp(place)) * sp.sqrt(V / (V - 1))
        return {
            "Eq. (45) at exp(V h) = V/epsilon": visits_of_u.subs(u, place) - claim,
            "norm over epsilon as epsilon -> 0, V -> oo": sp.limit(sp.limit(norm / epsilon, epsilon, 0), V, sp.oo) - 1,
        }

    return Derivation(
        title="An error of norm epsilon takes (1/eta_Y) (1/epsilon + ((V-1)/V) ln(V/epsilon) - 1/V) visits",
        source="Corollary 1, Eqs. (72)-(73), which bound it by the order of ln(V/epsilon)/(epsilon eta_Y)",
        statement=sp.Eq(s, (1 / epsilon + (V - 1) / V * sp.log(V / epsilon) - 1 / V) / eta_Y, evaluate=False),
        steps=(("s in u = V h", visits_of_u),),
        residuals=residuals,
    )
