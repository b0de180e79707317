"""Numbers of steps: which are recorded, and how many plain steps those with momentum are worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import finite_array, fraction, real_array
from snapdyn.dynamics.classes.table import Floats, Ints


def momentum_clock(steps: ArrayLike, momentum: float) -> Floats:
    """Steps of plain SGD that move as far as `steps` with heavy-ball momentum mu, at a constant gradient.

    t = [i - mu (1 - mu^i)/(1 - mu)]/(1 - mu). The velocity (v <- mu v + g, x <- x + eta v) needs about 1/(1-mu)
    steps to build up, so t approaches the first-order clock i/(1-mu) only after many steps.

    Parameters
    ----------
    steps : array_like
        Numbers of steps i, at least 0.
    momentum : float
        mu, at least 0 and below 1.

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
    return np.asarray((i - mu * (1 - mu**i) / (1 - mu)) / (1 - mu))


def checked_record(record: ArrayLike, last: int) -> Ints:
    """Return a record, strictly increasing steps in 0..last, after checking it."""
    kept = finite_array("record", record, ("N",), at_least=0, at_most=last, whole=True, increasing=True)
    return kept.astype(np.int64)
