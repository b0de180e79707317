"""Runs of the rungs: integration at the ladder's tolerances, and training that must be complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import (
    SequenceClasses,
    System,
    Trajectory,
    integrate,
    sgd,
)
from snapdyn.dynamics.classes import Floats


def trained(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    record: ArrayLike,
    batch_size: int | None,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> list[Trajectory]:
    """Train to the last recorded step, one run per seed; raise if a run stops early, since verdicts need whole runs.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C stopped a run.
    RuntimeError
        If a run diverged, with the message of the run.
    """
    last = int(np.max(record))
    runs = sgd(classes, eta_Y, eta_Z, last, batch_size, seed=seeds, record=record, **settings)
    reason = unfinished(runs)
    if reason is not None:
        raise RuntimeError(reason)
    return runs


def unfinished(runs: Sequence[Trajectory]) -> str | None:
    """Message of the first run that stopped early, or None; raise KeyboardInterrupt if Ctrl-C stopped a run."""
    for run in runs:
        if run.status == "interrupted":
            raise KeyboardInterrupt
        if run.status != "finished":
            return run.message
    return None


def ladder_run(system: System, times: Floats, save_decoder: bool = False) -> Trajectory:
    """Integrate at the ladder's tolerances, which are far below the gaps between the rungs."""
    return integrate(system, times, rtol=1e-9, atol=1e-12, save_decoder=save_decoder)
