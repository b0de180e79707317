"""What the claims of this chapter share: families that start from logits, orders of a fit, errors of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.validation.measured import Measured
from snapdyn.validation.properties import Measure, Property, Requirement
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, INFINITE_LENGTH, OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import DESCENT, EXACT, FINITE_T, MEAN_FIELD, SGD, run_on_rung
from snapdyn.validation.search import Family, Instance
from snapdyn.validation.statistics import DECISIVE, fit_order

# Error of a logit over the largest one: some hundred steps at rtol 1e-8.
RUN_ERROR = 1e-6
# eta_Y = eta_Z of the runs at named settings.
RATE = 0.5


def run_error(instance: Instance, largest: float) -> float:
    """Error of a logit of a run, absolute; `largest` is the run's largest |z|.

    An error of the decoder Y of rtol across f drives z at the rate eta_Z until eta_Y has removed it: a factor
    eta_Z/eta_Y where that is above 1.
    """
    return RUN_ERROR * max(1.0, instance.ratio) * largest


def run_from(z0: Floats, rung: str, classes: SequenceClasses, end: float, **options: Any) -> Trajectory:
    """Run or train classes from the logits z0 (Q, M) to the time `end`, at eta_Y = eta_Z = RATE."""
    trained = rung in (FINITE_T, SGD, DESCENT)
    start = {"init": options.pop("init", {}) | {"z": z0}} if trained else {"z_initial": z0}
    return run_on_rung(rung, classes, RATE, RATE, [end], **start, **options)


def alike(*profile: float) -> Floats:
    """P (3, M) of classes with one common token and as many distinct ones: the probabilities of `profile` in each."""
    return np.hstack([np.full((3, 1), profile[0]), np.kron(np.eye(3), profile[1:])])


def order_gap(
    expected: float, x: ArrayLike, y: ArrayLike, y_error: ArrayLike | None = None, next_order: float = 1.0
) -> Measured | None:
    """|fitted order of y in x - expected|, at most its margin; None where the margin does not tell orders apart."""
    order = fit_order(x, y, y_error, next_order)
    return Measured(abs(order.corrected - expected), at_most=order.margin()) if order.margin() < DECISIVE else None


@dataclass(frozen=True)
class StartedFamily(Family):
    """A family whose instances start from normal logits z(0).

    Attributes
    ----------
    start : (float, float)
        Range of the standard deviation of z(0), uniform in the logarithm.
    """

    start: tuple[float, float] = (0.01, 3.0)

    def __str__(self) -> str:
        return f"{super().__str__()}, z(0) normal with standard deviation {self.start[0]:g} to {self.start[1]:g}"

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
        instance = super().draw(seed, number)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1)))
        size = np.exp(rng.uniform(*np.log(self.start)))
        shape = np.unique(instance.query).size, instance.P.shape[1]
        return replace(instance, start=size * rng.normal(size=shape))


def on_two_rungs(
    name: str,
    measure: Callable[[str, Any], Measure],
    theory: Any,
    wrong: Mapping[str, Any],
    family: str,
    ranges: Mapping[str, Any],
    conditions: tuple[Requirement, ...] = (),
    **options: Any,
) -> tuple[Property, ...]:
    """Properties of the mean field and of the modified decoder: ``measure(rung, theory)`` on any classes and start.

    The modified decoder needs independent classes with next tokens of their own.
    """
    shared = {"correlation": "any", "uniform": False, "num_classes": (1, 6), "num_common": (0, 3)}
    spread = {"vocab_size": (2, 10**9), "horizon": (1e-2, 1e6), "eta_Y": (1e-6, 1e6)}
    found = []
    for rung, words in ((MEAN_FIELD, "mean field"), (EXACT, "modified decoder")):
        modified = rung == EXACT
        found.append(
            Property(
                name,
                words,
                measure(rung, theory),
                StartedFamily(family, **shared, **spread, **ranges, shared_next_tokens=not modified),
                (*conditions, INFINITE_LENGTH, *((OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION) if modified else ())),
                {key: measure(rung, other) for key, other in wrong.items()},
                **options,
            )
        )
    return tuple(found)
