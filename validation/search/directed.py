"""Search for counterexamples to statements about all instances: random draws, then Nelder-Mead."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.search.family import SMALLEST_SHARE, Family
from snapdyn.validation.search.instance import Instance

# Size of the first simplex of the directed search: a factor exp(0.5) in every number of the instance.
FIRST_STEP = 0.5


Violation = Callable[[Instance], float]
OUTSIDE = -math.inf


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Outcome of a search.

    Attributes
    ----------
    tried : int
        Number of instances, drawn or optimised, that met the statement's conditions.
    worst : float
        Largest violation; positive if the statement fails on `instance`.
    instance : Instance
        The instance with the largest violation.
    seed : int
        Root seed of the draws.
    """

    tried: int
    worst: float
    instance: Instance
    seed: int

    @property
    def failed(self) -> bool:
        """Whether `instance` is a counterexample."""
        return self.worst > 0


def search(
    violation: Violation,
    family: Family,
    draws: int,
    starts: int = 2,
    steps: int = 100,
    seed: int = 0,
    until_found: bool = False,
) -> SearchResult:
    """Look for an instance of `family` with a positive violation.

    The search first draws `draws` random instances. Then it increases the violation of the `starts` worst of them by
    Nelder-Mead on the logarithms of their numbers (shares, priors, V, eta_Z/eta_Y, t_end; bounded by the family), with
    at most `steps` evaluations each.

    Parameters
    ----------
    violation : callable
        ``violation(instance)`` returns a float: positive where the statement fails; smooth below 0, so that it can be
        optimised; OUTSIDE (minus infinity) where the statement's conditions are not met. Such an instance is not
        counted.
    family : Family
        Family of the instances.
    draws : int
        Number of random instances.
    starts : int
        Number of instances from which Nelder-Mead starts.
    steps : int
        Largest number of evaluations per start. The budget is counted in evaluations, so the same seed gives the same
        result on every machine.
    seed : int
        Root of the SeedSequence whose child i draws instance i.
    until_found : bool
        Stop at the first positive violation.

    Returns
    -------
    SearchResult
        The worst instance, its violation, and the number of instances that were tried.

    Raises
    ------
    RuntimeError
        If a violation is NaN.
    """
    tried, best = 0, [(OUTSIDE, 0, family.draw(seed, 0))]

    def evaluate(instance: Instance) -> float:
        nonlocal tried
        value = violation(instance)
        if math.isnan(value):
            raise RuntimeError(f"expected a number as violation, received NaN on {instance.to_dict()}")
        tried += value > OUTSIDE
        return value

    for number in range(draws):
        instance = family.draw(seed, number)
        best.append((evaluate(instance), -number, instance))
        best = sorted(best, key=lambda entry: entry[:2], reverse=True)[: max(starts, 1)]
        if until_found and best[0][0] > 0:
            break
    worst, _, worst_instance = best[0]
    for value, _, start in best[:starts]:
        if value == OUTSIDE or (until_found and worst > 0):
            continue
        pushed, instance = push(evaluate, family, start, steps, until_found)
        if pushed > worst:
            worst, worst_instance = pushed, instance
    return SearchResult(tried, worst, worst_instance, seed)


class _FoundError(Exception):
    """Ends the optimiser at the first counterexample."""


def push(evaluate: Violation, family: Family, start: Instance, steps: int, until_found: bool) -> tuple[float, Instance]:
    """Increase the violation by Nelder-Mead from `start` on the logarithms of its numbers, inside the family.

    Parameters
    ----------
    evaluate : callable
        Violation of an instance, as for `search`.
    family : Family
        Family that the instances must stay in.
    start : Instance
        Where to start.
    steps : int
        Largest number of evaluations.
    until_found : bool
        Stop at the first positive violation.

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
        if until_found and worst > 0:
            raise _FoundError
        return -value

    x = _logarithms(start)
    rng = np.random.default_rng(np.random.SeedSequence(start.seed, spawn_key=(start.number, 0)))
    signs = rng.choice([-1.0, 1.0], size=x.size)
    simplex = np.vstack([x, x + FIRST_STEP * np.diag(signs)])
    options = {"initial_simplex": simplex, "maxfev": steps, "adaptive": True, "xatol": 1e-3, "fatol": 0.0}
    try:
        # Corners of the simplex outside the conditions have infinite values.
        with np.errstate(invalid="ignore"):
            minimize(objective, x, method="Nelder-Mead", options=options)
    except _FoundError:
        pass
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
        vocab_size=max(outputs, 2, round(V)),
        eta_Y=eta_Y,
        eta_Z=ratio * eta_Y,
        t_end=horizon / eta_Y,
    )
