"""Runs of an instance of a claim: tolerances from its rounding, a limit on the work, and a run kept for all claims."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from snapdyn import analytic
from snapdyn.core.memory import EVALUATIONS, require_affordable
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.integration.request import log_times
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.reduction import reduced
from snapdyn.dynamics.training.explicit_steps import descend
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.measured import NoNumber
from snapdyn.validation.rungs.run import (
    EXACT,
    FINITE_LENGTH,
    MEAN_FIELD,
    MOST_EVALUATIONS,
    NotApplicable,
    not_interrupted,
    system_on_rung,
)
from snapdyn.validation.search.instance import Instance

T = TypeVar("T")
DENSE = 3000  # state values of scipy's LSODA, whose Jacobian is dense
MOST_IN_PYTHON = 50_000  # evaluations of a rate in Python, of 0.1 ms each; level quick of the register needs 12,000
MOST_VALUES = 100_000_000  # evaluations times state values, at most 25 million in those flows


def resolution(instance: Instance) -> float:
    """Absolute error that rounding leaves in a logit; solvers with a smaller tolerance follow noise.

    z' = eta_Z p_n f o (g - f (f.g)) rounds to eps of its terms, and |g| is about u = V h: eps (eta_Z/eta_Y) u^2 in
    all. So logits of the order 1/V that are below this error, at a large V, are lost.
    """
    h = np.asarray(analytic.h(instance.prior * instance.t_end, instance.eta_Y, instance.vocab_size))
    lead = instance.vocab_size * float(h.max())
    return max(1e-20, 4 * float(np.finfo(float).eps) * instance.ratio * (1 + lead**2))


def noise(instance: Instance, rung: str) -> float:
    """Size below which a run's logits are only noise: `resolution` times some hundred steps.

    Where attention is fast an explicit integrator runs at its limit of stability, and errors are larger: up to 1e5
    times `resolution` on one class, where no logit moves, and 5e4 times for finite sequences (60 runs against LSODA).
    """
    return (1e6 if rung == MEAN_FIELD and instance.ratio > 10 else 1e3) * resolution(instance)


def most_evaluations(size: int, compiled: bool) -> int:
    """Evaluations of the rate of `size` values that a measurement on one instance may take."""
    return max(1000, min(MOST_EVALUATIONS[compiled], MOST_VALUES // size))


def by_scipy(
    rate: Callable[[float, Floats], Floats],
    t_end: float,
    start: Floats,
    times: Floats | None = None,
    method: str = "LSODA",
    **tolerances: float,
) -> Floats:
    """Solve a rate in Python from 0 to t_end by a solver of scipy, with at most MOST_IN_PYTHON evaluations of the rate.

    LSODA keeps a dense Jacobian: above DENSE values DOP853 takes its place.

    Parameters
    ----------
    rate : callable
        ``rate(t, state)``, the derivative of the state (size,).
    t_end : float
        Last time.
    start : (size,) array
        State at t = 0.
    times : (N,) array, optional
        Times of the states; default the solver's own steps.
    method : str
        Name of the solver.
    **tolerances : float
        rtol and atol.

    Returns
    -------
    (N, size) array
        States.

    Raises
    ------
    NoNumber
        The solver fails or takes too many evaluations.
    """
    from scipy.integrate import solve_ivp

    allowed, made = min(MOST_IN_PYTHON, most_evaluations(start.size, compiled=False)), 0

    def counted(t: float, state: Floats) -> Floats:
        nonlocal made
        made += 1
        if made > allowed:
            raise NoNumber(f"the run was stopped after {allowed} evaluations of its rate, the most that are allowed")
        return rate(t, state)

    chosen = "DOP853" if method == "LSODA" and start.size > DENSE else method
    run = solve_ivp(counted, (0.0, t_end), start, chosen, times, **tolerances)
    if not run.success:
        raise NoNumber(f"the run failed ({run.message})")
    return np.asarray(run.y.T)


def flow(
    instance: Instance,
    rung: str,
    saves: int = 60,
    residual: bool = False,
    **options: Any,
) -> Trajectory:
    """Run an instance to t_end; a run that was made before with the same arguments is returned again.

    Parameters
    ----------
    instance : Instance
        The instance.
    rung : str
        MEAN_FIELD, for the instance's length of sequences, or EXACT. For an instance with `rules`, MEAN_FIELD is the
        mean map of these rules, recorded after whole updates, and there is no EXACT.
    saves : int
        Number of saved times, evenly spaced in ln t.
    residual : bool
        Whether the mean field has the residual connection.
    **options : dict
        Options of the integration.

    Returns
    -------
    Trajectory
        The run.

    Raises
    ------
    NoNumber
        The solver fails, the attention vectors are linearly dependent, which the modified decoder does not allow, the
        sequences are finite beside a residual connection, or too short for the correction of the rung. A search counts
        such an instance as undecided.
    """
    key = (rung, saves, residual, *sorted(options.items()))
    run: Trajectory = once(instance, key, lambda: _run(instance, rung, saves, residual, options))
    return run


def once(instance: Instance, key: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives for an instance, or the NoNumber that it raises; it is called once and kept on the instance."""
    if key not in instance.runs:
        try:
            instance.runs[key] = make()
        except NoNumber as reason:
            instance.runs[key] = reason
    found = instance.runs[key]
    if isinstance(found, NoNumber):
        raise NoNumber(*found.args)
    return found


def kept_on_instance(make: Callable[[Instance], T]) -> Callable[[Instance], T]:
    """Decorator of what is computed from an instance alone, and by several properties: see `once`."""

    @wraps(make)
    def kept(instance: Instance) -> T:
        found: T = once(instance, make.__qualname__, lambda: make(instance))
        return found

    return kept


def succeeded(run: Trajectory) -> Trajectory:
    """Give back a run that has reached its last time; raise NoNumber with the reason of another one."""
    not_interrupted([run])
    if not run.success:
        raise NoNumber(f"the run failed ({run.message})")
    return run


def _run(
    instance: Instance,
    rung: str,
    saves: int,
    residual: bool,
    options: dict[str, Any],
) -> Trajectory:
    times = log_times(1e-3 * min(100.0 / instance.eta_Y, instance.t_end), instance.t_end, saves)
    if instance.rules:
        return _run_of_rules(instance, rung, times, residual, options)
    if rung == EXACT and instance.eigenvalues[0] <= 1e-12:
        raise NoNumber("attention vectors are linearly dependent, and the modified decoder inverts their products")
    if residual and instance.seq_len is not None:
        raise NoNumber("the residual connection has no correction of finite length")
    finite = rung == MEAN_FIELD and instance.seq_len is not None
    arguments = {"seq_len": instance.seq_len} if finite else {"residual": residual} if rung == MEAN_FIELD else {}
    wanted = FINITE_LENGTH if finite else rung
    try:
        system = system_on_rung(wanted, instance.classes, *instance.flow_rates, z_initial=instance.start, **arguments)
    except NotApplicable as error:  # sequences too short for the correction: the statement may require infinite ones
        raise NoNumber(str(error)) from error
    # In log time an interpolated first save does not err by per cents, as it does inside the one step of a short run.
    chosen: dict[str, Any] = {"rtol": 1e-10, "atol": resolution(instance), "log_time": True}
    if instance.solver:
        chosen["method"] = instance.solver
    chosen |= options
    by_default = "method" not in chosen
    smaller = reduced(system, asked=False) if by_default else None
    if smaller is None:
        require_affordable(f"a run of the rung {rung!r}", EVALUATIONS * system.multiplications)
    chosen.setdefault(
        "most_evaluations", most_evaluations((smaller or system).size, compiled=by_default and not finite)
    )
    try:
        return whole_run(system, times, **chosen)
    except RuntimeError as error:
        raise NoNumber(f"the run failed ({error})") from error


def _run_of_rules(instance: Instance, rung: str, times: Floats, residual: bool, options: dict[str, Any]) -> Trajectory:
    """The mean map of the rules of an instance, after the whole numbers of updates next to `times`."""
    if rung != MEAN_FIELD:
        raise NoNumber(f"the rung {rung!r} has no rule of descent but gradient descent")
    system = MeanField(*instance.setting, instance.start, residual, optimizer=instance.rules or "sgd")
    updates = np.unique(np.maximum(1, times.round())).astype(np.int64)
    require_affordable("the updates of a rule", float(updates[-1]) * system.multiplications)
    return succeeded(
        descend(system, int(updates[-1]), 1.0, record=updates, save_decoder=options.get("save_decoder", False))
    )
