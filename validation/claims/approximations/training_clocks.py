"""How much time of the mean field passes in training with momentum, and with a schedule of the learning rates."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from snapdyn.dynamics import Trajectory, momentum_clock
from snapdyn.validation.claims.attention._shared import FLOWS
from snapdyn.validation.claims.language import (
    DESCENT,
    FROM_ZERO,
    MEAN_FIELD,
    NO_MOMENTUM,
    SGD,
    Claim,
    Floats,
    Grid,
    Instance,
    Map,
    Measure,
    Measured,
    Picture,
    Property,
    Requirement,
    kept_on_instance,
    properties_on,
    run_on_rung,
    runs_on_rung,
)
from snapdyn.validation.claims.maps import momentum_map
from snapdyn.validation.claims.sample_classes import strongly_correlated_classes

WITH_MOMENTUM = replace(
    FLOWS, name="descent at small rates", vocab_size=(2, 10**6), ratio=(1e-3, 1.0), horizon=(1e-3, 1e-1),
    eta_Y=(1e-6, 1e-5), shared_next_tokens=True,
)  # fmt: skip


def momentum_of(instance: Instance) -> float:
    """Momentum of the instance; if it is 0, that of the paper's experiments."""
    return instance.momentum or 0.9


def steps_of(instance: Instance) -> int:
    """Number i of steps until t_end on the clock i/(1-mu)."""
    return max(1, round(instance.t_end * (1 - momentum_of(instance))))


def change(instance: Instance) -> float:
    """Relative change x = eta t of gradients over the run."""
    return max(instance.eta_Y, instance.eta_Z) * steps_of(instance) / (1 - momentum_of(instance))


clock_property = properties_on(
    DESCENT, WITH_MOMENTUM, FROM_ZERO,
    Requirement(
        "small change", "max(eta_Y, eta_Z) i/(1-mu) <= 0.1, i the number of steps", change,
        at_most=0.1 * (1 + 1e-9), defining=True,
    ),
    Requirement("steps that are run", "i <= 20,000", steps_of, at_most=20_000, defining=True),
    evaluations=(200, 2000),
)  # fmt: skip
LATE = Requirement("late", "i (1-mu) >= 10", lambda i: steps_of(i) * (1 - momentum_of(i)), at_least=10)


@kept_on_instance
def descent(instance: Instance) -> Trajectory:
    """Descent at the start and at step i."""
    steps = [0, steps_of(instance)]
    return run_on_rung(DESCENT, *instance.setting, steps, momentum=momentum_of(instance))


def lag_over_steps(instance: Instance) -> float:
    """D/(i-D) (1+x)/(1-x), with the lag of D = mu/(1-mu) steps and x = eta t.

    The fall of the loss between two times is their difference times a gradient, whose relative change is x. Up to 2 D
    steps 1 takes the place of D/(i-D). x may exceed 1 outside the conditions, so 1-x is taken as 0.5 at least.
    """
    mu, x = momentum_of(instance), change(instance)
    lag = mu / (1 - mu)
    return lag / max(steps_of(instance) - lag, lag) * (1 + x) / max(1 - x, 0.5)


def error_of_fall(instance: Instance, t: float, start: float, end: float) -> tuple[float, float]:
    """Relative error of the fall of the loss of the flow up to t, against descent from `start` to `end`; rounding."""
    flow = run_on_rung(MEAN_FIELD, *instance.setting, [t], rtol=1e-11, atol=1e-16)
    # The loss is rounded to 1e-16 of ln V.
    return abs((start - flow.loss[0]) / (start - end) - 1), 1e-14 * np.log(instance.vocab_size) / (start - end)


def error_of(clock: Callable[[int, float], Any], bound: Callable[[Instance], float] = lag_over_steps) -> Measure:
    """Relative error of the fall of the loss, on the flow at clock(i, mu) against descent at step i, over its bound."""

    def measure(instance: Instance) -> Measured | None:
        start, end = descent(instance).loss
        if start == end:  # it falls by less than rounding
            return None
        allowed = bound(instance)
        error, rounding = error_of_fall(instance, clock(steps_of(instance), momentum_of(instance)), start, end)
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

MOMENTUM_CLOCK = Claim(
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
        clock_property(
            "clock i/(1-mu), fall of the loss: error over D/(i-D) (1+x)/(1-x), D = mu/(1-mu), x = eta t",
            error_of(lambda i, mu: i / (1 - mu)),
            LATE,
            controls={"wrong theory: t = i": error_of(lambda i, mu: i)},
            beyond={"step 1": FIRST_STEP},
        ),
        clock_property(
            "build-up clock, fall of the loss: error over eta t",
            error_of(momentum_clock, change),
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


SCHEDULED = replace(WITH_MOMENTUM, name="scheduled descent", horizon=(1e-2, 1.0), eta_Y=(1e-4, 1e-2))
# Multipliers of the updates i = 0..N-1.
SCHEDULES: dict[str, Callable[[Floats, int], Floats]] = {
    "warm-up": lambda i, N: np.minimum(1.0, (i + 1) / (0.5 * N)),
    "cosine": lambda i, N: 0.5 * (1.0 + np.cos(np.pi * i / N)),
    "linear": lambda i, N: 1.0 - i / N,
    "warm-up, stable, decay": lambda i, N: np.minimum(1.0, np.minimum((i + 1) / (0.1 * N), (N - i) / (0.2 * N))),
}
TIME = 40.0  # eta N at which runs of different rates are compared
RATES: Floats = 0.05 * 2.0 ** -np.arange(5.0)


def multipliers(name: str, updates: int) -> Floats:
    """Multipliers of a schedule, (updates,)."""
    return SCHEDULES[name](np.arange(float(updates)), updates)


def updates_of(instance: Instance) -> int:
    """Number N of updates: t_end on the clock without a schedule."""
    return max(1, round(instance.t_end))


OF_SCHEDULES = (
    FROM_ZERO,
    Requirement(
        "small change",
        "max(eta_Y, eta_Z) times the number of steps <= 1",
        lambda i: max(i.eta_Y, i.eta_Z) * updates_of(i),
        at_most=1.0 + 1e-9,
        defining=True,
    ),
    Requirement("steps that are run", "N <= 20,000", updates_of, at_most=20_000, defining=True),
    replace(NO_MOMENTUM, defining=False),
)


def error_at(clock: Callable[[Floats], float]) -> Measure:
    """Relative error of the fall of the loss, on the flow at clock(m) against descent, over max(eta) sum m^2/sum m.

    A step eta m of descent falls by eta m |g|^2 - (eta m)^2 gHg/2, the flow by eta m |g|^2 - (eta m)^2 gHg, with the
    gradient g and the Hessian H of the loss. So the fall differs by the share eta m lambda/2 for a step, where the
    largest eigenvalue lambda of H is about 1 or less.
    """

    def measure(instance: Instance) -> Measured | None:
        N, m = updates_of(instance), multipliers("warm-up, stable, decay", updates_of(instance))
        rates = instance.setting
        start, end = run_on_rung(DESCENT, *rates, [0, N], momentum=instance.momentum, schedule=m).loss
        if start == end:  # it falls by less than rounding
            return None
        error, rounding = error_of_fall(instance, clock(m), start, end)
        allowed = max(rates[1:]) * (m**2).sum() / m.sum()
        return Measured(error / allowed, at_most=1.0, error=(rounding + 1e-9) / allowed)

    return measure


error_of_sum = error_at(lambda m: float(m.sum()))


@cache
def order(name: str, factor: float | None) -> float:
    """Fitted order in the rate eta of the difference of z between descent at step N = 40/eta and the flow.

    The time of the flow is `factor` times the sum of the multipliers; with None it is N.
    """
    gaps = []
    for eta in RATES:
        N = round(TIME / eta)
        m = multipliers(name, N)
        run = strongly_correlated_classes(), eta, eta
        steps = run_on_rung(DESCENT, *run, [N], schedule=m).z_support
        t = N if factor is None else factor * m.sum()
        flow = run_on_rung(MEAN_FIELD, *run, [t], rtol=1e-11, atol=1e-13).z_support
        gaps.append(np.abs(steps - flow).max() / np.abs(flow).max())
    return float(np.polyfit(np.log(RATES), np.log(gaps), 1)[0])


def distance(factor: float | None) -> Callable[[str], Measured]:
    """Distance of the fitted order from 1; terms of second order move it by about the largest rate, 0.05."""
    return lambda name: Measured(abs(order(name, factor) - 1.0), at_most=0.1)


SETTING = Instance.of(strongly_correlated_classes(), 1e-2, 1e-2, 100.0)


def schedule_map(level: str) -> Map:
    """Error over its bound with momentum, over the rate and mu, at eta N = 1; in a long run the error is mu."""
    points = 9 if level == "full" else 5
    rates, momenta = np.geomspace(1e-3, 1e-1, points), np.geomspace(1e-3, 0.9, points)

    def instance(momentum: float, eta: float) -> Instance:
        return replace(SETTING, eta_Y=eta, eta_Z=eta, t_end=1.0 / eta, momentum=momentum)

    m = multipliers("warm-up, stable, decay", 1000)
    line = Picture.line("mu = max(eta) sum m^2/sum m", rates, rates * (m**2).sum() / m.sum())
    grid = Grid(
        {"momentum": momenta, "eta": rates}, instance, lambda at: found.value if (found := error_of_sum(at)) else None
    )
    return Map.over("t = sum m with momentum", ("eta", "mu"), "error over its bound", grid, 1.0, [line])


SCHEDULE = Claim(
    "schedule",
    source="own; schedules of learning rates",
    title="A schedule of both rates changes the clock, and nothing else",
    statement=(
        "If both rates have the same multiplier m at each time, the flow depends on the integral of the schedule "
        "alone. Descent with a schedule follows the flow at t = m_0 + ... + m_(i-1), with an error of first order in "
        "the rates. With momentum this is not the time of the flow."
    ),
    latex=r"t_i=\sum_{j<i}m_j,\qquad x_i=x(t_i)+O(\eta)",
    conditions=("the ratio of the two rates is constant", "no momentum", "eta N at most 1, for the bound of the loss"),
    conclusion=(
        "Holds without momentum: proved for the flow, and in descent the difference of z falls with the order 1 of the "
        "rate within {cosine:.1g} (cosine). The fall of the loss is within the share max(eta) sum m^2/sum m of that of "
        "the flow. With momentum 0.9 the error is {momentum 0.9:.0f} times this bound."
    ),
    expected="conditional",
    properties=(
        Property(
            "fall of the loss, flow at sum m against descent: relative error over max(eta) sum m^2/sum m",
            DESCENT,
            error_of_sum,
            SCHEDULED,
            conditions=OF_SCHEDULES,
            controls={
                "wrong theory: t = N": error_at(lambda m: float(m.size)),
                "wrong theory: t = 1.1 sum m": error_at(lambda m: 1.1 * float(m.sum())),
            },
            evaluations=(200, 2000),
            beyond={"momentum 0.9": replace(SETTING, momentum=0.9)},
        ),
        Property(
            "distance from 1 of the order in eta of z of descent minus flow, eta N = 40",
            DESCENT,
            distance(1.0),
            controls={"wrong theory: t = N": distance(None), "wrong theory: t = 1.1 sum m": distance(1.1)},
            cases={name: name for name in SCHEDULES},
        ),
    ),
    proved=("schedule-clock",),
    map=schedule_map,
)
