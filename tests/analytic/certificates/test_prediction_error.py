"""Corollary 1 in whole visits of the recursion, with its condition on eta_Y; the wrong conditions fail."""

import math

import flint
import mpmath as mp
import numpy as np
import pytest

from snapdyn.analytic.certificates.prediction_error import POINTS, scaled_visits_to
from tests.analytic.certificates.helpers import failure, points
from tests.analytic.mpmath_reference import DIGITS, scaled_h


def first_visit(V: float, eta_Y: float, eps: float) -> int:
    """Visits of (33) after which the error is at most eps, step by step."""
    u, count = 0.0, 0
    while math.sqrt(V * (V - 1)) / (V - 1 + math.exp(min(u, 700.0))) > eps:
        u += V * eta_Y / (V - 1 + math.exp(min(u, 700.0)))
        count += 1
    return count


def test_the_closed_time_reaches_the_error() -> None:
    """Assert at 50 digits that h at the closed time has the error eps."""
    with mp.workdps(DIGITS), flint.ctx.workprec(192):
        for V, eps in points(40, 1, *POINTS.values()):
            s = mp.mpf(scaled_visits_to(flint.arb(float(V)), flint.arb(float(eps))).mid().str(50, radius=False))
            u = scaled_h(s, 1, V)
            assert mp.sqrt(V * (V - 1)) / (V - 1 + mp.exp(u)) == pytest.approx(eps, rel=1e-20)


@pytest.mark.slow
def test_whole_visits_meet_the_printed_time_up_to_the_stated_rate_only() -> None:
    """Assert the printed time, constant 1, for rates up to ln(V/eps)/eps, and its failure 1 % above."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        V, eps = float(np.round(2 * 10 ** rng.uniform(0, 11))), 0.5 * 10 ** rng.uniform(-3, 0)
        limit = math.log(V / eps) / eps
        one_visit = math.log(math.sqrt(V * (V - 1)) / eps - (V - 1))
        # Rates just below ln(y)/k need k + 1 visits where h* hardly leads h.
        for eta_Y in (limit, limit * 10 ** -rng.uniform(0, 3), 0.999 * one_visit, 0.499 * one_visit):
            assert first_visit(V, eta_Y, eps) <= limit / eta_Y * (1 + 1e-12)
        assert first_visit(V, 1.01 * limit, eps) == 1 > limit / (1.01 * limit)


def test_large_rates_miss_the_printed_time() -> None:
    """Assert that eta_Y = 1000 needs one visit where the printed time is below a hundredth of one."""
    assert first_visit(2, 1000.0, 0.5) == 1
    assert math.log(2 / 0.5) / (0.5 * 1000) < 0.01


def test_wrong_conditions_fail_where_the_prover_says() -> None:
    """Assert that whole visits exceed the printed time at the found rate, and 1/(eps eta_Y) without the logarithm."""
    at = {name: float(value) for name, value in failure("corollary1-time", "no condition on eta_Y").items()}
    assert first_visit(**at) > math.log(at["V"] / at["eps"]) / (at["eps"] * at["eta_Y"])
    at = {name: float(value) for name, value in failure("corollary1-time", "without the logarithm").items()}
    assert first_visit(**at, eta_Y=0.01) > 1 / (at["eps"] * 0.01)
