"""Derivations for gamma, its integral, its peak, and the transition times (Lemmas 8-9, Eqs. 85, 125-128)."""

import sympy as sp

from snapdyn.analytic.symbolic.decoder import slope_of_h, visits
from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, K, V, eta_Y, h, resolve_lambert, s, t, u, v

DERIVATIONS = Derivations()

gamma_of_h = (V - 1) ** 2 * h / (V - 1 + sp.exp(V * h))
visits_of_u = visits.subs(h, u / V)
gamma_of_u = gamma_of_h.subs(h, u / V)
speed_of_u = slope_of_h.subs(h, u / V)
integral_of_gamma = K * (V - 1) ** 2 * h**2 / (2 * eta_Y)
"""Integral of gamma over steps, Eq. (128)."""
lower_root, upper_root = -sp.LambertW(-1 / (V - 1)), -sp.LambertW(-1 / (V - 1), -1)
"""u_- and u_+, the roots of exp(u) = (V-1) u."""
peak = 1 + sp.LambertW((V - 1) / sp.E)


@DERIVATIONS.declare
def gamma_integral() -> Derivation:
    """Return Eq. (128), the integral of gamma over batch-size-1 steps under K uniform classes."""
    # A class is visited once in K steps: t = K s(h).
    dt_dh = K * sp.diff(visits, h)
    x = sp.Symbol("x", positive=True)
    integral = sp.integrate(sp.simplify(gamma_of_h * dt_dh).subs(h, x), (x, 0, h))

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {
            "derivative along t": sp.diff(claim, h) / dt_dh - gamma_of_h,
            "zero at t = 0": claim.subs(h, 0),
            "sympy's integral": claim - integral,
        }

    return Derivation(
        title="Integral of gamma over t is K (V-1)^2 h^2/(2 eta_Y)",
        source="Eqs. (125)-(128)",
        statement=sp.Eq(sp.Symbol(r"\Gamma/\eta_Z"), integral_of_gamma, evaluate=False),
        steps=(("gamma dt/dh", sp.simplify(gamma_of_h * dt_dh)), ("integrated from 0", integral)),
        residuals=residuals,
    )


@DERIVATIONS.declare
def gamma_peak() -> Derivation:
    """Return the value of u = V h at the maximum of gamma."""
    numerator = V - 1 + sp.exp(u) - u * sp.exp(u)
    x = sp.Symbol("u", real=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"d gamma/du = 0": resolve_lambert(sp.diff(gamma_of_u, u).subs(u, claim).subs(V, 1 + v))}

    return Derivation(
        title="gamma is largest at u* = V h = 1 + W((V-1)/e)",
        source="own, from Eq. (85)",
        statement=sp.Eq(sp.Symbol("u^*"), peak, evaluate=False),
        steps=(
            ("numerator of d gamma/du", numerator),
            ("its slope is negative, so there is one root and it is a maximum", sp.diff(numerator, u)),
            ("root by sympy", sp.solve(numerator.subs(u, x), x)[0]),
        ),
        residuals=residuals,
    )


@DERIVATIONS.declare
def peak_time() -> Derivation:
    """Return the step t* at which gamma peaks, as a rational function of u*."""
    u_star = sp.Symbol("u^*", positive=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        exact = K * visits_of_u.subs(u, peak)
        return {"t = K s(u*)": resolve_lambert((claim.subs(u_star, peak) - exact).subs(V, 1 + v))}

    return Derivation(
        title="gamma peaks at t* = (K/eta_Y) [(V-1) u* + (V-1)/(u*-1) - 1]/V",
        source="own, from Eqs. (45) and (85)",
        statement=sp.Eq(
            sp.Symbol("t^*"), K / eta_Y * ((V - 1) * u_star + (V - 1) / (u_star - 1) - 1) / V, evaluate=False
        ),
        steps=(("K s at u", K * visits_of_u), ("exp(u*)", (V - 1) / (u_star - 1))),
        residuals=residuals,
    )


def _root(root: sp.Expr, side_of_minimum: int, name: str, title: str) -> Derivation:
    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # exp(u) - (V-1) u is least at ln(V-1), between the roots. They meet only at V-1 = e, so their
        # order at one V is their order for all V >= 4.
        side = sp.sign(claim.subs(V, 4) - sp.log(3))
        return {
            "exp(u) = (V-1) u": resolve_lambert((sp.exp(claim) - (V - 1) * claim).subs(V, 1 + v)),
            "side of the minimum": side - side_of_minimum,
        }

    return Derivation(
        title=title,
        source="Lemma 8; closed form own",
        statement=sp.Eq(sp.Symbol(name), root, evaluate=False),
        steps=(("defining equation", sp.Eq(sp.exp(u), (V - 1) * u)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def u_minus() -> Derivation:
    """Return the smaller root of exp(u) = (V-1) u."""
    return _root(lower_root, -1, "u_-", "Smaller root of exp(u) = (V-1) u")


@DERIVATIONS.declare
def u_plus() -> Derivation:
    """Return the larger root of exp(u) = (V-1) u."""
    return _root(upper_root, 1, "u_+", "Larger root of exp(u) = (V-1) u")


@DERIVATIONS.declare
def omega_1() -> Derivation:
    """Return omega_1 of Lemma 8 in closed form: (1+omega_1) ln V is the larger root."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        root = sp.expand((1 + claim) * sp.log(V))
        return {
            "exp(u) = (V-1) u at (1+omega_1) ln V": resolve_lambert((sp.exp(root) - (V - 1) * root).subs(V, 1 + v)),
            "the larger root": sp.sign(root.subs(V, 4) - sp.log(3)) - 1,
        }

    return Derivation(
        title="omega_1 = u_+/ln V - 1",
        source="Lemma 8, Eq. (51); closed form own",
        statement=sp.Eq(sp.Symbol("omega_1"), upper_root / sp.log(V) - 1, evaluate=False),
        steps=(("u_+", upper_root),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def transition_balance() -> Derivation:
    """Return t0, the printed end of the transition, minus the time at which the terms of (45) are equal."""
    u_p = sp.Symbol("u_+", positive=True)
    balance = K * visits_of_u.subs(sp.exp(u), (V - 1) * u).subs(u, u_p)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"t0 - balance": 2 * u_p * K / eta_Y - balance - claim}

    return Derivation(
        title="t0 = 2 (1+omega_1) K ln V/eta_Y lies O(1/V) of itself beyond the balance of the terms of (45)",
        source="Lemma 9, Eq. (55); own",
        statement=sp.Eq(sp.Symbol("t_0 - t_{balance}"), K * (2 * u_p + 1) / (eta_Y * V), evaluate=False),
        steps=(("balance: t = K s where exp(u) = (V-1) u", sp.simplify(balance)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def early_h() -> Derivation:
    """Return the early form of h, from which the early piece of (14) follows."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"relative error as s -> 0": sp.limit(claim.subs(s, visits_of_u) * V / u, u, 0) - 1}

    return Derivation(
        title="Early, h ~ eta_Y s/V",
        source="Lemma 9",
        statement=sp.Eq(h, eta_Y * s / V, evaluate=False),
        steps=(("Eq. (45) solved for s, near u = 0", sp.series(visits_of_u, u, 0, 3)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def late_h() -> Derivation:
    """Return the late form of u = V h; Theorem 1(b) and Section 6 print its logarithm without V."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"absolute error as s -> oo": sp.limit(claim.subs(s, visits_of_u) - u, u, sp.oo)}

    return Derivation(
        title="Late, V h ~ ln(V eta_Y s), with an error that vanishes",
        source="Lemma 9; printed without V in Theorem 1(b)",
        statement=sp.Eq(u, sp.log(V * eta_Y * s), evaluate=False),
        steps=(("Eq. (45) solved for s", visits_of_u),),
        residuals=residuals,
        printed=sp.log(eta_Y * s),
    )


@DERIVATIONS.declare
def early_gamma() -> Derivation:
    """Return Lemma 9's early gamma with its constant."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"relative error as t -> 0": sp.limit(claim.subs(t, K * visits_of_u) / gamma_of_u, u, 0) - 1}

    return Derivation(
        title="Early, gamma ~ ((V-1)/V)^2 eta_Y t/K",
        source="Lemma 9",
        statement=sp.Eq(sp.Symbol("gamma"), ((V - 1) / V) ** 2 * eta_Y * t / K, evaluate=False),
        steps=(("gamma in u = V h", gamma_of_u),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def late_gamma() -> Derivation:
    """Return Lemma 9's late gamma with its constant."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"relative error as t -> oo": sp.limit(claim.subs(t, K * visits_of_u) / gamma_of_u, u, sp.oo) - 1}

    return Derivation(
        title="Late, gamma ~ ((V-1)/V)^2 K ln(V eta_Y t/K)/(eta_Y t)",
        source="Lemma 9",
        statement=sp.Eq(
            sp.Symbol("gamma"),
            ((V - 1) / V) ** 2 * K * sp.log(V * eta_Y * t / K) / (eta_Y * t),
            evaluate=False,
        ),
        steps=(("gamma in u = V h", gamma_of_u),),
        residuals=residuals,
    )
