"""Synthetic classes: Syn-Small, Syn-Medium, one common token, random classes."""

from collections.abc import Callable

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import random_classes, single_common_token, syn_small
from tests.dynamics.helpers import gram_by_hand


def test_syn_small_is_the_papers() -> None:
    """Assert ids, probabilities and V = 34 of Syn-Small."""
    classes = syn_small()
    assert classes.vocab_size == 34
    np.testing.assert_array_equal(classes.common_tokens(), np.arange(10))
    for n in range(2):
        own = np.arange(10, 20) + 10 * n
        np.testing.assert_array_equal(classes.distinct_tokens(n), own)
        weights = np.zeros(30)
        weights[:10], weights[own] = 1.0, np.linspace(0.1, 1.0, 10)
        np.testing.assert_allclose(classes.P.toarray()[n], weights / 15.5, rtol=1e-15)
    np.testing.assert_array_equal(classes.query, [30, 31])
    np.testing.assert_array_equal(classes.next_token, [32, 33])
    np.testing.assert_array_equal(classes.trivial_queries, [30, 31])
    np.testing.assert_array_equal(classes.prior, [0.5, 0.5])


@pytest.mark.parametrize("K", [2, 8])
@pytest.mark.parametrize("correlation", ["weak", "strong"])
def test_random_classes_are_on_the_asked_side(correlation: str, K: int) -> None:
    """Assert |lambda_1(E)| < 1/K for weak and >= 1/K for strong correlation, by plain numpy."""
    for seed in range(3):
        classes = random_classes(K, correlation=correlation, num_queries=2, uniform_prior=False, seed=seed)
        largest = np.abs(np.linalg.eigvalsh(gram_by_hand(classes, np.zeros((2, classes.num_tokens))) - np.eye(K))).max()
        assert bool(largest < 1 / K) is (correlation == "weak")
        np.testing.assert_array_equal(classes.query, np.arange(K) % 2)


@pytest.mark.parametrize("seed", [6, 8])
def test_strong_correlation_ends_or_is_refused(seed: int) -> None:
    """Assert that strong classes are found, or refused, also where the common profiles overlap by less than 1/K.

    With K = 2 these seeds draw two common profiles whose cosine is below 1/2, so no share of common tokens
    reaches |lambda_1| >= 1/2.
    """
    try:
        classes = random_classes(2, correlation="strong", seed=seed)
    except InputError as error:
        assert "strong" in str(error)  # noqa: PT017  (either outcome is right)
    else:
        assert abs(classes.eigenvalues()[0]) >= 0.5


def test_random_classes_follow_their_seed() -> None:
    """Assert that one seed gives one instance, another seed another, without touching the global generator."""
    # The old global generator is read, not used: it is what must stay as it is.
    before = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    assert random_classes(seed=3) == random_classes(seed=3)
    assert random_classes(seed=3) != random_classes(seed=4)
    after = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: single_common_token(3, 5, 1.0), "common_probability"),
        (lambda: single_common_token(3, 5, 0.1, 2), "vocab_size"),
        (lambda: random_classes(num_queries=9), "num_queries"),
        (lambda: random_classes(vocab_size=2), "vocab_size"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object], words: str) -> None:
    """Assert that impossible arguments raise one sentence, with a suggestion for a misspelt name."""
    with pytest.raises(InputError, match=words):
        call()
