"""Integration of one system or of many: `integrate`, `whole_run`, `integrate_many`; the loops that make the steps."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, instance, list_of, require_arguments
from snapdyn.core.memory import EVALUATIONS, MOST_OF_A_RUN, fits, require_affordable, require_memory
from snapdyn.core.parallel import in_threads
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.between_steps import DenseOutput, EventWatcher
from snapdyn.dynamics.integration.recorder import NUMBERS_AT_ONCE, Recorder
from snapdyn.dynamics.integration.request import LARGEST_DENSE_JACOBIAN, Clock, Problem, Request, Watching
from snapdyn.dynamics.integration.solvers import NO_SAMPLES, Outlook, failure_message, new_solver
from snapdyn.dynamics.kernels.compilation import seconds_of_running
from snapdyn.dynamics.kernels.dormand_prince import SAMPLES, VECTORS, Rows
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import LARGEST_STATE, MeanField
from snapdyn.dynamics.systems.reduction import is_reducible, reduced
from snapdyn.dynamics.trajectories.trajectory import Trajectory

# From this rate ratio on, and this product of ratio and state values, CVODE is faster than the compiled DOP853, whose
# steps stability limits (docs/how_to/integrators.md). CVODE steps through Python, which costs most in small systems.
STIFF_RATIO, STIFF_RATIO_TIMES_SIZE = 500.0, 2e6
STIFF_RATIO_WITHOUT_COMPILED = 30.0
BYTES_PER_VALUE = 32.0  # of the state, its rate, and the copies of the smallest solver
# The default integration variable of these methods is log time for runs of more than so many time scales.
LOG_TIME_METHODS, LOG_TIME_FROM = ("LSODA", "BDF", "Radau", "CVODE"), 100
# Largest t_end/t_s in log time, which takes exp(ln(1 + t/t_s)): it overflows at 1.8e308.
LONGEST_SPAN = 1e305


def problem_of(full: System, request: Request) -> Problem:
    """The problem of a system: how to integrate it as `request` says.

    Raises
    ------
    InputError
        `full` is no system; the method cannot integrate it, or cannot reduce it by symmetry; or the run does not fit
        into memory; or it is estimated to take too long and `most_evaluations` is not given.
    """
    instance("system", full, System, "give one, such as MeanField(classes, eta_Y, eta_Z)")
    method, reduce = request.method, request.reduce
    default = "DOP853" if full.integrator is None else "compiled"
    needs_quotient = _needs_quotient(full, request)
    if method == "auto":
        # Only the default method can reduce.
        keeps_default = needs_quotient or (is_reducible(full) and reduce is True)
        method = default if keeps_default or full.rate_ratio < _stiff_ratio(full) else "CVODE"
    if method == "compiled" and full.integrator is None:
        raise InputError(
            f"expected a system that the compiled integrator takes, received {full.name}; use method='DOP853'"
        )
    if method in ("BDF", "Radau") and full.size > LARGEST_DENSE_JACOBIAN:
        raise InputError(
            f"expected at most {LARGEST_DENSE_JACOBIAN} state values for {method}, whose Jacobian is dense, received "
            f"{full.size}; use CVODE or DOP853"
        )
    clock, system = _clock(full, method, request), full
    if reduce is True and not (is_reducible(full) and method == default):
        raise InputError(
            "expected a system whose class declares itself reducible, such as MeanField, and the default integrator "
            f"for reduce=True, received {full.name} and method {request.method!r}; use method='auto' or reduce='auto'"
        )
    if method == default and reduce is not False:
        system = reduced(full, asked=reduce is True) or full
    name = "DOP853" if method == "compiled" else method
    integrator = system.integrator if method == default else None
    t_end = float(request.times[-1])
    if t_end == 0.0:
        return Problem(system, request, name, clock, integrator, np.zeros(0))
    if name == "DOP853":
        require_memory(
            f"{VECTORS} vectors of {system.size} state values", 8.0 * VECTORS * system.size, "fewer classes or tokens"
        )
    if request.most_evaluations is None:
        require_affordable(
            f"a run of {system.name} with {system.size} state values, in some {EVALUATIONS} evaluations,",
            EVALUATIONS * system.multiplications,
            MOST_OF_A_RUN,
            "fewer classes or tokens, or most_evaluations to run it nevertheless",
        )
    return Problem(system, request, name, clock, integrator, system.jump_times(t_end))


def _stiff_ratio(system: System) -> float:
    """Rate ratio from which on CVODE is faster than the default method, as measured."""
    if system.integrator is None:
        return STIFF_RATIO_WITHOUT_COMPILED
    return max(STIFF_RATIO, STIFF_RATIO_TIMES_SIZE / system.size)


def _needs_quotient(system: System, request: Request) -> bool:
    """Whether a system is so large that its quotient is the default; raise if a full run is asked and does not fit."""
    if not (isinstance(system, MeanField) and isinstance(system.classes, SymmetricClasses) and system.needs_quotient):
        return False
    if request.method in ("auto", "compiled") and request.reduce is not False:
        return True
    if not (system.classes.fits and system.size <= LARGEST_STATE and fits(BYTES_PER_VALUE * system.size)):
        received = "reduce=False" if request.method in ("auto", "compiled") else f"method={request.method!r}"
        raise InputError(
            f"expected method='auto' or 'compiled' and reduce='auto' or True for {system.classes.num_classes} classes, "
            f"received {received}, which needs every class ({system.size} state values); leave it out, or take fewer "
            "classes"
        )
    return True


def _clock(system: System, method: str, request: Request) -> Clock:
    """Integration variable of a run."""
    log_time, t_end = request.log_time, float(request.times[-1])
    if log_time is False or (log_time is None and (method not in LOG_TIME_METHODS or request.max_step)):
        return Clock(None)
    try:
        with np.errstate(all="ignore"):
            scale = float(system.time_scale)
    except (OverflowError, ZeroDivisionError):  # of rates that are Python numbers and that float64 does not hold
        scale = 0.0
    log_time = log_time or t_end > LOG_TIME_FROM * scale
    if log_time and not (0.0 < scale < math.inf and t_end / scale <= LONGEST_SPAN):
        raise InputError(
            f"expected a last time of at most {LONGEST_SPAN:g} times t_s, 1 over the fastest rate, for log time, "
            f"received t_s = {scale:.3g} and a last time of {t_end:.3g}; use other rates or log_time=False"
        )
    return Clock(scale) if log_time else Clock(None)


# The first call of the compiled integrator moves about so many numbers (milliseconds), that of a solver in Python makes
# one step. Later calls take about SECONDS_AT_ONCE, so that Ctrl-C has an effect.
FIRST_NUMBERS_AT_ONCE = 200_000
SECONDS_AT_ONCE = 0.1
MOST_STEPS_AT_ONCE = 10**9
STEPS_SAMPLED = 64  # between looks at the events
LEAST_NUMBERS = 20_000  # a member of an ensemble keeps whole states up to this size at least
NEVER = threading.Event()


def integrate(
    system: System,
    t_eval: ArrayLike,
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    log_time: bool | None = None,
    save_decoder: bool = False,
    z_only: bool = False,
    most_evaluations: int | None = None,
    reduce: bool | str = "auto",
    max_step: float | None = None,
    dense: bool = False,
    **watching: Unpack[Watching],
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
    save_decoder : bool
        Save Y as well (N x rows x columns numbers).
    **watching : events and progress, optional
        ``events``, a mapping of str to Event: each event function is evaluated 8 times per step, so that two crossings
        in one step are found, and its zeros are located on dense output. ``progress``, a function that is called as
        progress(t, fraction) about ten times a second; `fraction` is the part of the run that is done, in the
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
    dense : bool
        Keep the dense output of every step (8 states a step), so that ``trajectory(t)`` gives the state at any time.

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
    require_arguments("integrate", watching, Request.__annotations__)
    request = Request(
        t_eval,
        method,
        rtol,
        atol,
        log_time,
        save_decoder,
        z_only,
        most_evaluations,
        reduce,
        max_step,
        dense,
        **watching,
    )
    return run(system, request, NEVER)


def run(system: System, request: Request, stop: threading.Event, numbers: int = NUMBERS_AT_ONCE) -> Trajectory:
    """Integrate a system as `integrate` describes; up to so many `numbers`, whole states are kept.

    When `stop` is set, the run ends as it does after Ctrl-C. (Python delivers Ctrl-C to the main thread only.)
    """
    started = seconds_of_running()
    problem = problem_of(system, request)
    recorder = Recorder(problem.system, request.times, request.save_decoder, request.z_only, numbers)
    solver = dense = watcher = None
    status, message = "finished", ""
    try:
        # A run that overflows is reported with its time and quantity, not by numpy's warning.
        with np.errstate(all="ignore"):
            start = problem.system.initial_state()
            if request.dense:
                dense = DenseOutput(problem, start)
            if problem.t_end == 0:
                recorder.keep(start[None, : recorder.width], None)
            else:
                solver = new_solver(problem)
                if request.events:
                    watcher = EventWatcher(problem, start)
                status, message = _make_steps(solver, problem, recorder, stop, watcher, dense)
    except KeyboardInterrupt:
        t = problem.clock.to_time(solver.t) if solver else 0.0
        status = "interrupted"
        message = (
            f"interrupted at t = {t:.6g}; z and loss at {recorder.count} of {request.times.size} times are kept; "
            "run again, or with fewer times or a looser rtol"
        )
    stats = {
        "method": problem.method,
        "compiled": problem.integrator is not None,
        "log_time": problem.clock.scale is not None,
        "rtol": request.rtol,
        "atol": request.atol,
        "state_size": problem.system.size,
        "full_state_size": system.size,
        "evaluations": solver.nfev if solver else 0,
        "steps": solver.steps if solver else 0,
    }
    if solver and status in ("finished", "terminated"):
        violated = recorder.violation(problem.clock.to_time(solver.t), solver.y, stats)
        status, message = ("failed", violated) if violated else (status, message)
    seconds = seconds_of_running() - started
    return recorder.trajectory(status, message, stats, seconds, watcher.records if watcher else (), dense)


def _make_steps(
    solver: Any,
    problem: Problem,
    recorder: Recorder,
    stop: threading.Event,
    watcher: EventWatcher | None,
    dense: DenseOutput | None,
) -> tuple[str, str]:
    """Let the solver make steps and saves for a tenth of a second at a time; return status and message of the run."""
    request, clock = problem.request, problem.clock
    times, progress = request.times, request.progress
    save_at = times if clock.scale is None else np.array([clock.from_time(t) for t in times])
    has_losses = solver.knows_loss and not request.z_only
    saves = _rows(save_at, recorder, has_losses)
    samples, sampled = _samples(solver) if watcher or dense else NO_SAMPLES, 0
    most_steps = 1 if problem.integrator is None else 1 + FIRST_NUMBERS_AT_ONCE // (100 + problem.system.size)
    outlook, end = Outlook(solver, problem), math.inf
    try:
        while solver.status == "running":
            if stop.is_set():
                raise KeyboardInterrupt
            started = time.perf_counter()
            if request.most_evaluations:  # about a dozen evaluations a step
                most_steps = min(most_steps, 1 + max(0, request.most_evaluations - solver.nfev) // 12)
            # So that the outlook does not depend on the speed of the machine.
            most_steps = min(most_steps, outlook.next_look - solver.steps)
            filled = solver.saved - recorder.count
            reason = solver.advance(Rows(save_at, saves.states[filled:], saves.losses[filled:]), most_steps, samples)
            seconds = time.perf_counter() - started
            if solver.sampled > sampled:
                at, states, losses = (each[: solver.sampled - sampled] for each in samples)
                sampled = solver.sampled
                if dense:
                    dense.add(at, states)
                if watcher and (end := watcher.look(at, states, losses)) < math.inf:
                    return "terminated", f"stopped at t = {end:.6g} by event {watcher.records[-1].name!r}"
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                return "failed", failure_message(solver, problem, reason)
            if request.most_evaluations and solver.nfev > request.most_evaluations:
                # Without the time reached, which depends on how many steps a call makes.
                return "failed", (
                    f"stopped after {request.most_evaluations} evaluations of the right-hand side, the most that were "
                    "allowed; try a looser rtol, another method, slower rates or an earlier last time"
                )
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
            if solver.saved - recorder.count == len(saves.states):
                recorder.keep(saves.states, saves.losses)
                saves = _rows(save_at, recorder, has_losses)
        if progress:
            progress(float(times[-1]), 1.0)
    finally:
        filled = min(solver.saved, int(np.searchsorted(times, end, side="right"))) - recorder.count
        recorder.keep(saves.states[:filled], saves.losses[:filled])
    return "finished", ""


def _rows(save_at: Floats, recorder: Recorder, has_losses: bool) -> Rows:
    """Rows for the next states to save."""
    states = np.empty((min(save_at.size - recorder.count, recorder.rows_at_once), recorder.width))
    return Rows(save_at, states, np.empty(len(states) if has_losses else 0))


def _samples(solver: Any) -> Rows:
    """Rows for the samples of some steps; events are searched for between the samples."""
    size = solver.y.size
    rows = SAMPLES * max(1, min(STEPS_SAMPLED, FIRST_NUMBERS_AT_ONCE // (SAMPLES * size)))
    return Rows(np.empty(rows), np.empty((rows, size)), np.empty(rows if solver.knows_loss else 0))


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
    stop = threading.Event()
    require_arguments("integrate_many", options, Request.__annotations__)
    request = Request(t_eval, **options)
    numbers = max(LEAST_NUMBERS, NUMBERS_AT_ONCE // max(1, len(systems)))

    def member(number: int) -> Trajectory:
        try:
            return run(systems[number], request, stop, numbers)
        except InputError as error:
            raise InputError(f"{error} (systems[{number}])") from error

    return in_threads([partial(member, number) for number in range(len(systems))], threads, stop, progress)
