"""A trace: quantities that a training run elsewhere has recorded, with their clock."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.core.errors import InputError, finite_array, list_of, real_array, time_array, whole
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.systems.base import checked_classes
from snapdyn.dynamics.traces.clock import TraceClock
from snapdyn.dynamics.trajectories.trajectory import Trajectory

# Sums of attention that were written with four digits, and attention outside the support, may differ by so much.
ATTENTION_TOLERANCE = 1e-3
# Axes of each quantity after the seeds.
AXES = {"attention": ("step", "class", "token"), "loss": ("step",), "entropy": ("step", "class")}


class Trace:
    """Attention, loss or entropy that a training run recorded, of one seed or several, on a stated clock.

    NaN stands for a value that was not recorded at a step: `compare` leaves it out of medians and bands, and `fit` uses
    the steps at which every seed has the quantity that is fitted.

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
    clock : {"updates", "sequences", "theory"}
        What `steps` count: updates, sequences seen, or the theory's batch-size-1 steps.
    batch_size : int
        Sequences per update; the loss of an update is their mean.
    momentum : float
        Heavy-ball momentum, at least 0 and below 1.
    rate_factor : float
        Rates of the run, divided by those given to the theory: `batch_size` for a loss that is a sum over the batch.
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
    clock : TraceClock
        The conversion; `clock.sentence` shows it.
    seq_len : int, math.inf or None
    num_seeds : int
        R.

    Raises
    ------
    InputError
        Steps that do not increase, shapes that do not fit together, attention that is negative, does not sum to 1 or
        is NaN for a part of a class, a quantity without a recorded value of some seed and class, or a clock or length
        out of range.

    See Also
    --------
    read_trace : Read a trace from a file.

    Examples
    --------
    >>> import snapdyn as sd
    >>> trace = sd.Trace([0, 10, 20], loss=[3.5, 1.2, 0.4], batch_size=32, seq_len=127)
    >>> trace
    Trace(1 seed, 3 steps, t = 0..20, loss; i updates; t = i batch-size-1 steps; sequences of 127 tokens)
    """

    def __init__(
        self,
        steps: ArrayLike,
        attention: ArrayLike | None = None,
        loss: ArrayLike | None = None,
        entropy: ArrayLike | None = None,
        *,
        clock: str = "updates",
        batch_size: int = 1,
        momentum: float = 0.0,
        rate_factor: float = 1.0,
        seq_len: float | None = None,
    ) -> None:
        self.clock = TraceClock(clock, batch_size, momentum, rate_factor)
        if seq_len is not None and not (isinstance(seq_len, float) and seq_len == math.inf):
            seq_len = whole("seq_len", seq_len, 1)
        self.seq_len = seq_len
        self.steps: Floats = time_array("steps", steps, ("N",), increasing=True)
        self.t: Floats = self.clock.to_time(self.steps)
        given = {"attention": attention, "loss": loss, "entropy": entropy}
        values = {name: _with_seeds(name, each, self.steps.size) for name, each in given.items() if each is not None}
        if not values:
            raise InputError("expected attention, loss or entropy in a trace, received none; give one of them")
        seeds = {name: each.shape[0] for name, each in values.items()}
        if len(set(seeds.values())) > 1:
            received = ", ".join(f"{count} for {name}" for name, count in seeds.items())
            raise InputError(
                f"expected equally many seeds for each quantity, received {received}; give all of the same runs"
            )
        self.num_seeds: int = next(iter(seeds.values()))
        self.attention: Floats | None = values.get("attention")
        self.loss: Floats | None = values.get("loss")
        self.entropy: Floats | None = values.get("entropy")
        if self.attention is not None:
            _check_attention(self.attention, self.steps)

    def __repr__(self) -> str:
        names = ", ".join(name for name in AXES if getattr(self, name) is not None)
        seeds = f"{self.num_seeds} seed{'s' if self.num_seeds > 1 else ''}"
        span = f"t = {self.t[0]:.4g}..{self.t[-1]:.4g}"
        length = self.length_sentence
        gaps = sum(int(np.isnan(getattr(self, name)).sum()) for name in AXES if getattr(self, name) is not None)
        gaps_sentence = f"; {gaps} values not recorded" if gaps else ""
        return (
            f"Trace({seeds}, {self.steps.size} steps, {span}, {names}; {self.clock.sentence}; {length}{gaps_sentence})"
        )

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
        """Return the trace of runs of `sgd` that differ in their seeds, with their clock, length and attention.

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
        for name in ("batch_size", "momentum", "optimizer", "eta_Y", "eta_Z", "seq_len"):
            different = {str(run.parameters.get(name)): None for run in listed}
            if len(different) > 1:
                raise InputError(
                    f"expected runs that differ only in their seeds, received {name} = {' and '.join(different)}; make "
                    "a trace of each"
                )
        if any(run.classes != first.classes for run in listed):
            raise InputError("expected runs of the same classes, received different ones; make a trace of each")
        batch_size = first.parameters["batch_size"]
        return cls(
            first.t,
            attention=[run.attention for run in listed],
            loss=[run.loss for run in listed],
            entropy=[run.entropy() for run in listed],
            batch_size=1 if batch_size is None else batch_size,
            momentum=first.parameters["momentum"],
            seq_len=first.parameters["seq_len"] or math.inf,
        )

    def for_classes(self, classes: SequenceClasses) -> Trace:
        """Return the trace with attention over all tokens of `classes`, after checking that they fit together.

        Parameters
        ----------
        classes : SequenceClasses

        Returns
        -------
        Trace
            Columns of zeros are added for tokens beyond the last recorded one.

        Raises
        ------
        InputError
            Another number of classes, more tokens, or attention to a token that does not occur in the class.
        """
        checked_classes(classes)
        S, M = classes.num_classes, classes.num_tokens
        for name in ("attention", "entropy"):
            values = getattr(self, name)
            if values is not None and values.shape[2] != S:
                raise InputError(
                    f"expected {name} of {S} classes, received {values.shape[2]}; give the classes in the order of "
                    "SequenceClasses"
                )
        attention = self.attention
        if attention is not None:
            if attention.shape[3] > M:
                raise InputError(
                    f"expected attention to at most {M} tokens, received {attention.shape[3]}; leave out tokens that "
                    "are no contextual tokens"
                )
            attention = np.pad(attention, [(0, 0)] * 3 + [(0, M - attention.shape[3])])
            outside = np.nan_to_num(attention).max(axis=(0, 1))  # NaN: not recorded
            outside[classes.class_of_entry, classes.P.indices] = 0.0
            if outside.max() > ATTENTION_TOLERANCE:
                n, l = np.unravel_index(outside.argmax(), outside.shape)
                raise InputError(
                    f"expected no attention of class {n} to token {l}, which does not occur in it (P(l|n) = 0), "
                    f"received {outside[n, l]:.3g}; check the order of classes and tokens"
                )
        fitted = copy.copy(self)
        fitted.attention = attention
        return fitted


def _with_seeds(name: str, values: Any, num_steps: int) -> Floats:
    """Return a quantity with a leading axis of seeds; NaN where it was not recorded."""
    least = 0.0 if name == "attention" else -ATTENTION_TOLERANCE
    array = real_array(name, values)
    finite_array(
        name,
        np.where(np.isnan(array), 0.0, array),
        at_least=least,
        advice="give attention as probabilities, loss (-ln alpha) and entropy (-sum c ln c) in nats",
    )
    axes = AXES[name]
    if array.ndim == len(axes):
        array = array[None]
    advice = "give one value per recorded step, with or without a first axis of seeds"
    lengths = [{"class": "classes", "token": "tokens"}[axis] for axis in axes[1:]]
    blank = np.isnan(array)
    finite_array(name, np.where(blank, 0.0, array), ("seeds", num_steps, *lengths), advice=advice)
    if (never := blank.all(axis=1)).any():
        seed, *indices = (int(index[0]) for index in np.nonzero(never))
        of_class = f", class {indices[0]}" if indices else ""
        raise InputError(
            f"expected {name} at one recorded step or more for every seed and class, received none for seed {seed}"
            f"{of_class} (numbers from 0 on); leave it out of the trace"
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
