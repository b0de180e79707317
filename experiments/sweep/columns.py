"""What a sweep can measure in a cell, and the table of the cells."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.core.errors import choice, list_of, shown
from snapdyn.dynamics.observables import LADDER, ODE, OF_CLASS, SGD, STEPS, TRANSFORMER, Observable
from snapdyn.dynamics.systems.own.own_system import OwnSystem
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.grid import Design
from snapdyn.validation.phases import OBSERVABLES
from snapdyn.validation.rungs.run import BRANCHES

if TYPE_CHECKING:
    import xarray

RUNGS = tuple(dict.fromkeys(sum(BRANCHES.values(), ())))
DEFAULTS = ("entropy", "loss")
DEFAULTS_WITHOUT_CLASSES = ("growth_exponent", "loss")
DEFAULTS_OF_LADDER = ("largest_gap",)
LARGEST_INTEGER = int(sys.float_info.max)  # that a float can hold
Values = dict[str, Any]  # of the observables of one cell: numbers, texts, or lists of them
TIME = Observable(
    "time",
    "times of the series",
    STEPS,
    lambda run: run.t if isinstance(run, Trajectory) else run.iteration.astype(float),
)


def table(
    design: Design,
    values: Sequence[Mapping[str, Any] | None],
    columns: Sequence[Observable],
) -> xarray.Dataset:
    """Build the labelled table of what was measured in each cell.

    Parameters
    ----------
    design : Design
    values : sequence of mapping of str to value, or None
        The values of each cell, in the order of the design: a number or text, a list along the column's own dimension,
        or a mapping of rungs to numbers; None for a cell without values.
    columns : sequence of Observable
        The observables of the columns. One that has the name of its only dimension becomes the coordinate of that
        dimension if all cells have the same values; otherwise it is a variable of that name with an added s.
    Returns
    -------
    xarray.Dataset
        A dimension per axis of the design. A cell without values is NaN (texts: empty), and so is the end of a list
        that is shorter than others. Coordinates are named as in `Design.names`; their attribute `parameter` is the
        dotted name.
    """
    import xarray

    coordinates: dict[str, Any] = {
        design.names[parameter]: (axis.name, entries, {"parameter": parameter})
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
            coordinates[column.name] = (column.name, measured[0], {"units": column.unit})
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
        data[name] = ((*dims, *column.dims), array, column.attributes)
    return xarray.Dataset(data, coordinates)


def _labels(entries: Sequence[Any]) -> list[str]:
    """Rungs of the ladder in the cells, from the finest down; empty where the values are not labelled by rungs."""
    found = {label for entry in entries if isinstance(entry, dict) for label in entry}
    return [label for label in RUNGS if label in found]


def _filled(entries: Sequence[Any], own: tuple[int, ...], text: bool) -> np.ndarray[Any, Any]:
    """Values of a column in all cells (N, ...), `own` the shape of its own dimensions; NaN or "" for missing ones."""
    array = np.full((len(entries), *own), "" if text else np.nan, dtype=object if text else float)
    for number, entry in enumerate(entries):
        if isinstance(entry, list):
            array[number, : len(entry)] = entry
        elif entry is not None:
            array[number] = entry
    return array


def observables_of(kind: str) -> dict[str, Observable]:
    """What a sweep can measure in a kind of cell, by name.

    A quantity over time is measured at the end of the run, as the mean over classes. Its series, NAME_series, is
    measured at all saved times, and class_NAME at the end for each class.
    """
    found: dict[str, Observable] = {}
    for observable in OBSERVABLES.values():
        if kind in observable.cells:
            if observable.dims[:1] != ("time",):
                found[observable.name] = observable
            elif observable.dims in (("time",), OF_CLASS):
                found |= _readings(observable, observable.dims == OF_CLASS and kind != TRANSFORMER)
    return found


def _readings(observable: Observable, has_classes: bool) -> dict[str, Observable]:
    """The observables that a sweep makes of a quantity over time, by name."""
    name, label, of_run = observable.name, observable.label, observable.values
    mean = ", mean over classes" if has_classes else ""

    def series(run: Any) -> np.ndarray:
        values = np.asarray(of_run(run))
        return values.reshape(len(values), -1).mean(axis=1)

    readings = {
        name: replace(
            observable, label=f"{label} at the end{mean}", dims=(), values=lambda run: of_run(run)[-1].mean()
        ),
        f"{name}_series": replace(observable, label=f"{label}{mean}", dims=("time",), values=series),
    }
    if has_classes:
        readings[f"class_{name}"] = replace(
            observable, label=f"{label} at the end", dims=("class",), values=lambda run: of_run(run)[-1]
        )
    return {key: replace(reading, name=key) for key, reading in readings.items()}


def all_observables() -> dict[str, Observable]:
    """What a sweep of any kind can measure, by name."""
    return {name: each for kind in (TRANSFORMER, LADDER, ODE, SGD) for name, each in observables_of(kind).items()}


def chosen(kind: str, names: Iterable[str]) -> list[Observable]:
    """Observables of these names, and the time where one of them is a series."""
    known = observables_of(kind)
    observables = [known[name] for name in names]
    return [*observables, TIME] if any("time" in each.dims for each in observables) else observables


def names_of(kind: str, named: Sequence[str] | None, has_classes: bool, system: Any) -> tuple[str, ...]:
    """Names of the observables of a sweep: those that its file names, else the defaults of its kind of cell.

    By default a user's `system` is measured by its own scalars.
    """
    known = observables_of(kind)
    if named is not None:
        list_of("the observables in [sweep]", named, str, at_least=1)
        return tuple(choice("observables in [sweep]", name, known) for name in named)
    if isinstance(system, type) and issubclass(system, OwnSystem):
        return tuple(name for name in system().scalar_names() if name in OBSERVABLES)
    without_classes = kind == ODE and not has_classes
    usual = DEFAULTS_OF_LADDER if kind == LADDER else DEFAULTS_WITHOUT_CLASSES if without_classes else DEFAULTS
    return tuple(name for name in usual if name in known)


def declared_values(observables: Iterable[Observable], values: Mapping[str, Any]) -> Values:
    """Return the values of observables, after checking that each is what its observable says.

    Parameters
    ----------
    observables : iterable of Observable
    values : mapping of str to number, text, list of them, or mapping of rungs to numbers
        Values as JSON has them. Names that belong to no observable are ignored.

    Raises
    ------
    ValueError
        An observable has no value, or a value of another kind.
    """
    found: Values = {}
    for observable in observables:
        name = observable.name
        if name not in values:
            raise ValueError(f"expected a value of {name}, received none")
        if not _fits(observable, values[name]):
            expected = "text" if observable.text else "number"
            form = f"a list of {expected}s" if observable.dims else f"one {expected}"
            raise ValueError(f"expected {name} to be {form}, received {shown(values[name])}")
        found[name] = values[name]
    return found


def _fits(observable: Observable, value: Any) -> bool:
    if not observable.dims:
        entries = [value]
    elif isinstance(value, dict) and observable.dims == ("rung",) and value.keys() <= set(RUNGS):
        entries = list(value.values())
    elif isinstance(value, list):
        entries = value
    else:
        return False
    if observable.text:
        return all(isinstance(entry, str) for entry in entries)
    return all(
        isinstance(entry, float) or (isinstance(entry, int) and abs(entry) <= LARGEST_INTEGER) for entry in entries
    )
