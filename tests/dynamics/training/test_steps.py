"""Steps: the clock of SGD with momentum and a schedule, and what is refused as a schedule."""

from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import momentum_clock
from snapdyn.dynamics.training.steps import checked_schedule


@pytest.mark.parametrize("schedule", [None, np.random.default_rng(0).uniform(0, 2, 200)], ids=["constant", "changing"])
@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.99])
def test_clock_is_how_far_heavy_ball_goes(momentum: float, schedule: Any) -> None:
    """Assert the clock against the recursion v <- mu v + 1, x <- x + m v, and a half of the last step."""
    velocity, positions = 0.0, [0.0]
    for multiplier in np.ones(200) if schedule is None else schedule:
        velocity = momentum * velocity + 1.0
        positions.append(positions[-1] + multiplier * velocity)
    np.testing.assert_allclose(momentum_clock(np.arange(201), momentum, schedule), positions, rtol=1e-12, atol=1e-12)
    if schedule is not None:
        half = momentum_clock([199.5], momentum, schedule)
        np.testing.assert_allclose(half, [np.mean(positions[-2:])], rtol=1e-12)
        with pytest.raises(InputError, match="steps from 0 to 200"):
            momentum_clock([201], momentum, schedule)


def test_a_schedule_is_an_array_a_function_of_the_steps_or_a_number() -> None:
    """Assert the values of each, and None for a schedule of ones, which is no schedule."""
    np.testing.assert_array_equal(checked_schedule([0, 1, 2], 3), [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(checked_schedule(lambda i: np.minimum(1, i / 2), 4), [0.0, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(checked_schedule([0, 1, 2], 2, longer=True), [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(checked_schedule(np.float32(0.5), 2), [0.5, 0.5])
    assert checked_schedule(np.ones(3), 3) is None is checked_schedule(1, 3)


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ([1, 2], r"shape \(3,\), received \(2,\)"),
        ([1, 2, 3, 4], r"shape \(3,\), received \(4,\)"),
        ([[1, 2, 3]], r"received \(1, 3\)"),
        (0, "positive"),
        (lambda i: 0.5, r"received \(\)"),
        (lambda i: min(1, i / 2), "ValueError.*numpy"),
        (lambda: 1, "TypeError"),
        ([1, -1, 1], "at least 0, received -1"),
        ([1, np.nan, 1], "received nan"),
        (lambda i: 1 / i, "received inf"),
        ("cosine", "schedule"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_wrong_schedules_are_refused(schedule: Any, sentence: str) -> None:
    """Assert one sentence per fault."""
    with pytest.raises(InputError, match=sentence) as error:
        checked_schedule(schedule, 3)
    assert "\n" not in str(error.value)
