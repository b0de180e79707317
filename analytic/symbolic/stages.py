"""Derivations for the two stages of h and gamma: Lemmas 8-9 without their O (Eqs. 50-57), and the ends of (14)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, V, eta_Y, resolve_lambert, s, u, v
from snapdyn.analytic.symbolic.speed import gamma_of_u, lower_root, upper_root, visits_of_u

DERIVATIONS = Derivations()

# Lemma 9's Delta_1 and Delta_2: exp(V h) over the other term of gamma's denominator, and of Eq. (45).
over_one = sp.exp(u) / (V - 1)
over_linear = sp.exp(u) / ((V - 1) * u)
grown = V * eta_Y * s + 1


@DERIVATIONS.declare
def omega_0() -> Derivation:
    """Return Eq. (50): the smaller root of exp(u) = (V-1) u as u_- = V^(omega_0 - 1)."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        root = sp.exp(sp.expand_log(sp.expand((claim - 1) * sp.log(V)), force=True))
        return {"V^(omega_0 - 1) = u_-": resolve_lambert((root - lower_root).subs(V, 1 + v))}

    return Derivation(
        title="omega_0 = (ln(V/(V-1)) + u_-)/ln V, about 2/(V ln V)",
        source="Lemma 8, Eq. (50)",
        statement=sp.Eq(sp.Symbol("omega_0"), (sp.log(V / (V - 1)) + lower_root) / sp.log(V), evaluate=False),
        steps=(("u_-", lower_root),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def first_stage() -> Derivation:
    """Return Eq. (52): the visits to exp(V h) = V-1, which exceed ln V/eta_Y from V = 5 on."""
    excess = V - 2 + (V - 1) * sp.log(V - 1) - V * sp.log(V)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {
            "Eq. (45) at exp(V h) = V-1": visits_of_u.subs(u, sp.log(V - 1)) - claim,
            # The excess over V ln V grows with V: its slope 1 + ln((V-1)/V) is positive for V >= 2.
            "positive at V = 5": sp.sign(excess.subs(V, 5)) - 1,
            "slope": sp.diff(excess, V) - 1 - sp.log(V - 1) + sp.log(V),
        }

    return Derivation(
        title="exp(V h) reaches V-1 after (V-2 + (V-1) ln(V-1))/(V eta_Y) visits, more than ln V/eta_Y",
        source="Lemma 9, Eq. (52)",
        statement=sp.Eq(s, (V - 2 + (V - 1) * sp.log(V - 1)) / (V * eta_Y), evaluate=False),
        steps=(("V eta_Y s - V ln V there", excess),),
        residuals=residuals,
    )


def _identity(title: str, source: str, left: sp.Expr, name: str, claim: sp.Expr) -> Derivation:
    def residuals(claimed: sp.Basic) -> dict[str, sp.Expr]:
        expanded = claimed.subs(s, visits_of_u)
        # A logarithm is compared through its exponential.
        return {"Eq. (45)": sp.simplify(left - expanded).replace(sp.log, _logarithm)}

    return Derivation(
        title=title,
        source=source,
        statement=sp.Eq(sp.Symbol(name), claim, evaluate=False),
        steps=(("Delta_1", over_one), ("Delta_2", over_linear), ("s in u = V h", visits_of_u)),
        residuals=residuals,
    )


def _logarithm(argument: sp.Expr) -> sp.Expr:
    """Return ln(argument), which is u if the argument simplifies to exp(u)."""
    return u if sp.simplify(argument - sp.exp(u)) == 0 else sp.log(argument)


@DERIVATIONS.declare
def h_early_stage() -> Derivation:
    """Return h as in Eq. (53)."""
    return _identity(
        "h = (V eta_Y s + 1)/((1+Delta_2) V (V-1)), Delta_2 = exp(V h)/((V-1) V h) <= 1 early",
        "Lemma 9, Eq. (53)",
        u / V,
        "h",
        grown / ((1 + over_linear) * V * (V - 1)),
    )


@DERIVATIONS.declare
def gamma_early_stage() -> Derivation:
    """Return gamma as in Eq. (54)."""
    return _identity(
        "gamma = (V-1) h/(1+Delta_1) = (V eta_Y s + 1)/((1+Delta_1)(1+Delta_2) V), Delta_1 = exp(V h)/(V-1)",
        "Lemma 9, Eq. (54)",
        gamma_of_u,
        "gamma",
        grown / ((1 + over_one) * (1 + over_linear) * V),
    )


@DERIVATIONS.declare
def h_late_stage() -> Derivation:
    """Return h as in Eq. (56)."""
    return _identity(
        "h = (1/V) ln((V eta_Y s + 1)/(1 + 1/Delta_2))",
        "Lemma 9, Eq. (56)",
        u / V,
        "h",
        sp.log(grown / (1 + 1 / over_linear)) / V,
    )


@DERIVATIONS.declare
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


@DERIVATIONS.declare
def early_end() -> Derivation:
    """Return eta_Y s - V h at the end of the early piece, s = ln V/eta_Y, as V -> oo."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        behind = sp.log(V) - claim
        # Eq. (45) over V, at V h = ln V - claim and eta_Y s = ln V.
        balance = (sp.expand(sp.exp(behind)) + (V - 1) * behind - V * sp.log(V) - 1) / V
        return {"Eq. (45) as V -> oo": resolve_lambert(sp.limit(sp.expand(balance), V, sp.oo))}

    return Derivation(
        title="At t0' = K ln V/eta_Y, V h = ln V - W(1) as V -> oo: h is (1 - W(1)/ln V) eta_Y t/(V K), W(1) = 0.567",
        source="own; Eq. (130) takes h = (1 + o(1)) eta_Y t/(V K)",
        statement=sp.Eq(sp.Symbol(r"\ln V - V h"), sp.LambertW(1), evaluate=False),
        steps=(("Eq. (45) over V, ln V - V h = x", sp.exp(-sp.Symbol("x")) - sp.Symbol("x")),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def late_start() -> Derivation:
    """Return the excess of V h in the late piece over u_+ = (1+omega_1) ln V at its start t0."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # ln(V eta_Y t0/K) = ln(2 V u_+); compared through exponentials.
        ratio = 2 * V * upper_root / sp.exp(upper_root)
        return {"exp of the difference": resolve_lambert((ratio - sp.exp(claim)).subs(V, 1 + v))}

    return Derivation(
        title="At t0 = 2 (1+omega_1) K ln V/eta_Y, ln(V eta_Y t0/K) exceeds V h ~ (1+omega_1) ln V by ln 2 + O(1/V)",
        source="own; Eq. (131) takes h = (1 + o(1)) ln(V eta_Y t/K)/V",
        statement=sp.Eq(sp.Symbol(r"{\ln(V \eta_{Y} t_{0}/K)} - u_{+}"), sp.log(2 * V / (V - 1)), evaluate=False),
        steps=(("V eta_Y t0/K", 2 * V * upper_root), ("exp(u_+)", (V - 1) * upper_root)),
        residuals=residuals,
    )
