"""Synthetic sequence classes: the data of the paper (Sec. 6, Appendix) and random instances."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import choice, flag, positive, whole
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.symmetric import BYTES_PER_ENTRY, LARGEST_NUMBER, ClassKind, SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, SequenceClasses

NUM_COMMON = 10
NUM_DISTINCT = 10


def token_table(common: ArrayLike, distinct: Iterable[ArrayLike]) -> Floats:
    """Table of token weights: common tokens first, then the distinct tokens of one class after the other.

    Parameters
    ----------
    common : (K, c) array_like
        Weight of each common token in each class.
    distinct : iterable of K array_like
        Weights of the distinct tokens of each class; the classes may have different numbers of them.

    Returns
    -------
    (K, c + d) array
        d is the number of all distinct tokens. The rows are not normalised.

    Examples
    --------
    >>> from snapdyn.dynamics.classes.synthetic import token_table
    >>> token_table([[0.4], [0.5]], [[0.6], [0.2, 0.3]])
    array([[0.4, 0.6, 0. , 0. ],
           [0.5, 0. , 0.2, 0.3]])
    """
    common = np.asarray(common, dtype=np.float64)
    blocks = [np.asarray(block, dtype=np.float64) for block in distinct]
    table = np.zeros((common.shape[0], common.shape[1] + sum(block.size for block in blocks)))
    start = common.shape[1]
    table[:, :start] = common
    for row, block in zip(table, blocks, strict=True):
        row[start : start + block.size] = block
        start += block.size
    return table


def syn_small(num_classes: int = 2) -> SymmetricClasses:
    """Syn-Small (Fig. 4): 2 classes with one query each, 10 common and 10 + 10 distinct tokens, V = 34.

    Parameters
    ----------
    num_classes : int
        K, each with a query and ten distinct tokens of its own; the paper uses 2. V = 10 + 12 K.

    Returns
    -------
    SymmetricClasses
        Ids: common tokens 0-9, distinct tokens 10-19 and 20-29, queries 30-31, next tokens 32-33. Weights per
        class: 1 for a common token, linspace(0.1, 1, 10) for its distinct tokens, then normalised.

    Raises
    ------
    InputError
        `num_classes` is not a whole number of at least 1, or a count passes 2^53.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.syn_small()
    SequenceClasses(2 classes, 30 contextual tokens, 2 queries, 2 next tokens, V = 34)
    """
    return _synthetic(whole("num_classes", num_classes, 1, LARGEST_NUMBER), classes_per_query=1)


def syn_medium(num_queries: int = 10) -> SymmetricClasses:
    """Syn-Medium (Fig. 6): Q queries with two classes each; all classes share ten common tokens.

    Parameters
    ----------
    num_queries : int
        Q; the paper uses 1, 3, 5, 10. Classes 2m and 2m+1 belong to query m.

    Returns
    -------
    SymmetricClasses
        K = 2Q classes with ten distinct tokens each, V = 10 + 10K + Q + K; weights as in `syn_small`.

    Raises
    ------
    InputError
        `num_queries` is not a whole number of at least 1, or a count passes 2^53.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.syn_medium(num_queries=3)
    SequenceClasses(6 classes, 70 contextual tokens, 3 queries, 6 next tokens, V = 79)
    """
    return _synthetic(whole("num_queries", num_queries, 1, LARGEST_NUMBER), classes_per_query=2)


def _synthetic(num_queries: int, classes_per_query: int) -> SymmetricClasses:
    K = num_queries * classes_per_query
    row = np.concatenate([np.ones(NUM_COMMON), np.linspace(0.1, 1.0, NUM_DISTINCT)])
    # Summed with the zeros of another class, as in a row of P: a sum of other length may round differently.
    row /= np.append(row, np.zeros(NUM_DISTINCT if K > 1 else 0)).sum()
    first_query = NUM_COMMON + K * NUM_DISTINCT
    return SymmetricClasses(
        [ClassKind(row[:NUM_COMMON], row[NUM_COMMON:], classes_per_query)],
        num_queries,
        vocab_size=first_query + num_queries + K,
        first_query=first_query,
        first_next_token=first_query + num_queries,
    )


def single_common_token(
    num_classes: int, num_distinct: int, common_probability: float, vocab_size: int | None = None
) -> SymmetricClasses:
    """K classes of one query that share one common token, as in Theorem 4.

    Parameters
    ----------
    num_classes : int
        K >= 1.
    num_distinct : int
        Distinct tokens per class; their probabilities are proportional to linspace(0.1, 1, num_distinct) and sum to
        1 - common_probability.
    common_probability : float
        P(l_c|n), in (0, 1).
    vocab_size : int, optional
        V; default max(M, K).

    Returns
    -------
    SymmetricClasses
        Token 0 is common; class n has the distinct tokens 1 + n num_distinct, ..., (n+1) num_distinct, of which
        the last is the most frequent. All classes have query 0; the next tokens are 0..K-1.

    Raises
    ------
    InputError
        A number is out of its range, or the tokens of one class do not fit into memory.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=1, common_probability=0.3, vocab_size=100)
    >>> classes.P.toarray()
    array([[0.3, 0.7, 0. ],
           [0.3, 0. , 0.7]])
    """
    K, d = whole("num_classes", num_classes, 1, LARGEST_NUMBER), whole("num_distinct", num_distinct, 1)
    common_probability = positive("common_probability", common_probability, below=1.0)
    require_memory(f"classes of {d + 1} tokens", BYTES_PER_ENTRY * (d + 1.0), "fewer of them")
    # Not times `profile(d)`: the last bits would change.
    weights = np.linspace(0.1, 1.0, d)
    distinct = (1.0 - common_probability) * weights / weights.sum()
    return SymmetricClasses([ClassKind([common_probability], distinct, K)], vocab_size=vocab_size)


def profile(num_distinct: int) -> Floats:
    """Relative weights of the distinct tokens of `single_common_token`, (d,): linspace(0.1, 1, d) over its sum."""
    weights = np.linspace(0.1, 1.0, num_distinct)
    return np.asarray(weights / weights.sum())


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
    """Random classes with Dirichlet(2) token profiles, weakly or strongly correlated.

    Every class mixes a profile over its distinct tokens with a profile over the tokens common to all classes.
    With "weak" the total probability of the common tokens is lowered until |lambda_1(E)| < 1/K, with E the overlap
    matrix (`SequenceClasses.E`). With "strong" this probability is raised, and the common profiles are moved towards
    their mean, until |lambda_1(E)| >= 1/K.

    Parameters
    ----------
    num_classes : int
        K >= 2.
    num_common : int
        Common tokens, at least 1.
    num_distinct : int
        Distinct tokens per class, at least 1.
    num_queries : int
        Q in 1..K.
    vocab_size : int, optional
        V; default max(M, K).
    correlation : {"weak", "strong"}
    uniform_prior : bool
        True gives all classes the same prior; False draws the priors from Dirichlet(2).
    seed : int
        Seed of this instance; the same seed gives the same classes.

    Returns
    -------
    SequenceClasses
        Common tokens first, then the distinct tokens of one class after the other. Class n belongs to query
        n modulo num_queries; the next tokens are 0..K-1.

    Raises
    ------
    InputError
        A number is out of its range, or `correlation` is unknown.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.random_classes(num_classes=4, correlation="strong", seed=1)
    >>> bool(abs(classes.eigenvalues()[0]) >= 1 / 4)
    True
    """
    K = whole("num_classes", num_classes, 2)
    common, distinct = whole("num_common", num_common, 1), whole("num_distinct", num_distinct, 1)
    Q = whole("num_queries", num_queries, 1, K)
    choice("correlation", correlation, ("weak", "strong"))
    uniform_prior = flag("uniform_prior", uniform_prior)
    tokens = common + K * distinct
    # A dense table with its copies, and the overlaps of all classes.
    require_memory(f"a table of {K} classes and {tokens} tokens", 24.0 * K * (tokens + K), "fewer of them")
    rng = np.random.default_rng(np.random.SeedSequence(whole("seed", seed, 0)))
    common_profiles = rng.dirichlet(np.full(common, 2.0), size=K)
    distinct_profiles = rng.dirichlet(np.full(distinct, 2.0), size=K)
    share = rng.uniform(0.05, 0.3, size=K) if correlation == "weak" else rng.uniform(0.3, 0.7, size=K)
    weights = None if uniform_prior else rng.dirichlet(np.full(K, 2.0))
    query = np.arange(K) % Q

    def mixed(share: Floats, common_profiles: Floats) -> SequenceClasses:
        P = token_table(share[:, None] * common_profiles, (1.0 - share)[:, None] * distinct_profiles)
        return SequenceClasses(P, query, prior=weights, vocab_size=vocab_size)

    classes = mixed(share, common_profiles)
    while (abs(classes.eigenvalues()[0]) < 1.0 / K) != (correlation == "weak"):
        if correlation == "weak":
            share = 0.7 * share
        else:
            share = 1.0 - 0.7 * (1.0 - share)
            common_profiles = 0.7 * common_profiles + 0.3 * common_profiles.mean(axis=0)
        classes = mixed(share, common_profiles)
    return classes
