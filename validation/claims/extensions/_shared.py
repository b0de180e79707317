"""What the claims of this chapter share: families with initial logits, orders of a fit, errors of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.language import (
    DECISIVE,
    DESCENT,
    EXACT,
    FINITE_T,
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    MEAN_FIELD,
    OWN_NEXT_TOKENS,
    SGD,
    Family,
    Floats,
    Instance,
    Measured,
    Property,
    Requirement,
    run_on_rung,
)
from snapdyn.validation.statistics import fit_order

# Error of a logit over the largest one: some hundred steps at rtol 1e-8.
RUN_ERROR = 1e-6
# A setting is a rung with its options.
INFINITE_T = Requirement("infinite T", "1/T = 0", lambda setting: 1 / setting.get("seq_len", np.inf), at_most=0)


class SeparateQueriesFamily(Family):
    """A family whose query tokens are not among the contextual tokens."""

    def draw(self, seed: int, number: int) -> Instance:
        instance = super().draw(seed, number)
        return replace(instance, query=instance.query + instance.P.shape[1])


def run_error(instance: Instance, largest: float) -> float:
    """Error of a logit of a run, absolute; `largest` is the run's largest |z|.

    A relative error rtol of Y orthogonal to f drives z at the rate eta_Z until the decoder removes it at the rate
    eta_Y, so the error grows by the factor eta_Z/eta_Y where this is above 1.
    """
    return RUN_ERROR * max(1.0, instance.ratio) * largest


def run_of(instance: Instance, rung: str, **options: Any) -> Trajectory:
    """Run or train an instance on a rung from its start logits to its last time."""
    if rung not in (FINITE_T, SGD, DESCENT):
        options["z_initial"] = instance.start
    elif instance.start is not None:
        options["init"] = {"z": instance.start, **options.get("init", {})}
    return run_on_rung(rung, *instance.setting, [instance.t_end], **options)


def alike(*profile: float) -> Floats:
    """P (3, M) of three classes with one common token and distinct ones, each with the probabilities of `profile`."""
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


WIDE = StartedFamily(
    "any classes and start", "any", uniform=False, num_classes=(1, 6), num_common=(0, 3), num_distinct=(1, 5),
    vocab_size=(2, 10**9), ratio=(1e-6, 1e2), horizon=(1e-2, 1e6), eta_Y=(1e-6, 1e6),
)  # fmt: skip


def on_flows(
    name: str,
    measure: Callable[..., Measured | None],
    wrong: Mapping[str, dict[str, Any]],
    domain: Family,
    *conditions: Requirement,
    **attributes: Any,
) -> list[Property]:
    """The property of measure(instance, rung) in the mean field and under Eq. (10); `wrong` changes its arguments."""
    modified_flow = (OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION)
    return [
        Property(
            name,
            words,
            partial(measure, rung=rung),
            replace(domain, shared_next_tokens=not needed),
            conditions=(*conditions, INFINITE_LENGTH, *needed),
            controls={label: partial(measure, rung=rung, **changes) for label, changes in wrong.items()},
            **attributes,
        )
        for rung, words, needed in ((MEAN_FIELD, "mean field", ()), (EXACT, "modified decoder", modified_flow))
    ]
