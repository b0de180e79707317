"""Derivations for the attention logits: Lemma 1, Theorems 2-3 (Eqs. 4, 10-11, 98, 100, 110, 112)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, eta_Z, t

TOKENS = 3
f = sp.Matrix(sp.symbols(f"f_1:{TOKENS + 1}", positive=True))
g = sp.Matrix(sp.symbols(f"g_1:{TOKENS + 1}", real=True))
P = sp.symbols(f"P_1:{TOKENS + 1}", positive=True)
z = sp.symbols(f"z_1:{TOKENS + 1}", real=True)

gamma, a = sp.Function("gamma")(t), sp.Function("a")(t)
growth, companion = sp.Function("dz_l")(t), sp.Function("dz_m")(t)
r0 = sp.Symbol("r_0", positive=True)


def _normalised() -> sp.Matrix:
    """Return f = c~/||c~|| for c~_l = P_l exp(z_l)."""
    weights = sp.Matrix([P_l * sp.exp(z_l) for P_l, z_l in zip(P, z, strict=True)])
    return weights / sp.sqrt(sum(weight**2 for weight in weights))


def attention_gradient() -> Derivation:
    """Return Lemma 1's gradient in z for any objective with gradient g in f, here for three tokens."""
    normalised = _normalised()

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        at_f = claim.subs(dict(zip(f, normalised, strict=True)), simultaneous=True)
        return {
            f"token {j}": sum(g[i] * sp.diff(normalised[i], z[j]) for i in range(TOKENS)) - at_f[j]
            for j in range(TOKENS)
        }

    return Derivation(
        id="attention-gradient",
        title="dJ/dz = f o (g - f (f.g)), g = dJ/df",
        source="Lemma 1, Eq. (4)",
        statement=sp.Eq(
            sp.MatrixSymbol(r"\frac{\partial J}{\partial z}", TOKENS, 1),
            sp.ImmutableMatrix([f[j] * (g[j] - f[j] * f.dot(g)) for j in range(TOKENS)]),
            evaluate=False,
        ),
        steps=(("f_1", normalised[0]), ("df_1/dz_2", sp.simplify(sp.diff(normalised[0], z[1])))),
        residuals=residuals,
    )


def conservation() -> Derivation:
    """Return the conservation of the row sum of z, whatever the back-propagated gradient is."""
    total = sum(f[j] * (g[j] - f[j] * f.dot(g)) for j in range(TOKENS))

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"sum of dz/dt": (total - claim).subs(dict(zip(f, _normalised(), strict=True)), simultaneous=True)}

    return Derivation(
        id="conservation",
        title="Each row of Z keeps its sum: sum_l z_ml' = 0",
        source="own, from Eq. (4)",
        statement=sp.Eq(sp.Symbol(r"\sum_l \dot z_{ml}"), 0, evaluate=False),
        steps=(("sum over tokens before ||f|| = 1 is used", sp.expand(total)),),
        residuals=residuals,
    )


# Three classes of one query, token 0 common, token n+1 distinct to class n.
_weight = sp.symbols("p_1:4", positive=True)
_common = sp.symbols("f_1c f_2c f_3c", positive=True)
_beta = sp.Matrix(3, 3, lambda n, k: sp.Symbol(f"beta_{n + 1}{k + 1}", real=True))
_X = [sum(_beta[n, k] * _common[n] * _common[k] for k in range(3) if k != n) for n in range(3)]


def _right_hand_side() -> sp.Matrix:
    """Return z_m' of Eq. (10), per batch-size-1 step, for the common token and the three distinct ones."""
    vectors = [
        sp.Matrix([_common[n], *(sp.sqrt(1 - _common[n] ** 2) if k == n else 0 for k in range(3))]) for n in range(3)
    ]
    rate = sp.zeros(4, 1)
    for n in range(3):
        for k in range(3):
            if k != n:
                pull = vectors[n] * vectors[n].dot(vectors[k]) - vectors[k]
                rate += eta_Z * gamma * _weight[n] * _beta[n, k] * vectors[n].multiply_elementwise(pull)
    return rate


def distinct_rate() -> Derivation:
    """Return Eq. (98), the growth of a distinct token, here the one of class 1."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"Eq. (10)": _right_hand_side()[1] - claim}

    return Derivation(
        id="distinct-rate",
        title="A distinct token of class n grows by eta_Z p_n f_nl^2 xi_n",
        source="Theorem 2(a), Eq. (98)",
        statement=sp.Eq(
            sp.Symbol(r"\dot z_l"), eta_Z * _weight[0] * (1 - _common[0] ** 2) * gamma * _X[0], evaluate=False
        ),
        steps=(("xi_1 = gamma sum_k beta_1k f_1.f_k", gamma * _X[0]),),
        residuals=residuals,
    )


def common_rate() -> Derivation:
    """Return Eq. (100), the fall of the only common token of a query."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"Eq. (10)": _right_hand_side()[0] - claim}

    return Derivation(
        id="common-rate",
        title="The single common token falls by eta_Z sum_n p_n (1 - f_nc^2) xi_n",
        source="Theorem 2(b), Eq. (100)",
        statement=sp.Eq(
            sp.Symbol(r"\dot z_c"),
            -eta_Z * sum(_weight[n] * (1 - _common[n] ** 2) * gamma * _X[n] for n in range(3)),
            evaluate=False,
        ),
        steps=(("xi_1 = gamma sum_k beta_1k f_1.f_k", gamma * _X[0]),),
        residuals=residuals,
    )


def relative_gain() -> Derivation:
    """Return Eq. (11) from Eq. (98): the gain of l over m grows with the logit of l alone."""
    c_l, c_m = sp.symbols("c_l c_m", positive=True)
    gain = (c_l * sp.exp(growth)) ** 2 / (c_m * sp.exp(companion)) ** 2 - 1
    start = {growth: 0, companion: 0}
    initial_gain = c_l**2 / c_m**2 - 1
    # Eq. (98) with a(t) = eta_Z p_n xi_n/||c~_n||^2, which both tokens share.
    rates = {
        growth.diff(t): a * (c_l * sp.exp(growth)) ** 2,
        companion.diff(t): a * (c_m * sp.exp(companion)) ** 2,
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
        id="relative-gain",
        title="r_{l/m}(t) = r_{l/m}(0) exp(2 (z_l(t) - z_l(0)))",
        source="Theorem 3, Eq. (11)",
        statement=sp.Eq(sp.Symbol("r_{l/m}"), r0 * sp.exp(2 * growth), evaluate=False),
        steps=(("gain", gain), ("r' = 2 r z_l'", sp.factor(gain_rate))),
        residuals=residuals,
    )


def relative_gain_rate() -> Derivation:
    """Return Eq. (112), which is printed without its factor 2."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"d/dt of Eq. (11)": sp.diff(r0 * sp.exp(2 * growth), t) - claim}

    rate = 2 * r0 * sp.exp(2 * growth) * growth.diff(t)
    return Derivation(
        id="relative-gain-rate",
        title="dr/dt = 2 r(0) chi_l z_l'",
        source="Eq. (112), factor 2 added",
        statement=sp.Eq(sp.Symbol(r"\dot r_{l/m}"), rate, evaluate=False),
        steps=(("Eq. (11)", r0 * sp.exp(2 * growth)),),
        residuals=residuals,
        printed=rate / 2,
    )


def companion_growth() -> Derivation:
    """Return Eq. (110): the growth of one distinct token fixes that of every other of its class."""
    y = sp.Symbol("dz_m", real=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # Eq. (98) for both tokens: dz_l/dz_m = f_l^2/f_m^2.
        ratio = (r0 + 1) * sp.exp(2 * claim - 2 * y)
        return {"dz_l/dz_m of Eq. (98)": sp.diff(claim, y) - ratio, "same start": claim.subs(y, 0)}

    return Derivation(
        id="companion-growth",
        title="exp(-2 dz_l) - 1 = (r(0)+1) (exp(-2 dz_m) - 1), solved for dz_l",
        source="Eq. (110)",
        statement=sp.Eq(sp.Symbol("dz_l"), -sp.log(1 + (r0 + 1) * (sp.exp(-2 * y) - 1)) / 2, evaluate=False),
        steps=(("dz_l/dz_m", (r0 + 1) * sp.exp(2 * sp.Symbol("dz_l") - 2 * y)),),
        residuals=residuals,
    )
