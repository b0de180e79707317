"""Claims on concentration: counts of batch-size-1 steps, against references that share no code."""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import random_classes
from snapdyn.validation.claims.concentration import lemma10_18, theorem5_corollary1
from snapdyn.validation.claims.concentration._shared import DELTAS, below, order_of_theta, outside, tail
from snapdyn.validation.claims.decoder._shared import (
    single_token_classes,
)
from snapdyn.validation.search.instance import Instance


@pytest.mark.parametrize(("draws", "numerator"), [(1, 1), (7, 3), (20, 1), (41, 9), (3, 10)])
def test_tail_is_the_binomial_sum(draws: int, numerator: int) -> None:
    """Assert that P(|X - pN| > d) is the sum of exact binomial masses, at d between and on whole deviations."""
    p = Fraction(numerator, 10)
    for d in (Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(7)):
        mass = sum(
            math.comb(draws, k) * p**k * (1 - p) ** (draws - k)
            for k in range(draws + 1)
            if abs(k - p * draws) > d + Fraction(1, 10**9)
        )
        assert float(tail(draws, float(p), float(d) + 1e-9)) == pytest.approx(float(mass), rel=1e-10, abs=1e-15)


@pytest.mark.parametrize(
    ("count", "draws", "p"), [(39, 1_962_712_800, 4.2e-5), (39, 1_962_712_800, 2e-8), (6, 2_100_689_465, 3.19e-9)]
)
def test_a_chance_is_the_sum_of_its_masses_at_many_draws(count: int, draws: int, p: float) -> None:
    """Assert P(X < count) by the sum of masses at 50 digits, where scipy's binomial law gives NaN or errs by 1e-7."""
    with mpmath.workdps(50):
        mass = mpmath.fsum(mpmath.binomial(draws, k) * p**k * (1 - mpmath.mpf(p)) ** (draws - k) for k in range(count))
        # P(X > count - 1) is the rest; below 1e-300 both are 0 and 1.
        assert float(below(count, draws, p)) == pytest.approx(float(mass), rel=1e-9, abs=1e-300)
        assert float(outside(-1, count - 1, draws, p)) == pytest.approx(float(1 - mass), rel=1e-9, abs=1e-300)


def test_counts_are_read_off_the_logits_of_sgd() -> None:
    """Assert counts that add up to N, and a mean within 5 standard errors of p_n N for unequal priors."""
    counts = lemma10_18.counts_of_visits(40)
    assert (counts.sum(axis=1) == 40).all()
    error = np.sqrt(40 * lemma10_18.PRIOR * (1 - lemma10_18.PRIOR) / len(counts))
    assert (np.abs(counts.mean(axis=0) - 40 * lemma10_18.PRIOR) < 5 * error).all()


def _three_classes(eta_Y: float, t_end: float, **other: Any) -> Instance:
    classes = random_classes(3, 2, 3, vocab_size=12, correlation="strong", seed=9)
    return Instance.of(classes, eta_Y, 1e-3, t_end, **other)


def test_theorem_5_is_exact_with_the_true_counts() -> None:
    """Assert Y = F (I - E')(I + Theta) Wbar after whole modified steps, and that no E' is rejected."""
    instance = _three_classes(0.8, 120.0)
    f, Y, counts = theorem5_corollary1.modified_steps(instance)
    assert counts.sum() == 120
    assert theorem5_corollary1.distance_from_form(instance).holds
    assert not theorem5_corollary1.distance_from_form(instance, mixed=False).holds
    # Rows of W = F^T Y are (V-1) h*(N_n) zeta_n, each by a plain loop over its own visits.
    W = f @ Y
    for n in range(3):
        h_star = 0.0
        for _ in range(int(counts[n])):
            h_star += 0.8 / (11 + math.exp(12 * h_star))
        assert W[n, n] == pytest.approx(11 * h_star, rel=1e-11)
        assert np.delete(W[n], n) == pytest.approx(np.full(3, -h_star), rel=1e-10)


def test_chance_of_theta_is_that_of_drawn_counts() -> None:
    """Assert P(|theta_n| > 0.005) of four classes by 20,000 draws of the counts, to five standard errors."""
    K, N, V, eta = 4, 4000, 50, 0.5
    instance = Instance.of(single_token_classes(K, V), eta, 1.0, N)
    order = np.full((len(DELTAS), K), 10.0)
    order[0] = 0.005 / order_of_theta(instance)[0]
    chance = theorem5_corollary1.chance_of_theta(instance, order).value * DELTAS[0, 0] / K
    counts = np.random.default_rng(2).binomial(N, 1 / K, size=20_000)
    theta = np.abs(analytic.discrete_h(N, eta, V)[counts] / analytic.h(N / K, eta, V) - 1)
    assert 0.01 < chance < 0.5
    assert (theta > 0.005).mean() == pytest.approx(chance, abs=5 * math.sqrt(chance / 20_000))
