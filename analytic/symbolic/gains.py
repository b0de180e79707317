"""Derivations for the relative gains of distinct tokens: Theorem 3 (Eqs. 11, 108-114)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, t

DERIVATIONS = Derivations()

a = sp.Function("a")(t)
growth, companion = sp.Function("dz_l")(t), sp.Function("dz_m")(t)
r0 = sp.Symbol("r_0", positive=True)
c_l, c_m = sp.symbols("c_l c_m", positive=True)
l_squared, m_squared = (c_l * sp.exp(growth)) ** 2, (c_m * sp.exp(companion)) ** 2
"""c~_l^2 and c~_m^2 of two distinct tokens of one class; c_l and c_m are the values at the start."""
initial_gain = c_l**2 / c_m**2 - 1


@DERIVATIONS.declare
def relative_gain() -> Derivation:
    """Return Eq. (11) from Eq. (98): the gain of l over m grows with the logit of l alone."""
    gain = l_squared / m_squared - 1
    start = {growth: 0, companion: 0}
    # Eq. (98) with a(t) = eta_Z p_n xi_n/||c~_n||^2, which both tokens share.
    rates = {
        growth.diff(t): a * l_squared,
        companion.diff(t): a * m_squared,
    }
    gain_rate = sp.diff(gain, t).subs(rates)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        claimed = claim.subs(r0, initial_gain)
        return {
            # Two quantities that start equal and share their logarithmic derivative stay equal.
            "same logarithmic derivative": sp.diff(claimed, t).subs(rates) * gain - claimed * gain_rate,
            "same start": (claimed - gain).subs(start),
        }

    return Derivation(
        title="r_{l/m}(t) = r_{l/m}(0) exp(2 (z_l(t) - z_l(0)))",
        source="Theorem 3, Eq. (11)",
        statement=sp.Eq(sp.Symbol("r_{l/m}"), r0 * sp.exp(2 * growth), evaluate=False),
        steps=(("gain", gain), ("r' = 2 r z_l'", sp.factor(gain_rate))),
        residuals=residuals,
    )


@DERIVATIONS.declare
def relative_gain_rate() -> Derivation:
    """Return Eq. (112), which is printed without its factor 2."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"d/dt of Eq. (11)": sp.diff(r0 * sp.exp(2 * growth), t) - claim}

    rate = 2 * r0 * sp.exp(2 * growth) * growth.diff(t)
    return Derivation(
        title="dr/dt = 2 r(0) chi_l z_l'",
        source="Eq. (112), factor 2 added",
        statement=sp.Eq(sp.Symbol(r"\dot r_{l/m}"), rate, evaluate=False),
        steps=(("Eq. (11)", r0 * sp.exp(2 * growth)),),
        residuals=residuals,
        printed=rate / 2,
    )


@DERIVATIONS.declare
def companion_growth() -> Derivation:
    """Return Eq. (110): the growth of one distinct token determines that of every other one of its class."""
    y = sp.Symbol("dz_m", real=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # Eq. (98) for both tokens: dz_l/dz_m = f_l^2/f_m^2.
        ratio = (r0 + 1) * sp.exp(2 * claim - 2 * y)
        return {"dz_l/dz_m of Eq. (98)": sp.diff(claim, y) - ratio, "same start": claim.subs(y, 0)}

    return Derivation(
        title="exp(-2 dz_l) - 1 = (r(0)+1) (exp(-2 dz_m) - 1), solved for dz_l",
        source="Eq. (110)",
        statement=sp.Eq(sp.Symbol("dz_l"), -sp.log(1 + (r0 + 1) * (sp.exp(-2 * y) - 1)) / 2, evaluate=False),
        steps=(("dz_l/dz_m", (r0 + 1) * sp.exp(2 * sp.Symbol("dz_l") - 2 * y)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def rate_ratio() -> Derivation:
    """Return Eqs. (108)-(109): the ratio of the rates of two distinct tokens of one class."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # Eq. (98) for both: z' = a c~^2 with one factor a(t).
        return {"Eq. (98)": l_squared / m_squared - claim.subs(r0, initial_gain)}

    return Derivation(
        title="z_l'/z_m' = (r(0)+1) exp(2 dz_l - 2 dz_m) = r(t) + 1",
        source="Theorem 3, Eqs. (108)-(109)",
        statement=sp.Eq(
            sp.Symbol(r"\dot{z}_{l} / \dot{z}_{m}"), (r0 + 1) * sp.exp(2 * growth - 2 * companion), evaluate=False
        ),
        steps=(("f_l^2/f_m^2", l_squared / m_squared),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def gain_over_common() -> Derivation:
    """Return Eq. (113), the growth of the gain over any other token, here a common one."""
    P_l, P_c = sp.symbols("P_l P_c", positive=True)
    z_l, z_c = sp.Function("z_l")(t), sp.Function("z_c")(t)
    gain = (P_l * sp.exp(z_l)) ** 2 / (P_c * sp.exp(z_c)) ** 2 - 1

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"derivative of the gain": sp.diff(gain, t) - claim}

    return Derivation(
        title="dr/dt = (P_l/P_c)^2 exp(2 (z_l - z_c)) 2 (z_l' - z_c') for any two tokens of a class",
        source="Theorem 3, Eq. (113)",
        statement=sp.Eq(
            sp.Symbol(r"\dot r_{l/c}"),
            (P_l / P_c) ** 2 * sp.exp(2 * (z_l - z_c)) * 2 * (z_l.diff(t) - z_c.diff(t)),
            evaluate=False,
        ),
        steps=(("gain", gain),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def dominant_share() -> Derivation:
    """Return Eq. (114): the share of the dominant token as a function of the gains of the others over it, M = 3."""
    weights = sp.symbols("c_1:4", positive=True)
    over_dominant = sp.symbols("r_2 r_3", real=True)
    gains = {r: weight**2 / weights[0] ** 2 - 1 for r, weight in zip(over_dominant, weights[1:], strict=True)}

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        share = weights[0] ** 2 / sum(weight**2 for weight in weights)
        return {"f_1^2": share - claim.subs(gains)}

    return Derivation(
        title="f_1^2 = 1/(M + sum_l r_{l/1}): it rises as every r_{l/1} falls",
        source="Theorem 3, Eq. (114)",
        statement=sp.Eq(sp.Symbol("f_1^2"), 1 / (3 + sum(over_dominant)), evaluate=False),
        steps=tuple((f"{r}", gain) for r, gain in gains.items()),
        residuals=residuals,
    )
