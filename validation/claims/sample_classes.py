"""Sequence classes and attention vectors on which several claims are measured."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.classes.synthetic import random_classes, token_table
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.validation.dense_algebra import overlap, spectral_norm


def weak_instances(
    count: int, vocab_size: int = 1000, num_common: int = 1, first_seed: int = 0
) -> list[SequenceClasses]:
    """The first `count` of three random sets of weakly correlated classes of one query, K = 3, 5, 8."""
    return [
        random_classes(K, num_common=num_common, num_distinct=4, vocab_size=vocab_size, seed=first_seed + i)
        for i, K in enumerate((3, 5, 8)[:count])
    ]


def random_attention(
    rng: np.random.Generator, num_classes: int, num_common: int, num_queries: int, largest: Floats
) -> Floats:
    """Random unit attention vectors f_n (B, K, M), M = num_common + K, with |lambda_1(E)| at most `largest` (B,).

    Token profiles are drawn from Dirichlet distributions. In half of the instances each class holds all common tokens,
    in the others each with probability 1/2; class 0 of every fifth instance holds none, so it overlaps no other. Class
    n has the random logits of query n modulo num_queries. Scaling the common part by s and giving the rest to one
    distinct token per class scales E by s^2: s puts |lambda_1| at `largest`, or as near as unit vectors allow.
    """
    B, K = largest.size, num_classes
    shared = rng.dirichlet(np.full(num_common, 0.7), size=(B, K)) * np.exp(
        rng.normal(size=(B, num_queries, num_common))[:, np.arange(K) % num_queries]
    )
    held = rng.random((B, K, num_common)) < rng.choice([0.5, 1.0], size=(B, 1, 1))
    held[::5, 0] = False
    shared = shared * held
    size = np.linalg.norm(shared, axis=2, keepdims=True)
    shared *= np.sqrt(rng.uniform(0.01, 1.0, (B, K, 1))) / np.where(size > 0, size, 1.0)
    strength = np.maximum(spectral_norm(overlap(shared)), 1e-12)
    longest = np.maximum((shared**2).sum(axis=2).max(axis=1), 1e-12)
    shared *= np.sqrt(np.minimum(largest / strength, 0.99 / longest))[:, None, None]
    own = np.sqrt(1 - (shared**2).sum(axis=2))
    return np.concatenate([shared, own[:, :, None] * np.eye(K)], axis=2)


def star(num_classes: int, r: float, outer: float | None = None) -> Floats:
    """Attention vectors (K, M) in which class 0 overlaps each other class by r, and there are no other overlaps.

    With `outer`, the overlap of the last class with class 0 is `outer`. Each overlap has its own common token.
    """
    K = num_classes
    reach = np.full(K - 1, r)
    if outer is not None:
        reach[-1] = outer
    # The centre spends a share in proportion to its overlaps; the square of the whole stays below 1.
    centre = reach / np.sqrt(np.linalg.norm(reach))
    f = np.zeros((K, 2 * K - 1))
    f[0, : K - 1] = centre
    f[np.arange(1, K), np.arange(K - 1)] = reach / centre
    f[np.arange(K), K - 1 + np.arange(K)] = np.sqrt(1 - (f**2).sum(axis=1))
    return f


def dominant_token(classes: SequenceClasses, n: int = 0) -> int:
    """Return the distinct token of class n with the largest probability; the class must have distinct tokens."""
    distinct = classes.distinct_tokens(n)
    return int(distinct[np.argmax(classes.P[[n]].toarray().ravel()[distinct])])


def correlated_classes(correlation: float, seed: int, num_classes: int = 5, vocab_size: int = 1000) -> SequenceClasses:
    """Random classes of one query and one common token with |lambda_1(E)| K = `correlation` (0 to K(K-1)).

    Four distinct tokens per class, Dirichlet(2); the weight of the common token varies by class and is scaled until
    the correlation is met.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    K = num_classes
    P = token_table(np.zeros((K, 1)), rng.dirichlet(np.full(4, 2.0), size=K))
    common = np.exp(rng.uniform(-0.5, 0.5, size=K))

    def at(logarithm: float) -> SequenceClasses:
        P[:, 0] = common * np.exp(logarithm)
        return SequenceClasses(P / P.sum(axis=1, keepdims=True), np.zeros(K, dtype=int), vocab_size=vocab_size)

    def excess(logarithm: float) -> float:
        return float(np.log(abs(at(logarithm).eigenvalues()[0]) * K / correlation))

    from scipy.optimize import brentq

    return at(float(brentq(excess, -12.0, 8.0)))


def equal_overlap(num_classes: int, vocab_size: int, overlap: float) -> SequenceClasses:
    """Classes of one query with f_n.f_k = overlap for every pair: one common and one distinct token each."""
    odds = np.sqrt(overlap / (1 - overlap))  # P(common)/P(distinct)
    P = token_table(*(np.full((num_classes, 1), share / (1 + odds)) for share in (odds, 1)))
    return SequenceClasses(P, np.zeros(num_classes, dtype=int), vocab_size=vocab_size)


def counterexample() -> SequenceClasses:
    """Three classes of one query, V = 173, in which a distinct token falls in the mean field (finding F10)."""
    common = np.array([[0.141], [0.12], [0.402]])
    distinct = np.array([[0.301, 0.292, 0.131, 0.134], [0.227, 0.073, 0.272, 0.309], [0.041, 0.225, 0.268, 0.064]])
    P = token_table(common, distinct)
    return SequenceClasses(P / P.sum(axis=1, keepdims=True), [0, 0, 0], vocab_size=173)


def strongly_correlated_classes() -> SequenceClasses:
    """Three strongly correlated classes of one query: logits move far, and runs are cheap."""
    return random_classes(3, num_common=1, num_distinct=3, vocab_size=50, correlation="strong", seed=1)


def three_classes() -> SequenceClasses:
    """Three classes of ten common tokens and three distinct ones each, which take 3/4 of the probability; V = 50."""
    rng = np.random.default_rng(np.random.SeedSequence(59))
    P = np.zeros((3, 19))
    for n in range(3):
        P[n, :10] = 0.25 * rng.dirichlet(np.ones(10))
        P[n, 10 + 3 * n : 13 + 3 * n] = 0.25
    return SequenceClasses(P, [0, 0, 0], vocab_size=50)


def equal_classes(num_classes: int, vocab_size: int) -> SequenceClasses:
    """Classes that all have the same 30 tokens, of weights 1/rank: no token tells next tokens apart."""
    row = 1.0 / np.arange(1.0, 31.0)
    P = np.tile(row / row.sum(), (num_classes, 1))
    return SequenceClasses(P, np.zeros(num_classes, int), vocab_size=vocab_size)


def three_frequencies() -> SequenceClasses:
    """Three classes of one query with a common token (0.3) and distinct tokens of 0.4, 0.2 and 0.1 each; V = 60."""
    P = np.hstack([np.full((3, 1), 0.3), np.kron(np.eye(3), [0.4, 0.2, 0.1])])
    return SequenceClasses(P, [0, 0, 0], vocab_size=60)
