"""What a run says that fails, or that would take very long: at which time, in which quantity, and what to try."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.cvode import CVODESolver
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.systems.base import System

MOST_EVALUATIONS_LEFT = 10_000_000  # seconds of compiled steps of a hundred state values, minutes of steps in Python
FIRST_LOOK = 2000  # steps; later looks follow at twice as many steps each


def failure_message(solver: Any, system: System, clock: Clock, request: Request, reason: str | None) -> str:
    """Explain a failure by the state value that is not finite, or that changes fastest against its tolerance.

    Parameters
    ----------
    solver : object
        A solver of `methods.new_solver` after its last step.
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
        A solver of `methods.new_solver`.
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
