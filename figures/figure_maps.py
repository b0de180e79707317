"""Validity maps of the conditional claims: measured violation over the quantities of each condition."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.declaration import Whole, statement
from snapdyn.figures.heat_maps import draw_map
from snapdyn.figures.panels import fitting_columns, legend_above, letter_panels
from snapdyn.figures.style import DOUBLE_COLUMN, Figure, new_figure, note_size
from snapdyn.validation.claims.maps import common_logit_maps, distinct_fall_map, momentum_map, slow_attention_map
from snapdyn.validation.pictures import Line, Map
from snapdyn.validation.properties import Property

TITLE = "Validity maps of the conditional claims"
CAPTION = (
    "Measured violation of statements that hold under conditions, each over the two quantities that its condition "
    "depends on: Theorem 2(a); the slow attention that it needs; the common logit of the modified decoder against "
    "that of the mean field (two cuts); the clock of momentum. Dark: the statement holds; dashed: the measured "
    "boundary; dotted: the printed condition; solid: a fitted or corrected condition."
)

QUICK = 13  # points along each axis at level quick
TEXT_FIELDS = ("title", "xlabel", "ylabel", "quantity", "threshold", "xscale", "yscale", "scale")


def compute(
    level: str,
    points: Annotated[
        int | None, Field(ge=5, le=200, description="points along each axis, 13 or more by the map at level full")
    ] = None,
    instances: Annotated[
        Whole | None, Field(ge=1, description="random instances of a cell (first two maps), chosen by the level")
    ] = None,
) -> xarray.Dataset:
    """Measure the violations on their grids.

    Parameters
    ----------
    level : "quick" or "full"
        "quick": 13 points along each axis, twice as many over time and over steps, and 2 or 4 random instances. "full":
        11 to 31 points and 8 or 24 instances.
    points, instances
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        For map number i: violation_i (y_i, x_i), its axes x_i and y_i; the attribute map_i holds title, labels, the
        threshold above which the statement fails, and the conditions drawn on it, as JSON.
    """
    points = QUICK if points is None and level == "quick" else points
    maps = [
        distinct_fall_map(level, points, instances),
        slow_attention_map(level, points, instances),
        *common_logit_maps(level, points),
        momentum_map(level, points),
    ]
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    attributes: dict[str, str] = {}
    for i, map in enumerate(maps):
        variables[f"violation_{i}"] = ((f"y_{i}", f"x_{i}"), map.violation)
        coordinates |= {f"x_{i}": map.x, f"y_{i}": map.y}
        facts = {name: getattr(map, name) for name in TEXT_FIELDS}
        lines = [{"label": b.label, "x": b.x.tolist(), "y": b.y.tolist(), "kind": b.kind} for b in map.boundaries]
        attributes[f"map_{i}"] = json.dumps(facts | {"boundaries": lines})
    return xarray.Dataset(variables, coordinates, attributes)


def maps_of(dataset: xarray.Dataset) -> list[Map]:
    """Return the maps, from the data."""
    maps = []
    for i in range(len(dataset.data_vars)):
        facts = json.loads(dataset.attrs[f"map_{i}"])
        lines = tuple(Line(b["label"], np.array(b["x"]), np.array(b["y"]), b["kind"]) for b in facts.pop("boundaries"))
        x, y, violation = (dataset[f"{name}_{i}"].values for name in ("x", "y", "violation"))
        maps.append(Map(x=x, y=y, violation=violation, boundaries=lines, **facts))
    return maps


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw the maps, each with its colours and legend."""
    from matplotlib.gridspec import GridSpec

    maps = maps_of(dataset)
    columns = fitting_columns(width, 2, 2.6)
    rows = -(-len(maps) // columns)
    figure = new_figure(width, 3.0 * rows)
    # An odd last map fills its row.
    grid: GridSpec = figure.add_gridspec(rows, columns)
    panels = []
    for number, map in enumerate(maps):
        row, column = divmod(number, columns)
        place = grid[row, :] if number == len(maps) - 1 and column == 0 else grid[row, column]
        part = figure.add_subfigure(place)
        axes = part.subplots()
        legend_above(part, draw_map(axes, map), loc="outside lower center", most_columns=1, fontsize=note_size(0.95))
        panels.append(axes)
    letter_panels(panels)
    return figure


NAMES = (
    "Theorem 2(a)",
    "slow attention",
    "common logit over time",
    "common logit over correlation",
    "clock of momentum",
)


def _statement(number: int, name: str) -> Property:
    """State that in one cell of a map the statement holds (violation below the threshold) and in another it fails."""

    def violation(dataset: xarray.Dataset) -> Floats:
        return maps_of(dataset)[number].violation

    return statement(
        f"{name}, smallest violation: it holds somewhere",
        "mean field",
        lambda dataset: np.nanmin(violation(dataset)),
        at_most=lambda dataset: maps_of(dataset)[number].threshold,
        wrong={f"{name}, largest violation: it holds everywhere": lambda dataset: np.nanmax(violation(dataset))},
    )


PROPERTIES = tuple(_statement(number, name) for number, name in enumerate(NAMES))
