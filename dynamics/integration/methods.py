"""How a run is integrated, decided in one place: which system, by which method, in which variable and form."""

from __future__ import annotations

import math

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.core.memory import EVALUATIONS, MOST_OF_A_RUN, fits, require_affordable, require_memory
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.integration.clock import TIME_ITSELF, Clock
from snapdyn.dynamics.integration.request import LARGEST_DENSE_JACOBIAN, LONGEST_SPAN, Plan, Request
from snapdyn.dynamics.kernels.dormand_prince import VECTORS
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import LARGEST_STATE, MeanField
from snapdyn.dynamics.systems.reduction import LARGEST_SHARE, is_large, is_reducible, reduced

# From this rate ratio on, and this product of ratio and state values, CVODE is faster than the compiled DOP853, whose
# steps stability limits (docs/how_to/integrators.md). CVODE steps through Python, which costs most in small systems.
STIFF_RATIO, STIFF_RATIO_TIMES_SIZE = 500.0, 2e6
STIFF_RATIO_WITHOUT_COMPILED = 30.0
BYTES_PER_VALUE = 32.0  # of the state, its rate, and the copies of the smallest solver
# The default integration variable of these methods is log time for runs of more than so many time scales.
LOG_TIME_METHODS, LOG_TIME_FROM = ("LSODA", "BDF", "Radau", "CVODE"), 100


def plan_run(full: System, request: Request) -> Plan:
    """Decide how to integrate a system as `request` says.

    Raises
    ------
    InputError
        The method cannot integrate this system, or cannot reduce it by symmetry; or the run does not fit into memory;
        or it is estimated to take too long and `most_evaluations` is not given.
    """
    plan = _chosen(full, request)
    if plan.interrupted or request.times[-1] == 0:
        return plan
    system = plan.system
    if plan.method == "DOP853":
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
    return plan._replace(jumps=system.jump_times(float(request.times[-1])))


def _chosen(full: System, request: Request) -> Plan:
    """System, method, integration variable and integrator of a run."""
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
    name = "DOP853" if method == "compiled" else method
    clock = _clock(full, method, request)
    if reduce is True and not (is_reducible(full) and method == default):
        raise InputError(
            "expected a system whose class declares itself reducible, such as MeanField, and the default integrator "
            f"for reduce=True, received {full.name} and method {request.method!r}; use method='auto' or reduce='auto'"
        )
    if method != default:
        return Plan(full, name, clock, None)
    system: System = full
    if is_reducible(full) and (reduce is True or (reduce == "auto" and is_large(full))):
        try:
            system = reduced(full, None if reduce is True else LARGEST_SHARE) or full
        except KeyboardInterrupt:
            return Plan(full, name, clock, full.integrator, interrupted=True)
    return Plan(system, name, clock, system.integrator)


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
        return TIME_ITSELF
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
    return Clock(scale) if log_time else TIME_ITSELF
