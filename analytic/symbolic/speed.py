"""Derivations for the lead of the recursion (33), for gamma and the transition times.

Lemmas 7-9, Remark 2, Eqs. (46)-(49), (85), (125)-(128).

The recursion h*(s) leads h(s) by c visits: h*(s) = h(s + c). All results on the recursion are explicit in c.
"""

import sympy as sp

from snapdyn.analytic.symbolic.decoder import slope_of_h, visits
from snapdyn.analytic.symbolic.derivation import (
    Derivation,
    K,
    Residuals,
    V,
    declare,
    eta_Y,
    h,
    resolve_lambert,
    s,
    t,
    u,
)

y = sp.Symbol("y", positive=True)
"""exp(V h)."""
step = V * eta_Y / (V - 1 + y)
"""Increase of V h by one visit, Eq. (33)."""
increment = y * (sp.exp(step) - 1 - step) / (V * eta_Y)
visits_of_y = visits.subs(h, sp.log(y) / V)


@declare
def lag_increment() -> Derivation:
    """Return the increase of the lead c by one visit; it is positive, hence h* > h after the first visit."""
    after = visits_of_y.subs(y, y * sp.exp(step))
    return Derivation(
        "One visit adds y (exp(x) - 1 - x)/(V eta_Y) > 0 to the lead, x = V eta_Y/(V-1+y), y = exp(V h*)",
        "own; Lemma 7(a), Eqs. (46)-(47)",
        r"\Delta c",
        increment,
        {"s(h*(s+1)) - s(h*(s)) - 1": sp.expand_log(after - visits_of_y, force=True) - 1},
    )


@declare
def lag() -> Derivation:
    """Return the lead to leading order in eta_Y."""

    # dc/du = (change of c per visit)/(change of u = ln y per visit).
    return Derivation(
        "The recursion leads by c = (1/2) ln((V-1+exp(V h))/V) visits, up to a relative O(eta_Y)",
        "own; sharpens Lemma 7 and Remark 2",
        "c",
        sp.log((V - 1 + y) / V) / 2,
        lambda claim: {
            "dc/du as eta_Y -> 0": y * sp.diff(claim, y) - sp.limit(increment / step, eta_Y, 0),
            "no lead at the start": claim.subs(y, 1),
        },
    )


@declare
def largest_gap() -> Derivation:
    """Return the largest h* - h to leading order in eta_Y, about 1/11 of the bound 2 eta_Y/V of Lemma 7."""
    slowing = sp.Symbol("x", positive=True)
    # The gap is c dh/ds, with (V-1+y)/V = x: dh/ds = eta_Y/(V x).
    gap = sp.log(slowing) / 2 * eta_Y / (V * slowing)

    return Derivation(
        "The largest h* - h is eta_Y/(2 e V), up to a relative O(eta_Y)",
        "own; Lemma 7(a) bounds it by 2 eta_Y/V",
        r"\max {(h^{*} - h)}",
        eta_Y / (2 * sp.E * V),
        lambda claim: {
            "c dh/ds at x = e": gap.subs(slowing, sp.E) - claim,
            "stationary there": sp.diff(gap, slowing).subs(slowing, sp.E),
        },
    )


@declare
def late_lag() -> Derivation:
    """Return the late growth of the lead per visit; in Remark 2 the lead is bounded, so this growth is 0."""
    return Derivation(
        "Late, each visit adds 1/(2 s) to the lead: c ~ (1/2) ln s and h* - h ~ ln(s)/(2 V s)",
        "Remark 2, whose gap 2 eta_Y s_0/(V s) keeps c constant",
        r"\Delta c",
        1 / (2 * s),
        lambda claim: {
            "over the increment as s -> oo": sp.limit((claim / increment).subs(s, visits_of_y), y, sp.oo) - 1
        },
        printed=sp.Integer(0),
    )


gamma_of_h = (V - 1) ** 2 * h / (V - 1 + sp.exp(V * h))
visits_of_u = visits.subs(h, u / V)
gamma_of_u = gamma_of_h.subs(h, u / V)
speed_of_u = slope_of_h.subs(h, u / V)
integral_of_gamma = K * (V - 1) ** 2 * h**2 / (2 * eta_Y)
"""Integral of gamma over steps, Eq. (128)."""
lower_root, upper_root = -sp.LambertW(-1 / (V - 1)), -sp.LambertW(-1 / (V - 1), -1)
"""u_- and u_+, the roots of exp(u) = (V-1) u."""
peak = 1 + sp.LambertW((V - 1) / sp.E)


@declare
def gamma_integral() -> Derivation:
    """Return Eq. (128), the integral of gamma over batch-size-1 steps under K uniform classes."""
    # A class is visited once in K steps: t = K s(h).
    dt_dh = K * sp.diff(visits, h)
    x = sp.Symbol("x", positive=True)
    integral = sp.integrate(sp.simplify(gamma_of_h * dt_dh).subs(h, x), (x, 0, h))

    return Derivation(
        "Integral of gamma over t is K (V-1)^2 h^2/(2 eta_Y)",
        "Eqs. (125)-(128)",
        r"\Gamma/\eta_Z",
        integral_of_gamma,
        lambda claim: {
            "derivative along t": sp.diff(claim, h) / dt_dh - gamma_of_h,
            "zero at t = 0": claim.subs(h, 0),
            "sympy's integral": claim - integral,
        },
    )


@declare
def gamma_peak() -> Derivation:
    """Return the value of u = V h at the maximum of gamma.

    The numerator of d gamma/du, V - 1 + (1-u) exp(u), has the negative slope -u exp(u): one root, which is a maximum.
    """
    return Derivation(
        "gamma is largest at u* = V h = 1 + W((V-1)/e)",
        "own, from Eq. (85)",
        "u^*",
        peak,
        lambda claim: {"d gamma/du = 0": resolve_lambert(sp.diff(gamma_of_u, u).subs(u, claim))},
    )


@declare
def peak_time() -> Derivation:
    """Return the step t* at which gamma peaks, as a rational function of u*."""
    u_star = sp.Symbol("u^*", positive=True)
    exact = K * visits_of_u.subs(u, peak)
    return Derivation(
        "gamma peaks at t* = (K/eta_Y) [(V-1) u* + (V-1)/(u*-1) - 1]/V",
        "own, from Eqs. (45) and (85)",
        "t^*",
        K / eta_Y * ((V - 1) * u_star + (V - 1) / (u_star - 1) - 1) / V,
        lambda claim: {"t = K s(u*)": resolve_lambert(claim.subs(u_star, peak) - exact)},
    )


def _root(root: sp.Expr, side_of_minimum: int, name: str, title: str) -> Derivation:
    def residuals(claim: sp.Basic) -> Residuals:
        # exp(u) - (V-1) u is least at ln(V-1), between the roots. They meet only at V-1 = e, so their
        # order at one V is their order for all V >= 4.
        side = sp.sign(claim.subs(V, 4) - sp.log(3))
        return {
            "exp(u) = (V-1) u": resolve_lambert(sp.exp(claim) - (V - 1) * claim),
            "side of the minimum": side - side_of_minimum,
        }

    return Derivation(
        title,
        "Lemma 8; closed form own",
        sp.Symbol(name),
        root,
        residuals,
    )


@declare
def u_minus() -> Derivation:
    """Return the smaller root of exp(u) = (V-1) u."""
    return _root(lower_root, -1, "u_-", "Smaller root of exp(u) = (V-1) u")


@declare
def u_plus() -> Derivation:
    """Return the larger root of exp(u) = (V-1) u."""
    return _root(upper_root, 1, "u_+", "Larger root of exp(u) = (V-1) u")


@declare
def omega_1() -> Derivation:
    """Return omega_1 of Lemma 8 in closed form: (1+omega_1) ln V is the larger root."""

    def residuals(claim: sp.Basic) -> Residuals:
        root = sp.expand((1 + claim) * sp.log(V))
        return {
            "exp(u) = (V-1) u at (1+omega_1) ln V": resolve_lambert(sp.exp(root) - (V - 1) * root),
            "the larger root": sp.sign(root.subs(V, 4) - sp.log(3)) - 1,
        }

    return Derivation(
        "omega_1 = u_+/ln V - 1",
        "Lemma 8, Eq. (51); closed form own",
        "omega_1",
        upper_root / sp.log(V) - 1,
        residuals,
    )


@declare
def transition_balance() -> Derivation:
    """Return t0, the printed end of the transition, minus the time at which exp(V h) = (V-1) V h in (45)."""
    u_p = sp.Symbol("u_+", positive=True)
    balance = K * visits_of_u.subs(sp.exp(u), (V - 1) * u).subs(u, u_p)

    return Derivation(
        "t0 = 2 (1+omega_1) K ln V/eta_Y is later, by a relative O(1/V), than the balance of the terms of (45)",
        "Lemma 9, Eq. (55); own",
        "t_0 - t_{balance}",
        K * (2 * u_p + 1) / (eta_Y * V),
        {"t0 - balance": 2 * u_p * K / eta_Y - balance},
    )


@declare
def early_h() -> Derivation:
    """Return the early form of h, from which the early piece of (14) follows."""
    return Derivation(
        "Early, h ~ eta_Y s/V",
        "Lemma 9",
        h,
        eta_Y * s / V,
        lambda claim: {"relative error as s -> 0": sp.limit(claim.subs(s, visits_of_u) * V / u, u, 0) - 1},
    )


@declare
def late_h() -> Derivation:
    """Return the late form of u = V h; Theorem 1(b) and Section 6 print its logarithm without V."""
    return Derivation(
        "Late, V h ~ ln(V eta_Y s), with an error that vanishes",
        "Lemma 9; printed without V in Theorem 1(b)",
        u,
        sp.log(V * eta_Y * s),
        lambda claim: {"absolute error as s -> oo": sp.limit(claim.subs(s, visits_of_u) - u, u, sp.oo)},
        printed=sp.log(eta_Y * s),
    )


@declare
def early_gamma() -> Derivation:
    """Return Lemma 9's early gamma with its constant."""
    return Derivation(
        "Early, gamma ~ ((V-1)/V)^2 eta_Y t/K",
        "Lemma 9",
        "gamma",
        ((V - 1) / V) ** 2 * eta_Y * t / K,
        lambda claim: {"relative error as t -> 0": sp.limit(claim.subs(t, K * visits_of_u) / gamma_of_u, u, 0) - 1},
    )


@declare
def late_gamma() -> Derivation:
    """Return Lemma 9's late gamma with its constant."""
    return Derivation(
        "Late, gamma ~ ((V-1)/V)^2 K ln(V eta_Y t/K)/(eta_Y t)",
        "Lemma 9",
        "gamma",
        ((V - 1) / V) ** 2 * K * sp.log(V * eta_Y * t / K) / (eta_Y * t),
        lambda claim: {
            "relative error as t -> oo": sp.limit(claim.subs(t, K * visits_of_u) / gamma_of_u, u, sp.oo) - 1
        },
    )
