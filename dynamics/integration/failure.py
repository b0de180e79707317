"""The message of a run that failed: at which time, in which quantity, and what to try."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.systems.base import System


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
