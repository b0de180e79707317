"""Derivations for a sequence of finite length: Lemmas 1, 2 and 18 before T -> oo (Eqs. 3-4, 17-23, 134-137)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Derivations

DERIVATIONS = Derivations()

TOKENS = 3
POSITIONS = (0, 1, 1, 2)
"""Token at each of the T-1 = 4 contextual positions; one token occurs twice."""
w = sp.symbols(f"w_1:{TOKENS + 1}", positive=True)
"""exp(z_l), so that d/dz_l = w_l d/dw_l and every expression is algebraic."""
gradient = sp.Matrix(sp.symbols(f"g_1:{TOKENS + 1}", real=True))
"""dJ/df; in the paper Y (x_{T+1} - alpha)."""

X = sp.Matrix(len(POSITIONS), TOKENS, lambda position, token: int(POSITIONS[position] == token))
attention = X * sp.Matrix(w) / sum(X * sp.Matrix(w))
"""b, over positions."""
gathered = X.T * attention
"""q = X^T b, over tokens."""


@DERIVATIONS.declare
def sequence_gradient() -> Derivation:
    """Return Eq. (4), by differentiating through the softmax over positions."""
    q, norm = (
        sp.Matrix(sp.symbols(f"q_1:{TOKENS + 1}", positive=True)),
        sp.Symbol(r"\left\| {q} \right\|", positive=True),
    )
    # X^T diag(b) X = diag(q): derivation `sequence-counts`.
    claim = sp.diag(*q) * (gradient - q * q.dot(gradient) / norm**2) / norm

    def residuals(claimed: sp.Basic) -> dict[str, sp.Expr]:
        length = sp.sqrt(gathered.dot(gathered))
        at_sequence = claimed.subs({norm: length, **dict(zip(q, gathered, strict=True))})
        through_softmax = gradient.dot(gathered / length)
        return {f"token {j}": sp.factor(w[j] * sp.diff(through_softmax, w[j]) - at_sequence[j]) for j in range(TOKENS)}

    return Derivation(
        title="dJ/dz = diag(q) (I - f f^T)/||q|| dJ/df for a finite sequence, q = X^T b, f = q/||q||",
        source="Lemma 1, Eqs. (3)-(4), (17)-(19)",
        statement=sp.Eq(
            sp.MatrixSymbol(r"\frac{\partial J}{\partial z}", TOKENS, 1), claim.as_immutable(), evaluate=False
        ),
        steps=(("X", X.as_immutable()), ("q, w_l = exp(z_l)", gathered.as_immutable())),
        residuals=residuals,
    )


@DERIVATIONS.declare
def sequence_counts() -> Derivation:
    """Return X^T b as a function of the tokens' frequencies q_l; X^T diag(b) X is the diagonal matrix of it."""
    frequencies = [sp.Rational(POSITIONS.count(token), len(POSITIONS)) for token in range(TOKENS)]
    weights = sp.Matrix([frequency * w_l for frequency, w_l in zip(frequencies, w, strict=True)])

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        vector = {f"X^T b, token {j}": gathered[j] - claim[j] for j in range(TOKENS)}
        square = X.T * sp.diag(*attention) * X - sp.diag(*claim)
        matrix = {f"X^T diag(b) X, {i}{j}": square[i, j] for i in range(TOKENS) for j in range(i + 1)}
        return vector | matrix

    return Derivation(
        title="(X^T b)_l = q_l exp(z_l)/sum_k q_k exp(z_k), q_l the frequency of l; X^T diag(b) X = diag(X^T b)",
        source="Lemmas 2 and 18, Eqs. (5)-(6), (20)-(23), (134)-(135), (137)",
        statement=sp.Eq(sp.MatrixSymbol("X^{T} b", TOKENS, 1), (weights / sum(weights)).as_immutable(), evaluate=False),
        steps=(("X", X.as_immutable()), ("frequencies", sp.ImmutableMatrix(frequencies))),
        residuals=residuals,
    )
