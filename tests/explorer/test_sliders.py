"""Settings of the explorer and the steps of its sliders."""

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.explorer.sliders import (
    NUM_DISTINCT,
    NUM_OVERLAPS,
    STEPS,
    Settings,
    nearest,
    overlap_steps,
    reachable_overlaps,
)


@pytest.mark.parametrize("common_probability", [0.001, 0.3, 0.999])
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
    # One distinct token has the lowest overlap, 20 equal ones the highest.
    c, d = common_probability, 1 - common_probability
    assert (low, high) == pytest.approx((c**2 / (c**2 + d**2), c**2 / (c**2 + d**2 / NUM_DISTINCT)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overlap": 0.8}, "overlap to be a finite number above 0.155172 and below 0.786026"),
        ({"eta_Z": 101.0}, "K eta_Z/eta_Y of at most 1000"),
        ({"num_classes": 101, "seq_len": 1000}, "at most 100 classes with finite sequences"),
    ],
)
def test_a_setting_out_of_range_is_refused(changes: dict[str, float], message: str) -> None:
    """Assert one sentence for each setting beyond its bounds, and that the bounds themselves are accepted."""
    with pytest.raises(InputError, match=message):
        Settings(**changes)  # type: ignore[arg-type]
    assert Settings(num_classes=500).seq_len is None
    assert Settings(num_classes=100, seq_len=1000, eta_Z=1.0).seq_len == 1000
    assert Settings(eta_Z=100.0).eta_Z == 100.0


def test_steps_of_sliders() -> None:
    """Assert that steps rise, that each overlap is strictly within its bounds and accepted, and the nearest step."""
    assert all(list(steps) == sorted(set(steps)) for steps in STEPS.values())
    for common_probability in STEPS["common_probability"]:
        steps = overlap_steps(common_probability)
        low, high = reachable_overlaps(common_probability)
        assert sorted(set(steps)) == steps
        assert len(steps) == NUM_OVERLAPS
        assert low < steps[0] < steps[-1] < high
        assert [Settings(common_probability=common_probability, overlap=each).overlap for each in steps] == steps
    assert [nearest([1.0, 2.0, 4.0], value) for value in (0.0, 1.4, 2.9, 3.1, 9.0)] == [1.0, 1.0, 2.0, 4.0, 4.0]
