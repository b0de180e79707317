"""The labelled dataset of a trajectory: what `Trajectory.to_xarray` gives, and what its file shows in xarray."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.labels import OURS, is_storable, own_label
from snapdyn.dynamics.symmetry.representatives import Representatives
from snapdyn.errors import InputError, shown

# Values of z and attention together, up to which a file has them for all tokens: 16 MB.
LARGEST_DENSE = 2_000_000
DENSE = {"z", "attention", "entropy"}
VIOLATION = "violation of "  # prefix of the variable of a conserved quantity


def is_dense(run: Any) -> bool:
    """Whether the file of a run has z and attention of all tokens, or of a class of each kind."""
    if large_representatives(run) or not run.has_z or not run.classes:
        return True
    queries, tokens = run.z_initial.shape
    return bool(run.t.size * tokens * (queries + run.classes.num_classes) <= LARGEST_DENSE)


def large_representatives(run: Any) -> Representatives | None:
    """The values of one class of each kind, of a run of more classes than are listed one by one."""
    large = isinstance(run.classes, SymmetricClasses) and run.classes.is_large
    return run.representatives if large else None


def labelled_parts(run: Any, dense: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables and coordinates of `Trajectory.to_xarray`; without `dense`, z, attention and entropy are left out.

    Raises
    ------
    InputError
        An extra quantity, observable or conserved quantity has a name that netCDF cannot hold, or another variable has.
    """
    data: dict[str, Any] = {}
    coordinates: dict[str, Any] = {"time": run.t}
    if run.has_loss:
        data["loss"] = ("time", run.loss)
    if large_representatives(run):
        _add_kinds(run, data, coordinates)
    elif run.has_z:
        coordinates["token"] = np.arange(run.z_initial.shape[1])
        if dense:
            data["z"] = (("time", "query", "token"), run.z)
    if run.state is not None:
        data["state"] = (("time", "value"), run.state)
        if len(run.value_names) == run.state.shape[1]:
            coordinates["value"] = list(run.value_names)
    if run.classes and not large_representatives(run):
        coordinates |= run.classes_coordinates()
        if dense:
            data["attention"] = (("time", "sequence_class", "token"), run.attention)
            data["entropy"] = (("time", "sequence_class"), run.entropy())
    taken = {*data, *coordinates, *_dims(data), *_dims(coordinates)} | (set() if dense else DENSE)
    for name, dims, values in _own_variables(run):
        if not is_storable(name) or name.startswith(OURS) or name in taken:
            raise InputError(
                f"expected names of extra quantities, observables and conserved quantities that netCDF can hold, that "
                f"do not begin with {OURS!r} and that no other variable has, received {shown(name)}; rename it"
            )
        taken.add(name)
        data[name] = (dims, values, own_label(name))
    return data, coordinates


def _dims(variables: dict[str, Any]) -> set[str]:
    """Dimensions of variables, given as (dimension or dimensions, values) or as values along their own name."""
    named = [value[0] for value in variables.values() if isinstance(value, tuple)]
    return {dim for dims in named for dim in ([dims] if isinstance(dims, str) else dims)}


def _own_variables(run: Any) -> list[tuple[str, tuple[str, ...], Floats]]:
    """Name, dimensions and values of what the system itself names."""
    own: list[tuple[str, tuple[str, ...], Floats]] = [
        (name, ("time", f"{name}_index"), values) for name, values in run.extra.items()
    ]
    own += [(name, observable_dims(name, values), values) for name, values in run.observables.items()]
    return own + [(f"{VIOLATION}{name}", ("time",), values) for name, values in run.invariants.items()]


def _add_kinds(run: Any, data: dict[str, Any], coordinates: dict[str, Any]) -> None:
    """Add z, attention and entropy of one class of each kind; NaN where a class has fewer tokens than another."""
    runs = [run.of_class(kind) for kind in range(len(run.classes.kinds))]
    widest = max(each.z_support.shape[1] for each in runs)

    def stacked(values: list[Floats]) -> Floats:
        wide = np.full((run.t.size, len(runs), widest), np.nan)
        for kind, each in enumerate(values):
            wide[:, kind, : each.shape[1]] = each
        return wide

    data["z"] = (("time", "kind", "token"), stacked([each.z_support for each in runs]))
    data["attention"] = (("time", "kind", "token"), stacked([each.attention_entries for each in runs]))
    data["entropy"] = (("time", "kind"), np.concatenate([each.entropy() for each in runs], axis=1))
    coordinates["kind"] = np.arange(len(runs))
    coordinates["token"] = np.arange(widest)
    coordinates["classes_per_query"] = ("kind", np.array([kind.classes_per_query for kind in run.classes.kinds]))


def observable_dims(name: str, values: Floats) -> tuple[str, ...]:
    """Dimensions of an observable in a dataset."""
    return ("time", *(f"{name}_{axis}" for axis in ("row", "column", "depth")[: values.ndim - 1]))
