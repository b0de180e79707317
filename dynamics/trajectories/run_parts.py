"""Parts of a trajectory: events, decoder logits, its labelled dataset, and its file, which `load` reads back.

The file is the labelled dataset with a JSON header and the variables that only `load` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from snapdyn.core.errors import InputError, shown
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.files.storage import provenance
from snapdyn.dynamics.observables import OURS, is_storable, labelled, own_label

if TYPE_CHECKING:
    import xarray


from functools import cached_property

from snapdyn.core.memory import require_memory
from snapdyn.dynamics.systems.layout import Layout, build_layout
from snapdyn.dynamics.systems.quotient import KindsQuotient, logit_of_z, quotient_of, value_of_decoder

REMEDY = "trajectory.of_class(kind), fewer times or fewer classes"


@dataclass
class Representatives:
    """Values of a run of symmetric classes, one in place of all that stay equal.

    Attributes
    ----------
    classes : SymmetricClasses
    z : (N, num_slots) array
        Attention logits.
    Y : (N, number of values) array or None
        Decoder logits.
    saves_decoder : bool
        Whether the trajectory has Y: that of a run with `save_decoder`.
    """

    classes: SymmetricClasses
    z: Floats
    Y: Floats | None = None
    saves_decoder: bool = True

    @property
    def _carried(self) -> KindsQuotient:
        kinds, V = self.classes.exchangeable, self.classes.vocab_size
        return self.classes.kept.get_or_make(("quotient", False), b"", lambda: quotient_of(kinds, V))

    @property
    def _logits(self) -> Ints:
        return logit_of_z(self.classes, self.classes.exchangeable, self.classes.check_z(None))

    @cached_property
    def _layout(self) -> Layout:
        self.classes.require_all()
        return build_layout(self.classes, self.classes.check_z(None))

    def lifted(self, name: str) -> Any:
        """The field `name` of a trajectory for all classes, one by one; None if the run kept no Y."""
        if name == "z_initial":
            return self.classes.check_z(None)
        if name == "z_support":
            return self.z_of_all_classes(self.z)
        if self.Y is None or not self.saves_decoder:
            return None
        if name != "Y":
            return {"decoder_rows": self._layout.row_of_token, "decoder_outputs": self._layout.output_token}[name]
        places = value_of_decoder(self.classes, self._layout, self._carried, self._logits) - self.z.shape[1]
        return self._take("the decoder of all classes", self.Y, places)

    def z_of_all_classes(self, values: Floats) -> Floats:
        """Logits on classes.z_coordinates, (..., nz), from `values` (..., num_slots)."""
        self.classes.require_all()
        return self._take("attention logits of all classes", values, self._logits)

    def _take(self, what: str, values: Floats, places: Ints) -> Floats:
        times = values.shape[0] if values.ndim > 1 else 1
        require_memory(f"{what} at {times} times", 8.0 * times * places.size, REMEDY)
        return values.take(places, axis=-1)

    def z_of_kind(self, values: Floats, kind: int) -> Floats:
        """Logits of the tokens of one class, the common ones first, (..., C + D), from `values` (..., num_slots)."""
        return values.take(self.classes.slots_of_kind(kind), axis=-1)

    def Y_of_kind(self, kind: int) -> Floats | None:
        """Y of the tokens of one class, (N, C + D, outputs); the outputs are those of `outputs_of_kind`."""
        if self.Y is None:
            return None
        carried, slots = self._carried, self.classes.slots_of_kind(kind)
        first, c = carried.kinds.first_own[0], self.classes.kind_of_block
        shared, own = slots[slots < first], slots[slots >= first] - first
        rest = carried.y_shared.shape[1] - 1
        columns = [rest if output < 0 else c[output - 1] for output in outputs_of_kind(self.classes, kind)[1:]]
        of_shared = carried.y_shared[shared][:, [c[kind], *columns]]
        of_own = carried.y_own[own][:, [0, *(1 + column for column in columns)]]
        return self.Y.take(np.concatenate([of_shared, of_own]) - self.z.shape[1], axis=-1)


def outputs_of_kind(classes: SymmetricClasses, kind: int) -> list[int]:
    """Outputs for a class of a kind: 0, its next token; 1 + b, next tokens of other classes of kind b; -1, the rest."""
    others = [
        1 + b for b, each in enumerate(classes.kinds) if classes.num_queries * each.classes_per_query > (b == kind)
    ]
    return [0, *others, *([-1] if classes.vocab_size > classes.num_classes else [])]


def numbers_of_outputs(classes: SymmetricClasses, kind: int) -> Floats:
    """How many outputs each of `outputs_of_kind` stands for; they sum to V."""
    N = classes.num_queries * np.array([each.classes_per_query for each in classes.kinds])
    N[kind] -= 1
    number = {0: 1, -1: classes.vocab_size - classes.num_classes}
    return np.array([number[o] if o <= 0 else N[o - 1] for o in outputs_of_kind(classes, kind)], dtype=np.float64)


FORMAT = "snapdyn trajectory 3"
HEADER = OURS  # attribute of the file that holds the JSON header
# Names that begin with it are for `load` only; `_labelled_parts` refuses it in names of a system.
PREFIX = OURS + "_"
SHARED = {"time", "query", "token", "value"}  # dimensions of `to_xarray` along which such variables stand, too
# Values of z and attention together, up to which a file has them for all tokens: 16 MB.
LARGEST_DENSE = 2_000_000
DENSE = {"z", "attention", "entropy"}
VIOLATION = "violation of "  # prefix of the variable of a conserved quantity
# Fields of a trajectory: those of the header, those that are variables, and mappings of names to variables.
IN_HEADER = ("system", "parameters", "status", "message", "stats", "value_names")
VARIABLES = ("z_support", "z_initial", "loss", "Y", "decoder_rows", "decoder_outputs", "state")
NAMED = {"extra": "", "observables": "", "invariants": VIOLATION}


@dataclass(frozen=True)
class EventRecord:
    """A located event.

    Attributes
    ----------
    name : str
    t : float
        Time in batch-size-1 steps.
    z_support : (nz,) array
        Attention logits at that time; empty for a system without attention logits.
    state : (size,) array or None
        State at that time, for a system without attention logits.
    z_values : (num_slots,) array or None
        For a run of symmetric classes: one logit in place of all that stay equal; see `Trajectory.of_class`. If the
        classes are too many to be listed one by one (`SymmetricClasses.is_large`), `z_support` is empty.
    """

    name: str
    t: float
    z_support: Floats
    state: Floats | None = None
    z_values: Floats | None = None


class Decoder(NamedTuple):
    """Decoder logits of a run.

    Attributes
    ----------
    Y : (N, rows, columns) array
    rows : (tokens,) array of int
        Row of Y for each token id, -1 for a token that has none.
    outputs : (columns,) array of int
        Output id of each column; -1 stands for every output that is no class's next token.
    """

    Y: Floats
    rows: Ints
    outputs: Ints


def _is_dense(run: Any) -> bool:
    """Whether the file of a run has z and attention: of all tokens or, for large classes, of one class of each kind."""
    if _large_representatives(run) or not run.has_z or not run.classes:
        return True
    queries, tokens = run.z_initial.shape
    return bool(run.t.size * tokens * (queries + run.classes.num_classes) <= LARGEST_DENSE)


def _large_representatives(run: Any) -> Representatives | None:
    """Values of one class of each kind, if the classes of the run are too many to be listed one by one; else None."""
    large = isinstance(run.classes, SymmetricClasses) and run.classes.is_large
    return run.representatives if large else None


def labelled_run(run: Any) -> xarray.Dataset:
    """The dataset of `Trajectory.to_xarray`."""
    return labelled(*_labelled_parts(run), _settings(run))


def _settings(run: Any) -> dict[str, Any]:
    """System, status and parameters of the run, the attributes of a dataset."""
    return {"system": run.system, "status": run.status, **run.parameters}


def _labelled_parts(run: Any, dense: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables and coordinates of `Trajectory.to_xarray`; without `dense`, z, attention and entropy are left out.

    Raises
    ------
    InputError
        An extra quantity, observable or conserved quantity has a name that netCDF cannot hold, or that another variable
        has.
    """
    import xarray

    data: dict[str, Any] = {}
    coordinates: dict[str, Any] = {"time": run.t}
    if not run.has_z:
        coordinates["time"] = ("time", run.t, {"long_name": "time", "units": run.clock})
    if run.has_loss:
        data["loss"] = ("time", run.loss)
    if _large_representatives(run):
        _add_kinds(run, data, coordinates)
    elif run.has_z:
        coordinates["token"] = np.arange(run.z_initial.shape[1])
        if dense:
            data["z"] = (("time", "query", "token"), run.z)
    if run.state is not None:
        data["state"] = (("time", "value"), run.state)
        if len(run.value_names) == run.state.shape[1]:
            coordinates["value"] = list(run.value_names)
    if run.classes and not _large_representatives(run):
        coordinates |= _classes_coordinates(run.classes)
        if dense:
            data["attention"] = (("time", "sequence_class", "token"), run.attention)
            data["entropy"] = (("time", "sequence_class"), run.entropy())
    known = xarray.Dataset(data, coordinates)
    taken = {*known.variables, *known.dims} | (set() if dense else DENSE)
    for name, dims, values in _own_variables(run):
        if not is_storable(name) or name.startswith(OURS) or name in taken:
            raise InputError(
                f"expected names of extra quantities, observables and conserved quantities that netCDF can hold, that "
                f"do not begin with {OURS!r} and that no other variable has, received {shown(name)}; rename it"
            )
        taken.add(name)
        data[name] = (dims, values, own_label(name))
    return data, coordinates


def _classes_coordinates(classes: SequenceClasses) -> dict[str, Any]:
    """Query tokens; query, next token and prior of each class; words of a text."""
    names = {"class_query": "query", "next_token": "next_token", "prior": "prior"}
    coordinates: dict[str, Any] = {"query": np.array(classes.queries)}
    coordinates |= {name: ("sequence_class", np.array(getattr(classes, of))) for name, of in names.items()}
    words = getattr(classes, "words", ())  # of a text
    if len(words) == classes.num_tokens:
        coordinates["word"] = ("token", list(words))
    return coordinates


def _own_variables(run: Any) -> list[tuple[str, tuple[str, ...], Floats]]:
    """Name, dimensions and values of the quantities that the system itself names."""
    axes = ("row", "column", "depth")
    return [
        *((name, ("time", f"{name}_index"), values) for name, values in run.extra.items()),
        *((name, ("time", *(f"{name}_{a}" for a in axes[: v.ndim - 1])), v) for name, v in run.observables.items()),
        *((VIOLATION + name, ("time",), values) for name, values in run.invariants.items()),
    ]


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


def stored(run: Any) -> xarray.Dataset:
    """The dataset that is written for a `Trajectory`: that of `to_xarray`, and all else that `load` needs.

    For a run that is not `_is_dense`, logits on `z_coordinates` are written in place of z, attention and entropy. Names
    of variables that only `load` reads begin with `PREFIX`.

    Raises
    ------
    InputError
        As for `_labelled_parts`.
    """
    dense = _is_dense(run)
    dataset, coordinates = _labelled_parts(run, dense)
    kept = _large_representatives(run)
    data: dict[str, Any] = {}
    if kept:
        data["z_values"] = (("time", "z_value"), kept.z)
        if kept.Y is not None and kept.saves_decoder:
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
        if hasattr(run.classes, "spurious"):  # of a data set
            data["spurious"] = (("spurious", "pair"), run.classes.spurious)
    if not kept and run.Y is not None:
        data |= {
            "Y": (("time", "row", "column"), run.Y),
            "decoder_rows": ("decoder_token", run.decoder_rows),
            "decoder_outputs": ("column", run.decoder_outputs),
        }
    if run.events:
        data["event_t"] = ("event", np.array([event.t for event in run.events]))
        part, dim = ("z_values", "z_value") if kept else ("z_support", "logit") if run.has_z else ("state", "value")
        data[f"event_{part}"] = (("event", dim), np.array([getattr(event, part) for event in run.events]))
    header = {name: getattr(run, name) for name in IN_HEADER} | {name: list(getattr(run, name)) for name in NAMED}
    header |= {
        "state_shapes": list(run.state_shapes.items()),
        "event_names": [event.name for event in run.events],
        "vocab_size": run.classes.vocab_size if run.classes else None,
        "provenance": provenance(),
    }
    if isinstance(run.classes, SymmetricClasses):
        header["symmetric_classes"] = run.classes.to_json()
    for name, (dims, values) in data.items():
        dims = [dims] if isinstance(dims, str) else dims
        dataset[PREFIX + name] = ([dim if dim in SHARED else PREFIX + dim for dim in dims], values)
    return labelled(dataset, coordinates, _settings(run)).assign_attrs({HEADER: json.dumps(header, sort_keys=True)})


def fields(attributes: Mapping[str, Any], variables: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Arguments of `Trajectory` from the attributes and the variables of a file, and those of its `Representatives`."""
    header, values = json.loads(attributes[HEADER]), dict(variables)
    own = {kind: {name: values.pop(before + name) for name in header[kind]} for kind, before in NAMED.items()}
    values = {name.removeprefix(PREFIX): value for name, value in values.items()}
    classes: SequenceClasses | None = None
    kept: tuple[Any, ...] = ()
    if "symmetric_classes" in header:
        classes = symmetric = SymmetricClasses.from_json(header["symmetric_classes"])
        if "z_values" in values:
            kept = symmetric, values["z_values"], values.get("Y_values")
    elif "P_data" in values:
        from scipy import sparse

        shape = (values["class_query"].size, values["z_initial"].shape[1])
        P = sparse.csr_array((values["P_data"], (values["P_class"], values["P_token"])), shape=shape)
        classes = SequenceClasses(P, values["class_query"], values["next_token"], values["prior"], header["vocab_size"])
        if "word" in values:
            vars(classes)["words"] = tuple(map(str, values["word"]))  # of a text
        if "spurious" in values:
            vars(classes)["spurious"] = values["spurious"]  # of a data set
    if classes and not kept and "z" in values and "z_support" not in values:
        query, token = classes.z_coordinates  # elsewhere z keeps its start
        values["z_support"] = np.ascontiguousarray(values["z"][:, query, token])
    event_t = values.get("event_t", np.empty(0))
    no_logits, nothing = np.empty((event_t.size, 0)), [None] * event_t.size
    events = zip(
        header["event_names"],
        event_t.tolist(),
        values.get("event_z_support", no_logits),
        values.get("event_state", nothing),
        values.get("event_z_values", nothing),
        strict=True,
    )
    arguments = dict(
        {name: header[name] for name in IN_HEADER} | {name: values.get(name) for name in VARIABLES} | own,
        classes=classes,
        t=values["time"],
        events=[EventRecord(*event) for event in events],
        value_names=tuple(header["value_names"]),
        state_shapes={name: tuple(shape) for name, shape in header["state_shapes"]},
    )
    return arguments, kept
