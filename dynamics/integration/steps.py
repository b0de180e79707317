"""The loops that make the steps of a run and save its states, and what a run says that fails or takes very long."""

from __future__ import annotations

import math
import threading
import time
import warnings
from typing import Any

import numpy as np

from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.cvode import CVODESolver
from snapdyn.dynamics.integration.events import DenseStep, EventWatcher
from snapdyn.dynamics.integration.methods import Plan
from snapdyn.dynamics.integration.recorder import Recorder
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.systems.base import System

PROGRESS_INTERVAL = 0.1  # seconds between calls of the progress callback
# The first call of the compiled integrator moves about so many numbers (milliseconds). Later calls take about
# SECONDS_AT_ONCE, so that Ctrl-C has an effect.
FIRST_NUMBERS_AT_ONCE = 200_000
SECONDS_AT_ONCE = 0.1
MOST_STEPS_AT_ONCE = 10**9
MOST_EVALUATIONS_LEFT = 10_000_000  # seconds of compiled steps of a hundred state values, minutes of steps in Python
FIRST_LOOK = 2000  # steps; later looks follow at twice as many steps each


def make_steps(
    solver: Any, plan: Plan, recorder: Recorder, request: Request, stop_asked: threading.Event
) -> tuple[str, str]:
    """Make the steps of a run and save its states; return status and message. No solver: the run ends at t = 0."""
    # The compiled integrator makes whole runs; with events it makes one step at a time, as other solvers do.
    whole = plan.integrator is not None and not request.events
    if solver is None or not whole:  # else the integrator saves the start too
        recorder.save_up_to(0.0, lambda times: plan.system.initial_state()[None])
    if solver is None:
        return "finished", ""
    make = _whole_run_compiled if whole else _step_by_step
    return make(solver, plan, recorder, request, stop_asked)


def _step_by_step(
    solver: Any, plan: Plan, recorder: Recorder, request: Request, stop_asked: threading.Event
) -> tuple[str, str]:
    """Make steps from Python, with any solver and with events; return status and message of the run."""
    clock, progress = plan.clock, request.progress
    watcher = EventWatcher(plan.system, clock, request.events or {}, solver.y)
    next_report = time.perf_counter()
    outlook = Outlook(solver, float(recorder.times[-1]))
    while solver.status == "running":
        if stop_asked.is_set():
            raise KeyboardInterrupt
        try:
            reason = solver.step()
        except ValueError as error:  # of the rate, of a matrix that holds NaN, of a step that is repeated for ever
            solver.status, reason = "failed", str(error)
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            return "failed", failure_message(solver, plan.system, clock, request, reason)
        if request.most_evaluations and solver.nfev > request.most_evaluations:
            return "failed", too_many_evaluations(request.most_evaluations)
        recorder.steps += 1
        t = clock.to_time(solver.t) if solver.status == "running" else recorder.times[-1]
        dense = DenseStep(solver, clock)
        stop = watcher.look(solver, dense) if request.events else None
        recorder.events = watcher.records
        if stop is not None:
            recorder.save_up_to(stop, dense.rows)
            return "terminated", f"stopped at t = {stop:.6g} by event {watcher.records[-1].name!r}"
        recorder.save_up_to(t, dense.rows)
        if not request.most_evaluations:
            outlook.look(recorder.steps, t)
        if progress and time.perf_counter() >= next_report:
            progress(t, solver.t / solver.t_bound)
            next_report = time.perf_counter() + PROGRESS_INTERVAL
    if progress:
        progress(recorder.times[-1], 1.0)
    return "finished", ""


def _whole_run_compiled(
    solver: Any, plan: Plan, recorder: Recorder, request: Request, stop_asked: threading.Event
) -> tuple[str, str]:
    """Let the compiled integrator make steps and saves for a tenth of a second at a time; as `_step_by_step`."""
    times, clock, progress = recorder.times, plan.clock, request.progress
    save_at = times if clock.scale is None else np.array([clock.from_time(t) for t in times])
    # With the decoder all states are kept: the trajectory then looks into this array.
    rows = times.size if recorder.keeps_states else min(times.size, recorder.rows_at_once)
    saved = np.empty((rows, recorder.width))
    losses = np.empty(len(saved) if solver.knows_loss and not recorder.z_only else 0)
    most_steps, filled = 1 + FIRST_NUMBERS_AT_ONCE // (100 + plan.system.size), 0
    outlook = Outlook(solver, float(times[-1]))
    try:
        while solver.status == "running":
            if stop_asked.is_set():
                raise KeyboardInterrupt
            started = time.perf_counter()
            if request.most_evaluations:  # about a dozen evaluations a step
                most_steps = min(most_steps, 1 + max(0, request.most_evaluations - solver.nfev) // 12)
            number, reason = solver.advance(save_at, saved[filled:], losses[filled:], most_steps)
            filled += number
            seconds = time.perf_counter() - started
            most_steps = max(
                1, min(10 * most_steps, MOST_STEPS_AT_ONCE, int(most_steps * SECONDS_AT_ONCE / max(seconds, 1e-9)))
            )
            recorder.steps = solver.steps
            if solver.status == "failed":
                return "failed", failure_message(solver, plan.system, clock, request, reason)
            if request.most_evaluations and solver.nfev > request.most_evaluations:
                return "failed", too_many_evaluations(request.most_evaluations)
            t = float(times[-1]) if solver.status == "finished" else clock.to_time(solver.t)
            if not request.most_evaluations:
                outlook.look(solver.steps, t)
            if progress:
                progress(t, solver.t / solver.t_bound)
            if filled == len(saved) and solver.status == "running":
                recorder.keep(saved, losses if losses.size else None)
                filled = 0
    finally:
        recorder.keep(saved[:filled], losses[:filled] if losses.size else None)
    return "finished", ""


def failure_message(solver: Any, system: System, clock: Clock, request: Request, reason: str | None) -> str:
    """Explain a failure by the state value that is not finite, or that changes fastest against its tolerance.

    Parameters
    ----------
    solver : object
        A solver of `solvers.new_solver` after its last step.
    system : System
    clock : Clock
    request : Request
        Has the tolerances; not every solver of scipy keeps them.
    reason : str or None
        The solver's message; None if the state is not finite.

    Returns
    -------
    str
    """
    state = solver.y
    bad = np.flatnonzero(~np.isfinite(state))
    if bad.size == 0:
        with np.errstate(all="ignore"):
            rate = np.abs(clock.derivative(system)(solver.t, state)) / (request.atol + request.rtol * np.abs(state))
        bad = np.flatnonzero(~np.isfinite(rate))
        worst = int(bad[0]) if bad.size else int(np.argmax(rate))
        trouble = "its rate is not finite" if bad.size else "it changes fastest against its tolerance"
    else:
        worst, trouble = int(bad[0]), "it is not finite"
    return (
        f"failed at t = {clock.to_time(solver.t):.6g} in {system.value_name(worst)} ({trouble}): "
        f"{(reason or 'the state is not finite').rstrip('.')}; try smaller rates, a looser rtol, or another method"
    )


def too_many_evaluations(most_evaluations: int) -> str:
    """Message of a run that was stopped; without the time reached, which depends on how steps are called."""
    return (
        f"stopped after {most_evaluations} evaluations of the right-hand side, the most that were allowed; try a "
        "looser rtol, another method, slower rates or an earlier last time"
    )


class Outlook:
    """Estimate of the evaluations that are left; warns once where they exceed `MOST_EVALUATIONS_LEFT`.

    It takes as many evaluations for each further factor e of t as between the last two looks. Steps that grow with t,
    as the dynamics slows down, need about so many; where the steps do not grow, it is a lower bound.

    Parameters
    ----------
    solver : object
        A solver of `solvers.new_solver`.
    t_end : float
        Last time in batch-size-1 steps.
    """

    def __init__(self, solver: Any, t_end: float) -> None:
        self._solver, self._t_end = solver, t_end
        self._next_look: float = FIRST_LOOK
        self._t, self._evaluations = 0.0, 0

    def look(self, steps: int, t: float) -> None:
        """Warn if too many evaluations are left after `steps` steps, at time t."""
        if steps < self._next_look:
            return
        evaluations = int(self._solver.nfev)
        left = 0.0
        if t > self._t > 0.0:
            left = (evaluations - self._evaluations) * math.log(self._t_end / t) / math.log(t / self._t)
        self._next_look, self._t, self._evaluations = 2 * steps, t, evaluations
        if left > MOST_EVALUATIONS_LEFT:
            self._next_look = math.inf
            method = "" if isinstance(self._solver, CVODESolver) else "method='CVODE', "
            warnings.warn(
                f"expected at most {MOST_EVALUATIONS_LEFT} evaluations of the right-hand side to the end of a run, "
                f"received an estimate of {left:.2g} from t = {t:.4g}, reached by {evaluations}, to t_end = "
                f"{self._t_end:.4g}; try {method}a looser rtol, slower rates or an earlier last time, or "
                "limit the run by most_evaluations",
                stacklevel=2,
            )
