"""What a cell of a design can measure: observables of the registry, at the end of a run or over time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from snapdyn.dynamics import Trajectory
from snapdyn.dynamics.observables import LADDER, ODE, OF_CLASS, SGD, STEPS, TRANSFORMER, Observable
from snapdyn.dynamics.systems.own.declaration import OwnSystem
from snapdyn.errors import shown
from snapdyn.validation.observables import OBSERVABLES
from snapdyn.validation.rungs.run import BRANCHES

DEFAULTS = ("entropy", "loss", "largest_gap")
DEFAULTS_WITHOUT_CLASSES = ("growth_exponent", "loss")
RUNGS = {rung for rungs in BRANCHES.values() for rung in rungs}
LARGEST_INTEGER = int(sys.float_info.max)  # that a float can hold
Values = dict[str, Any]  # of the observables of one cell: numbers, texts, or lists of them
TIME = Observable(
    "time",
    "times of the series",
    STEPS,
    lambda run: run.t if isinstance(run, Trajectory) else run.iteration.astype(float),
)


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
    """How a sweep reads a quantity over time, by name."""
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


def default_observables(kind: str, has_classes: bool = True, system: Any = None) -> tuple[str, ...]:
    """Names of the observables of a sweep that names none; of a user's system, and of no other, those that it has."""
    if isinstance(system, type) and issubclass(system, OwnSystem):
        return tuple(name for name in system().scalar_names() if name in OBSERVABLES)
    known = observables_of(kind)
    return tuple(name for name in (DEFAULTS if has_classes else DEFAULTS_WITHOUT_CLASSES) if name in known)


def declared_values(observables: Iterable[Observable], values: Mapping[str, Any]) -> Values:
    """Return the values of observables, after checking that each is what its observable says.

    Parameters
    ----------
    observables : iterable of Observable
    values : mapping of str to number, text, list of them, or mapping of rungs to numbers
        As JSON has them. Names of no observable are left out.

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
    elif isinstance(value, dict) and observable.dims == ("rung",) and value.keys() <= RUNGS:
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
