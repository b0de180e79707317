"""Gradient of the loss (2): its derivation for a finite sequence (Lemmas 1, 2, 18), and its value by sympy."""

from collections.abc import Callable
from functools import cache

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from snapdyn.analytic.symbolic.derivation import Derivation, Residuals, declare
from snapdyn.core.errors import FloatArray, InputError, finite_array, whole_array

TOKENS = 3
POSITIONS = (0, 1, 1, 2)
"""Token at each of the T-1 = 4 contextual positions; one token occurs twice."""
w = sp.symbols(f"w_1:{TOKENS + 1}", positive=True)
"""exp(z_l), so that d/dz_l = w_l d/dw_l and every expression is algebraic."""
slope = sp.Matrix(sp.symbols(f"g_1:{TOKENS + 1}", real=True))
"""dJ/df; in the paper Y (x_{T+1} - alpha)."""

X = sp.Matrix(len(POSITIONS), TOKENS, lambda position, token: int(POSITIONS[position] == token))
attention = X * sp.Matrix(w) / sum(X * sp.Matrix(w))
"""The weights b of the positions."""
gathered = X.T * attention
"""The weights of the tokens, q = X^T b."""


@declare
def sequence_gradient() -> Derivation:
    """Return Eq. (4), by differentiating through the softmax over positions."""
    q, norm = (
        sp.Matrix(sp.symbols(f"q_1:{TOKENS + 1}", positive=True)),
        sp.Symbol(r"\left\| {q} \right\|", positive=True),
    )
    # X^T diag(b) X = diag(q): derivation `sequence-counts`.
    claim = sp.diag(*q) * (slope - q * q.dot(slope) / norm**2) / norm

    def residuals(claimed: sp.Basic) -> Residuals:
        length = sp.sqrt(gathered.dot(gathered))
        at_sequence = claimed.subs({norm: length, **dict(zip(q, gathered, strict=True))})
        through_softmax = slope.dot(gathered / length)
        slopes = sp.Matrix([w_l * sp.diff(through_softmax, w_l) for w_l in w])
        return {"dJ/dz": (slopes - at_sequence).applyfunc(sp.factor)}

    return Derivation(
        "dJ/dz = diag(q) (I - f f^T)/||q|| dJ/df for a finite sequence, q = X^T b, f = q/||q||",
        "Lemma 1, Eqs. (3)-(4), (17)-(19)",
        r"\frac{\partial J}{\partial z}",
        claim,
        residuals,
    )


@declare
def sequence_counts() -> Derivation:
    """Return X^T b as a function of the tokens' frequencies q_l; X^T diag(b) X = diag(X^T b)."""
    frequencies = [sp.Rational(POSITIONS.count(token), len(POSITIONS)) for token in range(TOKENS)]
    weights = sp.Matrix([frequency * w_l for frequency, w_l in zip(frequencies, w, strict=True)])

    return Derivation(
        "(X^T b)_l = q_l exp(z_l)/sum_k q_k exp(z_k), q_l the frequency of l; X^T diag(b) X = diag(X^T b)",
        "Lemmas 2 and 18, Eqs. (5)-(6), (20)-(23), (134)-(135), (137)",
        "X^{T} b",
        weights / sum(weights),
        lambda claim: {
            "X^T b": gathered - claim,
            "X^T diag(b) X": X.T * sp.diag(*attention) * X - sp.diag(*claim),
        },
    )


def class_objective(num_tokens: int, num_rows: int, vocab_size: int, residual: bool) -> tuple[sp.Expr, list[sp.Matrix]]:
    """Return J_n = log softmax(Y^T u)[next] of one class and its symbols, Eq. (2) with Eq. (5).

    c_l is proportional to P_l exp(z_l), f = c/||c||, and u = f, or (f + e)/||f + e|| with the residual
    connection.

    Parameters
    ----------
    num_tokens : int
        M, contextual tokens.
    num_rows : int
        Rows of Y, >= M; rows from M on are tokens that are never attended, such as query tokens.
    vocab_size : int
        V, columns of Y.
    residual : bool
        Whether the query's embedding e is added.

    Returns
    -------
    J : sympy.Expr
        The objective of the class.
    symbols : list of sympy.Matrix
        P (M, 1), one-hot query (rows, 1), one-hot next token (V, 1), Y (rows, V), z (M, 1).
    """

    def symbols(name: str, rows: int, columns: int = 1) -> sp.Matrix:
        return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}_{i}_{j}", real=True))

    P, z = symbols("P", num_tokens), symbols("z", num_tokens)
    query, next_token, Y = (
        symbols("e", num_rows),
        symbols("x", vocab_size),
        symbols("Y", num_rows, vocab_size),
    )

    weights = P.multiply_elementwise(z.applyfunc(sp.exp))
    attended = weights / sp.sqrt(weights.dot(weights))
    u = sp.Matrix([*attended, *[0] * (num_rows - num_tokens)])
    if residual:
        u = (u + query) / sp.sqrt((u + query).dot(u + query))
    logits = Y.T * u
    J = next_token.dot(logits) - sp.log(sum(logits.applyfunc(sp.exp)))
    return J, [P, query, next_token, Y, z]


@cache
def _class_gradient(num_tokens: int, num_rows: int, vocab_size: int, residual: bool) -> Callable[..., list[float]]:
    """Return dJ_n/dY, row by row, then dJ_n/dz, in one flat list.

    One list, because lambdify shares no subexpressions between several lists.
    """
    J, symbols = class_objective(num_tokens, num_rows, vocab_size, residual)
    derivatives = [sp.diff(J, entry) for matrix in symbols[3:] for entry in matrix]
    return sp.lambdify([list(matrix) for matrix in symbols], derivatives, modules="numpy", cse=True)


def gradient(
    P: ArrayLike,
    query: ArrayLike,
    next_token: ArrayLike,
    weights: ArrayLike,
    Y: ArrayLike,
    z: ArrayLike,
    residual: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Gradient of J = sum_n p_n log softmax(Y^T u_n)[next_n] in Y and z, by sympy from the objective itself.

    The expected drift of batch-size-1 ascent per step is eta_Y times the gradient in Y and eta_Z times that in z. A
    sample of finite length is a class whose row of P holds the empirical frequencies of its contextual tokens.

    Parameters
    ----------
    P : array_like, shape (K, M)
        P(l|n), or empirical frequencies; rows of any positive sum.
    query : array_like of int, shape (K,)
        Query token of each class.
    next_token : array_like of int, shape (K,)
        Next token of each class.
    weights : array_like, shape (K,)
        Probability p_n of each class.
    Y : array_like, shape (R, V)
        Decoder logits, R >= M; with `residual`, R must exceed every query id.
    z : array_like, shape (Q, M)
        Attention logits, rows in increasing query id.
    residual : bool
        Use u_n = (f_n + e_psi(n))/||f_n + e_psi(n)|| in place of u_n = f_n.

    Returns
    -------
    dJ_dY : ndarray, shape (R, V)
        Gradient in the decoder logits.
    dJ_dz : ndarray, shape (Q, M)
        Gradient in the attention logits.

    Raises
    ------
    InputError
        If an argument is not an array of numbers, a token id is negative, or the shapes do not fit together.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eqs. (2), (5), Lemma 1, Section 7. Meant for small sizes: the first call at
    given M, R, V derives and compiles the expressions (one to three seconds at four tokens), later calls
    reuse them.

    Examples
    --------
    At Y = 0 the decoder moves towards the next token and away from the others, and the attention rests:

    >>> import numpy as np
    >>> from snapdyn.analytic.symbolic import gradient
    >>> dJ_dY, dJ_dz = gradient(
    ...     P=[[0.6, 0.8]], query=[0], next_token=[1], weights=[1.0], Y=np.zeros((2, 2)), z=np.zeros((1, 2))
    ... )
    >>> dJ_dY.round(3)
    array([[-0.3,  0.3],
           [-0.4,  0.4]])
    >>> dJ_dz
    array([[0., 0.]])
    """
    P = finite_array("P", P, ("K", "M"))
    K, advice = len(P), "give one entry per class, ids from 0 on"
    weights = finite_array("weights", weights, (K,), advice=advice)
    query, next_token = (
        whole_array(name, ids, (K,), 0, advice) for name, ids in (("query", query), ("next_token", next_token))
    )
    query_ids, row_of_class = np.unique(query, return_inverse=True)
    z = finite_array("z", z, (len(query_ids), P.shape[1]), advice="give a row per query")
    Y = finite_array("Y", Y, ("R", "V"))
    rows_needed = max(P.shape[1], int(query.max()) + 1 if residual else 0)
    if Y.shape[0] < rows_needed or Y.shape[1] <= next_token.max():
        raise InputError(
            f"expected Y with at least {rows_needed} rows and {next_token.max() + 1} columns, "
            f"received shape {Y.shape}; Y needs a row per token it reads and a column per next token"
        )

    one_class = _class_gradient(P.shape[1], *Y.shape, residual)
    dJ_dY, dJ_dz = np.zeros_like(Y), np.zeros_like(z)
    for n, row in enumerate(row_of_class):
        one_hot_query = np.zeros(Y.shape[0])
        if residual:
            one_hot_query[query[n]] = 1
        one_hot_next = np.zeros(Y.shape[1])
        one_hot_next[next_token[n]] = 1
        derivatives = np.array(one_class(P[n], one_hot_query, one_hot_next, Y.ravel(), z[row]))
        dJ_dY += weights[n] * derivatives[: Y.size].reshape(Y.shape)
        dJ_dz[row] += weights[n] * derivatives[Y.size :]
    return dJ_dY, dJ_dz
