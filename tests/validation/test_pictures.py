"""Pictures and maps."""

import numpy as np

from snapdyn.validation.grid import Grid
from snapdyn.validation.pictures import Map


def test_a_map_has_a_row_per_y() -> None:
    """Assert the order of the axes and of their labels."""
    grid = Grid({"y": [1, 2], "x": [1, 2, 3]}, dict, lambda cell: 10 * cell["y"] + cell["x"])
    found = Map.over("t", ("a", "b"), "q", grid, 0.0)
    np.testing.assert_array_equal(found.violation, [[11, 12, 13], [21, 22, 23]])
    assert (found.xlabel, found.ylabel) == ("a", "b")
