"""Solvers: the compiled DOP853, which makes many steps in a call of `advance`, and those with `step`, as in scipy.

This module also writes the messages of runs whose solver fails or would take very long: at which time, in which
quantity, what to try.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.cvode import CVODESolver
from snapdyn.dynamics.integration.request import LARGEST_DENSE_JACOBIAN, Plan, Request
from snapdyn.dynamics.kernels import dormand_prince as kernel
from snapdyn.dynamics.systems.base import System
from snapdyn.memory import MOST_OF_A_RUN

REASONS = {
    kernel.TOO_SMALL_STEP: "Required step size is less than spacing between numbers",
    kernel.NOT_FINITE: "the state is not finite",
}
NOTHING = np.empty(0)
NO_SAMPLES = kernel.Rows(NOTHING, np.empty((0, 1)), NOTHING)
IMPLICIT_OF_SCIPY = ("LSODA", "BDF", "Radau")  # they take a Jacobian
STEP_IN_PYTHON = 1.2e5  # multiplications that take as long as the part of Python in one evaluation, some 30 us
FIRST_LOOK = 2000  # steps; later looks follow at twice as many steps each


def new_solver(plan: Plan, request: Request) -> Any:
    """Solver at t = 0 for a run to the last time of `request`."""
    system, method, clock = plan.system, plan.method, plan.clock
    t_end, rtol, atol = float(request.times[-1]), request.rtol, request.atol
    if plan.integrator:
        return DormandPrinceSolver(system, clock, t_end, rtol, atol)
    if method == "CVODE":
        return CVODESolver(system, clock, t_end, rtol, atol)
    import scipy.integrate  # takes a third of a second, and the compiled integrator does not need it

    from snapdyn.dynamics.integration.scipy_solvers import SOLVERS

    options: dict[str, Any] = {}
    if method in IMPLICIT_OF_SCIPY and system.has_jacobian and system.size <= LARGEST_DENSE_JACOBIAN:
        options["jac"] = clock.jacobian(system)
    elif method == "LSODA":  # a diagonal Jacobian: the full one would allocate n^2 numbers
        options = {"lband": 0, "uband": 0}
    solver = SOLVERS.get(method) or getattr(scipy.integrate, method)
    start, end = system.initial_state(), clock.from_time(t_end)
    return solver(clock.derivative(system), 0.0, start, end, rtol=rtol, atol=atol, **options)


class DormandPrinceSolver:
    """DOP853 from t = 0 to `t_end` (> 0), compiled, with attributes that are named as in scipy's solvers.

    Parameters
    ----------
    system : System
        A system with an `integrator`.
    clock : Clock
        t or log(1 + t/t_s); the attributes `t` and `t_bound` are values of this variable.
    t_end : float
        In batch-size-1 steps.
    rtol : float
    atol : float
    """

    def __init__(self, system: System, clock: Clock, t_end: float, rtol: float, atol: float) -> None:
        assert system.integrator is not None
        self._advance, self.knows_loss = system.integrator
        self._arguments = system.kernel_arguments()
        start = system.initial_state()
        self.t_bound = clock.from_time(t_end)
        vectors = np.empty((kernel.VECTORS, start.size))
        vectors[kernel.STATE] = start
        reals = np.array((0.0, 0.0, 0.0, self.t_bound, rtol, atol, clock.scale or 0.0, 0.0))
        where, counts = kernel.START_WHERE.copy(), kernel.START_COUNTS.copy()
        weights = kernel.START_WEIGHTS.copy()
        self._work = kernel.Workspace(vectors, where, reals, counts, weights, system.norm_weights)
        self.status = "running"

    @property
    def t(self) -> float:
        return float(self._work.reals[kernel.TAU])

    @property
    def y(self) -> Floats:
        """State at `t`, (n,); the second step from here overwrites it."""
        return self._work.vectors[self._work.where[kernel.STATE]]

    @property
    def steps(self) -> int:
        return int(self._work.counts[kernel.STEPS])

    @property
    def nfev(self) -> int:
        return int(self._work.counts[kernel.EVALUATIONS])

    def advance(
        self, saves: kernel.Rows, most_steps: int, samples: kernel.Rows = NO_SAMPLES
    ) -> tuple[int, int, str | None]:
        """Make steps until the end, for `most_steps` steps, or until rows are full.

        Parameters
        ----------
        saves : Rows
            All times to save at, in the integration variable and the same in every call, and rows for those not yet
            saved. Losses are computed only if `knows_loss`.
        most_steps : int
        samples : Rows
            Rows for `SAMPLES` points of every step, given in every call or in none.

        Returns
        -------
        saved : int
            Number of times saved in this call.
        sampled : int
            Number of samples taken in this call.
        reason : str or None
            Why the solver failed.
        """
        counts = self._work.counts
        saved, sampled = int(counts[kernel.SAVED]), int(counts[kernel.SAMPLED])
        outcome = self._advance(self._arguments, self._work, saves, samples, most_steps)
        if outcome == kernel.FINISHED:
            self.status = "finished"
        elif outcome in REASONS:
            self.status = "failed"
        return int(counts[kernel.SAVED]) - saved, int(counts[kernel.SAMPLED]) - sampled, REASONS.get(outcome)


def failure_message(solver: Any, system: System, clock: Clock, request: Request, reason: str | None) -> str:
    """Explain a failure by the state value that is not finite, or that changes fastest relative to its tolerance.

    Parameters
    ----------
    solver : object
        A solver from `new_solver`, after its last step.
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
        trouble = "its rate is not finite" if bad.size else "it changes fastest relative to its tolerance"
    else:
        worst, trouble = int(bad[0]), "it is not finite"
    return (
        f"failed at t = {clock.to_time(solver.t):.6g} in {system.value_name(worst)} ({trouble}): "
        f"{(reason or 'the state is not finite').rstrip('.')}; try smaller rates, a looser rtol, or another method"
    )


class Outlook:
    """Estimates the evaluations that are left, and ends a run without `most_evaluations` if they are too many.

    The estimate assumes that each further growth of t by a factor e takes as many evaluations as such a growth took
    between the last two estimates. This is about right where steps grow with t, as the dynamics slow down. Where steps
    do not grow, the estimate is a lower bound.

    Parameters
    ----------
    solver : object
        A solver from `new_solver`.
    plan : Plan
    request : Request
        Has the last time in batch-size-1 steps, and the limit.
    """

    def __init__(self, solver: Any, plan: Plan, request: Request) -> None:
        self._solver, self._t_end = solver, float(request.times[-1])
        in_python = 0.0 if plan.integrator else STEP_IN_PYTHON
        self._most = math.inf if request.most_evaluations else MOST_OF_A_RUN / (plan.system.multiplications + in_python)
        self.next_look = FIRST_LOOK  # in steps
        self._t, self._evaluations = 0.0, 0

    def look(self, steps: int, t: float) -> str:
        """Message if the run must end after `steps` steps, at time t, since too many evaluations are left; else ""."""
        if steps < self.next_look:
            return ""
        evaluations = int(self._solver.nfev)
        left = 0.0
        if t > self._t > 0.0:
            left = (evaluations - self._evaluations) * math.log(self._t_end / t) / math.log(t / self._t)
        self.next_look, self._t, self._evaluations = 2 * steps, t, evaluations
        if left <= self._most:
            return ""
        method = "" if isinstance(self._solver, CVODESolver) else "method='CVODE', "
        return (
            f"stopped at t = {t:.4g} after {evaluations} evaluations of the right-hand side, since the rest to t_end = "
            f"{self._t_end:.4g} was estimated to take {left:.2g}, more than the limit of {self._most:.2g}; try {method}"
            "a looser rtol, slower rates or an earlier last time, or give most_evaluations to run on"
        )
