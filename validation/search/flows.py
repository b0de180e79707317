"""Run an instance, and measure how far paths fall that should rise."""

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
    """Run an instance to t_end.

    Parameters
    ----------
    instance : Instance
        The instance.
    kind : type
        MeanField or ModifiedDecoder.
    saves : int
        Number of saved times, evenly spaced in ln t.
    **options : dict
        Options of the integration.

    Returns
    -------
    Trajectory or None
        None if the solver fails; a search does not count such an instance.
    """
    times = log_times(1e-3 * min(100.0, instance.t_end), instance.t_end, saves)
    # From a ratio of about 1 the mean field is stiff, and a dense Jacobian reduces the run time. Logits may be as small
    # as eta_Z times the overlap over V; with a much smaller absolute tolerance the relative tolerance controls them.
    stiff = kind is MeanField and instance.ratio > 1
    chosen = {"method": "BDF", "atol": 1e-13} if stiff else {"method": "LSODA", "atol": 1e-20}
    system = kind(instance.classes, instance.eta_Y, instance.eta_Z)
    try:
        return whole_run(system, times, **({"rtol": 1e-8} | chosen | options))
    except RuntimeError:
        return None


def turned_back(paths: Floats, scale: float) -> float:
    """How far paths (N, L) that should rise from 0 fall, as a violation.

    If a path falls, the violation is the largest drop below a running maximum, relative to `scale`. Otherwise it is
    minus the smallest gain after the steepest part of a path, relative to the path's largest value: a search can
    follow it towards a fall.
    """
    with_start = np.vstack([np.zeros(paths.shape[1]), paths])
    drop = float(drop_below_maximum(with_start).max())
    if drop > 0:
        return drop / scale
    gains = np.diff(with_start, axis=0)
    late = np.arange(gains.shape[0])[:, None] >= gains.argmax(axis=0)
    return -float((np.where(late, gains, np.inf).min(axis=0) / paths.max(axis=0)).min())
