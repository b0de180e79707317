"""Grids and designs."""

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.validation.grid import Grid, design_of


def test_cells_are_the_product_of_what_goes_together_and_what_is_crossed() -> None:
    """Assert order, names and shape; a name that is taken stays dotted."""
    design = design_of({"a.seed": [0, 1]}, {"b.x": [1.0, 2.0, 3.0], "b.seed": [7, 8, 9], "b.loss": [0, 0, 0]}, {"loss"})
    assert [axis.name for axis in design.axes] == ["cell", "a.seed"]
    assert design.shape == (3, 2)
    cells = list(design.cells())
    assert len(cells) == 6
    assert cells[1] == {"b.x": 1.0, "b.seed": 7, "b.loss": 0, "a.seed": 1}


def test_a_grid_measures_every_cell() -> None:
    """Assert the order of the axes, axes of a measure behind them, and NaN without an instance or a number."""
    grid = Grid(
        {"y": [1, 2], "x": [1, 2, 3]},
        lambda x, y: None if x == y else (x, y),
        lambda cell: None if cell == (1, 2) else [10 * cell[1] + cell[0], 0],
    )
    found = grid.values()
    assert found.shape == (2, 3, 2)
    np.testing.assert_array_equal(found[..., 0], [[np.nan, 12, 13], [np.nan, np.nan, 23]])


def test_equal_values_on_an_axis_are_refused() -> None:
    with pytest.raises(InputError, match="x"):
        Grid({"x": [1.0, 1.0]}, dict, float).measured()
