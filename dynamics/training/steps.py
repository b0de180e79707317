"""Steps: which are recorded, the schedule of their rates, and how many plain steps they are worth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, finite_array, fraction, real_array, shown
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats, Ints

Schedule = ArrayLike | Callable[[Ints], ArrayLike]
ADVICE = "give one multiplier of the rates for each update, or a function of the array of steps"


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
    schedule : (updates,) array_like or callable or None
        Multipliers, finite and at least 0, or a function that returns them for the array 0..updates-1.
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
    if callable(schedule):
        require_memory(f"a schedule of {updates} updates", 32.0 * updates, "an array of fewer updates")
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
