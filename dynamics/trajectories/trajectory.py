"""Trajectories: what a run returns, with the observables of the paper on it."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, choice, file_path, flag, time_array
from snapdyn.core.html import html_table
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.files.netcdf import reading_netcdf, write_netcdf
from snapdyn.dynamics.observables import (
    OBSERVABLES,
    entropy_of,
    entry_of,
    peak_times,
    relative_gain_of,
    speed_of_kind,
    speed_of_visits,
)
from snapdyn.dynamics.trajectories.representatives import REMEDY, Representatives, numbers_of_outputs, outputs_of_kind
from snapdyn.dynamics.trajectories.run_parts import FORMAT, Decoder, EventRecord, Lifted, fields, labelled_run, stored

if TYPE_CHECKING:
    import xarray

# Of a run that `integrate` made; neither copied nor saved.
FUNCTIONS = frozenset({"_states_at", "_again", "_of_whole", "_decoded"})
# Fields that a run on representatives gives for all classes when they are read.
LIFTED = frozenset({"z_support", "z_initial", "Y", "decoder_rows", "decoder_outputs"})

Value = TypeVar("Value")


class _MayLack(Generic[Value]):
    """Field that a system may lack, kept as None; with `what` it has no default, and reading None raises InputError.

    In a run with one value in place of all that stay equal, the array of all classes is made when it is first read.
    """

    def __init__(self, what: str = "") -> None:
        self._what = what

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, run: Trajectory | None, owner: type) -> Value:
        value = vars(run)[self._name] if run else None
        if isinstance(value, Lifted):
            value = vars(run)[self._name] = value.made()
        if run and value is None and self._name in LIFTED and run.representatives is not None:
            value = vars(run)[self._name] = run.representatives.lifted(self._name)
        if value is None and self._what:
            raise run.lacking(self._what) if run else AttributeError(self._name)  # the dataclass asks for a default
        return value  # type: ignore[return-value]  # None is a Value where there is no `what`

    def __set__(self, run: Trajectory, value: Value | Lifted | None) -> None:
        vars(run)[self._name] = value


@dataclass
class Trajectory:
    """One run at the saved times `t`, with its observables.

    Reading what the system does not have (attention logits, attention, loss, decoder) raises InputError. Only two
    readers integrate again, which takes as long as the run: a call ``trajectory(t)``, and `transition` without
    `save_decoder`.

    Attributes
    ----------
    classes : SequenceClasses or None
        None for a system without sequence classes, such as that of Eq. (13); see `require_classes`.
    t : (N,) array
        Time in batch-size-1 SGD steps. Fewer than requested if the run stopped early.
    z_support : (N, nz) array
        Attention logits on classes.z_coordinates; all others keep their initial value.
    z_initial : (Q, M) array
    loss : (N,) array
        -sum_n p_n ln alpha_n[next], nats.
    system : str
        Name of the system.
    parameters : dict
        Parameters of the system.
    status : str
        "finished", "terminated" (by an event), "interrupted" or "failed"; see `success`.
    message : str
        For a run that stopped early: at which time, in which quantity, what to try.
    stats : dict
        Method, time variable, tolerances, evaluations, steps.
    invariants : dict of (N,) arrays
        Violation of each conserved quantity at each saved time.
    extra : dict of (N, k) arrays
        Quantities that only some systems have, such as h per class or B.
    Y : (N, rows, columns) array or None
        Decoder logits, for a run with `save_decoder`: row `decoder_rows[token]`, column of output `decoder_outputs`
        (-1 stands for every output that is no class's next token); see `require_decoder`.
    decoder_rows : (tokens,) array of int or None
    decoder_outputs : (columns,) array of int or None
    state : (N, size) array or None
        State of a system without attention logits; None for every other system.
    value_names : sequence of str
        Names of the values of `state`, if the system names them.
    representatives : Representatives or None
        For a run of symmetric classes: the values that it keeps, one in place of all that stay equal. `z_support`,
        `z_initial` and Y are made from these when they are read, if they fit into memory; see `of_class`.
    events : list of EventRecord
    observables : dict of (N, ...) arrays
        Observables that the system declares; see `observable`.
    state_shapes : dict of tuples
        Shape of each named part of `state`, in order.
    wall_time : float
        Duration of the run in seconds, without compilation; not stored in files, so that equal runs give equal bytes.
    """

    if TYPE_CHECKING:
        plot: ClassVar[Callable[..., Any]]  # attached by `snapdyn`: drawing belongs to another room
    classes: SequenceClasses | None
    t: Floats
    z_support: _MayLack[Floats] = _MayLack("attention logits")
    z_initial: _MayLack[Floats] = _MayLack("attention logits")
    loss: _MayLack[Floats] = _MayLack("a loss")
    system: str  # type: ignore[misc]  # `_MayLack` has no default
    parameters: dict[str, Any]  # type: ignore[misc]
    status: str = "finished"
    message: str = ""
    stats: dict[str, Any] = field(default_factory=dict)
    invariants: dict[str, Floats] = field(default_factory=dict)
    extra: dict[str, Floats] = field(default_factory=dict)
    Y: _MayLack[Floats | None] = _MayLack()
    decoder_rows: _MayLack[Ints | None] = _MayLack()
    decoder_outputs: _MayLack[Ints | None] = _MayLack()
    events: list[EventRecord] = field(default_factory=list)
    wall_time: float = float("nan")
    state: Floats | None = None
    value_names: Sequence[str] = ()
    representatives: Representatives | None = None
    observables: dict[str, Floats] = field(default_factory=dict)
    state_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _states_at: Callable[[Floats], Floats] | None = field(default=None, init=False)
    _again: Callable[[Floats], Trajectory] | None = field(default=None, init=False)
    _of_whole: Callable[[], Floats] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.representatives is None and vars(self)["Y"] is None:
            self.decoder_rows = self.decoder_outputs = None
        if vars(self)["z_support"] is not None:  # given for all classes, as in a copy with other logits
            self._leave_representatives()

    def _leave_representatives(self) -> None:
        """Keep the values of all classes in place of those of representatives."""
        kept = self.representatives
        if kept is None:
            return
        for name in LIFTED:
            getattr(self, name)
        self.events = [
            event
            if event.z_values is None
            else replace(event, z_support=kept.z_of_all_classes(event.z_values), z_values=None)
            for event in self.events
        ]
        self.representatives = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in FUNCTIONS}

    def changed(self, **values: Any) -> Trajectory:
        """Return a copy with other values of some attributes, without dense output.

        Unlike `dataclasses.replace` it does not read the other attributes, which a system may lack, unless logits or Y
        change.
        """
        other = copy.copy(self)  # as `__getstate__` says
        if not LIFTED.isdisjoint(values):
            other._leave_representatives()
        vars(other).pop("transition", None)  # of other values
        vars(other).update(values)
        return other

    def keep_system(
        self, states_at: Callable[[Floats], Floats], again: Callable[[Floats], Trajectory] | None = None
    ) -> None:
        """Keep two functions of increasing times (N,) in the run: one returns its states (N, size), one the run with Y.

        `__call__` and `transition` use them. They hold the system; they are neither saved nor sent to other processes.
        """
        self._states_at, self._again = states_at, again

    def __call__(self, t: ArrayLike) -> Floats:
        """State at any times within the run, from the dense output of its steps.

        The run is made again, which takes as long as the first time: give all times at once.

        Parameters
        ----------
        t : float or (N,) array
            Times in batch-size-1 steps, from 0 to the last time of the run, in any order.

        Returns
        -------
        (size,) or (N, size) array
            In the order of the state of the system.

        Raises
        ------
        InputError
            A time outside of the run; a trajectory that was loaded from a file, or that training made by finite steps.

        Examples
        --------
        >>> import snapdyn as sd, sympy
        >>> u = sympy.Symbol("u")
        >>> run = sd.integrate(sd.System.from_sympy("Decay", {u: 1.0}, {u: -u}), [2.0])
        >>> run([0.0, 1.0]).round(4)
        array([[1.    ],
               [0.3679]])
        """
        if self._states_at is None:
            raise InputError(
                f"expected a trajectory that integrate made in this process, received one of {self.system} without "
                "dense output; integrate the system again, with these times in t_eval"
            )
        last = max([*self.t[-1:].tolist(), *(event.t for event in self.events)], default=0.0)
        times = time_array("t", t, at_most=last, advice="give times up to the end of the run")
        if times.ndim:
            time_array("t", times, ("N",))
        ordered, position = np.unique(times, return_inverse=True)
        states = self._states_at(ordered)
        return states[position.ravel()] if times.ndim else states[0]

    def observable(self, name: str) -> Floats:
        """An observable over time, or a part of the state, by name.

        Parameters
        ----------
        name : str
            An observable that the system declares, a state variable, one of its extra quantities, or an observable of
            the registry (`snapdyn.dynamics.observables.OBSERVABLES`), such as "entropy".

        Returns
        -------
        (N, ...) array
            One value or array for each saved time.

        Raises
        ------
        InputError
            Neither the system nor the registry has this name.

        Examples
        --------
        >>> import snapdyn as sd, sympy
        >>> u = sympy.Symbol("u")
        >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u}, observables={"square": u**2})
        >>> sd.integrate(decay, [0.0, 1.0]).observable("square").round(4)
        array([1.    , 0.1353])
        """
        known = self.values_of_system()
        others = [
            key
            for key, each in OBSERVABLES.items()
            if each.dims[:1] == ("time",) and (self.classes or key not in OBSERVABLES.own)
        ]
        choice(f"an observable of {self.system}", name, [*known, *others])
        return known[name] if name in known else np.asarray(OBSERVABLES[name].values(self))

    def values_of_system(self) -> dict[str, Floats]:
        """Observables that the system declares, its extra quantities and the parts of its state, by name."""
        known: dict[str, Floats] = {**self.extra, **self.observables}
        if self.state is not None:
            first = 0
            for part, shape in self.state_shapes.items():
                width = math.prod(shape)
                known[part] = self.state[:, first : first + width].reshape(-1, *shape)
                first += width
            for value, values in zip(self.value_names, self.state.T, strict=False):
                known.setdefault(value, values)
        return known

    def __repr__(self) -> str:
        span = f"t = {self.t[0]:.4g}..{self.t[-1]:.4g}" if self.t.size else "no saved times"
        return f"Trajectory({self.system}, {self.t.size} times, {span}, {self.status})"

    def _repr_html_(self) -> str:
        """Table of the run, for notebooks."""
        rows: dict[str, Any] = {**self.parameters, "status": self.status, "saved times": self.t.size}
        if self.t.size:
            rows["t, in batch-size-1 steps"] = f"{self.t[0]:.6g} to {self.t[-1]:.6g}"
            if self.has_loss:
                rows["loss, nats"] = f"{self.loss[0]:.6g} to {self.loss[-1]:.6g}"
            rows |= {f"largest violation of {name}": float(each.max()) for name, each in self.invariants.items()}
        return html_table(
            self.system, rows | {name: self.stats[name] for name in ("method", "steps") if name in self.stats}
        )

    # -- observables ---------------------------------------------------------------------------------------
    def require_classes(self) -> SequenceClasses:
        """Sequence classes of the run.

        Raises
        ------
        InputError
            The system has no sequence classes.

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [1.0])
        >>> run.require_classes().num_classes
        2
        """
        if self.classes is None:
            raise self.lacking("sequence classes")
        return self.classes

    def require_decoder(self) -> Decoder:
        """Decoder logits of the run, with the rows of the tokens and the outputs of the columns.

        Raises
        ------
        InputError
            The run kept no decoder.

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [1.0], save_decoder=True)
        >>> decoder = run.require_decoder()
        >>> decoder.Y.shape
        (1, 21, 3)
        >>> decoder.outputs
        array([32, 33, -1])
        """
        if self.Y is None or self.decoder_rows is None or self.decoder_outputs is None:
            raise InputError(
                f"expected a trajectory with the decoder Y, received one of {self.system} without it; run again with "
                "save_decoder=True"
            )
        return Decoder(self.Y, self.decoder_rows, self.decoder_outputs)

    def require_state(self) -> Floats:
        """State of a system without attention logits, (N, size).

        Raises
        ------
        InputError
            The system has attention logits, and its run did not keep the state.
        """
        if self.state is None:
            raise InputError(
                f"expected a trajectory with the state, received one of {self.system}, which keeps attention logits "
                "instead; use z, and Y with save_decoder=True"
            )
        return self.state

    @property
    def success(self) -> bool:
        """Whether the run ended as planned: at its last time, or at a terminal event."""
        return self.status in ("finished", "terminated")

    @property
    def has_z(self) -> bool:
        """Whether the system has attention logits."""
        return vars(self)["z_support"] is not None or self.representatives is not None

    @property
    def has_loss(self) -> bool:
        """Whether the system has a loss."""
        return vars(self)["loss"] is not None

    def lacking(self, what: str) -> InputError:
        """Error for what the system does not have."""
        return InputError(f"expected a trajectory with {what}, received one of {self.system}, which has none")

    @property
    def z(self) -> Floats:
        """Attention logits, (N, Q, M), rows in increasing query id.

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 10.0, 100.0])
        >>> run.z.shape
        (3, 2, 30)
        """
        start = self.z_initial
        self._require("attention logits", start.shape)
        z = np.repeat(start[None], self.t.size, axis=0)
        query, token = self.classes.z_coordinates if self.classes else (np.zeros(1, int), np.zeros(1, int))
        z[:, query, token] = self.z_support
        return z

    @property
    def attention_entries(self) -> Floats:
        """Attention c_n[l] of Eq. (5) on the stored entries of P, (N, nnz); all other attention is 0."""
        return self.require_classes().attention_from_support(self.z_support)

    @property
    def attention(self) -> Floats:
        """Attention c_n[l] of Eq. (5), (N, S, M): a probability distribution over the tokens l of each class n.

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 100.0])
        >>> run.attention[:, 0, 0].round(4)
        array([0.0645, 0.0511])
        """
        classes = self.require_classes()
        entries = self.attention_entries
        shape = classes.num_classes, classes.num_tokens
        self._require("attention", shape)
        attention = np.zeros((self.t.size, *shape))
        attention[:, classes.class_of_entry, classes.P.indices] = entries
        return attention

    def _require(self, what: str, shape: tuple[int, int]) -> None:
        require_memory(f"{what} of shape {(self.t.size, *shape)}", 8.0 * self.t.size * shape[0] * shape[1], REMEDY)

    def entropy(self, distinct_only: bool = False) -> Floats:
        """Entropy of the attention of each class.

        Parameters
        ----------
        distinct_only : bool
            Restrict the attention to the distinct tokens of the class and renormalise it (Fig. 6).

        Returns
        -------
        (N, S) array
            Entropies in nats; with `distinct_only`, NaN for a class without distinct tokens.

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 10.0, 100.0])
        >>> run.entropy()[:, 0].round(3)
        array([2.899, 2.902, 2.885])
        """
        classes = self.require_classes()
        c = self.attention_entries
        if flag("distinct_only", distinct_only):
            c = np.where(classes.omega_size[classes.P.indices] == 1, c, 0.0)
            total = np.add.reduceat(c, classes.P.indptr[:-1], axis=-1)
            with np.errstate(invalid="ignore"):
                c = c / np.repeat(total, np.diff(classes.P.indptr), axis=-1)
        return entropy_of(c, classes.P.indptr[:-1])

    def token_attention(self, n: int, l: int) -> Floats:
        """Attention c_n[l](t) of one class to one of its tokens.

        Parameters
        ----------
        n : int
            Class.
        l : int
            Token id with P(l|n) > 0.

        Returns
        -------
        (N,) array

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 100.0])
        >>> run.token_attention(0, 0).round(4)
        array([0.0645, 0.0511])
        """
        return self.attention_entries[:, entry_of(self.require_classes(), n, l)]

    def relative_gain(self, n: int, l: int, l0: int) -> Floats:
        """Relative gain r_{l/l0|n}(t) = f_nl^2/f_nl0^2 - 1 (Theorem 3).

        Parameters
        ----------
        n : int
            Class.
        l : int
            Token id with P(l|n) > 0.
        l0 : int
            Token id with P(l0|n) > 0, to which `l` is compared.

        Returns
        -------
        (N,) array

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 10.0, 100.0])
        >>> run.relative_gain(0, l=15, l0=0).round(3)
        array([-0.64 , -0.594, -0.076])
        """
        classes = self.require_classes()
        return relative_gain_of(self, entry_of(classes, n, l), entry_of(classes, n, l0))

    def growth_factor(self, n: int, l: int) -> Floats:
        """Growth factor chi_l(t) = exp(2 (z_ml(t) - z_ml(0))) of Eq. (11), with m = psi(n).

        Parameters
        ----------
        n : int
            Class.
        l : int
            Token id with P(l|n) > 0.

        Returns
        -------
        (N,) array

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 10.0, 100.0])
        >>> run.growth_factor(0, 15).round(3)
        array([1.   , 1.061, 1.629])
        """
        classes = self.require_classes()
        entry = entry_of(classes, n, l)
        start = self.z_initial[classes.query_index[int(n)], int(l)]
        return np.exp(2.0 * (self.z_support[:, classes.z_of_entry[entry]] - start))

    # -- symmetric classes ---------------------------------------------------------------------------------
    @cached_property
    def transition(self) -> Floats:
        """Time at which the measured speed gamma_n of each class peaks, (S,), batch-size-1 steps.

        gamma_n = w_n[n] (1 - alpha_n[n]) with w_n = Y^T f_n; in the modified flow, whose Y follows h_n, this is
        Eq. (85). The result is NaN where gamma_n is largest at the first or the last saved time. For finite sequences
        alpha_n is that of infinitely long ones with the logits of the run. Between saved times a parabola in ln t is
        drawn through the largest value and its neighbours: save times densely around the peak. The decoder is that of
        `save_decoder`; without it, the run is made again, which takes as long as the first time.

        For symmetric classes, `trajectory.of_class(kind).transition`, (1,), is the time of every class of a kind (they
        all have the same), and costs the same for any number of classes.

        Raises
        ------
        InputError
            The run has no decoder and was not made by `integrate` in this process; it has a residual connection; it is
            the run of one class (`of_class`), copied or loaded from a file; or it has too many classes to list.

        Notes
        -----
        The theory's time, for equal priors and the modified flow, is `analytic.transition_time`.

        Examples
        --------
        >>> import snapdyn as sd
        >>> system = sd.FrozenDecoder(sd.syn_small(), eta_Y=1.0, modified=True)
        >>> sd.integrate(system, sd.log_times(0.1, 100.0, 200)).transition.round(2)
        array([6.55, 6.55])
        >>> round(float(sd.analytic.transition_time(2, 34, 1.0)), 2)
        6.55
        """
        classes = self.require_classes()
        if self.parameters.get("residual"):
            raise InputError(
                "expected a run without residual connection to measure gamma, received one with residual = True; set "
                "residual=False"
            )
        if self._of_whole:
            return self._of_whole()
        if isinstance(classes, SymmetricClasses):
            classes.require_all()
            if self.representatives:
                of_query = [
                    np.repeat(self._transition_of(kind), each.classes_per_query)
                    for kind, each in enumerate(classes.kinds)
                ]
                return np.tile(np.concatenate(of_query), classes.num_queries)
        if self.t.size < 3:
            return np.full(classes.num_classes, np.nan)
        if "h" in self.extra:
            return peak_times(self.t, speed_of_visits(self.extra["h"], classes.vocab_size))
        if "kind" in self.parameters:  # a file or a copy: it has not all outputs of the decoder
            raise InputError(
                "expected a run with all outputs of the decoder, received that of one class (`of_class`); read the "
                "transition of the whole run"
            )
        run = self if self.Y is not None else self._with_decoder()
        return peak_times(self.t, OBSERVABLES["speed"].values(run))

    def _transition_of(self, kind: int) -> Floats:
        """The transition of each class of a kind, (1,)."""
        classes = self._symmetric_classes()
        if self.representatives is None:
            return self.transition[[classes.first_of_kind(kind)]]
        if self.t.size < 3:
            return np.full(1, np.nan)
        one = self._decoded.of_class(kind)
        speed = speed_of_kind(one.attention_entries, one.require_decoder().Y, numbers_of_outputs(classes, kind))
        return peak_times(self.t, speed)

    @cached_property
    def _decoded(self) -> Trajectory:
        """The run of one class of each kind with its decoder; it is made once for all kinds."""
        return self if self.representatives and self.representatives.Y is not None else self._with_decoder()

    def _with_decoder(self) -> Trajectory:
        if self._again:
            run = self._again(self.t)
            if run.status == "interrupted":
                raise KeyboardInterrupt
            if run.status == "failed":
                raise InputError(
                    f"expected a run that can be made again to measure gamma, received: {run.message}; run with "
                    "save_decoder=True"
                )
            return run
        self.require_decoder()  # says what to do
        return self

    def of_class(self, kind: int = 0) -> Trajectory:
        """The run as one class of a kind sees it, for any number of symmetric classes.

        Parameters
        ----------
        kind : int
            Index of the kind in `classes.kinds`.

        Returns
        -------
        Trajectory
            Run of a single class, class 0, with one query. Its tokens 0, 1, ... are the common ones, then the distinct
            ones. It has z and attention, (N, 1, C + D), entropy, relative gain and growth factor of these tokens, and
            the transition, (1,). `loss`, `invariants` and `stats` are those of the whole run. With `save_decoder`, Y is
            (N, C + D, outputs): `decoder_outputs` is 0 for the class's next token, 1 + b for the next token of another
            class of kind b, -1 for an output that is no next token.

        Raises
        ------
        InputError
            The run has other classes than symmetric ones, or there is no such kind.

        Examples
        --------
        >>> import snapdyn as sd
        >>> classes = sd.single_common_token(10**9, num_distinct=2, common_probability=0.3, vocab_size=10**12)
        >>> run = sd.integrate(sd.MeanField(classes, eta_Y=1.0, eta_Z=1e-9), [0.0, 1e12])
        >>> run.of_class(0).attention[:, 0].round(3)
        array([[0.3  , 0.064, 0.636],
               [0.258, 0.067, 0.674]])
        """
        classes = self._symmetric_classes()
        kind, kept = classes.check_kind(kind), self.representatives
        if kept is None:
            places, z_initial, Y = self._places(kind), self.z_initial, self.Y
            z_class = z_initial[[classes.query_index[classes.first_of_kind(kind)]]][:, classes.tokens_of_kind(kind)]
            z, Y = self.z_support[:, places], None if Y is None else self._decoder_of(kind)
        else:
            z, Y = kept.z_of_kind(kept.z, kind), kept.Y_of_kind(kind)
            z_class = np.zeros((1, z.shape[1]))
        events = []
        for event in self.events:
            at = event.z_support[places] if kept is None else kept.z_of_kind(np.asarray(event.z_values), kind)
            events.append(EventRecord(event.name, event.t, at))
        one = Trajectory(
            classes=classes.one_of_kind(kind),
            t=self.t,
            z_support=z,
            z_initial=z_class,
            loss=self.loss,
            system=self.system,
            parameters={**self.parameters, "kind": kind},
            status=self.status,
            message=self.message,
            stats=self.stats,
            invariants=self.invariants,
            Y=Y,
            decoder_rows=None if Y is None else np.arange(z.shape[1]),
            decoder_outputs=None if Y is None else np.array(outputs_of_kind(classes, kind)),
            events=events,
            wall_time=self.wall_time,
        )
        one._of_whole = partial(self._transition_of, kind)
        return one

    def _symmetric_classes(self) -> SymmetricClasses:
        classes = self.require_classes()
        if not isinstance(classes, SymmetricClasses):
            raise InputError(
                f"expected a run of symmetric classes, received one of {classes!r}; build them with symmetric_classes, "
                "or read z and attention of all classes"
            )
        return classes

    def _places(self, kind: int) -> Ints:
        """Positions in `z_support` of the tokens of the first class of a kind."""
        classes = self._symmetric_classes()
        n = classes.first_of_kind(kind)
        return classes.z_of_entry[classes.P.indptr[n] : classes.P.indptr[n + 1]]

    def _decoder_of(self, kind: int) -> Floats:
        """Y of the tokens of the first class of a kind, on the outputs of `outputs_of_kind`."""
        classes, decoder = self._symmetric_classes(), self.require_decoder()
        own = classes.first_of_kind(kind)
        columns = []
        for output in outputs_of_kind(classes, kind):
            n = own if output <= 0 else classes.first_of_kind(output - 1)
            if output == 1 + kind:  # another class of this kind
                n += 1 if classes.kinds[kind].classes_per_query > 1 else classes.classes_per_query
            wanted = -1 if output < 0 else int(classes.next_token[n])
            columns.append(int(np.flatnonzero(decoder.outputs == wanted)[0]))
        rows = decoder.rows[classes.tokens_of_kind(kind)]
        return np.asarray(decoder.Y[:, rows][:, :, columns])

    # -- exchange ------------------------------------------------------------------------------------------
    def to_xarray(self) -> xarray.Dataset:
        """Dense labelled dataset: z (time, query, token), loss, and with classes attention and entropy.

        xarray opens a file of `save` with these variables, equal in content, dimensions, coordinates and attributes.
        The file has further variables for `load`, whose names, and the names of their own dimensions, begin with
        ``snapdyn_``. A run whose z and attention have more than 2,000,000 values together is saved without z, attention
        and entropy: its file has the logits on the supports, `snapdyn_z_support` (time, snapdyn_logit) with coordinates
        `snapdyn_logit_query` and `snapdyn_logit_token`, and ``sd.load(path).to_xarray()`` gives the dense form.

        Attributes are system, status and parameters. A list of one number becomes this number, and a value that netCDF
        does not hold becomes text. Parameters that netCDF or xarray cannot hold under their name, such as "format",
        "coordinates" and "NAME", are attributes neither of the dataset nor of the file; `parameters` has them.

        Large symmetric classes (`SymmetricClasses.is_large`) have z, attention (time, kind, token) and entropy (time,
        kind) of one class of each kind, as in `of_class`; a class with fewer tokens than another has NaN in the rest.

        Raises
        ------
        InputError
            An extra quantity, observable or conserved quantity has the name of another variable or dimension of the
            dataset, a name that begins with "snapdyn", or one that netCDF cannot hold, such as "." or one with "/".

        Examples
        --------
        >>> import snapdyn as sd
        >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [0.0, 10.0, 100.0])
        >>> run.to_xarray().z.dims, run.to_xarray().attention.shape
        (('time', 'query', 'token'), (3, 2, 30))
        """
        return labelled_run(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trajectory to a netCDF file that `load` reads back exactly; `to_xarray` says how xarray shows it.

        Parameters
        ----------
        path : str or path-like
            File to create or to replace; its folder must exist.

        Returns
        -------
        Path

        Raises
        ------
        InputError
            The file cannot be written, or a name is one that `to_xarray` refuses; then nothing is written.
        """
        return write_netcdf(stored(self), path, FORMAT)


def load(path: str | os.PathLike[str]) -> Trajectory:
    """Read a trajectory that `Trajectory.save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Trajectory

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest, or not a trajectory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import snapdyn as sd
    >>> trajectory = sd.integrate(sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0), [1, 10, 100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sd.load(trajectory.save(pathlib.Path(folder) / "run.nc"))
    Trajectory(MeanField, 3 times, t = 1..100, finished)
    """
    path = file_path("path", path)
    with reading_netcdf(path, "trajectory", FORMAT, "run the simulation again or choose another file") as content:
        arguments, kept = fields(content.attributes, content.arrays)
        return Trajectory(**arguments, representatives=Representatives(*kept) if kept else None)
