"""Finite steps of any system: `descend` along its rate, and `descend_samples` along samples that a user draws."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, flag, fraction, function, instance, positive, shown, whole
from snapdyn.core.memory import require_memory
from snapdyn.core.parallel import in_threads
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.integration.recorder import Recorder
from snapdyn.dynamics.kernels.compilation import seconds_of_running
from snapdyn.dynamics.kernels.explicit_steps import PASSED, Motion, explicit_steps
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.own.own_system import OwnSystem
from snapdyn.dynamics.systems.own.user_function import compiled_for_user, tried_in_python
from snapdyn.dynamics.training.descent import seed_list
from snapdyn.dynamics.training.steps import Schedule, checked_record, checked_schedule, momentum_clock
from snapdyn.dynamics.trajectories.trajectory import Trajectory

NUMBERS_AT_ONCE = 5_000_000  # moved by one call of a compiled function, some tens of milliseconds, for Ctrl-C
CLOCK = (
    "t = step_size times steps, or times the sum of their multipliers; with momentum mu the flow's time is t/(1 - mu) "
    "to first order (momentum_clock)"
)


def descend(
    system: System,
    steps: int,
    step_size: float,
    momentum: float = 0.0,
    record: ArrayLike | None = None,
    save_decoder: bool = False,
    schedule: Schedule | None = None,
) -> Trajectory:
    """Make explicit steps of the rate of a system: x <- x + h v, v <- mu v + rate(x).

    Parameters
    ----------
    system : System
        Any system. Those of `System.from_sympy` and `System.from_function` run compiled. A `MeanField` with a rule of
        descent makes the rule's own updates (its mean map), with rates times h; its moments are not part of the states.
    steps : int
        Number of steps.
    step_size : float
        h, in the time unit of the system: batch-size-1 steps, if the rates of the system are learning rates.
    momentum : float
        mu of the heavy ball, at least 0 and below 1. The effective rate is 1/(1 - mu) times larger, once the velocity
        has built up: after i steps the flow's time is about h times `dynamics.momentum_clock(i, mu)`.
    record : array_like of int, optional
        Increasing numbers of steps, from 0 to `steps`, after which the state is kept; default: all.
    save_decoder : bool
        Keep Y, as in `integrate`.
    schedule : (steps,) array_like, callable or float, optional
        Multipliers m_i of h, finite and at least 0, a function that returns them for an array of steps 0..steps-1, or
        one number for all: x <- x + h m_i v, also with momentum. Default: 1.

    Returns
    -------
    Trajectory
        t is step_size times the number of steps made, or times the sum of their multipliers. A rate that depends on
        time takes this t. Status "diverged" when the state stops being finite, "interrupted" after Ctrl-C, with the
        record until then.

    Raises
    ------
    InputError
        One sentence that says what was expected, what was received and what to do.

    Examples
    --------
    >>> import snapdyn as sd, sympy
    >>> u = sympy.Symbol("u")
    >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u})
    >>> sd.descend(decay, steps=2, step_size=0.5).state[:, 0]
    array([1.  , 0.5 , 0.25])
    """
    moved = instance("system", system, System, "make it with System.from_sympy").with_steps
    save_decoder, momentum = flag("save_decoder", save_decoder), fraction("momentum", momentum)
    if momentum and moved is not system:
        raise InputError(
            f"expected momentum=0 with a system that has a rule of descent, received {momentum}; give it to the rule"
        )
    plan = _checked(moved, steps, step_size, momentum, record)
    multipliers = checked_schedule(schedule, whole("steps", steps, 0))
    reals, move = np.zeros(PASSED + 1), moved.stepper
    arguments = (*moved.kernel_arguments(), reals) if move is not None else ()
    move = move or _interpreted(moved)
    return _run(moved, *plan, move, arguments, reals, threading.Event(), None, save_decoder, multipliers)


def descend_samples(
    system: System,
    sample_update: Callable[..., Any],
    steps: int,
    step_size: float,
    seed: int | Iterable[int] = 0,
    momentum: float = 0.0,
    record: ArrayLike | None = None,
    threads: int | None = None,
) -> Trajectory | list[Trajectory]:
    """Make steps along random samples, the stochastic counterpart of `descend`.

    Parameters
    ----------
    system : System
        The system gives start, observables and conserved quantities; its rate should be the mean of the samples.
    sample_update : callable
        ``sample_update(state, rng, out, *parameters)`` draws one sample (or batch) from `rng`, a numpy Generator, and
        writes its direction of steepest descent to every entry of `out`, (size,). Plain or jitted; numba compiles it.
        The parameters are those of a system of `System.from_sympy` or `System.from_function`, in their order; the
        function may leave all of them out.
    steps : int
        Number of steps.
    step_size : float
        As in `descend`.
    seed : int or iterable of int
        Each seed has its own random stream.
    momentum : float
        As in `descend`.
    record : array_like of int, optional
        As in `descend`.
    threads : int, optional
        Number of threads for several seeds; default all cores. The numbers do not depend on it.

    Returns
    -------
    Trajectory or list of Trajectory
        A list, one for each seed, when `seed` is an iterable; otherwise as `descend`.

    Raises
    ------
    InputError
        As `descend`, and where `sample_update` does not compile (with its line).

    Examples
    --------
    >>> import snapdyn as sd, sympy
    >>> u = sympy.Symbol("u")
    >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u})
    >>> def noisy(state, rng, out):
    ...     out[0] = -state[0] + rng.normal()
    >>> runs = sd.descend_samples(decay, noisy, steps=100, step_size=0.01, seed=range(3), record=[100])
    >>> len({float(run.state[0, 0]) for run in runs})
    3
    """
    plan = _checked(system, steps, step_size, momentum, record)
    single, seeds = seed_list(seed)
    require_memory(
        f"the records of {len(seeds)} seeds",
        8.0 * len(seeds) * plan[2].size * system.size,
        "fewer seeds or records",
    )
    values = tuple(system.argument_values) if isinstance(system, OwnSystem) else ()
    function("sample_update", sample_update)
    move, arguments = steps_along_samples(sample_update, system.initial_state(), values)
    stop = threading.Event()

    def one(each: int) -> Trajectory:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(each)))
        return _run(system, *plan, move, (rng, *arguments), np.zeros(PASSED + 1), stop, each)

    runs = in_threads([partial(one, each) for each in seeds], threads, stop)
    return runs[0] if single else runs


def _checked(
    system: System, steps: int, step_size: float, momentum: float, record: ArrayLike | None
) -> tuple[float, float, Ints]:
    """Step size, momentum and record of a run."""
    instance("system", system, System, "make it with System.from_sympy")
    if isinstance(system.classes, SymmetricClasses):
        system.classes.require_all()  # before a record of all their values
    steps = whole("steps", steps, 0)
    if record is None:
        require_memory(f"{steps} recorded steps", 8.0 * steps * system.size, "a record of fewer steps")
    kept = np.arange(steps + 1) if record is None else checked_record(record, steps)
    return positive("step_size", step_size), fraction("momentum", momentum), kept


def _interpreted(system: System) -> Any:
    """Counterpart of the functions compiled with `explicit_steps`, for other systems: one call from Python per step."""

    def move(arguments: Any, motion: Motion) -> int:
        state, velocity, steps = motion.state, motion.velocity, motion.steps
        filled = 0
        while np.isfinite(state).all():
            if filled < motion.record.size and motion.record[filled] == steps[0]:
                motion.saved[filled] = state
                filled += 1
            if steps[0] == steps[1]:
                break
            multiplier = motion.schedule[steps[0]] if motion.schedule.size else 1.0
            system.write_rate_at(float(motion.reals[PASSED] * motion.size), state, motion.change)
            velocity *= motion.momentum
            velocity += motion.change
            state += multiplier * motion.size * velocity
            motion.reals[PASSED] += multiplier
            steps[0] += 1
        return filled

    return move


def _run(
    system: System,
    step_size: float,
    momentum: float,
    record: Ints,
    move: Any,
    arguments: tuple[Any, ...],
    reals: Floats,
    stop: threading.Event,
    seed: int | None = None,
    save_decoder: bool = False,
    schedule: Floats | None = None,
) -> Trajectory:
    """Make the steps in portions; return the trajectory."""
    started = seconds_of_running()
    recorder = Recorder(system, step_size * momentum_clock(record, 0.0, schedule), save_decoder, False)
    state, steps = system.initial_state(), np.zeros(2, np.int64)
    at_once = max(1, NUMBERS_AT_ONCE // (100 + state.size))
    velocity, change = np.zeros((2, state.size))
    multipliers = np.empty(0) if schedule is None else schedule
    status, message = "finished", ""
    rows = max(1, recorder.rows_at_once)
    try:
        with np.errstate(all="ignore"):
            while recorder.count < record.size:
                if stop.is_set():
                    raise KeyboardInterrupt
                waiting = record[recorder.count : recorder.count + rows]
                steps[1] = min(steps[0] + at_once, waiting[-1])
                saved = np.empty((int(np.searchsorted(waiting, steps[1], side="right")), state.size))
                motion = Motion(state, velocity, change, reals, step_size, momentum, multipliers, steps, waiting, saved)
                filled = move(arguments, motion)
                recorder.keep(saved[:filled], None)
                if steps[0] < steps[1] or not np.isfinite(state).all():
                    status = "diverged"
                    bad = int(np.flatnonzero(~np.isfinite(state))[0])
                    message = (
                        f"diverged at step {steps[0]} in {system.value_name(bad)}; try a smaller step_size or momentum"
                    )
                    break
    except KeyboardInterrupt:
        status, message = "interrupted", f"interrupted after {steps[0]} steps; run again, or with fewer steps"
        stop.set()
    made = int(steps[0])
    stats = {
        "method": "descent" if seed is None else "samples",
        "compiled": seed is not None or system.stepper is not None,
        "log_time": False,
        "step_size": step_size,
        "momentum": momentum,
        "clock": CLOCK,
        "rtol": 0.0,
        "atol": 0.0,
        "state_size": system.size,
        "full_state_size": system.size,
        "evaluations": made,
        "steps": made,
    }
    stats |= {} if seed is None else {"seed": seed}
    stats |= {} if schedule is None else {"schedule": schedule.tolist()}
    return recorder.trajectory(status, message, stats, seconds_of_running() - started)


def steps_along_samples(sample_update: Any, start: Floats, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Compile steps along samples; return the compiled function, and the parameters that `sample_update` takes."""
    import numba

    plain = getattr(sample_update, "py_func", sample_update)
    code = getattr(plain, "__code__", None)
    count = code.co_argcount if code is not None else -1
    if count not in (3, 3 + len(values)):
        raise InputError(
            f"expected sample_update with arguments (state, rng, out) or these and {len(values)} parameters, received "
            f"{shown(plain)}; write these arguments"
        )
    jitted = sample_update if hasattr(sample_update, "py_func") else numba.njit(error_model="numpy")(sample_update)
    arguments = values if count > 3 else ()
    rng = np.random.Generator(np.random.PCG64(0))
    tried = tried_in_python("a sample_update", plain, start, (), arguments, (rng,))
    if tried and np.isnan(tried[0]).any():
        raise InputError(
            "expected a sample_update that writes every entry of out, received one that leaves some out or adds to "
            "them; set each entry, to 0.0 where nothing changes"
        )

    @numba.njit
    def draw(state, change, rng, *parameters):  # type: ignore[no-untyped-def]
        change[:] = np.nan  # an entry that the sample leaves out would keep that of the sample before
        jitted(state, rng, change, *parameters)

    @numba.njit(nogil=True)
    def move(arguments, motion):  # type: ignore[no-untyped-def]
        return explicit_steps(draw, arguments, motion)

    vectors = start, np.zeros(start.size), np.zeros(start.size), np.zeros(PASSED + 1)
    nothing = np.empty(0), np.zeros(2, np.int64), np.zeros(0, np.int64), np.zeros((0, start.size))
    with compiled_for_user(plain):
        move((rng, *arguments), Motion(*vectors, 1.0, 0.0, *nothing))
    return move, arguments
