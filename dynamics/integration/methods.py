"""How a run is integrated, decided in one place: which system, by which method, in which variable; and its solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.cvode import CVODESolver
from snapdyn.dynamics.integration.dormand_prince import (
    COMPILED_SYSTEMS,
    DormandPrinceSolver,
    FactoredMeanFieldSolver,
    is_compiled,
    is_factored,
)
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.integration.rkc import RKC
from snapdyn.dynamics.integration.times import LONGEST_SPAN
from snapdyn.dynamics.memory import fits
from snapdyn.dynamics.symmetry.reduction import LARGEST_SHARE, REDUCIBLE, is_large, reduced
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import LARGEST_STATE, MeanField
from snapdyn.errors import InputError

# From this rate ratio on, and this product of ratio and state values, CVODE is faster than the compiled DOP853, whose
# steps stability limits (docs/how_to/integrators.md). CVODE steps through Python, which costs most in small systems.
STIFF_RATIO, STIFF_RATIO_TIMES_SIZE = 500.0, 2e6
STIFF_RATIO_WITHOUT_COMPILED = 30.0
# BDF and Radau form a dense Jacobian by finite differences, n extra evaluations and n^2 numbers each time.
LARGEST_DENSE_JACOBIAN = 3000
BYTES_PER_VALUE = 32.0  # of the state, its rate, and the copies of the smallest solver
MOST_EVALUATIONS_OF_A_STEP = 10_000  # LSODA takes one to some tens
# The default integration variable of these methods is log time for runs of more than so many time scales.
LOG_TIME_METHODS, LOG_TIME_FROM = ("LSODA", "BDF", "Radau", "CVODE"), 100


class StepRepeated(Exception):
    """A solver does not end its step."""


class StepLimit:
    """Rate for LSODA that ends a step after too many evaluations.

    Where rounding keeps its equations from being solved, LSODA can repeat one step for ever, inside one call.

    Attributes
    ----------
    made : int
        Evaluations since the driver set it to 0, before each step.
    """

    def __init__(self, rate: Callable[[float, Floats], Floats]) -> None:
        self._rate, self.made = rate, 0

    def __call__(self, tau: float, state: Floats) -> Floats:
        self.made += 1
        if self.made > MOST_EVALUATIONS_OF_A_STEP:
            raise StepRepeated(f"LSODA evaluated the right-hand side {MOST_EVALUATIONS_OF_A_STEP} times in one step")
        return self._rate(tau, state)


class Plan(NamedTuple):
    """How a run is integrated.

    Attributes
    ----------
    system : System
        The system whose steps are made: that of the run, or the one of a value for all that stay equal by symmetry.
    method : str
        Name of the method.
    compiled : bool
        Whether the compiled integrator makes the steps.
    clock : Clock
        The integration variable.
    interrupted : bool
        Whether Ctrl-C ended the search for symmetries.
    """

    system: System
    method: str
    compiled: bool
    clock: Clock
    interrupted: bool = False


def plan_run(full: System, request: Request) -> Plan:
    """Decide how to integrate a system as `request` says.

    Raises
    ------
    InputError
        The method cannot integrate this system, or not on one value for all that stay equal.
    """
    method, t_end = request.method, float(request.times[-1])
    _require_quotient(full, method, request.reduce)
    is_reducible = type(full) in REDUCIBLE
    if method == "auto" and request.reduce is True and is_reducible:  # only these methods can reduce
        method = "compiled" if is_compiled(full) else "DOP853"
    elif method == "auto":
        method = _fastest_method(full)
    compiled = method == "compiled"
    if compiled:
        method = "DOP853"
        if not is_compiled(full):
            names = ", ".join(each.__name__ for each in COMPILED_SYSTEMS)
            raise InputError(
                f"expected a system that is compiled into the integrator ({names}), received {full.name}; use "
                "method='DOP853'"
            )
    if method in ("BDF", "Radau") and full.size > LARGEST_DENSE_JACOBIAN:
        raise InputError(
            f"expected at most {LARGEST_DENSE_JACOBIAN} state values for {method}, whose Jacobian is dense, received "
            f"{full.size}; use CVODE or DOP853"
        )
    plan = Plan(full, method, compiled, _clock(full, method, request.log_time, t_end))
    usable = is_reducible and method == "DOP853" and compiled == is_compiled(full)
    if request.reduce is True and not usable:
        raise InputError(
            f"expected one of {', '.join(each.__name__ for each in REDUCIBLE)} and the default integrator for "
            f"reduce=True, received {full.name} and method {request.method!r}; use method='auto' or reduce='auto'"
        )
    if not usable or request.reduce is False or not (request.reduce is True or is_large(full)):
        return plan
    try:
        small = reduced(full, None if request.reduce is True else LARGEST_SHARE)
    except KeyboardInterrupt:
        return plan._replace(interrupted=True)
    # Also of a system that is not compiled itself: the steps are those of scipy's DOP853.
    return plan if small is None else plan._replace(system=small, compiled=is_compiled(small))


def _require_quotient(system: System, method: str, reduce: bool | str) -> None:
    """Check that a run of more classes than fit into memory uses the quotient that they carry."""
    if not (isinstance(system, MeanField) and isinstance(system.classes, SymmetricClasses) and system.needs_quotient):
        return
    if method in ("auto", "compiled") and reduce is not False:
        return
    if not (system.classes.fits and system.size <= LARGEST_STATE and fits(BYTES_PER_VALUE * system.size)):
        received = "reduce=False" if method in ("auto", "compiled") else f"method={method!r}"
        raise InputError(
            f"expected method='auto' or 'compiled' and reduce='auto' or True for {system.classes.num_classes} classes, "
            f"received {received}, which needs every class ({system.size} state values); leave it out, or take fewer "
            "classes"
        )


def _clock(system: System, method: str, log_time: bool | None, t_end: float) -> Clock:
    """Integration variable of a run to `t_end` (batch-size-1 steps)."""
    scale = _time_scale(system)
    if log_time is None:
        log_time = method in LOG_TIME_METHODS and t_end > LOG_TIME_FROM * scale
    if log_time and not (0.0 < scale < math.inf and t_end / scale <= LONGEST_SPAN):
        raise InputError(
            f"expected a last time of at most {LONGEST_SPAN:g} times t_s, 1 over the fastest rate, for log time, "
            f"received t_s = {scale:.3g} and a last time of {t_end:.3g}; use other rates or log_time=False"
        )
    return Clock(scale if log_time else None)


def _time_scale(system: System) -> float:
    """t_s of a system; 0 where float64 does not hold it."""
    with np.errstate(all="ignore"):
        try:
            return float(system.time_scale)
        except (OverflowError, ZeroDivisionError):  # of rates that are Python numbers
            return 0.0


def _fastest_method(system: System) -> str:
    """Name of the method that is fastest for this system, as measured."""
    compiled = is_compiled(system)
    if isinstance(system, MeanField) and system.needs_quotient:
        return "compiled"
    stiff = max(STIFF_RATIO, STIFF_RATIO_TIMES_SIZE / system.size) if compiled else STIFF_RATIO_WITHOUT_COMPILED
    if system.rate_ratio >= stiff:
        return "CVODE"
    return "compiled" if compiled else "DOP853"


def new_solver(plan: Plan, request: Request) -> Any:
    """Solver at t = 0 with the interface of scipy's `OdeSolver`, for a run to the last time of `request`."""
    system, method, clock = plan.system, plan.method, plan.clock
    t_end, rtol, atol = float(request.times[-1]), request.rtol, request.atol
    if plan.compiled:
        only_logits = request.z_only and not request.save_decoder and not request.events
        if only_logits and isinstance(system, MeanField) and is_factored(system):
            return FactoredMeanFieldSolver(system, clock, t_end, rtol, atol)
        return DormandPrinceSolver(system, clock, t_end, rtol, atol)
    if method == "CVODE":
        return CVODESolver(system, clock, t_end, rtol, atol)
    options: dict[str, Any] = {}
    if method in ("LSODA", "BDF", "Radau") and system.has_jacobian and system.size <= LARGEST_DENSE_JACOBIAN:
        options["jac"] = clock.jacobian(system)
    elif method == "LSODA":  # a diagonal Jacobian: the full one would allocate n^2 numbers
        options = {"lband": 0, "uband": 0}
    rate = clock.derivative(system)
    limit = StepLimit(rate) if method == "LSODA" else None
    solver_class = RKC if method == "RKC" else getattr(scipy.integrate, method)
    solver = solver_class(
        limit or rate,
        0.0,
        system.initial_state(),
        clock.from_time(t_end),
        rtol=rtol,
        atol=atol,
        **options,
    )
    if limit:
        solver.step_limit = limit
    return solver
