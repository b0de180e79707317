"""Times at which a run is saved: checks, and log-spaced times."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats
from snapdyn.errors import InputError, positive, real_array, whole

MOST_TIMES = 10_000_000
# A run to t has steps of up to t. Explicit methods square the error estimate of a step before they multiply it by the
# step h: numbers of about error/h, relative to the tolerance. The step control tells errors apart down to
# (10/0.9)**-8 = 4e-9, below which a step always grows tenfold. So (4e-9/h)**2 must be a normal number, above 2.2e-308:
# h < 2.7e145. At 1e176 the estimate of the mean field underflowed to 0, and a step was accepted that led to z = 1e81.
LATEST_TIME = 1e145
# Largest t_end/t_s in log time, which takes exp(ln(1 + t/t_s)): it overflows at 1.8e308.
LONGEST_SPAN = 1e305


def log_times(first: float, last: float, count: int = 100) -> Floats:
    """Log-spaced times from `first` to `last`, both exact.

    Parameters
    ----------
    first : float
        First time in batch-size-1 steps, above 0.
    last : float
        Last time in batch-size-1 steps, above `first`.
    count : int
        Number of times, at least 2.

    Returns
    -------
    (count,) array
        Times in batch-size-1 steps; the ratio of neighbours is constant.

    Raises
    ------
    InputError
        A time that is not positive, a last time that is not after the first, or fewer than 2 times.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.log_times(0.1, 1000.0, 5)
    array([1.e-01, 1.e+00, 1.e+01, 1.e+02, 1.e+03])
    """
    first, last = positive("first", first), positive("last", last)
    if last <= first:
        raise InputError(f"expected the last time after the first, received {first:g} and {last:g}")
    times = np.geomspace(first, last, whole("count", count, 2, MOST_TIMES))
    times[0], times[-1] = first, last
    return times


def checked_times(t_eval: ArrayLike) -> Floats:
    """Return the times as a new float array after checking that they are finite, at least 0 and increasing."""
    times = real_array("t_eval", t_eval)
    if times.ndim != 1 or not 0 < times.size <= MOST_TIMES:
        raise InputError(
            f"expected t_eval as a list of at least one time and at most {MOST_TIMES}, received shape {times.shape}"
        )
    if not np.isfinite(times).all() or times[0] < 0:
        raise InputError(f"expected finite times of at least 0 in t_eval, received {times.min()}..{times.max()}")
    falls = times[1:] <= times[:-1]
    if falls.any():
        i = int(np.flatnonzero(falls)[0])
        raise InputError(
            f"expected strictly increasing t_eval, received {times[i]:g} before {times[i + 1]:g}; sort it, each once"
        )
    return times
