"""Trajectories: what a run returns, with the observables of the paper on it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, choice, file_path, flag, instance, time_array
from snapdyn.core.memory import require_memory
from snapdyn.core.prose import html_table
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses, dense_logits
from snapdyn.dynamics.files.netcdf import reading_netcdf, write_netcdf
from snapdyn.dynamics.observables import (
    OBSERVABLES,
    STEPS,
    decoder_speed,
    entropy_of,
    entry_of,
    peak_times,
    relative_gain_of,
    speed_of_kind,
    speed_of_visits,
)
from snapdyn.dynamics.trajectories.run_parts import (
    FORMAT,
    REMEDY,
    Decoder,
    EventRecord,
    Representatives,
    fields,
    labelled_run,
    numbers_of_outputs,
    outputs_of_kind,
    stored,
)

if TYPE_CHECKING:
    import xarray

# Quantities that a run on representatives gives for all classes when they are read.
LIFTED = frozenset({"z_support", "z_initial", "Y", "decoder_rows", "decoder_outputs"})
# Quantities whose lack is an InputError when they are read, in words; the lack of all others is None.
NEEDED = {"z_support": "attention logits", "z_initial": "attention logits", "loss": "a loss"}
MAPPINGS = ("invariants", "extra", "observables")
QUANTITIES = (*LIFTED, "loss", *MAPPINGS, "state")
PLAIN = ("classes", "t", "system", "parameters", "status", "message", "stats", "events", "wall_time", "value_names",
         "representatives", "state_shapes")  # fmt: skip
# Attributes of a run that `integrate` made in this process; neither saved nor sent to other processes.
OF_PROCESS = ("speed", "dense")


class Trajectory:
    """One run at the saved times `t`, with its observables.

    Quantities are read from the states of the run when they are first asked for. Reading what the system does not have
    (attention logits, attention, loss, decoder), or what was not kept, raises InputError.

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

    Parameters
    ----------
    **values : Any
        Further attributes. Each of z_support, z_initial, loss, invariants, extra, Y, decoder_rows, decoder_outputs,
        state and observables is given as its value or as a function without arguments that makes it; None: the system,
        or the run, does not have it. Two functions are not attributes: `speed` makes gamma_n (N, S) for `transition`
        where there is no Y, and `dense` returns the states (n, size) at times (n,) within the run.
    """

    if TYPE_CHECKING:
        plot: ClassVar[Callable[..., Any]]  # attached by `snapdyn`: drawing belongs to another room
        z_support: Floats
        z_initial: Floats
        loss: Floats
        invariants: dict[str, Floats]
        extra: dict[str, Floats]
        observables: dict[str, Floats]
        Y: Floats | None
        decoder_rows: Ints | None
        decoder_outputs: Ints | None
        state: Floats | None

    def __init__(
        self,
        classes: SequenceClasses | None,
        t: Floats,
        z_support: Any = None,
        z_initial: Any = None,
        loss: Any = None,
        system: str = "",
        parameters: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> None:
        if unknown := values.keys() - {*PLAIN, *QUANTITIES, *OF_PROCESS}:
            raise TypeError(f"a trajectory has no {min(unknown)!r}")
        self.classes, self.t, self.system = classes, t, system
        given = {} if parameters is None else instance("parameters", parameters, Mapping, "give names with values")
        self.parameters = dict(given)
        self.status: str = values.get("status", "finished")
        self.message: str = values.get("message", "")
        self.stats: dict[str, Any] = dict(values.get("stats", {}))
        self.events: list[EventRecord] = list(values.get("events", []))
        self.wall_time: float = values.get("wall_time", math.nan)
        self.value_names: Sequence[str] = values.get("value_names", ())
        self.state_shapes: dict[str, tuple[int, ...]] = dict(values.get("state_shapes", {}))
        self.representatives: Representatives | None = values.get("representatives")
        given = {"z_support": z_support, "z_initial": z_initial, "loss": loss, **values}
        self._quantities = {name: given.get(name) for name in (*QUANTITIES, *OF_PROCESS)}
        if self._quantities["Y"] is None and self.representatives is None:
            self._quantities |= {"decoder_rows": None, "decoder_outputs": None}

    def __getattr__(self, name: str) -> Any:
        if name not in QUANTITIES or "_quantities" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self._quantities[name]
        if callable(value):
            value = value()
        elif value is None and name in LIFTED and self.representatives is not None:
            value = self.representatives.lifted(name)
        elif value is None and name in MAPPINGS:
            value = {}
        if value is None and name in NEEDED:
            raise self.lacking(NEEDED[name])
        self._quantities[name] = value
        return value

    def has(self, name: str) -> bool:
        """Whether the system, or the run, has a quantity; it is not made."""
        return self._quantities[name] is not None or (name in LIFTED and self.representatives is not None)

    def __getstate__(self) -> dict[str, Any]:
        made = {name: getattr(self, name) for name in QUANTITIES if callable(self._quantities[name])}
        return {**vars(self), "_quantities": self._quantities | made | dict.fromkeys(OF_PROCESS)}

    def changed(self, **values: Any) -> Trajectory:
        """Return a copy with other values of some attributes; it has no dense output."""
        given = {name: getattr(self, name) for name in PLAIN} | self._quantities | {"dense": None}
        if not LIFTED.isdisjoint(values):
            given |= self._of_all_classes() | {"speed": None}
        return Trajectory(**(given | values))

    def _of_all_classes(self) -> dict[str, Any]:
        """Values of all classes in place of those of representatives."""
        kept = self.representatives
        if kept is None:
            return {}
        events = [
            event
            if event.z_values is None
            else replace(event, z_support=kept.z_of_all_classes(event.z_values), z_values=None)
            for event in self.events
        ]
        return {name: getattr(self, name) for name in LIFTED} | {"representatives": None, "events": events}

    def __call__(self, t: ArrayLike) -> Floats:
        """State at any times within the run, from the dense output of its steps, which ``integrate(dense=True)`` keeps.

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
            A time outside of the run; a run without dense output; a trajectory that was loaded from a file, or that
            training made by finite steps.

        Examples
        --------
        >>> import snapdyn as sd, sympy
        >>> u = sympy.Symbol("u")
        >>> run = sd.integrate(sd.System.from_sympy("Decay", {u: 1.0}, {u: -u}), [2.0], dense=True)
        >>> run([0.0, 1.0]).round(4)
        array([[1.    ],
               [0.3679]])
        """
        dense = self._quantities["dense"]
        if dense is None:
            raise InputError(
                f"expected a trajectory with dense output, received one of {self.system} without it; integrate with "
                "dense=True, or with these times in t_eval"
            )
        last = max([*self.t[-1:].tolist(), *(event.t for event in self.events)], default=0.0)
        times = time_array("t", t, at_most=last, advice="give times up to the end of the run")
        if times.ndim:
            time_array("t", times, ("N",))
        states: Floats = dense(np.atleast_1d(times))
        return states if times.ndim else states[0]

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
            rows[f"t, in {STEPS}" if self.has_z else "t"] = f"{self.t[0]:.6g} to {self.t[-1]:.6g}"
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
            raise self._without_decoder()
        return Decoder(self.Y, self.decoder_rows, self.decoder_outputs)

    def _without_decoder(self) -> InputError:
        return InputError(
            f"expected a trajectory with the decoder Y, received one of {self.system} without it; run again with "
            "save_decoder=True"
        )

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
        return self.has("z_support")

    @property
    def clock(self) -> str:
        """Unit of t: "batch-size-1 steps", or the clock of a user's system."""
        return STEPS if self.has_z else f"clock of {self.system}"

    @property
    def has_loss(self) -> bool:
        """Whether the system has a loss."""
        return self.has("loss")

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
        return dense_logits(start, self.classes, self.z_support)

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
    @property
    def transition(self) -> Floats:
        """Time at which the measured speed gamma_n of each class peaks, (S,), batch-size-1 steps.

        gamma_n = w_n[n] (1 - alpha_n[n]) with w_n = Y^T f_n; in the modified flow, whose Y follows h_n, this is
        Eq. (85). The result is NaN where gamma_n is largest at the first or the last saved time. For finite sequences
        alpha_n is that of infinitely long ones with the logits of the run. Between saved times a parabola in ln t is
        drawn through the largest value and its neighbours: save times densely around the peak. It needs the decoder,
        which a run keeps with `save_decoder`, and which `integrate` keeps for this in runs of less than 32 MB.

        For symmetric classes, `trajectory.of_class(kind).transition`, (1,), is the time of every class of a kind (they
        all have the same), and costs the same for any number of classes.

        Raises
        ------
        InputError
            The run kept no decoder (a large one, one with `z_only`, one from a file or another process); it has a
            residual connection; or it has too many classes to list.

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
        if self.parameters.get("residual"):
            raise InputError(
                "expected a run without residual connection to measure gamma, received one with residual = True; set "
                "residual=False"
            )
        if self.representatives is None or "kind" in self.parameters:
            return peak_times(self.t, self.speed())
        classes = self._symmetric_classes()
        classes.require_all()
        of_query = [
            np.repeat(self.of_class(kind).transition, each.classes_per_query) for kind, each in enumerate(classes.kinds)
        ]
        return np.tile(np.concatenate(of_query), classes.num_queries)

    def speed(self) -> Floats:
        """The measured speed gamma_n = w_n[n] (1 - alpha_n[n]) of each class, (N, S); InputError without a decoder."""
        classes, made = self.require_classes(), self._quantities["speed"]
        if made is not None:
            speed: Floats = made()
            return speed
        if "h" in self.extra:
            return speed_of_visits(self.extra["h"], classes.vocab_size)
        return decoder_speed(self)

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
        first, of_kind = classes.first_of_kind(kind), classes.one_of_kind(kind)
        if kept is None:
            places = classes.z_of_entry[classes.P.indptr[first] : classes.P.indptr[first + 1]]
            z_class = self.z_initial[[classes.query_index[first]]][:, classes.tokens_of_kind(kind)]
            z, Y = self.z_support[:, places], None if self.Y is None else self._decoder_of(kind)
            speed = partial(self._speed_of_class, first)
        else:
            z, Y = kept.z_of_kind(kept.z, kind), kept.Y_of_kind(kind) if kept.saves_decoder else None
            z_class = np.zeros((1, z.shape[1]))
            speed = partial(self._speed_of_kind, kind, of_kind.attention_from_support(z))
        events = []
        for event in self.events:
            at = event.z_support[places] if kept is None else kept.z_of_kind(np.asarray(event.z_values), kind)
            events.append(EventRecord(event.name, event.t, at))
        return Trajectory(
            classes=of_kind,
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
            speed=speed,
        )

    def _speed_of_class(self, n: int) -> Floats:
        return self.speed()[:, [n]]

    def _speed_of_kind(self, kind: int, attention: Floats) -> Floats:
        """The measured speed gamma_n of a class of a kind, (N, 1), from representatives."""
        kept = self.representatives
        Y = kept.Y_of_kind(kind) if kept else None
        if Y is None:
            raise self._without_decoder()
        return speed_of_kind(attention, Y, numbers_of_outputs(self._symmetric_classes(), kind))

    def _symmetric_classes(self) -> SymmetricClasses:
        classes = self.require_classes()
        if not isinstance(classes, SymmetricClasses):
            raise InputError(
                f"expected a run of symmetric classes, received one of {classes!r}; build them with symmetric_classes, "
                "or read z and attention of all classes"
            )
        return classes

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
