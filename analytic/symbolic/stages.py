"""Derivations for the stages of h and gamma, sampled classes and finite sequences: Lemmas 8-11, 18, Corollary 1.

Eqs. (50)-(65), (72)-(73), (138), and the ends of (14).
"""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Residuals, V, declare, eta_Y, resolve_lambert, s, u
from snapdyn.analytic.symbolic.speed import gamma_of_u, lower_root, speed_of_u, upper_root, visits_of_u

# Lemma 9's Delta_1 and Delta_2: exp(V h) over the other term of gamma's denominator, and of Eq. (45).
over_one = sp.exp(u) / (V - 1)
over_linear = sp.exp(u) / ((V - 1) * u)
grown = V * eta_Y * s + 1


@declare
def omega_0() -> Derivation:
    """Return Eq. (50): the smaller root of exp(u) = (V-1) u as u_- = V^(omega_0 - 1)."""

    def residuals(claim: sp.Basic) -> Residuals:
        root = sp.exp(sp.expand_log(sp.expand((claim - 1) * sp.log(V)), force=True))
        return {"V^(omega_0 - 1) = u_-": resolve_lambert(root - lower_root)}

    return Derivation(
        "omega_0 = (ln(V/(V-1)) + u_-)/ln V, about 2/(V ln V)",
        "Lemma 8, Eq. (50)",
        "omega_0",
        (sp.log(V / (V - 1)) + lower_root) / sp.log(V),
        residuals,
    )


@declare
def first_stage() -> Derivation:
    """Return Eq. (52): the visits to exp(V h) = V-1, which exceed ln V/eta_Y from V = 5 on."""
    excess = V - 2 + (V - 1) * sp.log(V - 1) - V * sp.log(V)

    return Derivation(
        "exp(V h) reaches V-1 after (V-2 + (V-1) ln(V-1))/(V eta_Y) visits, more than ln V/eta_Y",
        "Lemma 9, Eq. (52)",
        s,
        (V - 2 + (V - 1) * sp.log(V - 1)) / (V * eta_Y),
        lambda claim: {
            "Eq. (45) at exp(V h) = V-1": visits_of_u.subs(u, sp.log(V - 1)) - claim,
            # The excess over V ln V grows with V: its slope 1 + ln((V-1)/V) is positive for V >= 2.
            "positive at V = 5": sp.sign(excess.subs(V, 5)) - 1,
            "slope": sp.diff(excess, V) - 1 - sp.log(V - 1) + sp.log(V),
        },
    )


def _identity(title: str, source: str, left: sp.Expr, name: str, claim: sp.Expr) -> Derivation:
    def residuals(claimed: sp.Basic) -> Residuals:
        expanded = claimed.subs(s, visits_of_u)
        # A logarithm is compared through its exponential.
        return {"Eq. (45)": sp.simplify(left - expanded).replace(sp.log, _logarithm)}

    return Derivation(
        title,
        source,
        sp.Symbol(name),
        claim,
        residuals,
    )


def _logarithm(argument: sp.Expr) -> sp.Expr:
    """Return ln(argument), which is u if the argument simplifies to exp(u)."""
    return u if sp.simplify(argument - sp.exp(u)) == 0 else sp.log(argument)


@declare
def h_early_stage() -> Derivation:
    """Return h as in Eq. (53)."""
    return _identity(
        "h = (V eta_Y s + 1)/((1+Delta_2) V (V-1)), Delta_2 = exp(V h)/((V-1) V h) <= 1 early",
        "Lemma 9, Eq. (53)",
        u / V,
        "h",
        grown / ((1 + over_linear) * V * (V - 1)),
    )


@declare
def gamma_early_stage() -> Derivation:
    """Return gamma as in Eq. (54)."""
    return _identity(
        "gamma = (V-1) h/(1+Delta_1) = (V eta_Y s + 1)/((1+Delta_1)(1+Delta_2) V), Delta_1 = exp(V h)/(V-1)",
        "Lemma 9, Eq. (54)",
        gamma_of_u,
        "gamma",
        grown / ((1 + over_one) * (1 + over_linear) * V),
    )


@declare
def h_late_stage() -> Derivation:
    """Return h as in Eq. (56)."""
    return _identity(
        "h = (1/V) ln((V eta_Y s + 1)/(1 + 1/Delta_2))",
        "Lemma 9, Eq. (56)",
        u / V,
        "h",
        sp.log(grown / (1 + 1 / over_linear)) / V,
    )


@declare
def gamma_late_stage() -> Derivation:
    """Return gamma as in Eq. (57)."""
    reduced = grown / (1 + 1 / over_linear)
    return _identity(
        "gamma = ((V-1)^2/V) ln(x)/((1 + 1/Delta_1) x), x = (V eta_Y s + 1)/(1 + 1/Delta_2)",
        "Lemma 9, Eq. (57)",
        gamma_of_u,
        "gamma",
        (V - 1) ** 2 / V * sp.log(reduced) / ((1 + 1 / over_one) * reduced),
    )


@declare
def early_end() -> Derivation:
    """Return eta_Y s - V h at the end of the early piece, s = ln V/eta_Y, as V -> oo."""

    def residuals(claim: sp.Basic) -> Residuals:
        behind = sp.log(V) - claim
        # Eq. (45) over V, at V h = ln V - claim and eta_Y s = ln V.
        balance = (sp.expand(sp.exp(behind)) + (V - 1) * behind - V * sp.log(V) - 1) / V
        return {"Eq. (45) as V -> oo": resolve_lambert(sp.limit(sp.expand(balance), V, sp.oo))}

    return Derivation(
        "At t0' = K ln V/eta_Y, V h = ln V - W(1) as V -> oo: h is (1 - W(1)/ln V) eta_Y t/(V K), W(1) = 0.567",
        "own; Eq. (130) takes h = (1 + o(1)) eta_Y t/(V K)",
        r"\ln V - V h",
        sp.LambertW(1),
        residuals,
    )


@declare
def late_start() -> Derivation:
    """Return by how much V h of the late piece exceeds u_+ = (1+omega_1) ln V at the start t0 of that piece."""
    # ln(V eta_Y t0/K) = ln(2 V u_+); compared through exponentials.
    ratio = 2 * V * upper_root / sp.exp(upper_root)
    return Derivation(
        "At t0 = 2 (1+omega_1) K ln V/eta_Y, ln(V eta_Y t0/K) exceeds V h ~ (1+omega_1) ln V by ln 2 + O(1/V)",
        "own; Eq. (131) takes h = (1 + o(1)) ln(V eta_Y t/K)/V",
        r"{\ln(V \eta_{Y} t_{0}/K)} - u_{+}",
        sp.log(2 * V / (V - 1)),
        lambda claim: {"exp of the difference": resolve_lambert(ratio - sp.exp(claim))},
    )


delta, epsilon, N = sp.symbols("delta epsilon N", positive=True)
elasticity = (sp.exp(u) + (V - 1) * u - 1) / (u * (V - 1 + sp.exp(u)))
"""d ln h/d ln s, and d ln h/d ln eta_Y, in u = V h."""


@declare
def hoeffding_radius() -> Derivation:
    """Return the radius at which Hoeffding's bound (59), (138) is delta, for a frequency in N draws."""

    surplus = sp.Symbol("L", positive=True)

    def residuals(claim: sp.Basic) -> Residuals:
        # delta < 2 enters as ln(2/delta) = L > 0.
        radius = claim.subs(delta, 2 * sp.exp(-surplus))
        return {
            "-ln of both sides of 2 exp(-2 N r^2) = delta": 2 * N * radius**2 - surplus,
            "r > 0": sp.sign(radius) - 1,
        }

    return Derivation(
        "A frequency in N draws lies within sqrt(ln(2/delta)/(2 N)) of its probability, w.p. >= 1 - delta",
        "Lemma 10, Eqs. (58)-(59); Lemma 18, Eqs. (136), (138), N = T-1",
        "r",
        sp.sqrt(sp.log(2 / delta) / (2 * N)),
        residuals,
    )


@declare
def ceiling_absorbed() -> Derivation:
    """Return the N ln(2/delta) above which the second bound of (58) covers the +1 from rounding the mean."""
    x = sp.Symbol("x", positive=True)

    return Derivation(
        "sqrt(x/2) + 1 < sqrt(x), x = N ln(2/delta), needs x > 6 + 4 sqrt(2)",
        "Lemma 10, Eq. (58), second inequality",
        x,
        6 + 4 * sp.sqrt(2),
        lambda claim: {"sqrt(x/2) + 1 = sqrt(x)": sp.sqrt(claim / 2) + 1 - sp.sqrt(claim)},
    )


@declare
def h_elasticity() -> Derivation:
    """Return d ln h/d ln s = d ln h/d ln eta_Y; at most 1, since h is concave (Lemma 11)."""
    return Derivation(
        "d ln h/d ln s = (exp(u) + (V-1) u - 1)/(u (V-1+exp(u))) <= 1, u = V h",
        "own; Lemma 11, Eqs. (61), (63): s h'(s) <= h(s)",
        r"d \ln h / d \ln s",
        elasticity,
        {
            "s h'/h": visits_of_u * speed_of_u / (u / V),
            "1 - (1 - elasticity)": 1 - (1 - (1 - u) * sp.exp(u)) / (u * (V - 1 + sp.exp(u))),
        },
    )


@declare
def error_slope() -> Derivation:
    """Return the largest relative change per visit of 1/(V-1+exp(V h)), reached at exp(V h) = V-1."""
    # d/ds of 1/(V-1+exp(V h)), over itself, without its minus sign.
    slope = eta_Y * V * sp.exp(u) / (V - 1 + sp.exp(u)) ** 2
    place = sp.log(V - 1)
    error = 1 / (V - 1 + sp.exp(u))
    # du/ds = V eta_Y error by Eq. (44), which cancels against the error in the relative change.
    per_visit = sp.diff(error, u) * V * eta_Y
    return Derivation(
        "1/(V-1+exp(V h)) falls by at most the fraction V eta_Y/(4 (V-1)) per visit, < eta_Y/3 for V > 4",
        "Lemma 11, Eqs. (62), (64)-(65)",
        r"\max |\dot g|/g",
        V * eta_Y / (4 * (V - 1)),
        lambda claim: {
            "value at exp(u) = V-1": slope.subs(u, place) - claim,
            "stationary there": sp.diff(slope, u).subs(u, place),
            "slope from Eq. (44)": slope + per_visit,
        },
    )


@declare
def visits_to_error() -> Derivation:
    """Return the visits until exp(V h) = V/epsilon, where the error's norm is epsilon to leading order."""
    place = sp.log(V / epsilon)
    norm = (V - 1) / (V - 1 + sp.exp(place)) * sp.sqrt(V / (V - 1))
    return Derivation(
        "An error of norm epsilon takes (1/eta_Y) (1/epsilon + ((V-1)/V) ln(V/epsilon) - 1/V) visits",
        "Corollary 1, Eqs. (72)-(73), which bound it by the order of ln(V/epsilon)/(epsilon eta_Y)",
        s,
        (1 / epsilon + (V - 1) / V * sp.log(V / epsilon) - 1 / V) / eta_Y,
        lambda claim: {
            "Eq. (45) at exp(V h) = V/epsilon": visits_of_u.subs(u, place) - claim,
            "norm over epsilon as epsilon -> 0, V -> oo": sp.limit(sp.limit(norm / epsilon, epsilon, 0), V, sp.oo) - 1,
        },
    )
