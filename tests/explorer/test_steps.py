"""Steps of the sliders: every combination is possible, or is refused in one sentence."""

import pytest

from snapdyn.explorer.settings import NUM_OVERLAPS, STEPS, Settings, nearest, overlap_steps, reachable_overlaps


@pytest.mark.parametrize("common_probability", STEPS["common_probability"])
def test_every_overlap_step_is_possible(common_probability: float) -> None:
    """Assert rising steps strictly within the bounds, each accepted by the settings."""
    steps = overlap_steps(common_probability)
    low, high = reachable_overlaps(common_probability)
    assert len(set(steps)) == NUM_OVERLAPS
    assert sorted(steps) == steps
    assert low < steps[0] < steps[-1] < high
    for overlap in steps:
        assert Settings(common_probability=common_probability, overlap=overlap).overlap == overlap


@pytest.mark.parametrize("name", STEPS)
def test_steps_rise(name: str) -> None:
    """Assert that a slider goes from small to large."""
    assert list(STEPS[name]) == sorted(set(STEPS[name]))


def test_nearest_step() -> None:
    """Assert the nearest step inside and outside of the range."""
    assert [nearest([1.0, 2.0, 4.0], value) for value in (0.0, 1.4, 2.9, 3.1, 9.0)] == [1.0, 1.0, 2.0, 4.0, 4.0]
