"""Benchmark cases, and the plain numpy mean field that serves as the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import MeanField, SequenceClasses, log_times, syn_medium, syn_small

Floats = NDArray[np.float64]
RTOL, ATOL = 1e-8, 1e-10


def jittered(classes: SequenceClasses, seed: int = 0) -> SequenceClasses:
    """The same classes with every weight changed by up to 10 %, so that no two tokens are equal (none are lumped)."""
    rng = np.random.default_rng(seed)
    P = classes.P.copy()
    P.data = P.data * rng.uniform(0.9, 1.1, P.data.size)
    P.data /= np.repeat(np.add.reduceat(P.data, P.indptr[:-1]), np.diff(P.indptr))
    return SequenceClasses(P, classes.query, classes.next_token, vocab_size=classes.vocab_size)


def one_by_one(classes: SequenceClasses, vocab_size: int | None = None) -> SequenceClasses:
    """The same classes, whose symmetries have to be found, with another V."""
    V = vocab_size or classes.vocab_size
    return SequenceClasses(classes.P, classes.query, classes.next_token, vocab_size=V)


# C: Q = 100 queries, K = 200 classes, 2010 tokens.
CASES: dict[str, tuple[SequenceClasses, float]] = {
    "A": (one_by_one(syn_small()), 1e4),
    "B": (one_by_one(syn_medium(10)), 1e5),
    "C": (one_by_one(syn_medium(100), 50_000), 1e4),
}


def system(case: str, jitter: bool = False) -> MeanField:
    """Mean field of a case, eta_Y = eta_Z = 1."""
    classes = CASES[case][0]
    return MeanField(jittered(classes) if jitter else classes, 1.0, 1.0)


def times(case: str) -> Floats:
    """100 log-spaced saves up to the end of the case, in batch-size-1 steps."""
    return log_times(1e-2, CASES[case][1], 100)


def numpy_mean_field(classes: SequenceClasses) -> tuple[Callable[[float, Floats], Floats], int, int]:
    """Section 8's right-hand side in dense numpy with the shared output column: (rate, Q M, state size).

    The state is [z (Q, M), Y (M, C)]. This is a straightforward notebook implementation, with the same saving in V.
    """
    P = classes.P.toarray()
    S, M = P.shape
    Q, C = classes.queries.size, classes.next_tokens.size + 1
    multiplicity = np.ones(C)
    multiplicity[-1] = classes.vocab_size - classes.next_tokens.size
    rows = np.arange(S), classes.next_index

    def rate(t: float, state: Floats) -> Floats:
        z, Y = state[: Q * M].reshape(Q, M), state[Q * M :].reshape(M, C)
        weights = P * np.exp(z[classes.query_index])
        f = weights / np.linalg.norm(weights, axis=1, keepdims=True)
        logits = f @ Y
        e = multiplicity * np.exp(logits - logits.max(axis=1, keepdims=True))
        alpha = e / e.sum(axis=1, keepdims=True)
        error = -alpha
        error[rows] += 1.0
        g = error @ Y.T
        dz = np.zeros((Q, M))
        np.add.at(dz, classes.query_index, classes.prior[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True)))
        dY = f.T @ (classes.prior[:, None] * error / multiplicity)
        return np.concatenate([dz.ravel(), dY.ravel()])

    return rate, Q * M, Q * M + M * C
