"""Integration for figures: all of it or nothing."""

from __future__ import annotations

from numpy.typing import ArrayLike

from snapdyn.dynamics import System, Trajectory, integrate

TOLERANCES = {"rtol": 1e-9, "atol": 1e-11}


def whole_run(system: System, times: ArrayLike) -> Trajectory:
    """Integrate to the last time, at the figures' tolerances (scipy's rtol and atol, on z, Y and V h).

    Raises
    ------
    KeyboardInterrupt
        When Ctrl-C stopped the run: `integrate` returns the part that is done, but a figure needs all of it.
    RuntimeError
        When the solver failed, with its message.
    """
    run = integrate(system, times, rtol=TOLERANCES["rtol"], atol=TOLERANCES["atol"])
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if run.status != "finished":
        raise RuntimeError(run.message)
    return run
