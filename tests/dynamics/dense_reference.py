"""Plain dense numpy versions of the theory, written from its equations: no lumping, no shared column.

Every token has its own row of Y and its own logit per query, every output its own column. Nothing here
calls the package except `Instance.classes`, which hands the same arrays to it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import SequenceClasses

Array = NDArray[Any]


@dataclass(frozen=True)
class Instance:
    """Raw arrays of one set of sequence classes."""

    P: Array  # (S, M)
    query: Array  # (S,)
    next_token: Array  # (S,)
    prior: Array  # (S,), sums to 1
    vocab_size: int

    @property
    def query_ids(self) -> list[int]:
        return sorted({int(m) for m in self.query})

    @property
    def query_row(self) -> Array:
        """(S,) row of z of each class: queries in increasing id."""
        return np.searchsorted(self.query_ids, self.query)

    @property
    def num_rows(self) -> int:
        """Rows of Y that any variant can touch: contextual tokens and query tokens."""
        return max(self.P.shape[1], int(self.query.max()) + 1)

    def classes(self) -> SequenceClasses:
        return SequenceClasses(self.P, self.query, self.next_token, self.prior, self.vocab_size)


def random_instance(
    seed: int,
    num_classes: int = 5,
    num_tokens: int = 9,
    query: tuple[int, ...] | None = None,
    next_token: tuple[int, ...] | None = None,
    vocab_size: int = 14,
    twins: tuple[tuple[int, int], ...] = ((1, 2), (5, 7)),
) -> Instance:
    """Random supports and probabilities, non-uniform prior; `twins` are pairs of tokens with equal columns."""
    rng = np.random.default_rng(seed)
    P = rng.uniform(0.2, 1.0, (num_classes, num_tokens)) * (rng.random((num_classes, num_tokens)) < 0.6)
    P[np.arange(num_classes), np.arange(num_classes) % num_tokens] = 0.7  # no empty row
    for kept, copy in twins:
        P[:, copy] = P[:, kept]
    P /= P.sum(axis=1, keepdims=True)
    prior = rng.uniform(0.5, 2.0, num_classes)
    return Instance(
        P,
        np.array(query if query is not None else np.arange(num_classes) % 2),
        np.array(next_token if next_token is not None else np.arange(num_classes)),
        prior / prior.sum(),
        vocab_size,
    )


def attention(P: Array, z_rows: Array) -> Array:
    """Eq. (5): c_n[l] proportional to P(l|n) exp(z_l), z_rows (S, M)."""
    weights = P * np.exp(z_rows - z_rows.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def decoder_inputs(instance: Instance, z: Array, residual: bool) -> tuple[Array, Array, Array]:
    """f (S, M), decoder input u (S, R), and |f + e_psi| (S,) (1 without the residual)."""
    c = attention(instance.P, z[instance.query_row])
    f = c / np.sqrt((c**2).sum(axis=1, keepdims=True))
    S, M = f.shape
    u = np.zeros((S, instance.num_rows), dtype=f.dtype)
    u[:, :M] = f
    norm = np.ones(S, dtype=f.dtype)
    if residual:
        u[np.arange(S), instance.query] += 1.0
        norm = np.sqrt((u**2).sum(axis=1))
        u = u / norm[:, None]
    return f, u, norm


def error_and_loss(logits: Array, target: Array) -> tuple[Array, Array]:
    """Rows e_n - alpha_n and -ln alpha_n[target] of softmax over all V outputs."""
    rows = np.arange(logits.shape[0])
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    alpha = shifted / shifted.sum(axis=1, keepdims=True)
    error = -alpha
    others = alpha.copy()
    others[rows, target] = 0.0
    error[rows, target] = others.sum(axis=1)  # not 1 - alpha, which cancels at late times
    return error, -np.log(alpha[rows, target])


def mean_field(
    instance: Instance, Y: Array, z: Array, eta_Y: float, eta_Z: float, residual: bool = False
) -> tuple[Array, Array, Any]:
    """dY/dt (R, V), dz/dt (Q, M) and the loss of the full mean field (sections 8 and 9)."""
    f, u, norm = decoder_inputs(instance, z, residual)
    error, loss = error_and_loss(u @ Y, instance.next_token)
    dY = eta_Y * np.einsum("n,nl,nv->lv", instance.prior, u, error)
    g = error @ Y.T
    if residual:
        g = (g - u * (u * g).sum(axis=1, keepdims=True)) / norm[:, None]
    g = g[:, : f.shape[1]]
    push = instance.prior[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True))
    dz = np.zeros_like(z)
    np.add.at(dz, instance.query_row, eta_Z * push)
    return dY, dz, instance.prior @ loss


def eq_10(instance: Instance, u: Array, z: Array, eta_Y: float, eta_Z: float, leading: bool) -> tuple[Array, Array]:
    """dz/dt (Q, M) and d(V h)/dt (S,) by full linear algebra: Y = F (I - E') Wbar, g_n = Y (e_n - alpha_n)."""
    V, S = instance.vocab_size, instance.P.shape[0]
    f, _, _ = decoder_inputs(instance, z, residual=False)
    F = f.T
    E_prime = np.eye(S) - np.linalg.inv(F.T @ F)
    h = u / V
    gamma = (V - 1) ** 2 * h / (V - 1 + np.exp(u))
    if leading:
        g = np.stack([-gamma[n] * sum(E_prime[k, n] * f[k] for k in range(S) if k != n) for n in range(S)])
    else:
        zeta = V / (V - 1) * (np.eye(V)[instance.next_token] - 1 / V)
        W = (V - 1) * h[:, None] * zeta
        Y = F @ (np.eye(S) - E_prime) @ W
        error, _ = error_and_loss(W, instance.next_token)
        g = error @ Y.T
    push = instance.prior[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True))
    dz = np.zeros_like(z)
    np.add.at(dz, instance.query_row, eta_Z * push)
    return dz, V * eta_Y * instance.prior / (V - 1 + np.exp(u))
