"""Derivations for the attention logits: Lemmas 1 and 4, Theorem 2, Corollary 2 (Eqs. 4, 10, 94-100, 107)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, eta_Z, t

DERIVATIONS = Derivations()

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


@DERIVATIONS.declare
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


@DERIVATIONS.declare
def conservation() -> Derivation:
    """Return the conservation of the row sum of z, which holds for any back-propagated gradient."""
    total = sum(f[j] * (g[j] - f[j] * f.dot(g)) for j in range(TOKENS))

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"sum of dz/dt": (total - claim).subs(dict(zip(f, _normalised(), strict=True)), simultaneous=True)}

    return Derivation(
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


@DERIVATIONS.declare
def distinct_rate() -> Derivation:
    """Return Eq. (98), the growth rate of a distinct token, here that of class 1."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"Eq. (10)": _right_hand_side()[1] - claim}

    return Derivation(
        title="A distinct token of class n grows by eta_Z p_n f_nl^2 xi_n",
        source="Theorem 2(a), Eq. (98)",
        statement=sp.Eq(
            sp.Symbol(r"\dot z_l"), eta_Z * _weight[0] * (1 - _common[0] ** 2) * gamma * _X[0], evaluate=False
        ),
        steps=(("xi_1 = gamma sum_k beta_1k f_1.f_k", gamma * _X[0]),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def only_overlap() -> Derivation:
    """Return Eq. (99): the pull of class k on the one token it shares with class n."""
    f_n, f_k = _common[:2]
    dot = f_n * f_k

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"f_nc ((f_n.f_k) f_nc - f_kc)": f_n * (dot * f_n - f_k) - claim}

    return Derivation(
        title="For the only shared token c, f_nc ((f_n.f_k) f_nc - f_kc) = -(1 - f_nc^2) (f_n.f_k)",
        source="Theorem 2(b), Eq. (99); middle of Eq. (13)",
        statement=sp.Eq(sp.Symbol(r"\mathrm{pull}"), -(1 - f_n**2) * dot, evaluate=False),
        steps=(("f_n.f_k", dot),),
        residuals=residuals,
    )


# Two classes that share tokens 1..3, with the same attention to these in both, and have one distinct token each.
_shared = sp.symbols("f_c:3", positive=True)


@DERIVATIONS.declare
def common_rate() -> Derivation:
    """Return Eq. (100), the rate of decrease of the only common token of a query."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"Eq. (10)": _right_hand_side()[0] - claim}

    return Derivation(
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


@DERIVATIONS.declare
def equal_shares() -> Derivation:
    """Return Eq. (107): the pull on a token with equal attention in both classes, which share several tokens."""
    dot = sum(share**2 for share in _shared)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        distinct = sp.sqrt(1 - dot)
        f_n, f_k = sp.Matrix([*_shared, distinct, 0]), sp.Matrix([*_shared, 0, distinct])
        return {"f_nl ((f_n.f_k) f_nl - f_kl)": f_n[0] * (f_n.dot(f_k) * f_n[0] - f_k[0]) - claim}

    return Derivation(
        title="For a shared token with f_nl = f_kl, f_nl ((f_n.f_k) f_nl - f_kl) = -f_nl^2 (1 - f_n.f_k)",
        source="Corollary 2, Eq. (107)",
        statement=sp.Eq(sp.Symbol(r"\mathrm{pull}"), -(_shared[0] ** 2) * (1 - dot), evaluate=False),
        steps=(("f_n.f_k", dot),),
        residuals=residuals,
    )
