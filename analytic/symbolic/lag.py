"""Derivations for the lead of the recursion (33) over the ODE (44): Lemma 7, Remark 2 (Eqs. 46-49).

h*(s) leads h(s) by c visits: h*(s) = h(s + c). All results are explicit in c.
"""

import sympy as sp

from snapdyn.analytic.symbolic.decoder import visits
from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, V, eta_Y, h, s

DERIVATIONS = Derivations()

y = sp.Symbol("y", positive=True)
"""exp(V h)."""
step = V * eta_Y / (V - 1 + y)
"""Increase of V h by one visit, Eq. (33)."""
increment = y * (sp.exp(step) - 1 - step) / (V * eta_Y)
visits_of_y = visits.subs(h, sp.log(y) / V)


@DERIVATIONS.declare
def lag_increment() -> Derivation:
    """Return the increase of the lead c by one visit; it is positive, hence h* > h after the first visit."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        after = visits_of_y.subs(y, y * sp.exp(step))
        return {"s(h*(s+1)) - s(h*(s)) - 1": sp.expand_log(after - visits_of_y, force=True) - 1 - claim}

    return Derivation(
        title="One visit adds y (exp(x) - 1 - x)/(V eta_Y) > 0 to the lead, x = V eta_Y/(V-1+y), y = exp(V h*)",
        source="own; Lemma 7(a), Eqs. (46)-(47)",
        statement=sp.Eq(sp.Symbol(r"\Delta c"), increment, evaluate=False),
        steps=(("x, what a visit adds to V h*", step), ("s(h*)", visits_of_y)),
        residuals=residuals,
    )


@DERIVATIONS.declare
def lag() -> Derivation:
    """Return the lead to leading order in eta_Y."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # dc/du = (change of c per visit)/(change of u = ln y per visit).
        return {
            "dc/du as eta_Y -> 0": y * sp.diff(claim, y) - sp.limit(increment / step, eta_Y, 0),
            "no lead at the start": claim.subs(y, 1),
        }

    return Derivation(
        title="The recursion leads by c = (1/2) ln((V-1+exp(V h))/V) visits, up to a relative O(eta_Y)",
        source="own; sharpens Lemma 7 and Remark 2",
        statement=sp.Eq(sp.Symbol("c"), sp.log((V - 1 + y) / V) / 2, evaluate=False),
        steps=(("dc/du as eta_Y -> 0", sp.limit(increment / step, eta_Y, 0)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def largest_gap() -> Derivation:
    """Return the largest h* - h to leading order in eta_Y, an eleventh of the bound 2 eta_Y/V of Lemma 7."""
    slowing = sp.Symbol("x", positive=True)
    # The gap is c dh/ds, with (V-1+y)/V = x: dh/ds = eta_Y/(V x).
    gap = sp.log(slowing) / 2 * eta_Y / (V * slowing)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {
            "c dh/ds at x = e": gap.subs(slowing, sp.E) - claim,
            "stationary there": sp.diff(gap, slowing).subs(slowing, sp.E),
        }

    return Derivation(
        title="The largest h* - h is eta_Y/(2 e V), up to a relative O(eta_Y)",
        source="own; Lemma 7(a) bounds it by 2 eta_Y/V",
        statement=sp.Eq(sp.Symbol(r"\max {(h^{*} - h)}"), eta_Y / (2 * sp.E * V), evaluate=False),
        steps=(("h* - h in x = (V-1+exp(V h))/V", gap),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def late_lag() -> Derivation:
    """Return the late growth of the lead per visit; it is 0 in Remark 2, whose lead is bounded."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"over the increment as s -> oo": sp.limit((claim / increment).subs(s, visits_of_y), y, sp.oo) - 1}

    return Derivation(
        title="Late, each visit adds 1/(2 s) to the lead: c ~ (1/2) ln s and h* - h ~ ln(s)/(2 V s)",
        source="Remark 2, whose gap 2 eta_Y s_0/(V s) keeps c constant",
        statement=sp.Eq(sp.Symbol(r"\Delta c"), 1 / (2 * s), evaluate=False),
        steps=(("lead added by one visit", increment),),
        residuals=residuals,
        printed=sp.Integer(0),
    )
