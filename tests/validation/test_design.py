"""Designs and the table of their cells."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.dynamics.observables import Observable
from snapdyn.errors import InputError
from snapdyn.validation.design import design_of, table


def column(name: str, dims: tuple[str, ...] = (), text: bool = False) -> Observable:
    return Observable(name, name, "steps", lambda run: run, dims, text=text)


TIME = column("time", ("time",))


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


@pytest.mark.parametrize(
    ("crossed", "together", "message"),
    [
        ({"a": [1, 1]}, {}, "different values of a"),
        ({"a": []}, {}, "at least one, received"),
        ({}, {"a": [1], "b": [1, 2]}, "lists of one length"),
        ({"a": list(range(1001)), "b": list(range(1000))}, {}, "at most 1000000 cells"),
    ],
)
def test_what_is_no_design_is_refused(crossed: dict[str, list], together: dict[str, list], message: str) -> None:
    """Assert one sentence."""
    with pytest.raises(InputError, match=message):
        design_of(crossed, together)


def test_a_table_has_series_labels_and_gaps() -> None:
    """Assert a coordinate of times that all cells share, a variable of others, rungs, and NaN or "" for no value."""
    gap, name = column("gap", ("rung",)), column("name", text=True)
    series = column("series", ("time",))
    cells = [
        {"series": [1.0, 2.0], "time": [0.0, 5.0], "gap": {"leading beta": 1.0}, "name": "a"},
        {"series": [3.0, 4.0], "time": [0.0, 5.0], "gap": {"leading beta": 2.0, "exact beta": 3.0}, "name": "b"},
        None,
    ]
    design = design_of({"p.x": [1, 2, 3]}, {})
    data = table(design, cells, [series, TIME, gap, name, series])
    assert data.time.values.tolist() == [0.0, 5.0]
    np.testing.assert_array_equal(data.series, [[1, 2], [3, 4], [np.nan, np.nan]])
    assert data.rung.values.tolist() == ["exact beta", "leading beta"]
    np.testing.assert_array_equal(data.gap, [[np.nan, 1], [3, 2], [np.nan, np.nan]])
    assert data.name.values.tolist() == ["a", "b", ""]
    assert data.x.attrs == {"parameter": "p.x"}
    cells[1] = {"series": [3.0], "time": [0.0], "gap": {}, "name": "b"}
    data = table(design, cells, [series, TIME, gap, name])
    np.testing.assert_array_equal(data.times, [[0, 5], [0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(data.series[1], [3, np.nan])
