"""Directed search: push an instance towards a counterexample by Nelder-Mead."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.search.family import SMALLEST_SHARE, Family
from snapdyn.validation.search.instance import Instance

# Size of the first simplex of the directed search: a factor exp(0.5) in every number of the instance.
FIRST_STEP = 0.5


Violation = Callable[[Instance], float]
OUTSIDE = -math.inf


def push(evaluate: Violation, family: Family, start: Instance, steps: int) -> tuple[float, Instance]:
    """Increase the violation by Nelder-Mead from `start` on the logarithms of its numbers, inside the family.

    Parameters
    ----------
    evaluate : callable
        Violation of an instance: positive where the statement fails, smooth below 0; OUTSIDE where its conditions are
        not met.
    family : Family
        Family that the instances must stay in.
    start : Instance
        Where to start.
    steps : int
        Largest number of evaluations.

    Returns
    -------
    (float, Instance)
        Largest violation and its instance.
    """
    from scipy.optimize import minimize

    worst, worst_instance = OUTSIDE, start

    def objective(logarithms: Floats) -> float:
        nonlocal worst, worst_instance
        instance = family.fitted(_with_logarithms(start, logarithms, family))
        value = evaluate(instance) if family.admits(instance) else OUTSIDE
        if value > worst:
            worst, worst_instance = value, instance
        return -value

    x = _logarithms(start)
    rng = np.random.default_rng(np.random.SeedSequence(start.seed, spawn_key=(start.number, 0)))
    signs = rng.choice([-1.0, 1.0], size=x.size)
    simplex = np.vstack([x, x + FIRST_STEP * np.diag(signs)])
    options = {"initial_simplex": simplex, "maxfev": steps, "adaptive": True, "xatol": 1e-3, "fatol": 0.0}
    # Corners of the simplex outside the conditions have infinite values.
    with np.errstate(invalid="ignore"):
        minimize(objective, x, method="Nelder-Mead", options=options)
    return worst, worst_instance


def _logarithms(instance: Instance) -> Floats:
    """Logarithms of the numbers of an instance that the directed search may change."""
    return np.concatenate(
        [
            np.log(instance.P[instance.P > 0]),
            [] if instance.uniform else np.log(instance.weights),
            np.log([instance.vocab_size, instance.eta_Y, instance.ratio, instance.horizon]),
        ]
    )


def _with_logarithms(instance: Instance, logarithms: Floats, family: Family) -> Instance:
    """Instance with the structure of `instance` and new numbers; V, rates and horizon are clipped to the family."""
    entries = instance.P > 0
    outputs = len(instance.P) if instance.next_token is None else int(instance.next_token.max()) + 1
    P = np.zeros(instance.P.shape)
    P[entries] = np.exp(logarithms[: entries.sum()])
    P /= P.sum(axis=1, keepdims=True)
    P[entries] = np.maximum(P[entries], SMALLEST_SHARE)
    V, eta_Y, ratio, horizon = (
        math.exp(np.clip(value, *np.log(bounds)))
        for value, bounds in zip(
            logarithms[-4:], (family.vocab_size, family.eta_Y, family.ratio, family.horizon), strict=True
        )
    )
    weights = instance.weights
    if not instance.uniform:
        weights = np.exp(logarithms[entries.sum() : -4])
        weights = np.maximum(weights / weights.sum(), SMALLEST_SHARE)
    return replace(
        instance,
        P=P,
        weights=weights,
        vocab_size=max(outputs, int(instance.query.max()) + 1, 2, round(V)),
        eta_Y=eta_Y,
        eta_Z=ratio * eta_Y,
        t_end=horizon / eta_Y,
    )
