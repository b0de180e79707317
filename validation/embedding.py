"""The model of Eqs. (1)-(2) in its embedding parameterisation on sequence classes, T infinite, in plain numpy.

U (V, d), W_Q, W_K, W_V (d, d) are trained by gradient ascent on the expected objective J. The theory trains
Y = U W_V^T U^T and Z = U W_Q W_K^T U^T/sqrt(d) instead (Sec. 3.1). Derivation, with K = U U^T,
A = sum_n p_n f_n (e_n - alpha_n)^T = dJ/dY and B = dJ/dZ:

    U fixed:         Y' = eta K A K,   Z' = (eta/d) [K B (U W_K W_K^T U^T) + (U W_Q W_Q^T U^T) B K].

So Y moves as in Eq. (3) if and only if K = I, and Z as in Eq. (4) if moreover W_Q and W_K keep their Gram matrices
U W W^T U^T = s^2 I; the rate of attention is then eta_Z = 2 s^2 eta/d. W_Q^T W_Q - W_K^T W_K is conserved by the flow,
but the Gram matrices are not: from W_Q W_K^T = 0 they become s^2 I + d Z Z^T/(2 s^2) (for W_Q; Z^T Z for W_K) to
leading order (for scalars W_Q and W_K: s^2 cosh and s^2 sinh of the same angle). So the relative error of the theory is
d |Z|^2/(2 s^4). With one rate for all parameters, s^2 = d/2, it is 2 |Z|^2/d. Random rows of U have
K = I + O(1/sqrt(d)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.dense_algebra import dense_attention, softmax


class Embedding(NamedTuple):
    """Parameters U (V, d), W_Q, W_K (d, d') and W_V (d, d), or their gradients, with the same shapes."""

    U: Floats
    W_Q: Floats
    W_K: Floats
    W_V: Floats

    @property
    def Z(self) -> Floats:
        """Attention logits (V, V) of this parameterisation."""
        return np.asarray((self.U @ self.W_Q) @ (self.U @ self.W_K).T / np.sqrt(self.U.shape[1]))


def attention(classes: SequenceClasses, Z: Floats) -> Floats:
    """Attention c_n (S, M) of infinitely long sequences at logits Z (V, V)."""
    return dense_attention(classes, Z[classes.queries, : classes.num_tokens])[0]


def gradient(classes: SequenceClasses, at: Embedding) -> tuple[float, Embedding]:
    """Expected objective J of Eq. (2), nats, and its derivative by each parameter, derived by hand without Y and Z.

    The norm is taken of the attended sum of embeddings, as in practice, not of the sum of one-hot vectors. The two
    norms are equal if K = I.
    """
    U, W_Q, W_K, W_V = at
    c = np.zeros((classes.num_classes, len(U)))
    c[:, : classes.num_tokens] = attention(classes, at.Z)
    summed = c @ U
    norm = np.linalg.norm(summed, axis=1, keepdims=True)
    normalised = summed / norm
    alpha = softmax(normalised @ W_V.T @ U.T)
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
