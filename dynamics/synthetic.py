"""Builders of sequence classes: the paper's synthetic data (Sec. 6, Appendix) and random instances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.classes import SequenceClasses
from snapdyn.errors import InputError, flag, positive, unknown_name, whole

NUM_COMMON = 10
NUM_DISTINCT = 10


def syn_small() -> SequenceClasses:
    """Syn-Small (Fig. 4): 2 classes with a query each, 10 common and 10 + 10 distinct tokens, V = 34.

    Ids: common 0-9, distinct 10-19 and 20-29, queries 30-31, next tokens 32-33. Weights per class: 1 for a
    common token, linspace(0.1, 1, 10) for its distinct tokens, then normalised.
    """
    return _synthetic(num_queries=2, classes_per_query=1)


def syn_medium(num_queries: int = 10) -> SequenceClasses:
    """Syn-Medium (Fig. 6): Q queries with two classes each, ten common tokens shared by all, V = 10+10K+Q+K.

    Parameters
    ----------
    num_queries : int
        Q; the paper uses 1, 3, 5, 10. Classes 2m and 2m+1 belong to query m; K = 2Q.
    """
    return _synthetic(whole("num_queries", num_queries, 1), classes_per_query=2)


def _synthetic(num_queries: int, classes_per_query: int) -> SequenceClasses:
    K = num_queries * classes_per_query
    distinct_weights = np.linspace(0.1, 1.0, NUM_DISTINCT)
    P = np.zeros((K, NUM_COMMON + NUM_DISTINCT * K))
    P[:, :NUM_COMMON] = 1.0
    for n in range(K):
        start = NUM_COMMON + NUM_DISTINCT * n
        P[n, start : start + NUM_DISTINCT] = distinct_weights
    P /= P.sum(axis=1, keepdims=True)
    first_query = P.shape[1]
    query = first_query + np.arange(K) // classes_per_query
    next_token = first_query + num_queries + np.arange(K)
    return SequenceClasses(P, query, next_token, vocab_size=first_query + num_queries + K)


def single_common_token(
    num_classes: int, num_distinct: int, common_probability: float, vocab_size: int | None = None
) -> SequenceClasses:
    """K classes of one query that share one common token (Theorem 4; finding F4).

    Parameters
    ----------
    num_classes : int
        K >= 1.
    num_distinct : int
        Distinct tokens per class, weights linspace(0.1, 1, num_distinct) scaled to 1 - common_probability.
    common_probability : float
        P(l_c|n), in (0, 1).
    vocab_size : int, optional
        V; default max(M, K).

    Returns
    -------
    SequenceClasses
        Token 0 is common; class n has the distinct tokens 1 + n num_distinct, ..., (n+1) num_distinct, the
        last the most frequent. Query 0; next tokens 0..K-1.
    """
    K, d = whole("num_classes", num_classes, 1), whole("num_distinct", num_distinct, 1)
    if not positive("common_probability", common_probability) < 1.0:
        raise InputError(f"expected common_probability between 0 and 1, received {common_probability!r}")
    weights = np.linspace(0.1, 1.0, d)
    P = np.zeros((K, 1 + K * d))
    P[:, 0] = common_probability
    for n in range(K):
        P[n, 1 + n * d : 1 + (n + 1) * d] = (1.0 - common_probability) * weights / weights.sum()
    return SequenceClasses(P, np.zeros(K, dtype=int), vocab_size=vocab_size)


def random_classes(
    num_classes: int = 5,
    num_common: int = 2,
    num_distinct: int = 4,
    num_queries: int = 1,
    vocab_size: int | None = None,
    correlation: str = "weak",
    uniform_prior: bool = True,
    seed: int = 0,
) -> SequenceClasses:
    """Random classes with Dirichlet(2) token profiles and weak or strong correlation on request.

    Every class mixes a profile over its own distinct tokens with one over tokens common to all classes. The
    common share is lowered until |lambda_1(E)| < 1/K ("weak"), or raised and the common profiles drawn
    together until |lambda_1(E)| >= 1/K ("strong"). Class n belongs to query n modulo num_queries.

    Parameters
    ----------
    num_classes, num_common, num_distinct, num_queries : int
        K >= 2, common tokens >= 1, distinct tokens per class >= 1, 1 <= Q <= K.
    vocab_size : int, optional
        V; default max(M, K).
    correlation : "weak" or "strong"
    uniform_prior : bool
        False draws the class weights from Dirichlet(2).
    seed : int
        Seed of this instance; the same seed gives the same classes.
    """
    K = whole("num_classes", num_classes, 2)
    common, distinct = whole("num_common", num_common, 1), whole("num_distinct", num_distinct, 1)
    Q = whole("num_queries", num_queries, 1)
    if Q > K:
        raise InputError(f"expected at most one query per class ({K}), received num_queries = {Q}")
    if correlation not in ("weak", "strong"):
        raise unknown_name("correlation", correlation, ("weak", "strong"))
    uniform_prior = flag("uniform_prior", uniform_prior)
    rng = np.random.default_rng(np.random.SeedSequence(whole("seed", seed, 0)))
    common_profiles = rng.dirichlet(np.full(common, 2.0), size=K)
    distinct_profiles = rng.dirichlet(np.full(distinct, 2.0), size=K)
    share = rng.uniform(0.05, 0.3, size=K) if correlation == "weak" else rng.uniform(0.3, 0.7, size=K)
    weights = None if uniform_prior else rng.dirichlet(np.full(K, 2.0))
    query = np.arange(K) % Q

    def mixed(share: NDArray[np.float64], common_profiles: NDArray[np.float64]) -> SequenceClasses:
        P = np.zeros((K, common + K * distinct))
        P[:, :common] = share[:, None] * common_profiles
        for n in range(K):
            start = common + n * distinct
            P[n, start : start + distinct] = (1.0 - share[n]) * distinct_profiles[n]
        return SequenceClasses(P, query, weights=weights, vocab_size=vocab_size)

    classes = mixed(share, common_profiles)
    while (abs(classes.eigenvalues()[0]) < 1.0 / K) != (correlation == "weak"):
        if correlation == "weak":
            share = 0.7 * share
        else:
            share = 1.0 - 0.7 * (1.0 - share)
            common_profiles = 0.7 * common_profiles + 0.3 * common_profiles.mean(axis=0)
        classes = mixed(share, common_profiles)
    return classes
