"""Integration of one system or of many: `integrate`, `whole_run`, `integrate_many`; the loops that make the steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, instance, list_of, optional_function, whole
from snapdyn.core.parallel import cores, in_threads
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.events import DenseStep, EventWatcher
from snapdyn.dynamics.integration.methods import plan_run
from snapdyn.dynamics.integration.recorder import Ended, Recorder, StateRecorder, trajectories
from snapdyn.dynamics.integration.request import Event, Plan, Request
from snapdyn.dynamics.integration.solvers import NO_SAMPLES, Outlook, failure_message, new_solver
from snapdyn.dynamics.kernels.compilation import seconds_of_running
from snapdyn.dynamics.kernels.dormand_prince import SAMPLES, Rows
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectories.trajectory import Trajectory

PROGRESS_INTERVAL = 0.1  # seconds between calls of the progress callback
# The first call of the compiled integrator moves about so many numbers (milliseconds). Later calls take about
# SECONDS_AT_ONCE, so that Ctrl-C has an effect.
FIRST_NUMBERS_AT_ONCE = 200_000
SECONDS_AT_ONCE = 0.1
MOST_STEPS_AT_ONCE = 10**9
STEPS_SAMPLED = 64  # between looks at the events
# Members whose states wait in memory; the largest systems whose solvers do.
MEMBERS_TOGETHER, LARGEST_PREPARED = 512, 1000
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
    most_evaluations: int | None = None,
    reduce: bool | str = "auto",
    max_step: float | None = None,
) -> Trajectory:
    """Integrate a system from t = 0 and save its observables at the times `t_eval`.

    Parameters
    ----------
    system : System
        One of `sd.dynamics.SYSTEMS`, or another subclass of System.
    t_eval : (N,) array
        Times in batch-size-1 steps, strictly increasing, from 0 to 1e145; 1e-2 to 1e12 is usual. Beyond 1e145 the
        squares in the error estimate of a step are below the smallest float64, and the estimate would be 0.
    rtol : float
        Relative local error tolerance of the state values: z and Y, or z and V h for systems with h in place of Y.
    atol : float
        Absolute local error tolerance.
    events : mapping of str to Event, optional
        Each event function is evaluated 8 times per step, so that two crossings in one step are found, and its zeros
        are located on dense output.
    save_decoder : bool
        Save Y as well (N x rows x columns numbers).
    progress : callable, optional
        Called as progress(t, fraction) about ten times a second; `fraction` is the part of the run that is done, in the
        integration variable.

    Other Parameters
    ----------------
    method : str
        "auto" takes CVODE for rate ratios at which it is faster (docs/how_to/integrators.md), else "compiled" for the
        systems that are compiled and DOP853 for others. `trajectory.stats` names the method. Other values: "compiled"
        (DOP853 without Python between steps), a solver of scipy (DOP853, RK45, RK23, LSODA, BDF, Radau), CVODE (BDF of
        SUNDIALS without a Jacobian matrix), and RKC, for large problems at loose tolerances, such as text. RKC is
        explicit and of second order, and the fastest rate does not limit its steps. LSODA runs with a diagonal
        Jacobian, so that it never allocates n^2 numbers, unless the system has a symbolic one (from_sympy).
    log_time : bool or None
        Integrate in log(1 + t/t_s), where t_s is 1 over the fastest rate. None: this is done for LSODA, BDF, Radau and
        CVODE if the last time is beyond 100 t_s; explicit methods do not gain from it.
    z_only : bool
        Save z and nothing else (with `save_decoder`: z and Y). The loss is then NaN, and there are no invariants: in
        large systems, loss and invariants cost more than z.
    most_evaluations : int, optional
        A run that takes more evaluations of the right-hand side than this number fails, possibly a few steps late.
        None: a run that is estimated to take more than 1.2e12 multiplications (five minutes on one core, or more) is
        refused, or ends once the estimate says so.
    reduce : "auto", True or False
        Integrate one value in place of all that stay equal by symmetry (docs/how_to/numerics.md). Results are those of
        the full system up to rounding where the symmetric path is stable (`growth_of_differences` measures this). The
        reduction works for MeanField, FrozenDecoder, ModifiedDecoder and FiniteLengthMeanField with their default
        integrator, DOP853. "auto" reduces systems of 1000 state values or more, if there are at most half as many kinds
        of classes as classes, and at most half of the state values remain. `trajectory.stats` gives the number of
        values in "state_size" and that of the full system in "full_state_size".
    max_step : float or None
        Largest step, in units of t; None: no limit. Give it for a rate with pulses or jumps that are shorter than the
        steps: the methods do not see what lies between their evaluations. Where a rate of `System.from_sympy` jumps at
        times that follow from t and the parameters alone, the steps begin anew there, and it is not needed.

    Returns
    -------
    Trajectory
        After a failure or Ctrl-C: what was computed until then, with `status` and `message` (at which time, in which
        quantity, what to try). A run whose row sums of Y or z leave the bound that rounding and the tolerances allow
        (`integration.recorder`) has status "failed" too; the message says from which time on.

    Raises
    ------
    InputError
        Unsorted, negative, empty, non-finite or too late times, or more times than fit into memory; rates that float64
        cannot hold in log time; an unknown method; tolerances that are not positive; reduce=True for a system or
        method that cannot be reduced.

    Examples
    --------
    >>> import snapdyn as sd
    >>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
    >>> trajectory = sd.integrate(system, sd.log_times(0.1, 100.0, 4))
    >>> trajectory
    Trajectory(MeanField, 4 times, t = 0.1..100, finished)
    >>> trajectory.loss.round(3)
    array([3.479, 3.064, 0.715, 0.028])
    """
    request = Request(
        t_eval, method, rtol, atol, log_time, events, save_decoder, progress, z_only, most_evaluations, reduce, max_step
    )
    return run(system, request, NEVER)


def run(system: System, request: Request, stop: threading.Event) -> Trajectory:
    """Integrate a system as `integrate` describes.

    When `stop` is set, the run ends as it does after Ctrl-C. (Python delivers Ctrl-C to the main thread only.)
    """
    return _recorded(system, request, stop).trajectory()


@dataclass
class _Run:
    """A run. In an ensemble, code in Python treats many runs at once, and each run makes its steps in a thread."""

    system: System
    plan: Plan
    recorder: Recorder
    solver: Any = None
    status: str = "finished"
    message: str = ""
    seconds: float = 0.0


def _recorded(system: System, request: Request, stop: threading.Event) -> Recorder:
    """Make the steps of a run; the saved states are not yet converted to observables."""
    return _ended(_made(_prepared(system, request), request, stop), request)


def _prepared(system: System, request: Request) -> _Run:
    instance("system", system, System, "give one, such as MeanField(classes, eta_Y, eta_Z)")
    started = seconds_of_running()
    plan = plan_run(system, request)
    run = _Run(system, plan, Recorder(plan.system, request.times, request.save_decoder, request.z_only))
    run.seconds = seconds_of_running() - started
    return run


def _made(run: _Run, request: Request, stop: threading.Event) -> _Run:
    """Make the steps of a run."""
    started = seconds_of_running()
    plan, recorder = run.plan, run.recorder
    try:
        if plan.interrupted:
            raise KeyboardInterrupt
        # A run that overflows is reported with its time and quantity, not by numpy's warning.
        with np.errstate(all="ignore"):
            if run.solver is None and request.times[-1] > 0:
                run.solver = new_solver(plan, request)
            run.status, run.message = _make_steps(run.solver, plan, recorder, request, stop)
    except KeyboardInterrupt:
        t = plan.clock.to_time(run.solver.t) if run.solver is not None else 0.0
        run.status = "interrupted"
        run.message = (
            f"interrupted at t = {t:.6g}; z and loss at {recorder.count} of {request.times.size} times are kept; run "
            "again, or with fewer times or a looser rtol"
        )
    run.seconds += seconds_of_running() - started
    return run


def _ended(run: _Run, request: Request) -> Recorder:
    """Return the recorder of a run, with how the run ended."""
    system, plan, recorder, solver = run.system, run.plan, run.recorder, run.solver
    if solver is not None and run.status != "interrupted":
        recorder.last = plan.clock.to_time(solver.t), solver.y.copy()
    stats = {
        "method": plan.method,
        "compiled": plan.integrator is not None,
        "log_time": plan.clock.scale is not None,
        "rtol": request.rtol,
        "atol": request.atol,
        "state_size": plan.system.size,
        "full_state_size": system.size,
        "evaluations": 0 if solver is None else int(solver.nfev),
        "steps": recorder.steps,
    }
    again = partial(_states, system, request), partial(_with_decoder, system, request)
    recorder.ended = Ended(run.status, run.message, stats, run.seconds, again)
    return recorder


def _with_decoder(full: System, request: Request, times: Floats) -> Trajectory:
    """Make the run of `request` again; return it with its decoder at N increasing times within the run."""
    return run(full, replace(request, t_eval=times, progress=None, events=None, save_decoder=True), NEVER)


def _states(full: System, request: Request, times: Floats) -> Floats:
    """States (N, size) of the run of `request` at N increasing times within it: the run is made again.

    The steps do not depend on the times at which a run is saved, so these states are on the run's own dense output.
    """
    request = replace(request, progress=None, events=None, save_decoder=True)
    plan = plan_run(full, request)
    if plan.interrupted:
        raise KeyboardInterrupt
    recorder = StateRecorder(plan.system, times)
    with np.errstate(all="ignore"):
        solver = new_solver(plan, request) if times[-1] > 0 else None
        _make_steps(solver, plan, recorder, request, NEVER)
    return plan.system.full_state(recorder.states())


def whole_run(system: System, t_eval: ArrayLike, **options: Any) -> Trajectory:
    """Integrate to the last time or raise: for figures and verdicts, which need complete runs.

    Parameters
    ----------
    system : System
    t_eval : (N,) array
        Times in batch-size-1 steps.
    **options : Any
        Further arguments of `integrate`.

    Returns
    -------
    Trajectory

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C stopped the run.
    RuntimeError
        The solver failed; the message is that of the trajectory.

    Examples
    --------
    >>> import snapdyn as sd
    >>> from snapdyn.dynamics import whole_run
    >>> whole_run(sd.SingleCommonToken(5, 100, 1.0, 0.5, 3.0), [1.0, 10.0]).success
    True
    """
    run = integrate(system, t_eval, **options)
    if run.status == "interrupted" or run.message.startswith("interrupted"):  # also one whose observation was
        raise KeyboardInterrupt
    if run.status == "failed":
        raise RuntimeError(run.message)
    return run


def integrate_many(
    systems: Iterable[System],
    t_eval: ArrayLike,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> list[Trajectory]:
    """Integrate many systems from t = 0; one trajectory per system, in their order.

    Parameters
    ----------
    systems : iterable of System
        The same system may occur more than once.
    t_eval : (N,) array
        Times in batch-size-1 steps, for every member.
    threads : int or None
        Number of threads; None: all cores. Results do not depend on it. Only the compiled integrator runs in parallel.
    progress : callable, optional
        Called as progress(finished, total) in the calling thread after each member.
    **options : Any
        Further arguments of `integrate`: method, rtol, atol, log_time, events, z_only, save_decoder.

    Returns
    -------
    list of Trajectory
        A member that fails has status "failed" and a message; the others continue. After Ctrl-C, finished members
        are complete, and the others have status "interrupted" and the times that they reached.

    Raises
    ------
    InputError
        As in `integrate`, with the number of the member; or `systems` is not a list of systems.

    Examples
    --------
    >>> import snapdyn as sd
    >>> systems = [sd.MeanField(sd.syn_small(), 1.0, eta_Z) for eta_Z in (0.1, 1.0)]
    >>> [float(run.loss[-1].round(4)) for run in sd.integrate_many(systems, [1.0, 10.0])]
    [0.729, 0.7154]
    """
    systems = list_of("systems", systems, System)
    optional_function("progress", progress)
    threads = cores() if threads is None else whole("threads", threads, 1)
    stop = threading.Event()
    request = Request(t_eval, **options)

    def member(number: int) -> _Run | Recorder | Trajectory:
        try:
            if number in prepared:
                return _made(prepared[number], request, stop)
            recorder = _recorded(systems[number], request, stop)
            return recorder if recorder.layout_key else recorder.trajectory()
        except InputError as error:
            raise InputError(f"{error} (systems[{number}])") from error

    found: list[Trajectory] = []
    for first in range(0, len(systems), MEMBERS_TOGETHER):  # so that the states of few members wait in memory
        numbers = range(first, min(len(systems), first + MEMBERS_TOGETHER))
        prepared = _prepared_together(systems, numbers, request, stop)
        report = progress and partial(_report, progress, first, len(systems))
        made = in_threads([partial(member, number) for number in numbers], threads, stop, report)
        made = [_ended(each, request) if isinstance(each, _Run) else each for each in made]
        together = iter(trajectories([each for each in made if isinstance(each, Recorder)]))
        found += [next(together) if isinstance(each, Recorder) else each for each in made]
    return found


def _prepared_together(
    systems: Sequence[System], numbers: Sequence[int], request: Request, stop: threading.Event
) -> dict[int, _Run]:
    """Runs of small systems, ready to make steps, by number: preparing them one by one is faster than in threads."""
    prepared: dict[int, _Run] = {}
    if request.events or request.save_decoder or request.times[-1] == 0:
        return prepared
    try:
        for number in numbers:
            if systems[number].size <= LARGEST_PREPARED:
                run = _prepared(systems[number], request)
                if run.plan.integrator:
                    run.solver = new_solver(run.plan, request)
                    prepared[number] = run
    except KeyboardInterrupt:
        stop.set()
    except InputError as error:
        raise InputError(f"{error} (systems[{number}])") from error
    return prepared


def _report(progress: Callable[[int, int], None], before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def _make_steps(
    solver: Any, plan: Plan, recorder: Recorder, request: Request, stop_asked: threading.Event
) -> tuple[str, str]:
    """Make the steps of a run and save its states; return status and message. `solver` None: a run to t = 0."""
    if solver is None or plan.integrator is None:  # else the integrator saves the start too
        recorder.save_up_to(0.0, lambda times: plan.system.initial_state()[None].copy())
    if solver is None:
        return "finished", ""
    make = _step_by_step if plan.integrator is None else _compiled_steps
    return make(solver, plan, recorder, request, stop_asked)


def _step_by_step(
    solver: Any, plan: Plan, recorder: Recorder, request: Request, stop_asked: threading.Event
) -> tuple[str, str]:
    """Make steps from Python, with any solver; return status and message of the run."""
    clock, progress = plan.clock, request.progress
    watcher = EventWatcher(plan.system, clock, request.events or {}, solver.y)
    recorder.events = watcher.records
    next_report = time.perf_counter()
    outlook = Outlook(solver, plan, request)
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
            return "failed", _too_many_evaluations(request.most_evaluations)
        recorder.steps += 1
        t = clock.to_time(solver.t) if solver.status == "running" else recorder.times[-1]
        dense = DenseStep(solver, clock)
        stop = watcher.look(dense.samples(), dense.at(dense.samples()), None, dense.at) if request.events else None
        if stop is not None:
            recorder.save_up_to(stop, dense.rows)
            return "terminated", _stopped_by(watcher, stop)
        recorder.save_up_to(t, dense.rows)
        if too_long := outlook.look(recorder.steps, t):
            return "failed", too_long
        if progress and time.perf_counter() >= next_report:
            progress(t, solver.t / solver.t_bound)
            next_report = time.perf_counter() + PROGRESS_INTERVAL
    if progress:
        progress(recorder.times[-1], 1.0)
    return "finished", ""


def _compiled_steps(
    solver: Any, plan: Plan, recorder: Recorder, request: Request, stop_asked: threading.Event
) -> tuple[str, str]:
    """Let the compiled integrator make steps and saves for a tenth of a second at a time; return status and message."""
    times, clock, progress = recorder.times, plan.clock, request.progress
    save_at = times if clock.scale is None else np.array([clock.from_time(t) for t in times])
    # With the decoder all states are kept: the trajectory then looks into this array.
    rows = times.size if recorder.keeps_states else min(times.size, recorder.rows_at_once)
    saved = np.empty((rows, recorder.width))
    losses = np.empty(len(saved) if solver.knows_loss and not recorder.z_only else 0)
    watcher, samples = None, NO_SAMPLES
    if request.events:
        watcher, samples = EventWatcher(plan.system, clock, request.events, solver.y), _samples(solver)
        recorder.events = watcher.records
    most_steps, filled = 1 + FIRST_NUMBERS_AT_ONCE // (100 + plan.system.size), 0
    outlook = Outlook(solver, plan, request)
    try:
        while solver.status == "running":
            if stop_asked.is_set():
                raise KeyboardInterrupt
            started = time.perf_counter()
            if request.most_evaluations:  # about a dozen evaluations a step
                most_steps = min(most_steps, 1 + max(0, request.most_evaluations - solver.nfev) // 12)
            # So that the outlook does not depend on the speed of the machine.
            most_steps = min(most_steps, outlook.next_look - solver.steps)
            saves = Rows(save_at, saved[filled:], losses[filled:])
            number, sampled, reason = solver.advance(saves, most_steps, samples)
            seconds = time.perf_counter() - started
            recorder.steps = solver.steps
            if watcher and sampled:
                known = samples.losses[:sampled] if samples.losses.size else None
                stop = watcher.look(samples.at[:sampled], samples.states[:sampled], known)
                if stop is not None:
                    filled = int(np.searchsorted(times, stop, side="right")) - recorder.count
                    return "terminated", _stopped_by(watcher, stop)
            filled += number
            if solver.status == "failed":
                return "failed", failure_message(solver, plan.system, clock, request, reason)
            if request.most_evaluations and solver.nfev > request.most_evaluations:
                return "failed", _too_many_evaluations(request.most_evaluations)
            if solver.status == "finished":
                break
            most_steps = max(
                1, min(10 * most_steps, MOST_STEPS_AT_ONCE, int(most_steps * SECONDS_AT_ONCE / max(seconds, 1e-9)))
            )
            t = clock.to_time(solver.t)
            if too_long := outlook.look(solver.steps, t):
                return "failed", too_long
            if progress:
                progress(t, solver.t / solver.t_bound)
            if filled == len(saved):
                recorder.keep(saved, losses if losses.size else None)
                saved, losses, filled = np.empty_like(saved), np.empty_like(losses), 0
        if progress:
            progress(float(times[-1]), 1.0)
    finally:
        recorder.keep(saved[:filled], losses[:filled] if losses.size else None)
    return "finished", ""


def _samples(solver: Any) -> Rows:
    """Rows for the samples of some steps; events are searched for between the samples."""
    size = solver.y.size
    rows = SAMPLES * max(1, min(STEPS_SAMPLED, FIRST_NUMBERS_AT_ONCE // (SAMPLES * size)))
    return Rows(np.empty(rows), np.empty((rows, size)), np.empty(rows if solver.knows_loss else 0))


def _stopped_by(watcher: EventWatcher, stop: float) -> str:
    return f"stopped at t = {stop:.6g} by event {watcher.records[-1].name!r}"


def _too_many_evaluations(most_evaluations: int) -> str:
    """Message of a stopped run, without the time reached, which depends on how many steps a call makes."""
    return (
        f"stopped after {most_evaluations} evaluations of the right-hand side, the most that were allowed; try a "
        "looser rtol, another method, slower rates or an earlier last time"
    )
