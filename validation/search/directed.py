"""Directed search: push an instance towards a counterexample by Nelder-Mead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.family import Family

Violation = Callable[[Any], float]
OUTSIDE = -math.inf


def push(evaluate: Violation, domain: Family | Box, start: Any, steps: int) -> tuple[float, Any]:
    """Increase the violation by Nelder-Mead from `start`, inside the domain.

    Parameters
    ----------
    evaluate : callable
        Violation of an instance: positive where the statement fails, smooth below 0; OUTSIDE where its conditions are
        not met.
    domain : Family or Box
        Domain that the instances must stay in; it says which numbers of an instance move.
    start : Instance or mapping
        Where to start.
    steps : int
        Largest number of evaluations.

    Returns
    -------
    (float, Instance or mapping)
        Largest violation and its instance.
    """
    from scipy.optimize import minimize

    worst, worst_instance = OUTSIDE, start

    def objective(x: Floats) -> float:
        nonlocal worst, worst_instance
        instance = domain.moved(start, x)
        value = OUTSIDE if instance is None else evaluate(instance)
        if value > worst:
            worst, worst_instance = value, instance
        return -value

    simplex = domain.simplex(start)
    options = {"initial_simplex": simplex, "maxfev": steps, "adaptive": True, "xatol": 1e-3, "fatol": 0.0}
    # Corners of the simplex outside the conditions have infinite values.
    with np.errstate(invalid="ignore"):
        minimize(objective, simplex[0], method="Nelder-Mead", options=options)
    return worst, worst_instance
