"""Integration for figures: all of it or nothing, at the figures' tolerances."""

from __future__ import annotations

from numpy.typing import ArrayLike

from snapdyn.dynamics import System, Trajectory, whole_run

TOLERANCES = {"rtol": 1e-9, "atol": 1e-11}


def figure_run(system: System, times: ArrayLike) -> Trajectory:
    """`whole_run` at the figures' tolerances (scipy's rtol and atol, on z, Y and V h)."""
    return whole_run(system, times, **TOLERANCES)
