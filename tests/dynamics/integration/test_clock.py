"""The variable of integration: time, or its logarithm."""

import numpy as np
import pytest

from snapdyn.dynamics.integration.clock import Clock
from tests.dynamics.integration.helpers import mean_field_system


@pytest.mark.parametrize("scale", [None, 0.1, 50.0])
@pytest.mark.parametrize("t", [0.0, 1e-8, 1.0, 1e12])
def test_time_survives_the_way_there_and_back(scale: float | None, t: float) -> None:
    """Assert t(tau(t)) = t: log1p and expm1 keep small times, and rounding of tau costs tau ulp."""
    clock = Clock(scale)
    assert clock.to_time(clock.from_time(t)) == pytest.approx(t, rel=1e-13, abs=0.0)


def test_derivative_is_that_of_the_composed_state() -> None:
    """Assert d(state)/dtau = (dt/dtau) d(state)/dt with dt/dtau = scale + t."""
    system, clock = mean_field_system(), Clock(2.0)
    state = np.random.default_rng(0).normal(size=system.size)
    t = 3.0
    in_time = system.derivative(t, state).copy()
    np.testing.assert_allclose(clock.derivative(system)(clock.from_time(t), state), (2.0 + t) * in_time, rtol=1e-14)
    np.testing.assert_array_equal(Clock(None).derivative(system)(t, state), in_time)
