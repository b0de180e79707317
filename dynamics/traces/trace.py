"""A trace: quantities that a run elsewhere has recorded, with their clock."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.core.errors import InputError, finite_array, instance, list_of, real_array, shown, text, time_array, whole
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.observables import entropy_of
from snapdyn.dynamics.rules import Optimizer
from snapdyn.dynamics.systems.base import checked_classes
from snapdyn.dynamics.training.steps import Schedule, TraceClock, checked_schedule
from snapdyn.dynamics.trajectories.trajectory import Trajectory

# Sums of attention that were written with four digits, and attention outside the support, may differ by so much.
ATTENTION_TOLERANCE = 1e-3
# Smallest value of a quantity; rounding may leave loss and entropy a little below 0.
LEAST = {"attention": 0.0, "loss": -ATTENTION_TOLERANCE, "entropy": -ATTENTION_TOLERANCE}
# First entropies that differ by so much may be the same: they were rounded, or are means over long sequences.
ENTROPY_TOLERANCE = 0.02
# Axes of each quantity after the seeds.
AXES = {"attention": ("step", "class", "token"), "loss": ("step",), "entropy": ("step", "class")}


class Trace:
    """Attention, loss or entropy that a training run recorded, of one seed or several, on a stated clock.

    NaN stands for a value that was not recorded at a step: `compare` leaves it out of medians and bands, and `fit` uses
    the steps at which every seed has the quantity that is fitted. A class that is NaN throughout was not recorded.

    Parameters
    ----------
    steps : (N,) array_like
        Steps at which the quantities were recorded, increasing; `clock` says what they count.
    attention : (N, S, M) or (R, N, S, M) array_like, optional
        Attention of class n to token l for an infinite sequence, Eq. (5), or averaged over sequences; it sums to 1.
    loss : (N,) or (R, N) array_like, optional
        Mean of -ln alpha[next token], nats.
    entropy : (N, S) or (R, N, S) array_like, optional
        Entropy of the attention of each class, nats.
    observables : mapping of str to (N,) or (R, N) array_like, optional
        Observables of a `System` of your own by name, in place of attention, loss and entropy. `steps` are then times
        of this system, and no setting of a training run is given.
    clock : {"updates", "sequences", "theory"}
        What `steps` count: updates, sequences seen, or the theory's batch-size-1 steps.
    batch_size : int or None
        Sequences per update; the loss of an update is their mean. None: descent on the expectation.
    momentum : float
        Heavy-ball momentum, at least 0 and below 1.
    optimizer : str, rule or pair of rules
        As in `sgd`, such as "adam" or ``sd.Adam(beta2=0.99)``; t then counts updates.
    schedule : array_like, callable or float, optional
        Multipliers of both rates, one for each update up to the last record, finite and at least 0; a function that
        returns them for the array of updates 0, 1, ...; or one number for all updates: `batch_size` for a loss that is
        a sum over the batch. Default 1. t is then the sum of the multipliers of the updates
        made, times what the clock multiplies; with momentum, the clock of first order (`momentum_clock`).
    seq_len : int, math.inf or None
        Contextual tokens per sequence, T-1; `math.inf` for infinitely long sequences; None where it is unknown. With
        None, `fit` warns, and never says that a theory describes the trace.

    Attributes
    ----------
    steps : (N,) array
    t : (N,) array
        Batch-size-1 steps of the theory.
    attention : (R, N, S, M) array or None
    loss : (R, N) array or None
    entropy : (R, N, S) array or None
    observables : dict of str to (R, N) array
        Empty for a trace of attention, loss or entropy.
    clock : TraceClock
        The conversion; `clock.sentence` shows it.
    seq_len : int, math.inf or None
    num_seeds : int
        R.
    numbers_classes : bool
        Whether the trace comes from a file whose names number the classes, so that its last classes may be missing.

    Raises
    ------
    InputError
        Steps that do not increase, shapes that do not fit together, attention that is negative, does not sum to 1 or
        is NaN for a part of a class, a quantity without any value, or that one seed lacks and others have, a clock or
        length out of range, or observables beside attention, loss, entropy or settings of training.

    See Also
    --------
    read_trace : Read a trace from a file.

    Examples
    --------
    >>> import snapdyn as sd
    >>> trace = sd.Trace([0, 10, 20], loss=[3.5, 1.2, 0.4], batch_size=32, seq_len=127)
    >>> trace
    Trace(1 seed, 3 steps, t = 0..20, loss; batch size 32; i updates; t = i batch-size-1 steps; sequences of 127 tokens)
    """

    def __init__(
        self,
        steps: ArrayLike,
        attention: ArrayLike | None = None,
        loss: ArrayLike | None = None,
        entropy: ArrayLike | None = None,
        *,
        observables: Mapping[str, ArrayLike] | None = None,
        clock: str = "updates",
        batch_size: int | None = 1,
        momentum: float = 0.0,
        optimizer: Optimizer = "sgd",
        seq_len: float | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        given = {"attention": attention, "loss": loss, "entropy": entropy}
        given = {name: each for name, each in given.items() if each is not None}
        if observables is not None:
            named = instance("observables", observables, Mapping, "write {'name': values}")
            unset = {
                "clock": clock in ("updates", "theory"),
                "batch_size": batch_size == 1,
                "momentum": momentum == 0,
                "optimizer": optimizer == "sgd",
                "seq_len": seq_len is None,
                "schedule": schedule is None,
            }
            if beside := [*given, *(name for name, is_unset in unset.items() if not is_unset)]:
                raise InputError(
                    "expected observables alone, with times of their system as steps, received "
                    f"{', '.join(beside)} too; leave them out"
                )
            given, clock = {text("each name of observables", name, 1): each for name, each in named.items()}, "theory"
        self.clock = TraceClock(clock, batch_size, momentum, optimizer=optimizer)
        if seq_len is not None and not (isinstance(seq_len, float) and seq_len == math.inf):
            seq_len = whole("seq_len", seq_len, 1)
        self.seq_len = seq_len
        self.steps: Floats = time_array("steps", steps, ("N",), increasing=True)
        if schedule is not None:
            updates = math.ceil(self.clock.updates(self.steps)[-1])
            self.clock = replace(self.clock, schedule=checked_schedule(schedule, updates, longer=True))
        self.t: Floats = self.clock.to_time(self.steps)
        values = {name: _with_seeds(name, each, self.steps.size, observables is None) for name, each in given.items()}
        if not values:
            raise InputError("expected attention, loss, entropy or observables in a trace, received none; give one")
        seeds = {name: each.shape[0] for name, each in values.items()}
        if len(set(seeds.values())) > 1:
            received = ", ".join(f"{count} for {name}" for name, count in seeds.items())
            raise InputError(
                f"expected equally many seeds for each quantity, received {received}; give all of the same runs"
            )
        self.num_seeds: int = next(iter(seeds.values()))
        self.numbers_classes = False
        self.observables: dict[str, Floats] = {} if observables is None else values
        recorded = {} if self.observables else values
        self.attention: Floats | None = recorded.get("attention")
        self.loss: Floats | None = recorded.get("loss")
        self.entropy: Floats | None = recorded.get("entropy")
        if self.attention is not None:
            _check_attention(self.attention, self.steps)

    def __repr__(self) -> str:
        recorded = self.observables or {name: getattr(self, name) for name in AXES}
        recorded = {name: each for name, each in recorded.items() if each is not None}
        names, gaps = ", ".join(recorded), sum(int(np.isnan(each).sum()) for each in recorded.values())
        seeds = f"{self.num_seeds} seed{'s' if self.num_seeds > 1 else ''}"
        start = f"Trace({seeds}, {self.steps.size} steps, t = {self.t[0]:.4g}..{self.t[-1]:.4g}, {names}"
        design = f"; {self.clock.sampling}; {self.clock.sentence}; {self.length_sentence}"
        settings = "; times of a system" if self.observables else design
        return f"{start}{settings}{f'; {gaps} values not recorded' if gaps else ''})"

    @property
    def finite_length(self) -> int | None:
        """T-1 if it is known and finite, else None; systems and `sgd` take it in this form."""
        return None if self.seq_len in (None, math.inf) else int(self.seq_len)

    @property
    def length_sentence(self) -> str:
        """The length of the sequences in words."""
        if self.seq_len is None:
            return "sequences of unknown length: give seq_len = T-1, or inf if they are infinitely long"
        return f"sequences of {self.seq_len} tokens" if self.finite_length else "infinitely long sequences"

    @classmethod
    def from_runs(cls, runs: Trajectory | Sequence[Trajectory]) -> Trace:
        """Return the trace of runs of `sgd` that differ in their seeds, with clock, schedule, length and attention.

        Parameters
        ----------
        runs : Trajectory or sequence of Trajectory
            Runs of `sgd` with the same classes, record and settings; only the seeds may differ. For the clock, runs
            without sampling (batch_size=None) count as runs of batch size 1.

        Returns
        -------
        Trace

        Raises
        ------
        InputError
            Runs of another kind, or of different records.

        Examples
        --------
        >>> import snapdyn as sd
        >>> sd.Trace.from_runs(sd.sgd(sd.syn_small(), 0.5, 0.5, steps=20, seed=[0, 1], record=[0, 10, 20])).num_seeds
        2
        """
        listed = list_of("runs", [runs] if isinstance(runs, Trajectory) else runs, Trajectory, at_least=1)
        if any("batch_size" not in run.parameters for run in listed):
            raise InputError("expected runs of sgd, received others; give what sgd returns")
        first = listed[0]
        if any(not np.array_equal(run.t, first.t) for run in listed):
            raise InputError("expected runs recorded at the same steps, received different ones; give one record")
        for name in ("batch_size", "momentum", "optimizer", "eta_Y", "eta_Z", "seq_len", "schedule"):
            other = next((run for run in listed if run.parameters.get(name) != first.parameters.get(name)), first)
            if other is not first:
                raise InputError(
                    f"expected runs that differ only in their seeds, received {name} = "
                    f"{shown(first.parameters.get(name))} and {shown(other.parameters.get(name))}; make a trace of each"
                )
        if any(run.classes != first.classes for run in listed):
            raise InputError("expected runs of the same classes, received different ones; make a trace of each")
        return cls(
            first.t,
            attention=[run.attention for run in listed],
            loss=[run.loss for run in listed],
            entropy=[run.entropy() for run in listed],
            batch_size=first.parameters["batch_size"],
            momentum=first.parameters["momentum"],
            optimizer=first.parameters["optimizer"],
            seq_len=first.parameters["seq_len"] or math.inf,
            schedule=first.parameters.get("schedule"),
        )

    def with_optimizer(self, optimizer: Optimizer) -> Trace:
        """Return the trace as one of training by another rule of descent, as in `sgd`; t follows from it."""
        other = copy.copy(self)
        other.clock = replace(self.clock, optimizer=optimizer)
        other.t = other.clock.to_time(self.steps)
        return other

    def for_classes(self, classes: SequenceClasses) -> Trace:
        """Return the trace with attention over all tokens of `classes`, after checking that they fit together.

        Parameters
        ----------
        classes : SequenceClasses

        Returns
        -------
        Trace
            Columns of zeros are added for tokens beyond the last recorded one, and NaN for classes beyond the last one
            of a file that numbers its classes.

        Raises
        ------
        InputError
            Another number of classes, more tokens, attention to a token that does not occur in the class, entropy in
            bits at the start, or a trace of observables.
        """
        checked_classes(classes)
        if self.observables:
            raise InputError(
                f"expected a trace of attention, loss or entropy for these classes, received one of the observables "
                f"{shown(list(self.observables))}; give the system that has them in place of the classes"
            )
        S, M = classes.num_classes, classes.num_tokens
        fitted = copy.copy(self)
        for name in ("attention", "entropy"):
            values = getattr(self, name)
            if values is None:
                continue
            missing = S - values.shape[2]
            if missing < 0 or (missing and not self.numbers_classes):
                raise InputError(
                    f"expected {name} of {S} classes, received {values.shape[2]}; give the classes in the order of "
                    "SequenceClasses, from 0 on, with NaN for those that were not recorded"
                )
            width = [(0, 0)] * 2 + [(0, missing)] + [(0, 0)] * (values.ndim - 3)
            setattr(fitted, name, np.pad(values, width, constant_values=np.nan))
        attention = fitted.attention
        if attention is not None:
            if attention.shape[3] > M:
                raise InputError(
                    f"expected attention to at most {M} tokens, received {attention.shape[3]}; leave out tokens that "
                    "are no contextual tokens"
                )
            blank = np.isnan(attention[..., :1])
            attention = np.pad(attention, [(0, 0)] * 3 + [(0, M - attention.shape[3])])
            fitted.attention = attention = np.where(blank, np.nan, attention)
            outside = np.nan_to_num(attention).max(axis=(0, 1))  # NaN: not recorded
            outside[classes.class_of_entry, classes.P.indices] = 0.0
            if outside.max() > ATTENTION_TOLERANCE:
                n, l = np.unravel_index(outside.argmax(), outside.shape)
                raise InputError(
                    f"expected no attention of class {n} to token {l}, which does not occur in it (P(l|n) = 0), "
                    f"received {outside[n, l]:.3g}; check the order of classes and tokens"
                )
        _check_unit_of_entropy(fitted, classes)
        return fitted


def _check_unit_of_entropy(trace: Trace, classes: SequenceClasses) -> None:
    """Refuse first entropies, at t = 0, that are those of P in bits.

    With logits of 0, attention is P and its entropy H(P_n); the same in bits is H/ln 2. Where the trace has attention
    too, which may start elsewhere, its own entropy decides.
    """
    if trace.entropy is None or trace.t[0] != 0.0:
        return
    first = trace.entropy[:, 0]
    if trace.attention is None:
        start = entropy_of(classes.P.data, classes.P.indptr[:-1])
    else:
        start = entropy_of(trace.attention[:, 0])[..., 0]
    known = ~np.isnan(first) & ~np.isnan(start) & (start > 0.0)
    in_nats, start = (each[known] for each in np.broadcast_arrays(first, start))
    in_bits = in_nats * math.log(2.0)
    if in_bits.size and (np.abs(in_bits / start - 1.0) <= ENTROPY_TOLERANCE).all():
        raise InputError(
            f"expected entropy in nats, {start[0]:.4g} at t = 0, received {in_nats[0]:.4g}, which is the same in bits, "
            "as for every recorded class; multiply entropy by ln 2 = 0.6931, or leave out t = 0 where attention does "
            "not start from P"
        )


def _with_seeds(name: str, values: Any, num_steps: int, of_training: bool) -> Floats:
    """Return a quantity with a leading axis of seeds; NaN where it was not recorded."""
    least = LEAST[name] if of_training else -math.inf
    axes = AXES[name] if of_training else ("step",)
    array = real_array(name, values)
    finite_array(
        name,
        np.where(np.isnan(array), 0.0, array),
        at_least=least,
        advice="give attention as probabilities, loss (-ln alpha) and entropy (-sum c ln c) in nats"
        if of_training
        else "leave out what is not finite, or write NaN for it",
    )
    if array.ndim == len(axes):
        array = array[None]
    advice = "give one value per recorded step, with or without a first axis of seeds"
    lengths = [{"class": "classes", "token": "tokens"}[axis] for axis in axes[1:]]
    blank = np.isnan(array)
    finite_array(name, np.where(blank, 0.0, array), ("seeds", num_steps, *lengths), advice=advice)
    never = blank.all(axis=1)
    lacks = never & (never.all() | ~never.all(axis=0))  # nothing is recorded, or other seeds have what this one lacks
    if lacks.any():
        seed, *indices = (int(index[0]) for index in np.nonzero(lacks))
        of_class = f", class {indices[0]}" if indices else ""
        raise InputError(
            f"expected {name} at one recorded step or more for every seed, and for each class in all seeds or in none, "
            f"received none for seed {seed}{of_class} (numbers from 0 on); leave it out of the trace"
        )
    return array


def _check_attention(attention: Floats, steps: Floats) -> None:
    def place(wrong: NDArray[Any]) -> tuple[Any, str]:
        seed, step, n = (int(index) for index in np.unravel_index(wrong.argmax(), wrong.shape))
        return attention[seed, step, n], f"at step {steps[step]:g}, class {n}, seed {seed}"

    blank = np.isnan(attention)
    parts = np.asarray(blank.any(axis=-1) & ~blank.all(axis=-1))
    if parts.any():
        values, where = place(parts)
        raise InputError(
            f"expected attention to all tokens of a class or to none, received {np.isnan(values).sum()} blank values "
            f"(NaN) beside others {where}; fill them in, or leave out the others"
        )
    wrong = np.nan_to_num(np.abs(attention.sum(axis=-1) - 1.0))
    if wrong.max() > ATTENTION_TOLERANCE:
        values, where = place(wrong)
        raise InputError(
            f"expected attention that sums to 1 over the tokens, received {values.sum():.6g} {where}; give the "
            "attention itself, of all contextual tokens"
        )
