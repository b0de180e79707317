"""Runs of the rungs: at the ladder's tolerances, and complete."""

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
    """Train to the last recorded step, a run per seed, or raise: for verdicts, which must not rest on half a run.

    Raises
    ------
    KeyboardInterrupt
        When Ctrl-C stopped a run.
    RuntimeError
        When a run diverged, with its message.
    """
    last = int(np.max(record))
    runs = sgd(classes, eta_Y, eta_Z, last, batch_size, seed=seeds, record=record, **settings)
    reason = unfinished(runs)
    if reason is not None:
        raise RuntimeError(reason)
    return runs


def unfinished(runs: Sequence[Trajectory]) -> str | None:
    """Message of the first run that stopped early; Ctrl-C goes up."""
    for run in runs:
        if run.status == "interrupted":
            raise KeyboardInterrupt
        if run.status != "finished":
            return run.message
    return None


def ladder_run(system: System, times: Floats, save_decoder: bool = False) -> Trajectory:
    """Integrate at the ladder's tolerances, far below the gaps between its rungs."""
    return integrate(system, times, rtol=1e-9, atol=1e-12, save_decoder=save_decoder)
