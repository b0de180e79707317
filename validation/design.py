"""Designs: which parameters take which values together, their cells, and the table of what is measured in the cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats
from snapdyn.errors import InputError, shown
from snapdyn.validation.rungs.run import BRANCHES

if TYPE_CHECKING:
    import xarray

Value = bool | int | float | str
MOST_CELLS = 1_000_000
RUNGS = tuple(dict.fromkeys(sum(BRANCHES.values(), ())))


@dataclass(frozen=True)
class Axis:
    """A dimension of the table: the values of one or more parameters (dotted names), all of one length."""

    name: str
    parameters: dict[str, list[Value]]

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))


@dataclass(frozen=True)
class Design:
    """The axes of a table of cells; the cells are their product."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def parameters(self) -> dict[str, list[Value]]:
        """All parameters by dotted name."""
        return {name: values for axis in self.axes for name, values in axis.parameters.items()}

    def cells(self) -> Iterator[dict[str, Value]]:
        """Values of the parameters in each cell; the last axis runs fastest."""
        for index in itertools.product(*map(range, self.shape)):
            yield {
                name: values[i]
                for axis, i in zip(self.axes, index, strict=True)
                for name, values in axis.parameters.items()
            }


@dataclass(frozen=True)
class Column:
    """A variable of the table: its attributes, and its dimensions besides those of the design."""

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    dims: tuple[str, ...] = ()
    text: bool = False


def short_names(parameters: Mapping[str, Any], taken: Container[str]) -> dict[str, str]:
    """Name of each parameter in the table: the last part of its dotted name where nothing else has that name."""
    last = {name: name.rpartition(".")[2] for name in parameters}
    ends = list(last.values())
    return {name: end if ends.count(end) == 1 and end not in taken else name for name, end in last.items()}


def design_of(
    crossed: Mapping[str, list[Value]], together: Mapping[str, list[Value]], taken: Container[str] = ()
) -> Design:
    """Build a design: an axis `cell` of the values that go together, and an axis for each crossed parameter.

    Parameters
    ----------
    crossed, together : mapping of dotted names to lists
        The lists of `together` have one length: their first values are those of the first cell.
    taken : container of str
        Names that no other dimension of the table may have.

    Raises
    ------
    InputError
        Lists of different lengths, crossed values that are none or not different, or too many cells.
    """
    for name, values in crossed.items():
        if not values or len(set(values)) < len(values):
            raise InputError(f"expected different values of {name}, at least one, received {shown(values)}")
    if len({len(values) for values in together.values()}) > 1:
        raise InputError(
            "expected lists of one length in a list design, received "
            f"{', '.join(f'{len(values)} values of {name}' for name, values in together.items())}; or take "
            'design = "grid"'
        )
    names = short_names({**together, **crossed}, taken)
    axes = [Axis("cell", dict(together))] if together else []
    design = Design((*axes, *(Axis(names[name], {name: values}) for name, values in crossed.items())))
    if (size := math.prod(design.shape)) > MOST_CELLS:
        raise InputError(f"expected at most {MOST_CELLS} cells, received {size}; take fewer values")
    return design


def over_grid(measure: Callable[..., float | None], axes: Mapping[str, ArrayLike]) -> Floats:
    """Measure every cell of a grid.

    Parameters
    ----------
    measure : callable
        ``measure(**cell)`` of the values of the parameters; None where there is no number.
    axes : mapping of str to (N,) array
        Different values of each parameter.

    Returns
    -------
    array
        A dimension per axis; NaN where there is no number.
    """
    design = design_of({name: np.asarray(values).tolist() for name, values in axes.items()}, {})
    return np.array([measure(**cell) for cell in design.cells()], dtype=float).reshape(design.shape)


def table(
    design: Design, values: Sequence[Mapping[str, Any] | None], columns: Sequence[Column], taken: Container[str] = ()
) -> xarray.Dataset:
    """Build the labelled table of what was measured in each cell.

    Parameters
    ----------
    design : Design
    values : sequence of mapping of str to value, or None
        Of each cell, in the order of the design: a number or text, a list along the column's own dimension, or a
        mapping of rungs to numbers; None for a cell without values.
    columns : sequence of Column
        One that has the name of its only dimension becomes the coordinate of that dimension where all cells agree,
        and a variable of that name with an s where they differ.
    taken : container of str
        As in `design_of`.

    Returns
    -------
    xarray.Dataset
        A dimension per axis of the design. A cell without values is NaN (texts: empty), and so is the end of a list
        that is shorter than others. Coordinates are named by `short_names`; their attribute `parameter` is the dotted
        name.
    """
    import xarray

    names = short_names(design.parameters, taken)
    coordinates: dict[str, Any] = {
        names[parameter]: (axis.name, entries, {"parameter": parameter})
        for axis in design.axes
        for parameter, entries in axis.parameters.items()
    }
    cells = {
        column: [None if of_cell is None else of_cell[column.name] for of_cell in values]
        for column in {column.name: column for column in columns}.values()
    }
    for column, entries in list(cells.items()):
        measured = [entry for entry in entries if entry is not None]
        if column.dims == (column.name,) and len({tuple(entry) for entry in measured}) == 1:
            coordinates[column.name] = (column.name, measured[0], {"units": column.attributes.get("units", "")})
            del cells[column]
        elif labels := _labels(measured):
            coordinates[column.dims[0]] = labels
            cells[column] = [
                None if entry is None else [entry.get(label, np.nan) for label in labels] for entry in entries
            ]
    lengths = {dim: 0 for column in columns for dim in column.dims}
    for column, entries in cells.items():
        for dim in column.dims:
            lengths[dim] = max([lengths[dim], *(len(entry) for entry in entries if entry is not None)])
    dims = tuple(axis.name for axis in design.axes)
    data = {}
    for column, entries in cells.items():
        own = tuple(lengths[dim] for dim in column.dims)
        name = f"{column.name}s" if column.dims == (column.name,) else column.name
        array = _filled(entries, own, column.text).reshape((*design.shape, *own))
        data[name] = ((*dims, *column.dims), array, dict(column.attributes))
    return xarray.Dataset(data, coordinates)


def _labels(entries: Sequence[Any]) -> list[str]:
    """Rungs of the ladder that the cells have, from the finest down; none where the values have no labels."""
    found = {label for entry in entries if isinstance(entry, dict) for label in entry}
    return [label for label in RUNGS if label in found]


def _filled(entries: Sequence[Any], own: tuple[int, ...], text: bool) -> np.ndarray[Any, Any]:
    """Values of a column in all cells (N, ...), `own` the length of its own dimension; NaN or "" where none is."""
    array = np.full((len(entries), *own), "" if text else np.nan, dtype=object if text else float)
    for number, entry in enumerate(entries):
        if isinstance(entry, list):
            array[number, : len(entry)] = entry
        elif entry is not None:
            array[number] = entry
    return array
