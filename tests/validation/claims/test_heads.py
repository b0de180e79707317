"""Heads as starts: the winners by plain descent, and the expected number of different ones by drawing."""

import numpy as np
import pytest

from snapdyn.validation.claims.extensions import heads
from snapdyn.validation.claims.sample_classes import three_frequencies
from snapdyn.validation.search.instance import Instance
from tests.validation.claims.helpers import dense, trained


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_expected_diversity_by_drawing(spread: float) -> None:
    """Assert mean and variance of the number of winners against 20,000 draws of normal exponential races."""
    P, rng = np.array([0.5, 0.3, 0.15, 0.05]), np.random.default_rng(4)
    mean, variance = heads.expected_diversity(P, spread, 6)
    # -ln of an exponential number is a Gumbel one.
    logits = np.log(P) - spread * np.log(rng.exponential(size=(20_000, 6, 4)))
    winners = logits.argmax(axis=2)
    drawn = np.array([[(winners == l).any(axis=1)] for l in range(4)]).sum(axis=(0, 1))
    assert mean == pytest.approx(drawn.mean(), abs=5 * drawn.std() / 20_000**0.5)
    assert variance == pytest.approx(drawn.var(), rel=0.05)


def test_equal_starts_give_one_token() -> None:
    """Assert a diversity of 1 without spread, in the run and in the law's limit."""
    assert heads.mean_diversity(0.0) == 1.0
    mean, _ = heads.expected_diversity(np.array([0.4, 0.2, 0.1]), 1e-3, 8)
    assert mean == pytest.approx(1.0)


def test_winners_by_plain_descent() -> None:
    """Assert that plain steps from random starts leave ahead the token of the largest P exp(z(0))."""
    classes = three_frequencies()
    P = classes.P.toarray()
    instance = Instance.of(classes, 1.0, 1.0, 100.0)
    won = []
    for start in heads.random_starts(instance, 1.0, 4)[:, 0]:
        weights = P * np.exp(start)
        _, z = trained(dense(classes, weights), 500, 0.2)
        assert np.abs(z).max() > 0.01
        own = np.where((P > 0).sum(axis=0) == 1, weights, 0.0)
        won.append((own * np.exp(z)).argmax(axis=1))
        np.testing.assert_array_equal(won[-1], own.argmax(axis=1))
    assert len({tuple(tokens) for tokens in won}) > 1
    found = heads.wrong_diversity(instance)
    assert found.value == 0.0
