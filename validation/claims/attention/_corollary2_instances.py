"""Instances of the claim on several common tokens: those that meet Corollary 2, and those of its boundary."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats


def shared_common_tokens(
    common: Floats, distinct: Floats, query: list[int], vocab_size: int, weights: Floats | None = None
) -> SequenceClasses:
    """Classes with P(l|n) = common[n, l] and distinct tokens of their own, common (K, c), distinct (K, d)."""
    K, c = common.shape
    P = np.zeros((K, c + distinct.size))
    P[:, :c] = common
    for n in range(K):
        start = c + n * distinct.shape[1]
        P[n, start : start + distinct.shape[1]] = distinct[n]
    V = max(vocab_size, P.shape[1])
    return SequenceClasses(P / P.sum(axis=1, keepdims=True), query, prior=weights, vocab_size=V)


def corollary_2_instance(seed: int, query: list[int] | None = None) -> SequenceClasses:
    """Random classes that meet Corollary 2: P(l|n) = rho_l, distinct profiles permuted, one query (or as given)."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 6)) if query is None else len(query)
    share = rng.uniform(0.05, 0.95)
    rho = rng.dirichlet(np.full(rng.integers(2, 6), 0.7)) * share
    profile = rng.dirichlet(np.full(rng.integers(1, 5), 2.0)) * (1 - share)
    distinct = np.array([rng.permutation(profile) for _ in range(K)])
    V = int(10 ** rng.uniform(1, 4))
    return shared_common_tokens(np.tile(rho, (K, 1)), distinct, [0] * K if query is None else query, V)


def spread_profiles() -> SequenceClasses:
    """Two weakly correlated classes of one query, V = 10, in which common token 1 grows since P(l|n) depends on n.

    Seed 351 of 500 draws ``default_rng(seed).dirichlet(np.ones(3), size=2)`` (common, common, distinct), rounded.
    Of the 272 weakly correlated ones a common token grows in 115, here with the smallest ratio P(l|0)/P(l|1), 4.9.
    """
    return shared_common_tokens(
        np.array([[0.733, 0.184], [0.151, 0.839]]), np.array([[0.083], [0.010]]), [0, 0], vocab_size=10
    )


def unequal_queries() -> SequenceClasses:
    """Corollary 2 but for two queries, of one and two classes: a common token falls first and grows later.

    `corollary_2_instance(274, query=[0, 1, 1])`, rounded; strongly correlated, |lambda_1| K = 5.93, V = 16.
    """
    return shared_common_tokens(np.tile([0.373, 0.555], (3, 1)), np.full((3, 1), 0.072), [0, 1, 1], vocab_size=16)
