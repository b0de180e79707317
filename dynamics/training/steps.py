"""Steps: which are recorded, the schedule of their rates, and how many plain steps they are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    InputError,
    choice,
    finite_array,
    fraction,
    positive,
    real_array,
    shown,
    time_array,
    whole,
)
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.rules import DescentRule, GradientDescent, Optimizer, optimizer_as_json, rules_of_layers

Schedule = ArrayLike | Callable[[Ints], ArrayLike]
ADVICE = "give one multiplier of the rates for each update, a number for all, or a function of the array of steps"


def momentum_clock(steps: ArrayLike, momentum: float, schedule: ArrayLike | None = None) -> Floats:
    """Steps of plain SGD that move as far as `steps` with heavy-ball momentum mu, at a constant gradient.

    t = [i - mu (1 - mu^i)/(1 - mu)]/(1 - mu). The velocity (v <- mu v + g, x <- x + eta v) needs about 1/(1-mu)
    steps to build up, so t approaches the first-order clock i/(1-mu) only after many steps. With multipliers m_j of the
    rate (x <- x + eta m_j v) it is t = sum over j < i of m_j (1 - mu^(j+1))/(1 - mu).

    Parameters
    ----------
    steps : array_like
        Numbers of steps i, at least 0.
    momentum : float
        mu, at least 0 and below 1.
    schedule : (n,) array_like, optional
        Multipliers m_0, m_1, ... of the rate, one for each step up to the last of `steps`; default 1. A part of a step
        counts as this part of its multiplier.

    Returns
    -------
    array
        t in batch-size-1 steps, in the shape of `steps`.

    Raises
    ------
    InputError
        `steps` is not an array of numbers, or `momentum` is out of range.

    Examples
    --------
    >>> import snapdyn.dynamics as dynamics
    >>> dynamics.momentum_clock([1, 2, 100], momentum=0.9)
    array([  1.        ,   2.9       , 910.00239053])
    """
    i, mu = real_array("steps", steps), fraction("momentum", momentum)
    if schedule is not None:
        m = finite_array("schedule", schedule, ("number of updates",), at_least=0.0, advice=ADVICE)
        if i.size and not 0 <= i.min() <= i.max() <= m.size:
            raise InputError(
                f"expected steps from 0 to {m.size}, the length of the schedule, received {shown(steps)}; give a "
                "multiplier for each step"
            )
        each = m * (1.0 - mu ** np.arange(1.0, m.size + 1)) / (1.0 - mu)
        return np.asarray(np.interp(i, np.arange(m.size + 1), np.concatenate([[0.0], np.cumsum(each)])))
    return np.asarray((i - mu * (1 - mu**i) / (1 - mu)) / (1 - mu))


def checked_record(record: ArrayLike, last: int) -> Ints:
    """Return a record, strictly increasing steps in 0..last, after checking it."""
    kept = finite_array("record", record, ("N",), at_least=0, at_most=last, whole=True, increasing=True)
    return kept.astype(np.int64)


def checked_schedule(schedule: Schedule | None, updates: int, longer: bool = False) -> Floats | None:
    """Return the multipliers of the rates, one for each update, after checking them.

    Parameters
    ----------
    schedule : (updates,) array_like, callable, float or None
        Multipliers, finite and at least 0; a function that returns them for the array 0..updates-1; or one positive
        multiplier for all updates.
    updates : int
        Number of updates.
    longer : bool
        Whether an array may have multipliers of further updates.

    Returns
    -------
    (n,) array or None
        None where every multiplier is 1, so that such a run is the run without a schedule.

    Raises
    ------
    InputError
        Another length, a value that is negative or not finite, or a function that does not take arrays.
    """
    if schedule is None:
        return None
    values: ArrayLike
    if callable(schedule) or isinstance(schedule, Real):
        require_memory(f"a schedule of {updates} updates", 32.0 * updates, "an array of fewer updates")
    if isinstance(schedule, Real):
        values = np.full(updates, positive("schedule", float(schedule)))
    elif callable(schedule):
        try:
            values = schedule(np.arange(updates))
        except Exception as error:
            raise InputError(
                f"expected schedule to return an array for the array of steps 0..{updates - 1}, received "
                f"{type(error).__name__}: {shown(str(error))}; write it with functions of numpy, such as np.minimum"
            ) from error
    else:
        values = schedule
    array = finite_array("schedule", values, at_least=0.0)
    if array.ndim != 1 or not (array.size == updates or (longer and array.size > updates)):
        raise InputError(
            f"expected schedule of shape ({updates},){' or longer' if longer else ''}, received {array.shape}; {ADVICE}"
        )
    return None if (array == 1.0).all() else array.copy()


COUNTS = ("updates", "sequences", "theory")


@dataclass(frozen=True)
class TraceClock:
    """What the recorded steps of a trace count, and how many steps of the theory an update is worth.

    The theory's t counts updates that move Y and z, in expectation, by eta_Y and eta_Z times the gradient of one
    sequence's mean loss. An update on the mean loss of a batch moves equally far, so it counts as one step of t; a
    larger batch only reduces the noise. With heavy-ball momentum mu, i updates are worth
    [i - mu (1 - mu^i)/(1 - mu)]/(1 - mu) steps. With a schedule of multipliers m_j, i updates are worth their sum over
    j < i; with momentum the sum of m_j (1 - mu^(j+1))/(1 - mu), which is again the clock of first order, that of a
    constant gradient. (A loss that is the sum over the batch has the multiplier `batch_size` at each update.)

    With another rule than gradient descent, such as Adam, t counts its updates.

    Parameters
    ----------
    counts : {"updates", "sequences", "theory"}
        What the recorded steps count: updates made; sequences seen, `batch_size` for each update; or t itself.
    batch_size : int or None
        Sequences per update; None: descent on the expectation.
    momentum : float
        mu of the heavy ball, v <- mu v + g, x <- x - eta v; at least 0 and below 1.
    schedule : (n,) array, optional
        Multipliers of both rates, one for each update up to the last record; default 1.
    optimizer : str, rule or pair of rules
        As in `sgd`.

    Raises
    ------
    InputError
        A number out of range; or a momentum, schedule or other rule with counts="theory", whose steps include them.

    Examples
    --------
    >>> from snapdyn.dynamics.training.steps import TraceClock
    >>> clock = TraceClock("sequences", batch_size=128, momentum=0.9)
    >>> clock.to_time([0, 128, 12800])
    array([  0.        ,   1.        , 910.00239053])
    >>> print(clock.sentence)
    i = sequences/128 updates; t = [i - 0.9 (1 - 0.9^i)/0.1]/0.1 batch-size-1 steps
    """

    counts: str = "updates"
    batch_size: int | None = 1
    momentum: float = 0.0
    schedule: Floats | None = field(default=None, compare=False, repr=False)
    optimizer: Optimizer = GradientDescent.name

    def __post_init__(self) -> None:
        choice("clock", self.counts, COUNTS)
        if self.batch_size is not None:
            object.__setattr__(self, "batch_size", whole("batch_size", self.batch_size, 1))
        elif self.counts == "sequences":
            raise InputError("expected batch_size with clock='sequences', received none; give the sequences per update")
        object.__setattr__(self, "momentum", fraction("momentum", self.momentum))
        rules = rules_of_layers(self.optimizer, self.momentum)
        if rules[0] == rules[1] and isinstance(rules[0], GradientDescent):
            object.__setattr__(self, "optimizer", GradientDescent.name)
            object.__setattr__(self, "momentum", rules[0].momentum)
        if self.has_rule and self.counts == "theory":
            raise InputError(
                f"expected clock 'updates' or 'sequences' with the optimizer {self.words}, received 'theory'; count "
                "updates"
            )
        if self.counts == "theory" and (self.momentum or self.schedule is not None):
            raise InputError(
                "expected momentum 0 and no schedule with clock='theory', whose steps are converted, received "
                f"{self.momentum:g} and {'no' if self.schedule is None else 'a'} schedule; give clock='updates' with "
                "the updates"
            )

    @property
    def rules(self) -> tuple[DescentRule, DescentRule]:
        """Rules of Y and of z."""
        return rules_of_layers(self.optimizer, self.momentum)

    @property
    def has_rule(self) -> bool:
        """Whether the rule of a layer is not that of plain gradient descent; t then counts updates."""
        return self.optimizer != GradientDescent.name

    @property
    def optimizer_as_json(self) -> Any:
        """The rules as a JSON value, which `optimizer=` takes."""
        return optimizer_as_json(self.rules)

    @property
    def words(self) -> str:
        """The rules in words."""
        of_Y, of_z = self.rules
        return str(of_Y) if of_Y == of_z else f"{of_Y} of Y, {of_z} of z"

    @property
    def multiplier(self) -> float | None:
        """Multiplier of the rates of all updates; None where the schedule changes."""
        if self.schedule is None:
            return 1.0
        return None if np.ptp(self.schedule) else float(self.schedule[0])

    @property
    def sequences_per_step(self) -> int:
        """Sequences per update where the recorded steps count sequences, else 1."""
        return self.batch_size if self.counts == "sequences" and self.batch_size else 1

    @property
    def sampling(self) -> str:
        """The batch size in words."""
        return "no sampling" if self.batch_size is None else f"batch size {self.batch_size}"

    def updates(self, steps: ArrayLike) -> Floats:
        """Return the updates made at the recorded steps."""
        values = time_array("steps", steps)
        return values / self.sequences_per_step

    def to_time(self, steps: ArrayLike) -> Floats:
        """Return t at the recorded steps, in batch-size-1 steps of the theory, in the shape of `steps`."""
        if self.has_rule:
            return np.asarray(self.updates(steps))
        return momentum_clock(self.updates(steps), self.momentum, self.schedule)

    @property
    def sentence(self) -> str:
        """The conversion in words and numbers."""
        if self.counts == "theory":
            return "t is the recorded step, in batch-size-1 steps"
        start = f"i = sequences/{self.batch_size} updates; " if self.counts == "sequences" else "i updates; "
        if self.has_rule:
            return f"{start}t = i updates of {self.words}"
        left = 1.0 - self.momentum
        t = f"[i - {self.momentum:g} (1 - {self.momentum:g}^i)/{left:g}]/{left:g}" if self.momentum else "i"
        if self.multiplier is None:
            of_momentum = f" (1 - {self.momentum:g}^(j+1))/{left:g}" if self.momentum else ""
            t = f"sum over j < i of schedule[j]{of_momentum}"
        factor = "" if self.multiplier in (None, 1.0) else f"{self.multiplier:g} "
        return f"{start}t = {factor}{t} batch-size-1 steps"
