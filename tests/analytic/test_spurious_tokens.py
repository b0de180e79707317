"""The number of spurious distinct tokens: enumeration, 50 digits, and draws of data sets."""

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse

from snapdyn import analytic, dynamics
from snapdyn.core.errors import InputError


def enumerated(P: list[list[Fraction]], next_token: list[int], draws: list[int]) -> tuple[Fraction, Fraction, Fraction]:
    """Mean and variance of the number, and the share of places that hold one, over all outcomes of tokens, exact."""
    tokens = range(len(P[0]))
    places = [n for n, number in enumerate(draws) for _ in range(number)]
    owners = [{v for row, v in zip(P, next_token, strict=True) if row[l]} for l in tokens]
    mean = square = share_of_places = Fraction(0)
    for drawn in product(tokens, repeat=len(places)):
        probability = prod(P[n][l] for n, l in zip(places, drawn, strict=True))
        if probability:
            found = [{next_token[n] for n, l in zip(places, drawn, strict=True) if l == at} for at in tokens]
            spurious = [len(found[l]) == 1 and len(owners[l]) > 1 for l in tokens]
            number = sum(spurious)
            share_of_places += probability * sum(spurious[l] for l in drawn) / len(places)
            mean, square = mean + probability * number, square + probability * number**2
    return mean, square - mean**2, share_of_places


def shares(*rows: list[int]) -> list[list[Fraction]]:
    """Rows of probabilities in the proportions of whole numbers."""
    return [[Fraction(x, sum(row)) for x in row] for row in rows]


TINY: dict[str, tuple[list[list[Fraction]], list[int], list[int], int]] = {
    "two classes": (shares([1, 2, 3, 0], [2, 1, 0, 1]), [0, 1], [1, 1], 3),
    "three classes, unequal numbers": (shares([1, 1, 2], [3, 1, 1], [1, 4, 0]), [0, 1, 2], [2, 1, 3], 1),
    "two classes of one next token": (shares([1, 1, 2], [3, 1, 1], [1, 4, 1]), [4, 4, 2], [1, 2, 1], 2),
    "a token of probability 1": (shares([1, 0, 0], [1, 2, 1], [0, 2, 1]), [0, 1, 2], [1, 1, 1], 2),
    "a class without sequences": (shares([1, 1], [1, 1], [1, 3]), [0, 1, 2], [2, 0, 1], 1),
}


@pytest.mark.parametrize("name", TINY)
def test_number_and_attention_by_enumeration(name: str) -> None:
    """Assert mean, variance, and attention at z = 0, where each place counts alike, against sums over all outcomes.

    The sums are in fractions; a factor of 1.01 would be seen.
    """
    P, next_token, sequences, T = TINY[name]
    mean, variance, attention = enumerated(P, next_token, [N * T for N in sequences])
    arguments: tuple[Any, ...] = (np.array(P, dtype=float), next_token, sequences, T)
    assert mean > 0.1
    assert variance > 0.01
    assert analytic.expected_spurious(*arguments) == pytest.approx(float(mean), rel=1e-13)
    assert analytic.variance_of_spurious(*arguments) == pytest.approx(float(variance), rel=1e-12)
    assert analytic.expected_spurious_attention(*arguments) == pytest.approx(float(attention), rel=1e-13)
    assert abs(attention / (mean / len(P[0])) - 1) > 0.02  # not the number's share of the tokens


@pytest.mark.parametrize("N", [1, 30, 1000])
def test_mean_keeps_its_digits_where_it_is_tiny(N: int) -> None:
    """Assert the mean within 1e-11 of 50 digits, for shares down to 1e-9 and numbers down to 1e-40."""
    rng = np.random.default_rng(1)
    P = 10.0 ** rng.uniform(-9, 0, (5, 12))
    P /= P.sum(axis=1, keepdims=True)
    with mp.workdps(50):
        q = [[1 - (1 - mp.mpf(x)) ** (N * 40) for x in row] for row in P.tolist()]
        mean = sum(q[n][l] * mp.fprod(1 - q[k][l] for k in range(5) if k != n) for n in range(5) for l in range(12))
    assert analytic.expected_spurious(P, np.arange(5), N, 40) == pytest.approx(float(mean), rel=1e-11)


@pytest.mark.parametrize(("N", "T"), [(1, 3), (4, 20), (20, 5)])
def test_mean_and_variance_by_draws(N: int, T: int) -> None:
    """Assert both numbers within 4 standard errors of 1500 data sets: over 12 comparisons a chance of 8e-4."""
    classes = dynamics.random_classes(4, 15, 3, num_queries=2, seed=2)
    numbers = np.array([len(dynamics.data_set(classes, N, T, seed=seed).spurious) for seed in range(1500)])
    arguments = (classes.P, classes.next_token, N, T)
    mean, variance = analytic.expected_spurious(*arguments), analytic.variance_of_spurious(*arguments)
    n, deviations = numbers.size, (numbers - numbers.mean()) ** 2
    error, error_of_variance = numbers.std() / np.sqrt(n), deviations.std() / np.sqrt(n)
    assert abs(numbers.mean() - mean) < 4 * error
    assert abs(deviations.mean() - variance) < 4 * error_of_variance
    # The checks can fail: the token absent from its own class too, or the covariances left out.
    table = classes.P.toarray()
    absent = (1 - table[:, (table > 0).sum(axis=0) > 1]) ** (N * T)
    each = ((1 - absent) / absent).sum(axis=0) * absent.prod(axis=0)
    assert each.sum() == pytest.approx(mean, rel=1e-9)
    assert abs(numbers.mean() - ((1 - absent).sum(axis=0) * absent.prod(axis=0)).sum()) > 4 * error
    if N == 1:  # a short sequence cannot hold all tokens
        assert abs(deviations.mean() - (each * (1 - each)).sum()) > 4 * error_of_variance


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"P": [[0.5, 0.4]]}, "sum to 1"),
        ({"P": [0.5, 0.5]}, "shape"),
        ({"P": sparse.csr_array(([1.0, 1.0], [0, 10**8], [0, 1, 2]), shape=(2, 2))}, "indices of sparse P"),
        ({"next_token": [0]}, "next_token"),
        ({"sequences": [1, 2, 3]}, "sequences of shape (2,)"),
        ({"sequences": -1}, "sequences"),
        ({"seq_len": 0}, "seq_len"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(given: dict[str, Any], fault: str) -> None:
    """Assert one sentence that names the fault, of both functions."""
    arguments = {"P": [[0.5, 0.5], [0.5, 0.5]], "next_token": [0, 1], "sequences": 1, "seq_len": 2} | given
    for function in (analytic.expected_spurious, analytic.variance_of_spurious):
        with pytest.raises(InputError) as error:
            function(**arguments)
        assert fault in str(error.value)
