"""Integration of a system: choice of solver, saves, events, invariants, and honest endings."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.integrate
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.cvode import CVODESolver, is_installed
from snapdyn.dynamics.integration.dormand_prince import NOTHING, CompiledSolver, is_supported
from snapdyn.dynamics.integration.events import DenseStep, Event, EventWatcher
from snapdyn.dynamics.integration.recorder import Recorder
from snapdyn.dynamics.integration.rkc import RKC
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.errors import InputError, flag, positive, real_array, unknown_name, whole

METHODS = ("compiled", "DOP853", "RK45", "RK23", "LSODA", "BDF", "Radau", "CVODE", "RKC")
# From this rate ratio on, and this product of ratio and state values, CVODE is faster than the compiled DOP853, whose
# steps stability holds down (docs/integrators.md): CVODE steps through Python, which small systems feel.
STIFF_RATIO, STIFF_RATIO_TIMES_SIZE = 500.0, 2e6
STIFF_RATIO_WITHOUT_COMPILED = 30.0
# Without scikit-sundae, and where there is no compiled integrator: BDF in log time from this ratio on.
STIFF_RATIO_FOR_BDF = 100.0
LARGEST_STIFF_SIZE = 300
# BDF and Radau form a dense Jacobian by finite differences, n extra evaluations and n^2 numbers each time.
LARGEST_DENSE_JACOBIAN = 3000
MOST_TIMES = 10_000_000
SMALLEST_RTOL = 100 * float(np.finfo(np.float64).eps)  # scipy raises smaller ones to this
PROGRESS_INTERVAL = 0.1  # seconds between calls of the progress callback
# The compiled integrator's first steps at once move about this many numbers (milliseconds); then they take about
FIRST_NUMBERS_AT_ONCE = 200_000
SECONDS_AT_ONCE = 0.1  # so that Ctrl-C is heard
MOST_STEPS_AT_ONCE = 10**9
NEVER = threading.Event()


def integrate(
    system: System,
    t_eval: ArrayLike,
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    log_time: bool | None = None,
    events: Mapping[str, Event] | None = None,
    save_decoder: bool = False,
    progress: Callable[[float, float], None] | None = None,
    z_only: bool = False,
    stop: threading.Event | None = None,
) -> Trajectory:
    """Integrate a system from t = 0 and keep its observables at the times `t_eval`.

    Parameters
    ----------
    system : System
        MeanField, FrozenDecoder, ModifiedDecoder or SingleCommonToken.
    t_eval : (N,) array
        Times in batch-size-1 steps, strictly increasing, at least 0; 1e-2 to 1e12 is usual.
    method : str
        "auto": compiled where the system is (not FiniteLengthMeanField), else DOP853; CVODE for rate ratios at which it
        is faster (docs/integrators.md) if scikit-sundae is installed. `trajectory.stats` says what was chosen. Or
        "compiled" (DOP853 without Python between steps), a scipy solver by name (DOP853, RK45, RK23, LSODA, BDF,
        Radau), CVODE (SUNDIALS' BDF without a Jacobian matrix; pip install 'snapdyn[stiff]'), or RKC, for large
        problems at loose tolerances (text): explicit, of second order, its steps not held down by the fastest rate.
        LSODA runs with a diagonal Jacobian, so that it never allocates n^2.
    rtol, atol : float
        Local error tolerances of the solver, on z and Y (V h where the system carries h).
    log_time : bool, optional
        Integrate in log(1 + t/t_s), t_s = 1/max rate. Default: for LSODA, BDF, Radau and CVODE when `t_eval`
        reaches beyond 100 t_s; explicit methods do not gain from it.
    events : mapping of name to Event, optional
        Located on dense output, looked at 8 times per step, so that two crossings in one step are found.
    save_decoder : bool
        Keep Y as well (N x rows x columns numbers).
    progress : callable (t, fraction), optional
        Called about ten times a second; fraction of the way in the integration variable.
    z_only : bool
        Keep z and nothing else (with save_decoder: z and Y): the loss is NaN and there are no invariants, which for
        large systems cost more than z.
    stop : threading.Event, optional
        Ends the run like Ctrl-C when it is set: Python delivers that to the main thread only.

    Returns
    -------
    Trajectory
        On failure or Ctrl-C: what was computed up to there, with `status` and `message` (which time, which
        quantity, what to try).

    Raises
    ------
    InputError
        Unsorted, negative, empty or non-finite times; unknown method, or CVODE without scikit-sundae; tolerances
        that are not positive.
    """
    request = checked_request(t_eval, method, rtol, atol, log_time, events, save_decoder, progress, z_only)
    if not isinstance(stop, threading.Event | None):
        raise InputError(f"expected stop as a threading.Event, received {type(stop).__name__}")
    return run(system, request, stop or NEVER)


@dataclass(frozen=True)
class Request:
    """What is asked of a run, checked: the arguments of `integrate` without the system."""

    times: Floats
    method: str
    rtol: float
    atol: float
    log_time: bool | None
    events: dict[str, Event]
    save_decoder: bool
    progress: Callable[[float, float], None] | None
    z_only: bool


def checked_request(
    t_eval: ArrayLike,
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    log_time: bool | None = None,
    events: Mapping[str, Event] | None = None,
    save_decoder: bool = False,
    progress: Callable[[float, float], None] | None = None,
    z_only: bool = False,
) -> Request:
    """Check the arguments of `integrate`; an ensemble does it once for all members."""
    times = _checked_times(t_eval)
    rtol, atol = positive("rtol", rtol), positive("atol", atol)
    if not SMALLEST_RTOL <= rtol < 1:
        raise InputError(f"expected rtol of at least {SMALLEST_RTOL:.1e} and below 1, received {rtol:g}; 1e-8 is usual")
    if not isinstance(events, Mapping | None):
        raise InputError(f"expected events as a mapping of name to Event, received {type(events).__name__}")
    events = dict(events or {})
    for name, event in events.items():
        if not isinstance(event, Event):
            raise InputError(f"expected Event(function) for event {name!r}, received {type(event).__name__}")
    log_time = None if log_time is None else flag("log_time", log_time)
    save_decoder, z_only = flag("save_decoder", save_decoder), flag("z_only", z_only)
    if progress is not None and not callable(progress):
        raise InputError(f"expected progress to be a function (t, fraction), received {progress!r}")
    if method not in ("auto", *METHODS):
        raise unknown_name("method", method, ("auto", *METHODS))
    return Request(times, method, rtol, atol, log_time, events, save_decoder, progress, z_only)


def run(system: System, request: Request, stop: threading.Event) -> Trajectory:
    """Integrate a system as `integrate` describes."""
    if not isinstance(system, System):
        raise InputError(
            f"expected a system such as MeanField(classes, eta_Y, eta_Z), received {type(system).__name__}"
        )
    times, events, progress = request.times, request.events, request.progress
    rtol, atol, t_end = request.rtol, request.atol, float(request.times[-1])
    method, compiled, clock = _choose(system, request.method, request.log_time, t_end)
    recorder = Recorder(system, times, request.save_decoder, request.z_only)
    started = time.perf_counter()
    solver: Any = None
    status, message = "finished", ""
    try:
        if t_end == 0 or not compiled or events:  # else the integrator saves the start too
            recorder.save_up_to(0.0, lambda times: system.initial_state()[None])
        if t_end > 0:
            if compiled and not events:
                solver = CompiledSolver(system, clock, t_end, rtol, atol)
                status, message = _run_compiled(solver, system, clock, recorder, progress, stop)
            else:
                # A run that overflows is reported with its time and quantity, not by numpy's warning.
                with np.errstate(all="ignore"):
                    if compiled:
                        solver = CompiledSolver(system, clock, t_end, rtol, atol)
                    else:
                        solver = _solver(system, method, clock, t_end, rtol, atol)
                    status, message = _run(solver, system, clock, recorder, events, progress, stop)
    except KeyboardInterrupt:
        t = clock.to_time(solver.t) if solver is not None else 0.0
        status = "interrupted"
        message = (
            f"interrupted at t = {t:.6g}; z and loss at {recorder.count} of {times.size} times are kept; run again, or "
            "with fewer times or a looser rtol"
        )
    stats = {
        "method": method,
        "compiled": compiled,
        "log_time": clock.scale is not None,
        "rtol": rtol,
        "atol": atol,
        "state_size": system.size,
        "evaluations": 0 if solver is None else int(solver.nfev),
        "steps": recorder.steps,
    }
    return recorder.trajectory(status, message, stats, time.perf_counter() - started)


def whole_run(system: System, t_eval: ArrayLike, **options: Any) -> Trajectory:
    """Integrate to the last time or raise: for figures and verdicts, which must not rest on half a run.

    Parameters
    ----------
    system, t_eval, options
        As in `integrate`.

    Raises
    ------
    KeyboardInterrupt
        When Ctrl-C stopped the run.
    RuntimeError
        When the solver failed, with its message.
    """
    run = integrate(system, t_eval, **options)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if run.status == "failed":
        raise RuntimeError(run.message)
    return run


def _checked_times(t_eval: ArrayLike) -> Floats:
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


def _automatic(system: System) -> str:
    """Name of the method that is fastest, as measured."""
    compiled = is_supported(system)
    stiff = max(STIFF_RATIO, STIFF_RATIO_TIMES_SIZE / system.size) if compiled else STIFF_RATIO_WITHOUT_COMPILED
    if system.rate_ratio >= stiff and is_installed():
        return "CVODE"
    if compiled:
        return "compiled"
    return "BDF" if system.rate_ratio >= STIFF_RATIO_FOR_BDF and system.size <= LARGEST_STIFF_SIZE else "DOP853"


def _choose(system: System, method: str, log_time: bool | None, t_end: float) -> tuple[str, bool, Clock]:
    """Name of the method, whether the compiled integrator makes its steps, and the integration variable."""
    if method == "auto":
        method = _automatic(system)
    compiled = method == "compiled"
    if compiled:
        method = "DOP853"
        if not is_supported(system):
            raise InputError(
                f"expected a system that is compiled into the integrator (MeanField, FrozenDecoder, ModifiedDecoder, "
                f"SingleCommonToken), received {system.name}; use method='DOP853'"
            )
    if method in ("BDF", "Radau") and system.size > LARGEST_DENSE_JACOBIAN:
        raise InputError(
            f"expected at most {LARGEST_DENSE_JACOBIAN} state values for {method}, whose Jacobian is dense, received "
            f"{system.size}; use CVODE or DOP853"
        )
    scale = system.time_scale
    if log_time is None:
        log_time = method in ("LSODA", "BDF", "Radau", "CVODE") and t_end > 100 * scale
    return method, compiled, Clock(scale if log_time else None)


def _solver(system: System, method: str, clock: Clock, t_end: float, rtol: float, atol: float) -> Any:
    if method == "CVODE":
        return CVODESolver(system, clock, t_end, rtol, atol)
    # A diagonal Jacobian: LSODA's full one would allocate n^2 numbers.
    options: dict[str, Any] = {"lband": 0, "uband": 0} if method == "LSODA" else {}
    solver_class = RKC if method == "RKC" else getattr(scipy.integrate, method)
    return solver_class(
        clock.derivative(system),
        0.0,
        system.initial_state(),
        clock.from_time(t_end),
        rtol=rtol,
        atol=atol,
        **options,
    )


def _run(
    solver: Any,
    system: System,
    clock: Clock,
    recorder: Recorder,
    events: dict[str, Event],
    progress: Callable[[float, float], None] | None,
    stop_asked: threading.Event,
) -> tuple[str, str]:
    """Make steps from Python: with any solver, and with events."""
    step = _quiet_step if isinstance(solver, scipy.integrate.LSODA) else _step
    watcher = EventWatcher(system, clock, events, solver.y)
    next_report = time.perf_counter()
    while solver.status == "running":
        if stop_asked.is_set():
            raise KeyboardInterrupt
        reason = step(solver)
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            return "failed", _failure(solver, system, clock, reason)
        recorder.steps += 1
        t = clock.to_time(solver.t) if solver.status == "running" else recorder.times[-1]
        dense = DenseStep(solver, clock)
        stop = watcher.look(solver, dense) if events else None
        recorder.events = watcher.records
        if stop is not None:
            recorder.save_up_to(stop, dense.rows)
            return "terminated", f"stopped at t = {stop:.6g} by event {watcher.records[-1].name!r}"
        recorder.save_up_to(t, dense.rows)
        if progress and time.perf_counter() >= next_report:
            progress(t, solver.t / solver.t_bound)
            next_report = time.perf_counter() + PROGRESS_INTERVAL
    if progress:
        progress(recorder.times[-1], 1.0)
    return "finished", ""


def _run_compiled(
    solver: CompiledSolver,
    system: System,
    clock: Clock,
    recorder: Recorder,
    progress: Callable[[float, float], None] | None,
    stop_asked: threading.Event,
) -> tuple[str, str]:
    """Let the compiled integrator make the steps and the saves, some tenth of a second at a time."""
    times = recorder.times
    save_at = times
    if clock.scale is not None:
        with np.errstate(all="ignore"):  # beyond the largest float; the run then says so
            save_at = np.array([clock.from_time(t) for t in times])
    # With the decoder all states are kept: the trajectory then looks into this array.
    rows = times.size if recorder.keeps_states else min(times.size, recorder.rows_at_once)
    saved = np.empty((rows, recorder.width))
    losses = np.empty(len(saved)) if solver.knows_loss and not recorder.z_only else NOTHING
    most_steps, filled = 1 + FIRST_NUMBERS_AT_ONCE // (100 + system.size), 0
    try:
        while solver.status == "running":
            if stop_asked.is_set():
                raise KeyboardInterrupt
            started = time.perf_counter()
            number, reason = solver.advance(save_at, saved[filled:], losses[filled:], most_steps)
            filled += number
            seconds = time.perf_counter() - started
            most_steps = max(
                1, min(10 * most_steps, MOST_STEPS_AT_ONCE, int(most_steps * SECONDS_AT_ONCE / max(seconds, 1e-9)))
            )
            recorder.steps = solver.steps
            if solver.status == "failed":
                return "failed", _failure(solver, system, clock, reason)
            if progress:
                finished = solver.status == "finished"
                progress(recorder.times[-1] if finished else clock.to_time(solver.t), solver.t / solver.t_bound)
            if filled == len(saved) and solver.status == "running":
                recorder.keep(saved, losses if losses.size else None)
                filled = 0
    finally:
        recorder.keep(saved[:filled], losses[:filled] if losses.size else None)
    return "finished", ""


def _step(solver: Any) -> str | None:
    """Make one step; a reason when it fails."""
    try:
        return solver.step()
    except ValueError as error:  # BDF and Radau factorise a matrix that may hold NaN
        solver.status = "failed"
        return str(error)


def _quiet_step(solver: Any) -> str | None:
    """LSODA's step: it warns and fails; the failure is reported with its time and quantity instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return _step(solver)


def _failure(solver: Any, system: System, clock: Clock, reason: str | None) -> str:
    state = solver.y
    bad = np.flatnonzero(~np.isfinite(state))
    if bad.size == 0:
        with np.errstate(all="ignore"):
            rate = np.abs(solver.fun(solver.t, state)) / (solver.atol + solver.rtol * np.abs(state))
        bad = np.flatnonzero(~np.isfinite(rate))
        worst = int(bad[0]) if bad.size else int(np.argmax(rate))
        trouble = "its rate is not finite" if bad.size else "it changes fastest against its tolerance"
    else:
        worst, trouble = int(bad[0]), "it is not finite"
    return (
        f"failed at t = {clock.to_time(solver.t):.6g} in {system.value_name(worst)} ({trouble}): "
        f"{(reason or 'the state is not finite').rstrip('.')}; try smaller rates, a looser rtol, or another method"
    )


def log_times(first: float, last: float, count: int = 100) -> Floats:
    """Log-spaced times from `first` to `last`, both exact, in batch-size-1 steps."""
    first, last = positive("first", first), positive("last", last)
    if last <= first:
        raise InputError(f"expected the last time after the first, received {first:g} and {last:g}")
    times = np.geomspace(first, last, whole("count", count, 2, MOST_TIMES))
    times[0], times[-1] = first, last
    return times
