"""Plain dense linear algebra of the decoder, of attention and of the model with embeddings, without the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses

LINEAR_ALGEBRA = "linear algebra"
"""Rung of checks on attention vectors and their overlaps alone, without any dynamics."""
EPS = float(np.finfo(float).eps)
IDENTITY_ERROR = 1e-12
"""Relative error allowed where two evaluations of one identity in float64 are compared."""


def dense_attention(classes: SequenceClasses, z: Floats) -> tuple[Floats, Floats]:
    """Plain dense c_n and f_n = c_n/|c_n|, (S, M) each, from logits z (Q, M)."""
    P, logits = classes.P.toarray(), z[classes.query_index]
    highest = np.where(P > 0, logits, -np.inf).max(axis=1, keepdims=True)
    weights = P * np.exp(np.minimum(logits - highest, 0.0))  # logits above 709 have no exponential
    c = weights / weights.sum(axis=1, keepdims=True)
    return c, c / np.linalg.norm(c, axis=1, keepdims=True)


def largest_relative(measured: Floats, reference: Floats) -> float:
    """Largest |measured - reference| over the largest |reference|."""
    return float(np.max(np.abs(measured - reference)) / np.max(np.abs(reference)))


def zeta_products(num_classes: int, vocab_size: float) -> Floats:
    """zeta_n . zeta_k, (K, K): V/(V-1) for n = k, else -V/(V-1)^2."""
    V = vocab_size
    return np.where(np.eye(num_classes) == 1, V / (V - 1), -V / (V - 1) ** 2)


def modified_decoder_gradient(classes: SequenceClasses, z: Floats, h: Floats) -> Floats:
    """g_n = Y (e_n - alpha_n) under the modified flow by dense linear algebra, (S, M).

    Y = F (I - E') W with rows (V-1) h_n zeta_n of W (Lemmas 3, 5), e_n - alpha_n = (V-1)/(V-1+exp(V h_n)) zeta_n.
    """
    V = float(classes.vocab_size)
    _, f = dense_attention(classes, z)
    left = (V - 1) * np.exp(-V * h) / ((V - 1) * np.exp(-V * h) + 1)
    weights = left[:, None] * zeta_products(classes.num_classes, V) * (V - 1) * h  # (e_n - alpha_n) . W_k
    return weights @ np.linalg.solve(f @ f.T, f)


def attention_drift(classes: SequenceClasses, z: Floats, g: Floats, eta_Z: float) -> Floats:
    """z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (g_n - f_n (f_n . g_n)) by dense linear algebra, (Q, M)."""
    _, f = dense_attention(classes, z)
    per_class = classes.prior[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True))
    drift = np.zeros_like(z)
    np.add.at(drift, classes.query_index, eta_Z * per_class)
    return drift


def output_errors(logits: Floats, count: Floats, own: Ints) -> Floats:
    """e_n - alpha_n (..., S, O) from logits of outputs that occur `count` (O,) times; next tokens are `own` (S,)."""
    weight = count * np.exp(logits - logits.max(axis=-1, keepdims=True))
    error = -weight / weight.sum(axis=-1, keepdims=True)
    n = np.arange(len(own))
    error[..., n, own] = 0.0
    error[..., n, own] = -error.sum(axis=-1)  # 1 - alpha_n without cancellation
    return error


def overlap(f: Floats) -> Floats:
    """E = F^T F with its diagonal removed, (..., K, K)."""
    E = f @ np.swapaxes(f, -1, -2)
    return E * (1 - np.eye(f.shape[-2]))


def spectral_norm(E: Floats) -> Floats:
    """|lambda_1(E)|, (...)."""
    return np.abs(np.linalg.eigvalsh(E)).max(axis=-1)


def e_prime(E: Floats) -> Floats:
    """E' = I - (I+E)^{-1}, (..., K, K), by a dense inverse."""
    identity = np.eye(E.shape[-1])
    return identity - np.linalg.inv(identity + E)


def growth_over_gamma(E: Floats, vocab_size: Floats | float, h: Floats | None = None) -> Floats:
    """xi_n/gamma_n = q1 ((G^{-1})_nn - 1) + q0 sum_{k != n} (G^{-1})_nk h_k/h_n, (B, K), Theorem 1(a) as derived here.

    E (B, K, K), V number or (B,), h (B, K) of the classes (default equal). The formula follows from beta and sum_k
    G_nk (G^{-1})_kj = delta_nj; the claim theorem1a compares it with the decoder.
    """
    V = np.reshape(np.asarray(vocab_size, dtype=float), (-1, 1))
    H = np.linalg.inv(np.eye(E.shape[-1]) + E)
    diagonal = np.einsum("bii->bi", H)
    h = np.ones(E.shape[:2]) if h is None else h
    others = np.einsum("bnk,bk->bn", H, h) / h - diagonal
    return V / (V - 1) * (diagonal - 1 - others / (V - 1))


class Embedding(NamedTuple):
    """Parameters U (V, d), W_Q, W_K (d, d') and W_V (d, d), or their gradients, with the same shapes.

    They are trained by gradient ascent on the expected objective J of Eqs. (1)-(2), T infinite. The theory trains
    Y = U W_V^T U^T and Z = U W_Q W_K^T U^T/sqrt(d) instead (Sec. 3.1). Derivation, with K = U U^T,
    A = sum_n p_n f_n (e_n - alpha_n)^T = dJ/dY and B = dJ/dZ:

        U fixed:         Y' = eta K A K,   Z' = (eta/d) [K B (U W_K W_K^T U^T) + (U W_Q W_Q^T U^T) B K].

    So Y moves as in Eq. (3) if and only if K = I, and Z as in Eq. (4) if moreover W_Q and W_K keep their Gram matrices
    U W W^T U^T = s^2 I; the rate of attention is then eta_Z = 2 s^2 eta/d. W_Q^T W_Q - W_K^T W_K is conserved by the
    flow, but the Gram matrices are not: from W_Q W_K^T = 0 they become, to leading order, s^2 I + d Z Z^T/(2 s^2) for
    W_Q and s^2 I + d Z^T Z/(2 s^2) for W_K. (For single rows W_Q and W_K, |W_Q|^2 = |W_K|^2 = s^2 cosh and W_Q.W_K =
    s^2 sinh of the same angle.) So the relative error of the theory is d |Z|^2/(2 s^4). With one rate for all
    parameters, s^2 = d/2, it is 2 |Z|^2/d. Random rows of U have K = I + O(1/sqrt(d)).
    """

    U: Floats
    W_Q: Floats
    W_K: Floats
    W_V: Floats

    @property
    def Z(self) -> Floats:
        """Attention logits (V, V) of this parameterisation."""
        return (self.U @ self.W_Q) @ (self.U @ self.W_K).T / np.sqrt(self.U.shape[1])


def attention(classes: SequenceClasses, Z: Floats) -> Floats:
    """Attention c_n (S, M) of infinitely long sequences at logits Z (V, V)."""
    return dense_attention(classes, Z[classes.queries, : classes.num_tokens])[0]


def gradient(classes: SequenceClasses, at: Embedding) -> tuple[float, Embedding]:
    """Expected objective J of Eq. (2), nats, and its derivative by each parameter, derived by hand without Y and Z.

    The attended sum is divided by the norm of the sum of embeddings, as in practice, not by that of the sum of one-hot
    vectors. The two norms are equal if K = I.
    """
    from scipy.special import softmax  # a worker of a sweep needs none

    U, W_Q, W_K, W_V = at
    c = np.zeros((classes.num_classes, len(U)))
    c[:, : classes.num_tokens] = attention(classes, at.Z)
    summed = c @ U
    norm = np.linalg.norm(summed, axis=1, keepdims=True)
    normalised = summed / norm
    alpha = softmax(normalised @ W_V.T @ U.T, axis=-1)
    one_hot = np.eye(len(U))
    correct = one_hot[classes.next_token]
    error = classes.prior[:, None] * (correct - alpha)
    value = float(classes.prior @ np.log((correct * alpha).sum(axis=1)))
    # Backpropagate through decoder, norm and softmax. dsummed . summed = 0, so c . dc = 0: the Jacobian of the softmax
    # has no mean to subtract.
    through = error @ U @ W_V
    dsummed = (through - normalised * (normalised * through).sum(axis=1, keepdims=True)) / norm
    B = one_hot[:, classes.query] @ (c * (dsummed @ U.T)) / np.sqrt(U.shape[1])
    Q, K = U @ W_Q, U @ W_K
    dU = error.T @ normalised @ W_V.T + c.T @ dsummed + B @ K @ W_Q.T + B.T @ Q @ W_K.T
    return value, Embedding(dU, U.T @ B @ K, U.T @ B.T @ Q, U.T @ error.T @ normalised)


def ascend(classes: SequenceClasses, start: Embedding, rates: tuple[float, ...], steps: int) -> Embedding:
    """Take `steps` steps of gradient ascent on the expected objective, for all parameters at the same time.

    `rates` are the learning rates of U, W_Q, W_K and W_V per step; a parameter with rate 0 stays fixed.
    """
    for _ in range(steps):
        _, moved = gradient(classes, start)
        start = Embedding(*(value + rate * step for value, rate, step in zip(start, rates, moved, strict=True)))
    return start
