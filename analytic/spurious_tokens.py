"""Spurious distinct tokens of a data set: their expected number and its variance, exact (own; Sec. 9)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.core.errors import checked_probabilities, whole, whole_array
from snapdyn.core.memory import require_memory

Floats = NDArray[np.float64]


def expected_spurious(P: ArrayLike, next_token: ArrayLike, sequences: int | ArrayLike, seq_len: int) -> float:
    """Expected number of tokens that look distinct in a data set and are common in the classes it is drawn from.

    A token is spurious for next token n if it occurs in stored sequences of n and of no other next token, though
    another one has it in the classes. With q_n(l), the probability that l occurs in the sequences of n, the number is
    the sum over n and common l of q_n(l) prod_(k != n) (1 - q_k(l)). Own derivation; verified by enumeration and by
    draws in tests/analytic/test_spurious_tokens.py.

    Parameters
    ----------
    P : (S, M) array_like or scipy.sparse
        P[n, l] = P(l|n); rows sum to 1.
    next_token : (S,) array_like of int
        Next token of each class.
    sequences : int or (S,) array_like of int
        Number of stored sequences of each class, at least 0.
    seq_len : int
        T-1, contextual tokens of a sequence.

    Returns
    -------
    float

    Raises
    ------
    InputError
        Shapes that differ, or numbers out of range.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> P = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    >>> analytic.expected_spurious(P, [0, 1], sequences=1, seq_len=2)
    0.375
    """
    return float(_expected_of_each(_of_next_tokens(P, next_token, sequences, seq_len)).sum())


def variance_of_spurious(P: ArrayLike, next_token: ArrayLike, sequences: int | ArrayLike, seq_len: int) -> float:
    """Variance of the number of spurious tokens, whose expectation is `expected_spurious`.

    The sum of the covariances of all pairs of common tokens. The counts of a sequence are multinomial, so two tokens
    are both absent from a class with probability (1 - P(l|n) - P(l'|n))^(N_n (T-1)).

    Parameters
    ----------
    P : (S, M) array_like or scipy.sparse
        P[n, l] = P(l|n); rows sum to 1.
    next_token : (S,) array_like of int
        Next token of each class.
    sequences : int or (S,) array_like of int
        Number of stored sequences of each class, at least 0.
    seq_len : int
        T-1, contextual tokens of a sequence.

    Returns
    -------
    float

    Raises
    ------
    InputError
        As in `expected_spurious`; the pairs of common tokens do not fit into memory.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> P = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    >>> analytic.variance_of_spurious(P, [0, 1], sequences=1, seq_len=2)
    0.234375
    """
    parts = _of_next_tokens(P, next_token, sequences, seq_len)
    each = _expected_of_each(parts)
    numbers = 10.0 + 3.0 * max(len(rows) for rows, _ in parts)  # per pair
    require_memory(f"the pairs of {each.size} common tokens", 4.0 * numbers * each.size**2, "fewer common tokens")
    i, j = np.triu_indices(each.size, 1)
    # Of a pair of tokens, over the next tokens so far: the probabilities that neither is found, or the first, the
    # second or both with exactly one next token.
    neither, first, second, both = np.ones(i.size), np.zeros(i.size), np.zeros(i.size), np.zeros(i.size)
    for rows, draws in parts:
        absent, none = np.exp(_log_absent(rows, draws)), np.exp(_log_absent(rows[:, i] + rows[:, j], draws))
        only_first, only_second = absent[j] - none, absent[i] - none
        found = 1.0 - absent[i] - only_first
        both = both * none + first * only_second + second * only_first + neither * found
        first, second = first * none + neither * only_first, second * none + neither * only_second
        neither = neither * none
    return float((each * (1.0 - each)).sum() + 2.0 * (both - each[i] * each[j]).sum())


def expected_spurious_attention(P: ArrayLike, next_token: ArrayLike, sequences: int | ArrayLike, seq_len: int) -> float:
    """Expected attention on spurious tokens at z = 0, mean over the stored sequences.

    It is the probability that a drawn place of a stored sequence holds a token that no other next token has in the data
    set, and another one has in the classes. Unlike the number, it never rises with the number of sequences.

    Parameters
    ----------
    P : (S, M) array_like or scipy.sparse
        P[n, l] = P(l|n); rows sum to 1.
    next_token : (S,) array_like of int
        Next token of each class.
    sequences : int or (S,) array_like of int
        Number of stored sequences of each class, at least 0 and not all 0.
    seq_len : int
        T-1, contextual tokens of a sequence.

    Returns
    -------
    float

    Raises
    ------
    InputError
        As in `expected_spurious`.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> P = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    >>> analytic.expected_spurious_attention(P, [0, 1], sequences=1, seq_len=2)
    0.125
    """
    parts = _of_next_tokens(P, next_token, sequences, seq_len)
    total = sum(float(draws.sum()) for _, draws in parts)
    none: Floats = np.ones(parts[0][0].shape[1])
    one = np.zeros_like(none)
    for rows, draws in parts:
        absent = np.exp(_log_absent(rows, draws))
        one, none = one * absent + none * (draws @ rows) / max(total, 1.0), none * absent
    return float(one.sum())


def _expected_of_each(parts: list[tuple[Floats, Floats]]) -> Floats:
    """Probability of each common token to be found with exactly one next token."""
    none: Floats = np.ones(parts[0][0].shape[1])
    one = np.zeros_like(none)
    for rows, draws in parts:
        log_absent = _log_absent(rows, draws)
        one = one * np.exp(log_absent) - none * np.expm1(log_absent)
        none *= np.exp(log_absent)
    return one


def _log_absent(rows: Floats, draws: Floats) -> Floats:
    """ln of the probability that none of `draws` (s,) tokens is one of those of probability `rows` (s, ...)."""
    with np.errstate(divide="ignore"):  # ln 0 for a token of probability 1
        return np.asarray(draws @ np.log1p(-np.minimum(rows, 1.0)))


def _of_next_tokens(
    P: Any, next_token: ArrayLike, sequences: int | ArrayLike, seq_len: int
) -> list[tuple[Floats, Floats]]:
    """For each next token with sequences: P of the common tokens in its classes (s, C), and the drawn tokens (s,)."""
    require_memory("P", 48.0 * max(getattr(P, "shape", ()), default=0), "fewer classes or tokens")
    rows = checked_probabilities(P)
    require_memory(f"P of shape {rows.shape}", 16.0 * rows.shape[0] * rows.shape[1], "fewer classes or tokens")
    table: Floats = rows.toarray()
    S, T = len(table), whole("seq_len", seq_len, 1)
    of = np.unique(whole_array("next_token", next_token, (S,), at_least=0), return_inverse=True)[1]
    numbers = whole_array("sequences", sequences, at_least=0)
    numbers = whole_array("sequences", numbers, (S,)) if numbers.ndim else numbers
    draws: Floats = np.asarray(T * np.broadcast_to(numbers, (S,)), dtype=np.float64)
    groups = [np.flatnonzero(of == v) for v in range(of.max() + 1)]
    common = sum((table[group] > 0).any(axis=0).astype(int) for group in groups) > 1
    table = (table / table.sum(axis=1, keepdims=True))[:, common]
    return [(table[kept], draws[kept]) for group in groups if (kept := group[draws[group] > 0]).size] or [
        (table[:0], draws[:0])
    ]
