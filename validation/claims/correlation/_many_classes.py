"""Assumption 2 with up to 1e9 classes in kinds: eigenvalues of E without its matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.dense_algebra import EPS, LINEAR_ALGEBRA
from snapdyn.validation.evidence import Evidence

LARGEST_VOCABULARY = 10**15


class Kinds(NamedTuple):
    """Kinds of classes: c (S, C) attention on the common tokens, and the number of classes of each kind (S,)."""

    common: Floats
    counts: Ints

    @property
    def num_classes(self) -> int:
        return int(self.counts.sum())


def extreme_eigenvalues(kinds: Kinds) -> tuple[float, float]:
    """|lambda_1| and min|lambda| of E, f_n.f_k of different classes: common tokens only.

    Vectors that sum to 0 over each kind have the eigenvalue -|c_s|^2, once per class but one of each kind. Vectors that
    are constant on each kind see the matrix sqrt(n_r n_s) c_r.c_s less |c_s|^2 on its diagonal.
    """
    root = np.sqrt(kinds.counts.astype(float))[:, None] * kinds.common
    own = (kinds.common**2).sum(axis=1)
    constant = np.linalg.eigvalsh(root @ root.T - np.diag(own))
    size = np.abs(np.concatenate([constant, -own[kinds.counts > 1]]))
    return float(size.max()), float(size.min())


def largest_slack(kinds: Kinds, vocab_size: float) -> float:
    """Largest factor by which a multiple of E satisfies both bounds on |lambda|; below 1: none."""
    largest, smallest = extreme_eigenvalues(kinds)
    return float(np.sqrt(np.sqrt(vocab_size) * smallest / (6 * kinds.num_classes * largest)))


def draw(rng: np.random.Generator) -> Kinds:
    """One to three kinds with one to three common tokens, K = 10..1e9 log-uniform."""
    S, C = rng.integers(1, 4, size=2)
    total = float(np.exp(rng.uniform(np.log(10), np.log(1e9))))
    profile = rng.dirichlet(np.full(C, 2.0), size=S) ** 0.5  # unit vectors
    length = np.exp(rng.uniform(np.log(1e-2), 0.0, size=(S, 1)))
    counts = np.maximum(2, np.round(rng.dirichlet(np.full(S, 2.0)) * total)).astype(np.int64)
    return Kinds(profile * length, counts)


def on_many_classes(evidence: Evidence) -> str:
    """Add |lambda_1|/min|lambda| of up to 1e9 classes, and how many classes V = 1e15 allows. Return a sentence."""
    count = 4000 if evidence.full else 400
    rng = np.random.default_rng(5)
    printed = pairs = 0.0
    least = np.inf
    for _ in range(count):
        kinds = draw(rng)
        K, c = kinds.num_classes, kinds.common.shape[1]
        largest, smallest = extreme_eigenvalues(kinds)
        least = min(least, largest / max(smallest, 1e-300) / ((K - c) / c))
        printed = max(printed, largest_slack(kinds, 10.0 * K**2))
        if c < K / 4:
            pairs = max(pairs, largest_slack(kinds, 37.0 * K**2))
    where = f"{count} draws of 1 to 3 kinds of classes, 1 to 3 common tokens, K = 10..1e9"
    evidence.holds(f"V = 10 K^2: largest best slack; {where}", LINEAR_ALGEBRA, printed, at_least=1.0)
    evidence.corrected(
        f"smallest |lambda_1|/min|lambda| over (K-c)/c, c common tokens; {where}", LINEAR_ALGEBRA, least,
        at_least=1 - 64 * EPS,
    )  # fmt: skip
    evidence.control("wrong theory: V > 36 K^2 is enough, as for pairs: largest best slack, the same draws",
                     LINEAR_ALGEBRA, pairs, at_least=1.0)  # fmt: skip
    low, high = 2, 10**9
    while high - low > 1:
        K = (low + high) // 2
        kinds = Kinds(np.array([[0.5]]), np.array([K]))
        low, high = (K, high) if largest_slack(kinds, LARGEST_VOCABULARY) > 1 else (low, K)
    by_law = next(K for K in range(3000, 1, -1) if 36 * K**2 * (K - 1) ** 2 < LARGEST_VOCABULARY)
    evidence.corrected("one common token: most equal classes that V = 1e15 allows, by bisection, less the most with "
                       "36 K^2 (K-1)^2 < V", LINEAR_ALGEBRA, abs(low - by_law), at_most=0)  # fmt: skip
    most = int(np.sqrt(LARGEST_VOCABULARY / 36))
    return f" V = 1e15 allows {low:,} equal classes with one common token, and at most {most:,} of any classes."
