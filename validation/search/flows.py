"""Run an instance, and measure how far paths that should rise turn back."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics import MeanField, ModifiedDecoder, Trajectory, log_times, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.observables import drop_below_maximum
from snapdyn.validation.search.instance import Instance


def flow(
    instance: Instance, kind: type[MeanField] | type[ModifiedDecoder], saves: int = 60, **options: Any
) -> Trajectory | None:
    """Run an instance to t_end, saved evenly in ln t; None where the solver cannot (such an instance is not counted).

    `options` go to the integration.
    """
    times = log_times(1e-3 * min(100.0, instance.t_end), instance.t_end, saves)
    # A dense Jacobian pays from about ratio 1, unless the decoder is slaved. Logits may be as small as eta_Z times
    # overlap over V: an absolute tolerance far below that leaves them a relative one.
    stiff = kind is MeanField and instance.ratio > 1
    chosen = {"method": "BDF", "atol": 1e-13} if stiff else {"method": "LSODA", "atol": 1e-20}
    system = kind(instance.classes, instance.eta_Y, instance.eta_Z)
    try:
        return whole_run(system, times, **({"rtol": 1e-8} | chosen | options))
    except RuntimeError:
        return None


def turned_back(paths: Floats, scale: float) -> float:
    """How far paths (N, L) that should rise from 0 fall: a violation, over `scale`.

    Positive: the largest drop below a running maximum. Otherwise minus the smallest gain after a path's steepest
    stretch, over the path's largest value, so that a search sees how close it came.
    """
    with_start = np.vstack([np.zeros(paths.shape[1]), paths])
    drop = float(drop_below_maximum(with_start).max())
    if drop > 0:
        return drop / scale
    gains = np.diff(with_start, axis=0)
    late = np.arange(gains.shape[0])[:, None] >= gains.argmax(axis=0)
    return -float((np.where(late, gains, np.inf).min(axis=0) / paths.max(axis=0)).min())
