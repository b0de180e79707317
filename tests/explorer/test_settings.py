"""Settings of the explorer and the steps of its sliders."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.errors import InputError
from snapdyn.explorer.settings import (
    NUM_DISTINCT,
    NUM_OVERLAPS,
    STEPS,
    Settings,
    nearest,
    overlap_steps,
    reachable_overlaps,
)


@pytest.mark.parametrize("common_probability", [0.001, 0.05, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("place", [1e-4, 0.3, 0.9999])
def test_classes_have_what_was_asked_for(common_probability: float, place: float) -> None:
    """Assert f_n.f_k from the dense table P, its row sums, and one dominant token, over all that can be reached."""
    low, high = reachable_overlaps(common_probability)
    overlap = low + place * (high - low)
    settings = Settings(3, 50, common_probability, overlap)
    P = settings.classes.P.toarray()
    f = P / np.linalg.norm(P, axis=1, keepdims=True)
    assert (f @ f.T)[np.triu_indices(3, 1)] == pytest.approx([overlap] * 3, rel=1e-9)
    assert P.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-12)
    assert P[:, 0] == pytest.approx([common_probability] * 3)
    distinct = P[0, 1 : 1 + NUM_DISTINCT]
    assert distinct[0] == distinct.max()
    assert np.ptp(distinct[1:]) == 0
    assert (distinct > 0).all()


@pytest.mark.parametrize("D", [1, NUM_DISTINCT])
def test_bounds_are_those_of_one_token_and_of_equal_tokens(D: int) -> None:
    """Assert the lowest overlap with one distinct token, and the highest with 20 equal ones, from dense vectors."""
    first, second = np.zeros((2, 1 + 2 * D))
    first[0] = second[0] = 0.3
    first[1 : 1 + D] = second[1 + D :] = 0.7 / D
    overlap = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    assert reachable_overlaps(0.3)[0 if D == 1 else 1] == pytest.approx(overlap)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 1}, "num_classes"),
        ({"num_classes": 1001}, r"whole number in 2\.\.1000"),
        ({"vocab_size": 9}, "vocab_size"),
        ({"num_classes": 2, "vocab_size": 3}, "at least 4"),
        ({"common_probability": 0.0}, "common_probability"),
        ({"common_probability": 0.9995}, "from 0.001 to 0.999"),
        ({"overlap": 0.15}, "overlap between 0.155 and 0.786"),
        ({"overlap": 0.8}, "overlap between 0.155 and 0.786"),
        ({"eta_Y": 0.0}, "eta_Y"),
        ({"eta_Z": -1.0}, "eta_Z"),
        ({"eta_Z": 101.0}, "K eta_Z/eta_Y of at most 1000"),
        ({"seq_len": 0}, "seq_len"),
        ({"num_classes": 101, "seq_len": 1000}, "at most 100 classes with finite sequences"),
    ],
)
def test_a_setting_out_of_range_is_refused(changes: dict[str, float], message: str) -> None:
    """Assert one sentence for each setting beyond its bounds."""
    with pytest.raises(InputError, match=message):
        Settings(**changes)  # type: ignore[arg-type]


def test_settings_at_the_bounds_are_accepted() -> None:
    """Assert the largest numbers of classes and the fastest attention."""
    assert Settings(num_classes=1000).seq_len is None
    assert Settings(num_classes=100, seq_len=1000).seq_len == 1000
    assert Settings(eta_Z=100.0).eta_Z == 100.0


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
