"""Functions of balls enclose their ranges and stay close to them."""

from collections.abc import Callable
from typing import Any

import flint
import mpmath as mp
import pytest

from snapdyn.analytic.certificates import balls


def moment(weight: Callable[[mp.mpf], mp.mpf], u: float) -> mp.mpf:
    """Integral of weight(t) exp(u t) over [0, 1], by quadrature."""
    return mp.quad(lambda t: weight(t) * mp.exp(u * t), mp.linspace(0, 1, 9))


FUNCTIONS = {
    "expm1_ratio": lambda t: mp.mpf(1),
    "expm1_excess": lambda t: 1 - t,
    "exp_moment": lambda t: t,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("low", "high"), [(-40.0, -3.0), (-1e-3, 2.0), (0.0, 5.0), (1e-15, 1e-8), (3.0, 40.0)])
def test_a_ball_spans_the_values_at_the_ends(name: str, low: float, high: float) -> None:
    """Assert that the ball holds the integral at both ends and in the middle, and hardly more."""
    function: Callable[[Any], Any] = getattr(balls, name)
    with mp.workdps(40), flint.ctx.workprec(192):
        ball = function(flint.arb(low).union(flint.arb(high)))
        ends = [moment(FUNCTIONS[name], u) for u in (low, high)]
        for value in (*ends, moment(FUNCTIONS[name], (low + high) / 2)):
            assert ball.contains(flint.arb(mp.nstr(value, 30), abs(float(value)) * 1e-25))
        # Radii of balls have 30 bits.
        assert float(ball.rad()) <= (ends[1] - ends[0]) / 2 * (1 + 1e-7) + 1e-7 * ends[0]


@pytest.mark.parametrize(("name", "value"), [("expm1_ratio", 1.0), ("expm1_excess", 0.5), ("exp_moment", 0.5)])
def test_the_value_at_0_is_the_limit(name: str, value: float) -> None:
    """Assert the limits 1 and 1/2 at u = 0 exactly."""
    assert getattr(balls, name)(flint.arb(0)) == value
