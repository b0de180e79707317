"""Numbers of steps: the clock of SGD with momentum."""

import numpy as np
import pytest

from snapdyn.dynamics import momentum_clock


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.99])
def test_clock_is_how_far_heavy_ball_goes(momentum: float) -> None:
    """Assert the clock against the recursion v <- mu v + 1, x <- x + v."""
    velocity, position, positions = 0.0, 0.0, [0.0]
    for _ in range(200):
        velocity = momentum * velocity + 1.0
        position += velocity
        positions.append(position)
    np.testing.assert_allclose(momentum_clock(np.arange(201), momentum), positions, rtol=1e-12, atol=1e-12)
