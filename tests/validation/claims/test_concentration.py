"""Counts of batch-size-1 steps, the discrete decoder and its lag: helpers against references that share no code."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, random_classes
from snapdyn.validation.claims.concentration import lemma10, lemma12, theorem5
from snapdyn.validation.claims.concentration._shared import DELTAS, MOST_STEPS, order_of_theta, tail
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.visits import (
    WHOLE_VISITS,
    WholeVisits,
    discrete_logits,
    log_error,
    single_token_classes,
    visits_of,
)


@pytest.mark.parametrize(("draws", "numerator"), [(1, 1), (7, 3), (20, 1), (41, 9)])
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


@pytest.mark.kernel
@pytest.mark.parametrize(("V", "eta"), [(2, 3.0), (10, 0.3), (1000, 1.0)])
def test_compensated_recursion_is_the_recursion(V: int, eta: float) -> None:
    """Assert that u = V h* after 1, 5 and 400 visits is that of 30-digit arithmetic, to the last digits."""
    visits = np.array([0, 1, 5, 400])
    with mpmath.workdps(30):
        u, reference = mpmath.mpf(0), []
        for step in range(401):
            if step in visits:
                reference.append(float(u))
            u += V * mpmath.mpf(eta) / (V - 1 + mpmath.exp(u))
    assert discrete_logits(float(V), eta, visits) == pytest.approx(reference, rel=1e-15, abs=0)


def test_visits_invert_h() -> None:
    """Assert that visits_of(V h(s)) = s, early and late."""
    s = 10.0 ** np.arange(-6, 13)
    u = 1000 * analytic.h(s, 0.7, 1000)
    # u has a rounding of 1e-16 u, which moves exp(u) by 1e-16 u.
    assert visits_of(u, 0.7, 1000) == pytest.approx(s, rel=1e-13)


@pytest.mark.parametrize(("V", "eta"), [(2.0, 1.0), (1000.0, 0.3)])
def test_lag_by_its_integral_is_the_recursions(V: float, eta: float) -> None:
    """Assert that X(s) of the integral from s = 4000 on is that of the recursion at s = 1e5."""
    s = 100_000
    u = discrete_logits(V, eta, np.array([s]))
    recursion = float(visits_of(u, eta, V)[0]) - s
    integral = float(WholeVisits.of(eta, V).lag(u)[0])
    # Rounding of u times s, and 1/(24 WHOLE_VISITS^2) of the Euler-Maclaurin sum.
    assert integral == pytest.approx(recursion, abs=4e-16 * s * u[0] + 4e-9)
    # Wrong theory: Remark 2's constant gap has a lag that does not grow.
    start = float(visits_of(discrete_logits(V, eta, np.array([10_000])), eta, V)[0]) - 10_000
    assert integral - start > 1.1


def test_counts_are_read_off_the_logits_of_sgd() -> None:
    """Assert counts that add up to N, and a mean within 5 standard errors of p_n N for unequal priors."""
    counts = lemma10.trained_counts(40)
    assert (counts.sum(axis=1) == 40).all()
    error = np.sqrt(40 * lemma10.PRIOR * (1 - lemma10.PRIOR) / len(counts))
    assert (np.abs(counts.mean(axis=0) - 40 * lemma10.PRIOR) < 5 * error).all()


@pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 17),
    reason="the incomplete beta function of scipy before 1.17 errs by 2.5 % at 1e15 draws",
)
def test_tail_at_many_draws_is_the_normal_law() -> None:
    """Assert that P(|X - N/2| > 6 sd) of 1e15 draws is 2 Phi(-6) to the next order, 1/sqrt(N)."""
    N, deviation = float(MOST_STEPS), 6 * math.sqrt(MOST_STEPS) / 2
    assert float(tail(N, 0.5, deviation)) == pytest.approx(2 * float(mpmath.ncdf(-6)), rel=1e-6)


@pytest.mark.kernel
@pytest.mark.parametrize(("V", "eta"), [(2, 1.0), (1000, 0.3), (10**12, 5.0), (10**12, 1e-6), (10**6, 30.0)])
def test_late_whole_visits_are_the_recursion(V: int, eta: float) -> None:
    """Assert that V h* beyond the table, from its lag, is the recursion's, and that `visits` inverts it."""
    visits = np.array([3, WHOLE_VISITS, WHOLE_VISITS + 1, 300_000])
    reference = discrete_logits(float(V), eta, visits)
    decoder = WholeVisits.of(eta, V)
    assert decoder.logits(visits) == pytest.approx(reference, rel=1e-13, abs=0)
    assert decoder.visits(reference) == pytest.approx(visits, rel=1e-12)
    # Wrong theory: no lag. The flow is behind by its lag, the more the larger the rate.
    if eta >= 0.3:
        assert (V * analytic.h(visits.astype(float), eta, V) < reference).all()


def test_log_error_is_that_of_the_norm() -> None:
    """Assert ln(V/(V-1+exp(V h))) against the error norm, early and late."""
    s = 10.0 ** np.arange(-3, 12)
    norm = analytic.error_norm(s, 0.7, 1000) / math.sqrt(1 - 1 / 1000)
    assert log_error(1000 * analytic.h(s, 0.7, 1000), 1000) == pytest.approx(np.log(norm), rel=1e-9, abs=1e-12)


def _three_classes(eta_Y: float, t_end: float, **other: Any) -> Instance:
    classes = random_classes(3, 2, 3, vocab_size=12, correlation="strong", seed=9)
    return Instance.of(classes, eta_Y, 1e-3, t_end, **other)


def test_theorem_5_is_exact_with_the_true_counts() -> None:
    """Assert Y = F (I - E')(I + Theta) Wbar after whole modified steps, and that no E' is rejected."""
    instance = _three_classes(0.8, 120.0)
    f, Y, counts = theorem5.modified_steps(instance)
    assert counts.sum() == 120
    assert theorem5.distance_from_form(instance).holds
    assert not theorem5.distance_from_form(instance, mixed=False).holds
    # Rows of W = F^T Y are (V-1) h*(N_n) zeta_n, each by a plain loop over its own visits.
    W = f @ Y
    for n in range(3):
        h_star = 0.0
        for _ in range(int(counts[n])):
            h_star += 0.8 / (11 + math.exp(12 * h_star))
        assert W[n, n] == pytest.approx(11 * h_star, rel=1e-11)
        assert np.delete(W[n], n) == pytest.approx(np.full(3, -h_star), rel=1e-10)


def test_large_rates_overshoot_the_order_of_theta() -> None:
    """Assert both sides of eta_Y = 3.155, at which theta of V = 2 after one step reaches sqrt(ln 2)."""
    for eta_Y, holds in ((3.15, True), (3.16, False)):
        instance = Instance.of(SequenceClasses(np.ones((1, 1)), [0], vocab_size=2), eta_Y, 1.0, 1.0)
        assert lemma12.theta_at_extremes(instance).holds is holds


def test_chance_of_theta_is_that_of_drawn_counts() -> None:
    """Assert P(|theta_n| > 0.005) of four classes by 20,000 draws of the counts, to five standard errors."""
    K, N, V, eta = 4, 4000, 50, 0.5
    instance = Instance.of(single_token_classes(K, V), eta, 1.0, N)
    order = np.full((len(DELTAS), K), 10.0)
    order[0] = 0.005 / order_of_theta(instance)[0]
    chance = theorem5.chance_of_theta(instance, order).value * DELTAS[0, 0] / K
    counts = np.random.default_rng(2).binomial(N, 1 / K, size=20_000)
    theta = np.abs(analytic.discrete_h(N, eta, V)[counts] / analytic.h(N / K, eta, V) - 1)
    assert 0.01 < chance < 0.5
    assert (theta > 0.005).mean() == pytest.approx(chance, abs=5 * math.sqrt(chance / 20_000))
