"""The file of a trajectory: labelled arrays that xarray opens, and a header from which the run is made again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.classes import SequenceClasses
from snapdyn.dynamics.labels import OURS, labelled
from snapdyn.dynamics.netcdf import HEADER
from snapdyn.dynamics.run_parts import EventRecord
from snapdyn.dynamics.storage import provenance
from snapdyn.dynamics.symmetry.representatives import Representatives
from snapdyn.dynamics.symmetry.symmetric_quotient import symmetric_quotient
from snapdyn.dynamics.trajectory_dataset import VIOLATION, is_dense, labelled_parts, large_representatives

if TYPE_CHECKING:
    import xarray

FORMAT = "snapdyn trajectory 3"
EARLIER = ("snapdyn trajectory 1", "snapdyn trajectory 2")
# Names of variables in files of version 1.
RENAMED = {"t": "time", "class_next_token": "next_token", "class_prior": "prior"}
# Of variables, coordinates and dimensions that only `load` reads; `labelled_parts` refuses it in names of a system.
PREFIX = OURS + "_"
SHARED = {"time", "query", "token", "value"}  # dimensions of `to_xarray` along which such variables stand, too


class WordedClasses(SequenceClasses):
    """Classes of a run on a text, as a file has them: with the word of each token.

    Parameters
    ----------
    classes : SequenceClasses
    words : (M,) array_like of str
    """

    def __init__(self, classes: SequenceClasses, words: Any) -> None:
        self.words = tuple(map(str, words))  # before the classes are immutable
        super().__init__(classes.P, classes.query, classes.next_token, classes.prior, classes.vocab_size)


def stored(run: Any) -> xarray.Dataset:
    """The dataset that is written of a `Trajectory`: that of `to_xarray`, and what else a run is made of.

    Without `is_dense` the logits are those on `z_coordinates`, and z, attention and entropy are left out. The names of
    what only `load` reads begin with `PREFIX`.

    Raises
    ------
    InputError
        As for `labelled_parts`.
    """
    dense = is_dense(run)
    dataset, coordinates = labelled_parts(run, dense)
    kept = large_representatives(run)
    data: dict[str, Any] = {}
    if kept:
        data["z_values"] = (("time", "z_value"), kept.z)
        if kept.Y is not None:
            data["Y_values"] = (("time", "Y_value"), kept.Y)
    elif run.has_z:
        data["z_initial"] = (("query", "token"), run.z_initial)
        if not (dense and run.classes):
            data["z_support"] = (("time", "logit"), run.z_support)
    if run.classes and not kept:
        P, (query, token) = run.classes.P, run.classes.z_coordinates
        logit = PREFIX + "logit"
        coordinates |= {f"{logit}_query": (logit, run.classes.queries[query]), f"{logit}_token": (logit, token)}
        data |= {
            "P_data": ("entry", P.data),
            "P_token": ("entry", P.indices),
            "P_class": ("entry", run.classes.class_of_entry),
        }
    if not kept and run.Y is not None:
        data |= {
            "Y": (("time", "row", "column"), run.Y),
            "decoder_rows": ("decoder_token", run.decoder_rows),
            "decoder_outputs": ("column", run.decoder_outputs),
        }
    if run.events:
        data["event_t"] = ("event", np.array([event.t for event in run.events]))
        if kept:
            data["event_z_values"] = (("event", "z_value"), np.array([event.z_values for event in run.events]))
        elif run.has_z:
            data["event_z_support"] = (("event", "logit"), np.array([event.z_support for event in run.events]))
        else:
            data["event_state"] = (("event", "value"), np.array([event.state for event in run.events]))
    header = {
        "system": run.system,
        "parameters": run.parameters,
        "status": run.status,
        "message": run.message,
        "stats": run.stats,
        "event_names": [event.name for event in run.events],
        "extra": list(run.extra),
        "observables": list(run.observables),
        "invariants": list(run.invariants),
        "vocab_size": run.classes.vocab_size if run.classes else None,
        "provenance": provenance(),
    }
    if run.state is not None:
        header["value_names"] = list(run.value_names)
        if run.state_shapes:
            shapes: list[Any] = [[name, list(shape)] for name, shape in run.state_shapes.items()]
            header["state_shapes"] = shapes
    if isinstance(run.classes, SymmetricClasses):
        header["symmetric_classes"] = run.classes.to_json()
    for name, (dims, values) in data.items():
        dims = [dims] if isinstance(dims, str) else dims
        dataset[PREFIX + name] = ([dim if dim in SHARED else PREFIX + dim for dim in dims], values)
    return labelled(dataset, coordinates, run.settings()).assign_attrs({HEADER: json.dumps(header, sort_keys=True)})


def fields(header: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `Trajectory` from the header and the variables of a file, of this or an earlier version."""
    values = dict(values)
    take = _taken_earlier if header["format"] in EARLIER else _taken
    extra, observables, invariants = take(header, values)
    classes: SequenceClasses | None = None
    kept = None
    if "symmetric_classes" in header:
        classes = symmetric = SymmetricClasses.from_json(header["symmetric_classes"])
        if "z_values" in values:
            kept = Representatives(symmetric, values["z_values"], values.get("Y_values"))
    elif "P_data" in values:
        from scipy import sparse

        shape = (values["class_query"].size, values["z_initial"].shape[1])
        P = sparse.csr_array((values["P_data"], (values["P_class"], values["P_token"])), shape=shape)
        classes = SequenceClasses(P, values["class_query"], values["next_token"], values["prior"], header["vocab_size"])
        if "word" in values:
            classes = WordedClasses(classes, values["word"])
    if classes and not kept and "z" in values and "z_support" not in values:
        query, token = classes.z_coordinates  # elsewhere z keeps its start
        values["z_support"] = np.ascontiguousarray(values["z"][:, query, token])
    event_t = values.get("event_t", np.empty(0))
    names = ("z_support", "z_initial", "loss")
    can_lack = "state" in values or kept is not None
    optional: dict[str, Any] = {name: values.get(name) if can_lack else values[name] for name in names}
    no_logits, nothing = np.empty((event_t.size, 0)), [None] * event_t.size
    return dict(
        classes=classes,
        t=values["time"],
        **optional,
        system=header["system"],
        parameters=header["parameters"],
        status=header["status"],
        message=header["message"],
        stats=header["stats"],
        invariants=invariants,
        extra=extra,
        Y=values.get("Y"),
        decoder_rows=values.get("decoder_rows"),
        decoder_outputs=values.get("decoder_outputs"),
        events=[
            EventRecord(name, float(t), z, state, z_values)
            for name, t, z, state, z_values in zip(
                header["event_names"],
                event_t,
                values.get("event_z_support", no_logits),
                values.get("event_state", nothing),
                values.get("event_z_values", nothing),
                strict=True,
            )
        ],
        state=values.get("state"),
        value_names=tuple(header.get("value_names", ())),
        representatives=kept,
        observables=observables,
        state_shapes={name: tuple(shape) for name, shape in header.get("state_shapes", ())},
    )


def _taken(header: Mapping[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
    """Extra quantities, observables and invariants, taken out of `values`; the other names lose `PREFIX`."""
    kinds = ("extra", ""), ("observables", ""), ("invariants", VIOLATION)
    own = [{name: values.pop(before + name) for name in header[kind]} for kind, before in kinds]
    for name in [each for each in values if each.startswith(PREFIX)]:
        values[name.removeprefix(PREFIX)] = values.pop(name)
    return own


def _taken_earlier(header: Mapping[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
    """The same of versions 1 and 2, where the names that a system gives have prefixes."""
    own: dict[str, dict[str, Any]] = {"extra": {}, "observable": {}, "invariant": {}}
    for name in list(values):
        prefix, _, rest = name.partition(":")
        if prefix in own and rest:
            own[prefix][rest] = values.pop(name)
        elif header["format"] == EARLIER[0] and name in RENAMED:
            values[RENAMED[name]] = values.pop(name)
    return list(own.values())


def check_shapes(run: Any) -> None:
    """Raise ValueError for arrays that do not belong together, and for texts and tables of other types."""
    stored, times = vars(run), run.t.size
    expected: list[tuple[Any, tuple[int | None, ...]]] = [(run.t, (times,))]
    if run.has_loss:
        expected.append((stored["loss"], (times,)))
    logits, kept = 0, run.representatives
    if kept:
        carried = symmetric_quotient(kept.classes).lists
        slots = carried.num_slots
        expected += [(kept.z, (times, slots))] + [(np.asarray(event.z_values), (slots,)) for event in run.events]
        if kept.Y is not None:
            expected.append((kept.Y, (times, carried.size - slots)))
    elif run.has_z:
        logits = run.classes.z_coordinates[0].size if run.classes else stored["z_support"].shape[-1]
        expected += [(stored["z_support"], (times, logits)), (stored["z_initial"], (None, None))]
    if run.has_z and run.classes and not kept:
        expected.append((stored["z_initial"], (run.classes.queries.size, run.classes.num_tokens)))
    if run.state is not None:
        expected.append((run.state, (times, None)))
    expected += [(event.z_support, (logits,)) for event in run.events]
    expected += [(values, (times,)) for values in run.invariants.values()]
    expected += [(values, (times, None)) for values in run.extra.values()]
    expected += [(values, (times, *[None] * (values.ndim - 1))) for values in run.observables.values()]
    if run.state is not None and run.state_shapes:
        if not all(isinstance(n, int) and n > 0 for shape in run.state_shapes.values() for n in shape):
            raise ValueError("shapes of the state")
        expected.append((run.state, (times, sum(map(math.prod, run.state_shapes.values())))))
    if not kept and run.Y is not None:
        rows, outputs = np.asarray(run.decoder_rows), np.asarray(run.decoder_outputs)
        expected += [(run.Y, (times, None, outputs.size)), (rows, (None,)), (outputs, (None,))]
        if rows.dtype.kind != "i" or outputs.dtype.kind != "i" or rows.max(initial=-1) >= run.Y.shape[1]:
            raise ValueError("rows of the decoder")
    for values, shape in expected:
        if values.dtype.kind not in "fi" or len(shape) != values.ndim:
            raise ValueError("dimensions")
        if any(length not in (None, size) for length, size in zip(shape, values.shape, strict=True)):
            raise ValueError("lengths")
    texts = run.system, run.status, run.message, *run.value_names, *(event.name for event in run.events)
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(table, dict) for table in (run.parameters, run.stats)
    ):
        raise TypeError("header")


def check_finite(run: Any) -> None:
    """Raise ValueError for times that do not increase, and for states that are not finite."""
    states = [vars(run)[name] for name in ("t", "z_support", "z_initial", "Y", "state")]
    states += [event.z_support for event in run.events] + [event.z_values for event in run.events]
    if run.representatives:
        states += [run.representatives.z, run.representatives.Y]
    if not all(np.isfinite(values).all() for values in states if values is not None) or (np.diff(run.t) < 0).any():
        raise ValueError("values that are not finite, or times that do not increase")
