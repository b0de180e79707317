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
