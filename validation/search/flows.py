"""Run an instance, and measure how far paths fall that should rise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.integration.request import log_times
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.observables import drop_below_maximum
from snapdyn.validation.rungs.run import EXACT, FINITE_LENGTH, MEAN_FIELD, system_on_rung
from snapdyn.validation.search.instance import Instance

# A dense Jacobian pays up to this number of state values.
SMALL = 300
# A flow that takes more evaluations of its rate is undecided: the compiled integrator at its limit of stability, or an
# implicit solver whose equations are rounding (linearly dependent classes at late times), would go on for hours.
# 623 quick-level flows of eleven claims took up to 211,000 evaluations of compiled rates and 91,000 of others.
MOST_EVALUATIONS = {True: 500_000, False: 200_000}  # by whether the steps are compiled
FAILURE = "why the first flow failed"  # key of `Instance.runs`
MOST_VALUES = 100_000_000  # evaluations times state values, at most 25 million in those flows


def resolution(instance: Instance) -> float:
    """Absolute error that rounding leaves in a logit; solvers with a smaller tolerance follow noise.

    z' = eta_Z p_n f o (g - f (f.g)) rounds to eps of its terms, and |g| is about u = V h: eps (eta_Z/eta_Y) u^2 in all.
    Logits of 1/V and less of that, at a large V, are lost.
    """
    h = np.asarray(analytic.h(instance.prior * instance.t_end, instance.eta_Y, instance.vocab_size))
    lead = instance.vocab_size * float(h.max())
    return max(1e-20, 4 * float(np.finfo(float).eps) * instance.ratio * (1 + lead**2))


def fast(instance: Instance, rung: str) -> bool:
    """Whether attention is so fast that the run is made by an explicit integrator at its limit of stability."""
    return rung == MEAN_FIELD and instance.seq_len is None and instance.ratio > 10


def noise(instance: Instance, rung: str) -> float:
    """Size below which a run's logits say nothing: `resolution` times some hundred steps.

    At the limit of stability errors are larger: up to 1e5 times `resolution` on one class, where no logit moves.
    """
    return (1e6 if fast(instance, rung) else 1e3) * resolution(instance)


def most_evaluations(size: int, compiled: bool) -> int:
    """Evaluations of the rate of `size` values that a measurement on one instance may take."""
    return max(1000, min(MOST_EVALUATIONS[compiled], MOST_VALUES // size))


def limited(rate: Callable[[float, Floats], Floats], size: int) -> Callable[[float, Floats], Floats]:
    """Rate in Python that raises RuntimeError after `most_evaluations`, for scipy's solvers, which have no limit."""
    allowed, made = most_evaluations(size, compiled=False), 0

    def counted(t: float, state: Floats) -> Floats:
        nonlocal made
        made += 1
        if made > allowed:
            raise RuntimeError(f"it was stopped after {allowed} evaluations of its rate, the most that are allowed")
        return rate(t, state)

    return counted


def flow(
    instance: Instance,
    rung: str,
    saves: int = 60,
    residual: bool = False,
    **options: Any,
) -> Trajectory | None:
    """Run an instance to t_end; a run that was made before with the same arguments is returned again.

    Parameters
    ----------
    instance : Instance
        The instance.
    rung : str
        MEAN_FIELD, with the length of the instance's sequences, or EXACT.
    saves : int
        Number of saved times, evenly spaced in ln t.
    residual : bool
        Whether the mean field has the residual connection.
    **options : dict
        Options of the integration.

    Returns
    -------
    Trajectory or None
        None if the solver fails, if the attention vectors are linearly dependent, which the modified decoder does not
        allow, or for finite sequences with the residual connection: a search counts such an instance as undecided.
    """
    key = (rung, saves, residual, *sorted(options.items()))
    if key not in instance.runs:
        instance.runs[key] = _run(instance, rung, saves, residual, options)
    found: Trajectory | None = instance.runs[key]
    return found


def _run(
    instance: Instance,
    rung: str,
    saves: int,
    residual: bool,
    options: dict[str, Any],
) -> Trajectory | None:
    times = log_times(1e-3 * min(100.0 / instance.eta_Y, instance.t_end), instance.t_end, saves)
    dependent = rung == EXACT and instance.eigenvalues[0] <= 1e-12
    if dependent or (residual and instance.seq_len is not None):
        return None
    finite = rung == MEAN_FIELD and instance.seq_len is not None
    arguments = {"seq_len": instance.seq_len} if finite else {"residual": residual} if rung == MEAN_FIELD else {}
    system = system_on_rung(
        FINITE_LENGTH if finite else rung, instance.classes, *instance.flow_rates, z_initial=instance.start, **arguments
    )
    # Where attention is fast the compiled integrator makes millions of steps a second. An implicit solver that builds
    # a Jacobian from differences never ends where logits are rounding.
    chosen: dict[str, Any] = {"method": "LSODA", "atol": resolution(instance)}
    if fast(instance, rung):
        chosen |= {"method": "compiled", "rtol": 1e-10}
    if system.size > SMALL:
        chosen = {"atol": max(resolution(instance), 1e-13)}
    compiled = chosen.get("method", "compiled") == "compiled" and instance.seq_len is None
    chosen["most_evaluations"] = most_evaluations(system.size, compiled)
    chosen = {"rtol": 1e-8, "log_time": True} | chosen | options
    if chosen.get("method") == "compiled" and finite:
        chosen["method"] = "DOP853"  # the same steps, from Python
    # In the time itself the first saved times of a short run lie inside one step: interpolation errs by per cents.
    try:
        return whole_run(system, times, **chosen)
    except RuntimeError as error:
        instance.runs.setdefault(FAILURE, str(error))
        return None


def grown_noise(instance: Instance) -> float | None:
    """Error of z(t_end) in the mean field by rounding that grows along an unstable path; None where a run fails.

    Ten times the largest change that a random start of the size of `noise` makes: where differences have grown to the
    size of z itself, two runs say nothing of each other.
    """
    classes = instance.classes
    rng = np.random.default_rng(instance.num_classes)
    start = np.zeros((classes.queries.size, classes.num_tokens)) if instance.start is None else instance.start
    disturbed = replace(instance, start=start + noise(instance, MEAN_FIELD) * rng.standard_normal(start.shape))
    run, other = flow(instance, MEAN_FIELD, 2), flow(disturbed, MEAN_FIELD, 2)
    return None if run is None or other is None else 10 * float(np.abs(run.z[-1] - other.z[-1]).max())


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
