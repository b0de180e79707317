"""The registry of observables, their labels in datasets and on axes, and each class's logits from a saved decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from snapdyn.core.errors import LARGEST_WHOLE, InputError, unknown_name, whole
from snapdyn.core.registry import Registry
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses

if TYPE_CHECKING:
    import xarray

NUMBERS_AT_ONCE = 4_000_000  # rows of Y that are gathered at a time, 32 MB
# Kinds of cells of a sweep: what a cell runs.
ODE, SGD, LADDER, TRANSFORMER = "ode", "sgd", "ladder", "transformer"
STEPS = "batch-size-1 steps"


class ClassLogits(NamedTuple):
    """Decoder logits of each class at each saved time.

    Attributes
    ----------
    logits : (N, S, columns) array
        w_n = Y^T f_n; the columns are the next tokens in their order, then one for all other outputs, if there are any.
    right : (N, S) array
        w_n[next token of n].
    odds : (N, S) array
        (1 - alpha_n[n])/alpha_n[n].
    """

    logits: Floats
    right: Floats
    odds: Floats

    @property
    def speed(self) -> Floats:
        """gamma_n = w_n[n] (1 - alpha_n[n]), (N, S), which is Eq. (85) under the modified flow."""
        return measured_speed(self.right, self.odds)


def measured_speed(right: Floats, odds: Floats) -> Floats:
    """gamma_n = w_n[n] (1 - alpha_n[n]) from the right logit and the odds (1 - alpha_n[n])/alpha_n[n], any shape."""
    return np.asarray(right * odds / (1.0 + odds))


def class_logits(classes: SequenceClasses, attention: Floats, Y: Floats, rows: Ints, outputs: Ints) -> ClassLogits:
    """Decoder logits of each class, for infinitely long sequences without residual connection.

    Parameters
    ----------
    classes : SequenceClasses
    attention : (N, nnz) array
        Attention on the stored entries of P.
    Y, rows, outputs : arrays
        As in `Decoder`.

    Returns
    -------
    ClassLogits
    """
    starts, times = classes.P.indptr[:-1], len(attention)
    norm = np.sqrt(np.add.reduceat(attention**2, starts, axis=1))
    row_of_entry = rows[classes.P.indices]
    # Systems order their columns differently: here the next tokens come first, in their order, then the others.
    column = {output: place for place, output in enumerate(outputs.tolist())}
    order = [column[output] for output in (*classes.next_tokens.tolist(), -1) if output in column]
    logits = np.empty((times, classes.num_classes, len(order)))
    together = max(1, NUMBERS_AT_ONCE // max(1, row_of_entry.size * outputs.size))
    for first in range(0, times, together):
        part = slice(first, first + together)
        sums = np.add.reduceat(attention[part, :, None] * Y[part, row_of_entry], starts, axis=1)
        logits[part] = (sums / norm[part, :, None])[:, :, order]
    correct = np.arange(classes.num_classes), classes.next_index
    right = logits[:, *correct]
    count = np.ones(len(order))
    count[classes.next_tokens.size :] = classes.vocab_size - classes.next_tokens.size
    others = count * np.exp(logits - right[:, :, None])
    others[:, *correct] = 0.0
    return ClassLogits(logits, right, others.sum(axis=2))


def speed_of_kind(attention: Floats, Y: Floats, number: Floats) -> Floats:
    """gamma_n of one class of a kind, (N, 1).

    Parameters
    ----------
    attention : (N, tokens) array
        Attention to the tokens of the class.
    Y : (N, tokens, outputs) array
        Decoder logits of these tokens on different outputs, the next token of the class first.
    number : (outputs,) array
        Number of outputs that each of the different outputs stands for.
    """
    f = attention / np.linalg.norm(attention, axis=1, keepdims=True)
    logits = (f[:, None] @ Y)[:, 0]
    right = logits[:, :1]
    return measured_speed(right, np.exp(logits[:, 1:] - right) @ number[1:, None])


def speed_of_visits(h: Floats, vocab_size: int) -> Floats:
    """gamma_n = (V-1)^2 h_n/(V - 1 + exp(V h_n)), Eq. (85), from h_n of Eq. (44), any shape; overflow-free."""
    decay = np.exp(-vocab_size * h)
    return np.asarray((vocab_size - 1) ** 2 * h * decay / ((vocab_size - 1) * decay + 1.0))


def peak_times(t: Floats, values: Floats) -> Floats:
    """Time at which each column has its largest value; NaN where it is the first or the last saved time.

    The time lies between saved times: at the vertex of the parabola through the largest value and its neighbours, in
    ln t (in t where the first of the three times is 0).

    Parameters
    ----------
    t : (N,) array
        Increasing.
    values : (N, S) array

    Returns
    -------
    (S,) array
    """
    peaks = np.full(values.shape[1], np.nan)
    for n, i in enumerate(values.argmax(axis=0) if t.size else ()):
        if not 0 < i < t.size - 1 or not np.isfinite(values[:, n]).all():
            continue
        three = slice(i - 1, i + 2)
        logarithmic = t[i - 1] > 0
        before, at, after = np.log(t[three]) if logarithmic else t[three]
        low, top, high = values[three, n]
        # Slopes of the two chords; the vertex is where the parabola's slope, linear in between, vanishes.
        rise, fall = (top - low) / (at - before), (high - top) / (after - at)
        vertex = 0.5 * (before + at) + 0.5 * (after - before) * rise / (rise - fall) if rise > fall else at
        peaks[n] = np.exp(vertex) if logarithmic else vertex
    return peaks


@dataclass(frozen=True)
class Observable:
    """A quantity of runs.

    Attributes
    ----------
    name : str
    label : str
        The quantity in words; `long_name` in datasets, and the name of the axis in figures.
    unit : str
        "1": a pure number.
    values : callable
        Function that takes a run and returns the values. The run is a `Trajectory`; for an observable with cells
        "ladder" or "transformer", a `Ladder` or a `TransformerRun`.
    dims : tuple of str
        Dimensions of the values; "time" is the first one of a quantity over time.
    cells : tuple of str
        Kinds of cells of a sweep that have this quantity: "ode", "sgd", "ladder", "transformer". A sweep reads a
        quantity over time at the end of the run.
    indices : str
        What the indices of one curve are, such as "class {}, token {}".
    curve : callable, optional
        ``curve(run, *indices)``, (N,); default: `values` at the class that the index gives, or `values` itself where
        there are no indices.
    on_support : callable, optional
        Function that takes a run and returns the values (N, components) that can differ from 0 or from their start
        value; default `values`.
    text : bool
        Whether the value is a text.
    needs_transition : bool
        Whether this quantity needs an integration that locates the event "transition", and SGD that keeps the decoder.
    needs_decoder : bool
        Whether this quantity needs a run that keeps the decoder.
    lines : mapping of str to callable
        Lines of a theory in phase diagrams of this quantity: label, and ``line(parameters)``, which is 0 on the line.
        The parameters are the keys of a run's sections, `[system]` last: numbers, or arrays over the diagram.

    Examples
    --------
    >>> import snapdyn as sd
    >>> largest = sd.Observable("largest", "largest attention", "1", lambda run: run.attention.max(axis=(1, 2)))
    >>> largest.values(sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 100.0])).round(3)
    array([0.065, 0.105])
    """

    name: str
    label: str
    unit: str
    values: Callable[[Any], Any]
    dims: tuple[str, ...] = ("time",)
    cells: tuple[str, ...] = (ODE, SGD)
    indices: str = ""
    curve: Callable[..., Floats] | None = None
    on_support: Callable[[Any], Floats] | None = None
    text: bool = False
    needs_transition: bool = False
    needs_decoder: bool = False
    lines: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict, hash=False)

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the variable that holds this observable in a dataset."""
        return {"long_name": self.label, "units": self.unit}

    @property
    def axis(self) -> str:
        """Label with the unit, for an axis."""
        return self.label if self.unit == "1" else f"{self.label} ({self.unit})"

    def axis_of(self, *indices: int) -> str:
        """Label of the axis of one curve."""
        return f"{self.axis}, {self.indices.format(*indices)}" if indices else self.axis

    def values_on_support(self, run: Any) -> Floats:
        """Values from `on_support`, as (N, components)."""
        values = np.asarray((self.on_support or self.values)(run))
        return values.reshape(len(values), -1)

    def curve_of(self, run: Any, *indices: int) -> Floats:
        """Values of one curve over time, (N,)."""
        if self.curve:
            return self.curve(run, *indices)
        values: Floats = self.values(run)
        return values[:, run.require_classes().check_class(indices[0])] if indices else values


def entropy_of(probabilities: Floats, starts: Any = (0,)) -> Floats:
    """Entropy of groups of probabilities, (..., groups), nats; `starts`: where groups begin along the last axis."""
    logarithms = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    return np.asarray(-np.add.reduceat(probabilities * logarithms, starts, axis=-1))


def entry_of(classes: SequenceClasses, n: int, l: int) -> int:
    """Place of P(l|n) among the stored entries of P; InputError where P(l|n) = 0."""
    n, l = classes.check_class(n), whole("the token", l, -LARGEST_WHOLE)
    position = np.flatnonzero(classes.support(n) == l)
    if position.size == 0:
        raise InputError(f"expected a token of class {n} (P(l|n) > 0), received token {l}; see classes.support({n})")
    return int(classes.P.indptr[n]) + int(position[0])


def relative_gain_of(run: Any, first: Any, second: Any) -> Floats:
    """Relative gain f_n[l]^2/f_n[l0]^2 - 1 of entries `first` of P over entries `second` of their classes, (N, ...)."""
    classes, z = run.require_classes(), run.z_support
    P, of_entry = classes.P.data, classes.z_of_entry
    return np.expm1(2.0 * (np.log(P[first] / P[second]) + z[:, of_entry[first]] - z[:, of_entry[second]]))


def _gains_of_dominant_tokens(run: Any) -> Floats:
    """Relative gain of each class's dominant distinct token at t = 0 over its other distinct tokens, (N, pairs)."""
    classes = run.require_classes()
    weight = np.log(classes.P.data) + run.z_initial[classes.z_coordinates][classes.z_of_entry]
    distinct = np.flatnonzero(classes.omega_size[classes.P.indices] == 1)
    first, second = [distinct[:0]], [distinct[:0]]
    for own in np.split(distinct, np.searchsorted(distinct, classes.P.indptr[1:-1])):
        if own.size:
            dominant = own[np.argmax(weight[own])]
            second.append(own[own != dominant])
            first.append(np.full_like(second[-1], dominant))
    return relative_gain_of(run, np.concatenate(first), np.concatenate(second))


def _growth_on_support(run: Any) -> Floats:
    return np.exp(2.0 * (run.z_support - run.z_initial[run.require_classes().z_coordinates]))


def _of_decoder(run: Any) -> ClassLogits:
    if "kind" in run.parameters:  # an output stands for many
        raise InputError(
            "expected a run with all outputs of the decoder, received that of one class (`of_class`); read it of the "
            "whole run"
        )
    return class_logits(run.require_classes(), run.attention_entries, *run.require_decoder())


def decoder_speed(run: Any) -> Floats:
    """The speed gamma_n of each class, (N, S), from a saved decoder with all its outputs."""
    return _of_decoder(run).speed


def _spurious_attention(run: Any) -> Floats:
    """Attention on spurious tokens, mean over stored sequences, (N,)."""
    classes = run.require_classes()
    spurious = getattr(classes, "spurious", None)
    if spurious is None:
        raise _without_data(run)
    attention = run.attention_entries * np.isin(classes.P.indices, spurious[:, 1])
    return np.asarray(np.add.reduceat(attention, classes.P.indptr[:-1], axis=1) @ classes.prior)


def _fresh_loss(run: Any) -> Floats:
    """Loss on sequences that training has not seen, (N,), nats."""
    fresh = getattr(run.require_classes(), "fresh", None)
    if fresh is None:
        raise _without_data(run)
    return loss_on(run, fresh)


def loss_on(run: Any, classes: SequenceClasses) -> Floats:
    """Loss of a run on other classes of the same queries, next tokens and V, such as other sequences, (N,), nats.

    Raises
    ------
    InputError
        The run kept no decoder, has a residual connection, or did not start from Y = 0.
    """
    if run.parameters.get("residual") or run.parameters.get("init", "zeros") != "zeros":
        raise InputError(
            "expected a run from Y = 0 without residual connection for its loss on other sequences, received another "
            "one; start from zeros with residual=False"
        )
    Y, rows, outputs = run.require_decoder()
    query, token = classes.z_coordinates
    attention = classes.attention_from_support(run.z[:, query, token])
    # Tokens that no class of the run has keep Y = 0: row -1 is theirs.
    Y = np.concatenate([Y, np.zeros_like(Y[:, :1])], axis=1)
    return np.asarray(np.log1p(class_logits(classes, attention, Y, rows, outputs).odds) @ classes.prior)


def _without_data(run: Any) -> InputError:
    return InputError(
        f"expected a run on stored sequences, received one of {run.system} on other classes or from a file; build "
        "classes with sd.data_set(classes, sequences, seq_len) and run again"
    )


def _entropy(run: Any) -> Floats:
    return np.asarray(run.entropy() if callable(run.entropy) else run.entropy)  # transformers keep an array


def _growth_exponent(run: Any) -> Floats:
    if "B" not in run.extra:
        raise InputError(
            f"expected the system SingleCommonToken for the observable growth_exponent, received {run.system}; leave "
            "this observable out"
        )
    return np.asarray(run.extra["B"][:, 0])


OF_CLASS = ("time", "sequence_class")
OBSERVABLES: Registry[Observable] = Registry(
    "observable",
    lambda observable: observable.name,
    [
        Observable("loss", "loss", "nats", lambda run: run.loss, cells=(ODE, SGD, TRANSFORMER)),
        Observable(
            "entropy",
            "entropy of attention",
            "nats",
            _entropy,
            OF_CLASS,
            cells=(ODE, SGD, TRANSFORMER),
            indices="class {}",
        ),
        Observable(
            "attention",
            "attention $c_n(l)$",
            "1",
            lambda run: run.attention,
            (*OF_CLASS, "token"),
            cells=(),
            indices="class {}, token {}",
            curve=lambda run, n, l: run.token_attention(n, l),
            on_support=lambda run: run.attention_entries,
        ),
        Observable(
            "growth_factor",
            r"growth factor $\chi_l$",
            "1",
            lambda run: np.exp(2.0 * (run.z - run.z_initial)),
            ("time", "query", "token"),
            cells=(),
            indices="class {}, token {}",
            curve=lambda run, n, l: run.growth_factor(n, l),
            on_support=_growth_on_support,
        ),
        Observable(
            "relative_gain",
            "relative gain $r_{l/l_0}$",
            "1",
            _gains_of_dominant_tokens,
            ("time", "pair"),
            cells=(),
            indices="class {}, tokens {} and {}",
            curve=lambda run, n, l, l0: run.relative_gain(n, l, l0),
        ),
        Observable(
            "distinct_entropy",
            "entropy of attention over the distinct tokens",
            "nats",
            lambda run: run.entropy(distinct_only=True),
            OF_CLASS,
        ),
        Observable("spurious_attention", "attention on spurious tokens", "1", _spurious_attention),
        Observable("fresh_loss", "loss on fresh sequences", "nats", _fresh_loss, needs_decoder=True),
        Observable("growth_exponent", "growth exponent B", "1", _growth_exponent, cells=(ODE,)),
        Observable(
            "z",
            "attention logits $z$",
            "1",
            lambda run: run.z,
            ("time", "query", "token"),
            cells=(),
            on_support=lambda run: run.z_support,
        ),
        Observable(
            "logits",
            "decoder logits $w_n = Y^T f_n$",
            "1",
            lambda run: _of_decoder(run).logits,
            (*OF_CLASS, "output"),
            cells=(),
        ),
        Observable("class_loss", "loss of a class", "nats", lambda run: np.log1p(_of_decoder(run).odds), OF_CLASS, ()),
        Observable("speed", r"speed $\gamma_n$", "1", lambda run: run.speed(), OF_CLASS, ()),
    ],
)
"""Every observable by name. `snapdyn.validation.phases` declares those that need closed forms or a ladder."""


def declare_own_observables(system: Any) -> None:
    """Add scalar observables and state values of a user's system; several systems may use one name."""
    for name in system.scalar_names():
        if name not in OBSERVABLES:
            OBSERVABLES.add(Observable(name, name, "1", partial(_of_system, name), cells=(ODE,)))


def _of_system(name: str, run: Any) -> Floats:
    known: dict[str, Floats] = run.values_of_system()
    if name not in known:
        raise unknown_name(f"an observable of {run.system}", name, known)
    return known[name]


def curve_named(name: str) -> tuple[Observable, tuple[int, ...]]:
    """Observable and indices of a curve, such as "loss", "entropy 0" (class) or "attention 0 3" (class, token).

    Raises
    ------
    InputError
        The observable is unknown, or the number of indices is wrong.
    """
    kind, *rest = str(name).split()
    known = curve_names()
    if kind not in known:
        raise unknown_name("an observable", kind, known)
    observable = OBSERVABLES[kind]
    count = observable.indices.count("{}")
    try:
        indices = tuple(map(int, rest))
    except ValueError:
        indices = ()
    if len(indices) != count or len(rest) != count:
        raise InputError(
            f"expected {count} numbers (class, then tokens) for the observable {kind}, received {rest}; write for "
            f"example '{' '.join([kind, *(['0'] * count)])}'"
        )
    return observable, indices


def curve_names() -> list[str]:
    """Names of the observables of a run with classes that can be drawn as curves over time."""
    return [name for name, each in OBSERVABLES.items() if each.dims == ("time",) or each.indices]


# Long name and unit of coordinates and other variables.
LABELS = {
    "time": ("time in batch-size-1 SGD steps", "steps"),
    "state": ("value of the state", "1"),
    "query": ("query token", "1"),
    "token": ("contextual token", "1"),
    "word": ("word of the contextual token", "1"),
    "next_token": ("next token of the sequence class", "1"),
    "prior": ("probability of the sequence class", "1"),
    "sequence_class": ("sequence class", "1"),
    "kind": ("kind of sequence classes", "1"),
    "classes_per_query": ("number of classes of the kind per query", "1"),
    "value": ("name of the state value", "1"),
}
# Names that begin so are those of what only `load` reads; a system has none.
OURS = "snapdyn"
# Attributes of a file that netCDF, xarray or snapdyn itself needs.
NOT_SETTINGS = {
    *("format", "snapdyn", "coordinates", "CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST"),
    *("_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"),
}


def is_storable(name: Any) -> bool:
    """Whether netCDF holds a variable or an attribute of this name as it is."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and 0 < len(name.encode()) <= 256
        and "/" not in name
        and name not in (".", "..")
        and "_nc4_non_coord_" not in name  # netCDF's own mark, left out in reading
    )


def own_label(name: str) -> dict[str, str]:
    """Attributes of a variable that a system names: the name, and no unit."""
    return {"long_name": name.replace("_", " "), "units": "1"}


def labelled(data: Mapping[str, Any], coordinates: Mapping[str, Any], settings: Mapping[str, Any]) -> xarray.Dataset:
    """Dataset whose variables all have a `long_name` and `units`, with the settings of the run as attributes.

    Parameters
    ----------
    data, coordinates : mapping
        As for `xarray.Dataset`.
    settings : mapping
        Attributes of the dataset, except those in `NOT_SETTINGS` and those whose names netCDF cannot hold. Numbers,
        texts and lists of numbers stay; a list of one number becomes this number; everything else becomes text.

    Returns
    -------
    xarray.Dataset
    """
    import xarray

    kept = {name: value for name, value in settings.items() if name not in NOT_SETTINGS and is_storable(name)}
    dataset = xarray.Dataset(data, coordinates, {name: _storable(value) for name, value in kept.items()})
    for name, variable in dataset.variables.items():
        if not variable.attrs:
            variable.attrs = own_label(str(name))
            if name in LABELS:
                variable.attrs = dict(zip(("long_name", "units"), LABELS[str(name)], strict=True))
            elif name in OBSERVABLES:
                variable.attrs = OBSERVABLES[str(name)].attributes
    return dataset


def _storable(value: Any) -> Any:
    """The value in a form that a netCDF attribute can hold and that reads back unchanged."""
    if isinstance(value, str):
        return value
    entries = value if isinstance(value, (list, tuple)) else [value]
    if entries and all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in entries):
        array = np.asarray(entries)
        if array.dtype.kind in "if":  # not whole numbers of more than 64 bits
            return array.tolist() if array.size > 1 else array.item()
    return str(value)
