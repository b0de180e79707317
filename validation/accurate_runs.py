"""Integration for figures and comparisons: complete runs at tolerances tighter than the default ones."""

from __future__ import annotations

from numpy.typing import ArrayLike

from snapdyn.dynamics import System, Trajectory, whole_run

TOLERANCES = {"rtol": 1e-9, "atol": 1e-11}


def accurate_run(system: System, times: ArrayLike) -> Trajectory:
    """Integrate a system to the last time, or raise an error.

    Parameters
    ----------
    system : System
    times : array_like
        Batch-size-1 steps.

    Returns
    -------
    Trajectory
        By `whole_run` with TOLERANCES (scipy's rtol and atol, on z, Y and V h).
    """
    return whole_run(system, times, **TOLERANCES)
