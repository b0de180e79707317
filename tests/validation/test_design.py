"""Designs and the table of their cells."""

from snapdyn.validation.design import design_of, table


def test_cells_are_the_product_of_what_goes_together_and_what_is_crossed() -> None:
    """Assert order, names and shape; a name that is taken, or that two parameters have, stays dotted."""
    design = design_of({"a.seed": [0, 1]}, {"b.x": [1.0, 2.0, 3.0], "b.seed": [7, 8, 9], "b.loss": [0, 0, 0]}, {"loss"})
    assert [axis.name for axis in design.axes] == ["cell", "a.seed"]
    assert design.shape == (3, 2)
    cells = list(design.cells())
    assert len(cells) == 6
    assert cells[1] == {"b.x": 1.0, "b.seed": 7, "b.loss": 0, "a.seed": 1}
    data = table(design, [None] * 6, [], {"loss"})
    assert set(data.coords) == {"x", "b.seed", "b.loss", "a.seed"}
