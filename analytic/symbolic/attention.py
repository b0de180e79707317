"""Derivations for attention logits and relative gains: Lemmas 1 and 4, Theorems 2-3 (Eqs. 4, 10, 94-114)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Residuals, declare, eta_Z, t

TOKENS = 3
f = sp.Matrix(sp.symbols(f"f_1:{TOKENS + 1}", positive=True))
g = sp.Matrix(sp.symbols(f"g_1:{TOKENS + 1}", real=True))
P = sp.symbols(f"P_1:{TOKENS + 1}", positive=True)
z = sp.symbols(f"z_1:{TOKENS + 1}", real=True)

gamma = sp.Function("gamma")(t)


def _normalised() -> sp.Matrix:
    """Return f = c~/||c~|| for c~_l = P_l exp(z_l)."""
    weights = sp.Matrix([P_l * sp.exp(z_l) for P_l, z_l in zip(P, z, strict=True)])
    return weights / sp.sqrt(sum(weight**2 for weight in weights))


@declare
def attention_gradient() -> Derivation:
    """Return Lemma 1's gradient in z for any objective with gradient g in f, here for three tokens."""
    normalised = _normalised()

    return Derivation(
        "dJ/dz = diag(f) (g - f (f.g)), g = dJ/df",
        "Lemma 1, Eq. (4)",
        r"\frac{\partial J}{\partial z}",
        sp.ImmutableMatrix([f[j] * (g[j] - f[j] * f.dot(g)) for j in range(TOKENS)]),
        lambda claim: {
            "dJ/dz": normalised.jacobian(z).T * g - claim.subs(dict(zip(f, normalised, strict=True)), simultaneous=True)
        },
    )


@declare
def conservation() -> Derivation:
    """Return the conservation of the row sum of z, which holds for any back-propagated gradient."""
    total = sum(f[j] * (g[j] - f[j] * f.dot(g)) for j in range(TOKENS))
    product, square = sp.symbols("a b")
    any_total = product - product * square

    return Derivation(
        "Each row of Z keeps its sum: sum_l z_ml' = 0",
        "own, from Eq. (4)",
        r"\sum_l \dot z_{ml}",
        0,
        lambda claim: {
            "sum of dz/dt, three tokens": (total - claim).subs(
                dict(zip(f, _normalised(), strict=True)), simultaneous=True
            ),
            # With a = f.g: sum_l f_l g_l - a sum_l f_l^2.
            "sum of dz/dt, any number of tokens, |f|^2 = 1": (any_total - claim).subs(square, 1),
        },
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


@declare
def distinct_rate() -> Derivation:
    """Return Eq. (98), the growth rate of a distinct token, here that of class 1."""
    return Derivation(
        "A distinct token of class n grows by eta_Z p_n f_nl^2 xi_n",
        "Theorem 2(a), Eq. (98)",
        r"\dot z_l",
        eta_Z * _weight[0] * (1 - _common[0] ** 2) * gamma * _X[0],
        {"Eq. (10)": _right_hand_side()[1]},
    )


@declare
def only_overlap() -> Derivation:
    """Return Eq. (99): the effect of class k on the rate of the only token that it shares with class n."""
    f_n, f_k = _common[:2]
    dot = f_n * f_k

    return Derivation(
        "For the only shared token c, f_nc ((f_n.f_k) f_nc - f_kc) = -(1 - f_nc^2) (f_n.f_k)",
        "Theorem 2(b), Eq. (99); middle of Eq. (13)",
        r"\mathrm{pull}",
        -(1 - f_n**2) * dot,
        {"f_nc ((f_n.f_k) f_nc - f_kc)": f_n * (dot * f_n - f_k)},
    )


# Two classes that share tokens 1..3, with the same attention to these in both, and have one distinct token each.
_shared = sp.symbols("f_c:3", positive=True)


@declare
def common_rate() -> Derivation:
    """Return Eq. (100), the rate of decrease of the only common token of a query."""
    return Derivation(
        "The single common token falls by eta_Z sum_n p_n (1 - f_nc^2) xi_n",
        "Theorem 2(b), Eq. (100)",
        r"\dot z_c",
        -eta_Z * sum(_weight[n] * (1 - _common[n] ** 2) * gamma * _X[n] for n in range(3)),
        {"Eq. (10)": _right_hand_side()[0]},
    )


@declare
def equal_shares() -> Derivation:
    """Return Eq. (107): the effect on a shared token with equal attention in two classes that share several."""
    dot = sum(share**2 for share in _shared)
    distinct = sp.sqrt(1 - dot)
    f_n, f_k = sp.Matrix([*_shared, distinct, 0]), sp.Matrix([*_shared, 0, distinct])
    return Derivation(
        "For a shared token with f_nl = f_kl, f_nl ((f_n.f_k) f_nl - f_kl) = -f_nl^2 (1 - f_n.f_k)",
        "Corollary 2, Eq. (107)",
        r"\mathrm{pull}",
        -(_shared[0] ** 2) * (1 - dot),
        {"f_nl ((f_n.f_k) f_nl - f_kl)": f_n[0] * (f_n.dot(f_k) * f_n[0] - f_k[0])},
    )


a = sp.Function("a")(t)
growth, companion = sp.Function("dz_l")(t), sp.Function("dz_m")(t)
r0 = sp.Symbol("r_0", positive=True)
c_l, c_m = sp.symbols("c_l c_m", positive=True)
l_squared, m_squared = (c_l * sp.exp(growth)) ** 2, (c_m * sp.exp(companion)) ** 2
"""c~_l^2 and c~_m^2 of two distinct tokens of one class; c_l and c_m are the values at the start."""
initial_gain = c_l**2 / c_m**2 - 1


@declare
def relative_gain() -> Derivation:
    """Return Eq. (11) from Eq. (98): the gain of l over m grows with the logit of l alone."""
    gain = l_squared / m_squared - 1
    start = {growth: 0, companion: 0}
    # Eq. (98) with a(t) = eta_Z p_n xi_n/||c~_n||^2, which both tokens share.
    rates = {growth.diff(t): a * l_squared, companion.diff(t): a * m_squared}
    gain_rate = sp.diff(gain, t).subs(rates)

    def residuals(claim: sp.Basic) -> Residuals:
        claimed = claim.subs(r0, initial_gain)
        return {
            # Two quantities that start equal and share their logarithmic derivative stay equal.
            "same logarithmic derivative": sp.diff(claimed, t).subs(rates) * gain - claimed * gain_rate,
            "same start": (claimed - gain).subs(start),
        }

    return Derivation(
        "r_{l/m}(t) = r_{l/m}(0) exp(2 (z_l(t) - z_l(0)))",
        "Theorem 3, Eq. (11)",
        "r_{l/m}",
        r0 * sp.exp(2 * growth),
        residuals,
    )


@declare
def relative_gain_rate() -> Derivation:
    """Return Eq. (112), which is printed without its factor 2."""

    rate = 2 * r0 * sp.exp(2 * growth) * growth.diff(t)
    return Derivation(
        "dr/dt = 2 r(0) chi_l z_l'",
        "Eq. (112), factor 2 added",
        r"\dot r_{l/m}",
        rate,
        {"d/dt of Eq. (11)": sp.diff(r0 * sp.exp(2 * growth), t)},
        printed=rate / 2,
    )


@declare
def companion_growth() -> Derivation:
    """Return Eq. (110): the growth of one distinct token determines that of every other one of its class."""
    y = sp.Symbol("dz_m", real=True)

    def residuals(claim: sp.Basic) -> Residuals:
        # Eq. (98) for both tokens: dz_l/dz_m = f_l^2/f_m^2.
        ratio = (r0 + 1) * sp.exp(2 * claim - 2 * y)
        return {"dz_l/dz_m of Eq. (98)": sp.diff(claim, y) - ratio, "same start": claim.subs(y, 0)}

    return Derivation(
        "exp(-2 dz_l) - 1 = (r(0)+1) (exp(-2 dz_m) - 1), solved for dz_l",
        "Eq. (110)",
        "dz_l",
        -sp.log(1 + (r0 + 1) * (sp.exp(-2 * y) - 1)) / 2,
        residuals,
    )


@declare
def rate_ratio() -> Derivation:
    """Return Eqs. (108)-(109): the ratio of the rates of two distinct tokens of one class."""

    # Eq. (98) for both: z' = a c~^2 with one factor a(t).
    return Derivation(
        "z_l'/z_m' = (r(0)+1) exp(2 dz_l - 2 dz_m) = r(t) + 1",
        "Theorem 3, Eqs. (108)-(109)",
        r"\dot{z}_{l} / \dot{z}_{m}",
        (r0 + 1) * sp.exp(2 * growth - 2 * companion),
        lambda claim: {"Eq. (98)": l_squared / m_squared - claim.subs(r0, initial_gain)},
    )


@declare
def gain_over_common() -> Derivation:
    """Return Eq. (113), the growth of the gain over any other token, here a common one."""
    P_l, P_c = sp.symbols("P_l P_c", positive=True)
    z_l, z_c = sp.Function("z_l")(t), sp.Function("z_c")(t)
    gain = (P_l * sp.exp(z_l)) ** 2 / (P_c * sp.exp(z_c)) ** 2 - 1

    return Derivation(
        "dr/dt = (P_l/P_c)^2 exp(2 (z_l - z_c)) 2 (z_l' - z_c') for any two tokens of a class",
        "Theorem 3, Eq. (113)",
        r"\dot r_{l/c}",
        (P_l / P_c) ** 2 * sp.exp(2 * (z_l - z_c)) * 2 * (z_l.diff(t) - z_c.diff(t)),
        {"derivative of the gain": sp.diff(gain, t)},
    )


@declare
def dominant_share() -> Derivation:
    """Return Eq. (114): the share of the dominant token as a function of the gains of the others over it, M = 3."""
    weights = sp.symbols("c_1:4", positive=True)
    over_dominant = sp.symbols("r_2 r_3", real=True)
    gains = {r: weight**2 / weights[0] ** 2 - 1 for r, weight in zip(over_dominant, weights[1:], strict=True)}
    share = weights[0] ** 2 / sum(weight**2 for weight in weights)
    return Derivation(
        "f_1^2 = 1/(M + sum_l r_{l/1}): it rises as every r_{l/1} falls",
        "Theorem 3, Eq. (114)",
        "f_1^2",
        1 / (3 + sum(over_dominant)),
        lambda claim: {"f_1^2": share - claim.subs(gains)},
    )
