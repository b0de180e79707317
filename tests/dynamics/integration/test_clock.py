"""The variable of integration: time, or its logarithm."""

import pytest

from snapdyn.dynamics.integration.clock import Clock


@pytest.mark.parametrize("scale", [None, 0.1, 50.0])
@pytest.mark.parametrize("t", [0.0, 1e-8, 1.0, 1e12])
def test_time_survives_the_way_there_and_back(scale: float | None, t: float) -> None:
    """Assert t(tau(t)) = t: log1p and expm1 keep small times, and rounding of tau costs tau ulp."""
    clock = Clock(scale)
    assert clock.to_time(clock.from_time(t)) == pytest.approx(t, rel=1e-13, abs=0.0)
