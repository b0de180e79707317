"""Pictures and maps."""

import numpy as np

from snapdyn.validation.pictures import Map


def test_a_map_has_a_row_per_y_and_nan_for_no_number() -> None:
    """Assert the order of the axes, and NaN where `measure` has no number."""
    found = Map.over(
        "t", ("a", np.array([1, 2, 3])), ("b", np.array([1, 2])), "q", lambda x, y: None if x == y else 10 * y + x, 0.0
    )
    np.testing.assert_array_equal(found.violation, [[np.nan, 12, 13], [21, np.nan, 23]])
    assert (found.xlabel, found.ylabel) == ("a", "b")
