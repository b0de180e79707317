"""Momentum: how much time of the mean field passes in one step of training."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from snapdyn.dynamics import Trajectory, momentum_clock
from snapdyn.validation.claims.attention._shared import FLOWS
from snapdyn.validation.claims.language import (
    DESCENT,
    MEAN_FIELD,
    SGD,
    ZERO_START,
    Claim,
    Instance,
    Measure,
    Measured,
    Property,
    Requirement,
    run_on_rung,
    runs_on_rung,
)
from snapdyn.validation.claims.maps import momentum_map
from snapdyn.validation.claims.sample_classes import strongly_correlated_classes

DOMAIN = replace(
    FLOWS,
    name="descent at small rates",
    vocab_size=(2, 10**6),
    ratio=(1e-3, 1.0),
    horizon=(1e-3, 1e-1),
    eta_Y=(1e-6, 1e-5),
    shared_next_tokens=True,
)


def momentum_of(instance: Instance) -> float:
    """Momentum of the instance; if it is 0, that of the paper's experiments."""
    return instance.momentum or 0.9


def steps_of(instance: Instance) -> int:
    """Number i of steps until t_end on the clock i/(1-mu)."""
    return max(1, round(instance.t_end * (1 - momentum_of(instance))))


def change(instance: Instance) -> float:
    """Relative change x = eta t of gradients over the run."""
    return max(instance.eta_Y, instance.eta_Z) * instance.t_end


SMALL_RATES = Requirement(
    "small change",
    "max(eta_Y, eta_Z) i/(1-mu) <= 0.1, i the number of steps",
    change,
    at_most=0.1 * (1 + 1e-9),
    defining=True,
)
FEW_STEPS = Requirement("steps that are run", "i <= 20,000", steps_of, at_most=20_000, defining=True)
LATE = Requirement(
    "late", "i (1-mu) >= 10", lambda instance: steps_of(instance) * (1 - momentum_of(instance)), at_least=10
)


@lru_cache(maxsize=1)
def descent(instance: Instance) -> Trajectory:
    """Descent at the start and at step i."""
    steps = [0, steps_of(instance)]
    return run_on_rung(DESCENT, instance.classes, instance.eta_Y, instance.eta_Z, steps, momentum=momentum_of(instance))


def lag_over_steps(instance: Instance) -> float:
    """D/(i-D) (1+x)/(1-x), with the lag of D = mu/(1-mu) steps and x = eta t.

    The fall of the loss between two times is their difference times a gradient, whose relative change is x. Up to 2 D
    steps 1 takes the place of D/(i-D). x may exceed 1 outside the conditions, so 1-x is taken as 0.5 at least.
    """
    mu, x = momentum_of(instance), change(instance)
    lag = mu / (1 - mu)
    return lag / max(steps_of(instance) - lag, lag) * (1 + x) / max(1 - x, 0.5)


def error_of(clock: Callable[[int, float], Any], bound: Callable[[Instance], float] = lag_over_steps) -> Measure:
    """Relative error of the fall of the loss, on the flow at clock(i, mu) against descent at step i, over its bound."""

    def measure(instance: Instance) -> Measured | None:
        start, end = descent(instance).loss
        if start == end:  # it falls by less than rounding
            return None
        t, allowed = clock(steps_of(instance), momentum_of(instance)), bound(instance)
        flow = run_on_rung(MEAN_FIELD, instance.classes, instance.eta_Y, instance.eta_Z, [t], rtol=1e-11, atol=1e-16)
        # The loss is rounded to 1e-16 of ln V.
        rounding = 1e-14 * np.log(instance.vocab_size) / (start - end)
        error = abs((start - flow.loss[0]) / (start - end) - 1)
        return Measured(error / allowed, at_most=1.0, error=rounding / allowed + 1e-6)

    return measure


def attention_of_sgd(clock: float) -> Measured:
    """Relative difference of z between the mean of SGD at step 2000, at momentum 0.9, and the flow at `clock` 2000."""
    arguments = strongly_correlated_classes(), 5e-6, 5e-6
    runs = runs_on_rung(SGD, *arguments, [2000], batch_size=64, seed=range(40), momentum=0.9)
    flow = run_on_rung(MEAN_FIELD, *arguments, [2000 * clock], atol=1e-16).z_support
    z = np.mean([run.z_support for run in runs], axis=0)
    return Measured(np.abs(flow - z).max() / np.abs(z).max(), at_most=0.05)


FIRST_STEP = Instance.of(strongly_correlated_classes(), 1e-6, 1e-6, 10.0, momentum=0.9)
CONDITIONS = (replace(ZERO_START, defining=True), SMALL_RATES, FEW_STEPS)

CLAIM = Claim(
    "momentum-clock",
    source="own; clock of Section 6's experiments",
    title="Momentum mu makes training 1/(1-mu) times faster",
    statement=(
        "Step i of (stochastic) gradient descent with heavy-ball momentum mu is time i/(1-mu) of the mean field. "
        "This holds for i >> 1/(1-mu), with an error of order 1/i, and not in the first 1/(1-mu) steps."
    ),
    latex=r"t=\frac{i}{1-\mu}\quad(i\gg\tfrac{1}{1-\mu}),\qquad "
    r"t_i=\frac{1}{1-\mu}\Bigl(i-\mu\frac{1-\mu^i}{1-\mu}\Bigr)",
    conditions=("eta i/(1-mu) at most 0.1: gradients change little", "i at least 10/(1-mu)"),
    conclusion=(
        "Holds at late steps i, with an error of order 1/i; it does not hold in the first 1/(1-mu) steps. At step 1 "
        "and mu = 0.9 the predicted fall of the loss is off by {step 1:.1f} times the true fall. The second clock, "
        "t_i, allows for the velocity that builds up, and is right at this step. At step 2000 the mean logits of SGD "
        "differ from the mean field by {step 2000 of SGD:.1%} of the largest logit."
    ),
    expected="conditional",
    properties=(
        Property(
            "clock i/(1-mu), fall of the loss: error over D/(i-D) (1+x)/(1-x), D = mu/(1-mu), x = eta t",
            DESCENT,
            error_of(lambda i, mu: i / (1 - mu)),
            DOMAIN,
            conditions=(*CONDITIONS, LATE),
            controls={"wrong theory: t = i": error_of(lambda i, mu: i)},
            evaluations=(200, 2000),
            beyond={"step 1": FIRST_STEP},
        ),
        Property(
            "build-up clock, fall of the loss: error over eta t",
            DESCENT,
            error_of(momentum_clock, change),
            DOMAIN,
            conditions=CONDITIONS,
            evaluations=(200, 2000),
            cases={"step 1, build-up clock": FIRST_STEP},
        ),
        Property(
            "clock i/(1-mu), z of the mean of SGD: relative error",
            SGD,
            attention_of_sgd,
            controls={"wrong theory: t = i in SGD": lambda clock: attention_of_sgd(1.0)},
            cases={"step 2000 of SGD": 10.0},
        ),
    ),
    map=momentum_map,
)
