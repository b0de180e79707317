"""The table of the cells of a sweep."""

from snapdyn.experiments.sweep.columns import table
from snapdyn.validation.grid import design_of


def test_coordinates_have_short_names() -> None:
    """Assert that a name that is taken, or that two parameters have, stays dotted."""
    design = design_of({"a.seed": [0, 1]}, {"b.x": [1.0, 2.0, 3.0], "b.seed": [7, 8, 9], "b.loss": [0, 0, 0]}, {"loss"})
    data = table(design, [None] * 6, [])
    assert set(data.coords) == {"x", "b.seed", "b.loss", "a.seed"}
