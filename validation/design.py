"""Designs: which parameters take which values together, their cells, and the table of what is measured in the cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from snapdyn.errors import InputError, shown
from snapdyn.validation.rungs.names import BRANCHES

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


class Variable(Protocol):
    """A variable of the table: `dims` are its dimensions besides those of the design."""

    @property
    def name(self) -> str: ...
    @property
    def units(self) -> str: ...
    @property
    def meaning(self) -> str: ...
    @property
    def dims(self) -> tuple[str, ...]: ...
    @property
    def text(self) -> bool: ...


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


def table(
    design: Design,
    values: Sequence[Mapping[str, Any] | None],
    variables: Sequence[Variable],
    taken: Container[str] = (),
) -> xarray.Dataset:
    """Build the labelled table of what was measured in each cell.

    Parameters
    ----------
    design : Design
    values : sequence of mapping of str to value, or None
        Of each cell, in the order of the design: a number or text, a list along the variable's own dimension, or a
        mapping of labels to numbers; None for a cell without values.
    variables : sequence of Variable
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
    columns: dict[str, list[Any]] = {
        variable.name: [None if of_cell is None else of_cell[variable.name] for of_cell in values]
        for variable in variables
    }
    own = {variable.name: variable for variable in variables}
    for name, column in columns.items():
        different = {tuple(value) for value in column if value is not None} if own[name].dims == (name,) else set()
        if len(different) == 1:
            coordinates[name] = (name, list(different.pop()), {"units": own.pop(name).units})
    for name in own:
        if labels := _labels(columns[name]):
            coordinates[own[name].dims[0]] = labels
            columns[name] = [
                None if value is None else [value.get(label, np.nan) for label in labels] for value in columns[name]
            ]
    lengths = {
        dim: max((len(value) for name in own for value in columns[name] if dim in own[name].dims and value), default=0)
        for variable in variables
        for dim in variable.dims
    }
    dims = tuple(axis.name for axis in design.axes)
    data = {}
    for name, variable in own.items():
        array = _filled(columns[name], tuple(lengths[dim] for dim in variable.dims), variable.text)
        attributes = {"long_name": variable.meaning, "units": variable.units}
        data[f"{name}s" if variable.dims == (name,) else name] = (
            (*dims, *variable.dims),
            array.reshape((*design.shape, *array.shape[1:])),
            {key: text for key, text in attributes.items() if text},
        )
    return xarray.Dataset(data, coordinates)


def _labels(column: Sequence[Any]) -> list[str]:
    """Rungs of the ladder that the cells have, from the finest down; none where the values have no labels."""
    found = {label for value in column if isinstance(value, dict) for label in value}
    return [label for label in RUNGS if label in found]


def _filled(column: Sequence[Any], own: tuple[int, ...], text: bool) -> np.ndarray[Any, Any]:
    """Values of a variable in all cells (N, ...), `own` the length of its own dimension; NaN or "" where none is."""
    array = np.full((len(column), *own), "" if text else np.nan, dtype=object if text else float)
    for number, value in enumerate(column):
        if isinstance(value, list):
            array[number, : len(value)] = value
        elif value is not None:
            array[number] = value
    return array
