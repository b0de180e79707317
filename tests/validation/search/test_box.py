"""Boxes of parameters: what they draw."""

import numpy as np

from snapdyn.validation import Box


def test_ranges_that_are_wide_whole_or_logarithmic() -> None:
    """Assert finite draws, whole numbers uniform in the logarithm, and integers of numpy as whole ends."""
    for box in (Box(x=(1e-300, 1e300, "log")), Box(x=(-1e308, 1.5e308))):
        assert all(np.isfinite(box.draw(1, i)["x"]) for i in range(20))
    drawn = [Box(K=(np.int64(2), 10**9, "log")).draw(1, i)["K"] for i in range(200)]
    assert sum(K < 10**4 for K in drawn) > 40
    assert all(isinstance(K, int) for K in drawn)


def test_corners_are_those_of_all_ranges_and_of_faces() -> None:
    """Assert that half of the corners have every number at an end, and the others some."""
    box = Box(a=(0.0, 1.0), b=(1.0, 2.0), c=(2, 9), d=(1e-3, 1.0, "log"))
    at_ends = [
        sum(np.isclose(corner[name], [range_.low, range_.high]).any() for name, range_ in box.ranges.items())
        for corner in box.corners(1, 32)
    ]
    assert len(at_ends) == 32
    assert at_ends[:16] == [4] * 16
    assert {1, 2, 3} <= set(at_ends[16:])
