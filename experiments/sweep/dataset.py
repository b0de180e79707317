"""The result of a sweep: one labelled dataset of all cells, and how they came about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from snapdyn.dynamics.netcdf import write_netcdf
from snapdyn.dynamics.storage import provenance
from snapdyn.experiments.sweep.design import short_names
from snapdyn.experiments.sweep.files import Sweep, taken_names
from snapdyn.experiments.sweep.observables import TIME, TRANSFORMER, Values, variables
from snapdyn.validation.rungs.run import BRANCHES

FORMAT = "snapdyn sweep 1"
NOT_RUN = "not run yet"


@dataclass
class SweepResult:
    """Result of a sweep.

    Attributes
    ----------
    path : Path or None
        File of the dataset; None if the sweep was stopped before it had a cell.
    dataset : xarray.Dataset
    taken_over : int
        Cells (of different settings) that another run has finished, before this one or meanwhile.
    computed : int
        Cells that this run has run, the failed ones included.
    failures : dict of int to str
        Reason by number of the cell, in the order of the design.
    failed : int
        Failed cells of different settings.
    missing : int
        Cells that have not run.
    seconds : float
        Duration of this run.
    stopped : str
        "" for a complete sweep, "interrupted", or why the workers were lost.
    """

    path: Path | None
    dataset: xarray.Dataset
    taken_over: int
    computed: int
    failures: dict[int, str]
    failed: int
    missing: int
    seconds: float
    stopped: str = ""


def assemble(sweep: Sweep, values: Sequence[Values | None], reasons: Mapping[int, str]) -> xarray.Dataset:
    """Build the dataset from the values of every cell, in the order of the design.

    Returns
    -------
    xarray.Dataset
        On a grid a dimension per parameter, else the dimension cell; with SGD also seed. A cell without values is NaN
        (texts: empty), and `failure` gives its reason. Coordinates are named by the last part of a parameter's dotted
        name, or by all of it where that is not unique; their attribute `parameter` is the dotted name.
    """
    axes = sweep.design.axes
    names = short_names(sweep.design.parameters, taken_names())
    coordinates: dict[str, Any] = {
        names[parameter]: (axis.name, entries, {"parameter": parameter})
        for axis in axes
        for parameter, entries in axis.parameters.items()
    }
    dims, shape = tuple(axis.name for axis in axes), sweep.design.shape
    lengths, extra = _extra_dimensions(sweep, values)
    data: dict[str, Any] = {}
    for variable in dict.fromkeys(sweep.variables):
        if variable is TIME and "time" in extra:
            continue
        label = "times" if variable is TIME else variable.name
        own = tuple(lengths[dim] for dim in variable.dims)
        array = (
            np.full((len(values), *own), "", dtype=object) if variable.text else np.full((len(values), *own), np.nan)
        )
        for number, of_cell in enumerate(values):
            if of_cell is not None:
                _fill(array, number, of_cell[variable.name], extra)
        attributes = {"long_name": variable.meaning, "units": variable.units}
        data[label] = (
            (*dims, *variable.dims),
            array.reshape((*shape, *own)),
            {key: text for key, text in attributes.items() if text},
        )
    missing = {number: NOT_RUN for number, of_cell in enumerate(values) if of_cell is None}
    failure = np.full(len(values), "", dtype=object)
    for number, reason in (missing | dict(reasons)).items():
        failure[number] = reason
    data["failure"] = (dims, failure.reshape(shape), {"long_name": "why a cell has no values"})
    attributes = {
        "name": sweep.name,
        "kind": sweep.kind,
        "settings": json.dumps(sweep.sections, sort_keys=True),
        "observables": json.dumps(sweep.observables),
        "finished": f"{len(values) - len(missing)} of {len(values)} cells",
        "provenance": json.dumps(provenance(), sort_keys=True),
    }
    return xarray.Dataset(data, coordinates | extra, attributes | {"format": FORMAT})


def _fill(array: np.ndarray, number: int, value: Any, extra: Mapping[str, Any]) -> None:
    if isinstance(value, dict):  # by the labels of a dimension
        for label, entry in value.items():
            array[number, extra["rung"].index(label)] = entry
    elif isinstance(value, list):
        array[number, : len(value)] = value
    else:
        array[number] = value


def _extra_dimensions(sweep: Sweep, values: Sequence[Values | None]) -> tuple[dict[str, int], dict[str, Any]]:
    """Lengths of the dimensions that are not the design's, the longest of all cells, and their coordinates.

    Series whose times differ from cell to cell have no coordinate: `times` is a variable then.
    """
    lengths: dict[str, int] = {}
    known = variables()
    for of_cell in values:
        for name, value in (of_cell or {}).items():
            if isinstance(value, list):
                (dim,) = known[name].dims
                lengths[dim] = max(lengths.get(dim, 0), len(value))
    extra: dict[str, Any] = {}
    if "gap" in sweep.observables:
        measured = {rung for of_cell in values if of_cell for rung in of_cell["gap"]}
        extra["rung"] = [rung for rung in dict.fromkeys(sum(BRANCHES.values(), ())) if rung in measured]
        lengths["rung"] = len(extra["rung"])
    times = {tuple(of_cell["time"]) for of_cell in values if of_cell and "time" in of_cell}
    if len(times) == 1:
        units = "SGD steps" if sweep.kind == TRANSFORMER else TIME.units
        extra["time"] = ("time", list(times.pop()), {"units": units})
    for variable in sweep.variables:
        for dim in variable.dims:
            lengths.setdefault(dim, 0)
    return lengths, extra


def write(dataset: xarray.Dataset, path: Path) -> None:
    """Write the dataset; ``xarray.open_dataset(path)`` reads it."""
    write_netcdf(dataset, path, FORMAT)
