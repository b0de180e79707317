"""Schedules of the learning rates: the flow at the integral of the multipliers, and finite steps."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from snapdyn.validation.claims.attention._shared import FLOWS
from snapdyn.validation.claims.language import (
    DESCENT,
    MEAN_FIELD,
    ZERO_START,
    Claim,
    Floats,
    Instance,
    Map,
    Measured,
    Picture,
    Property,
    Requirement,
    run_on_rung,
)
from snapdyn.validation.claims.sample_classes import strongly_correlated_classes
from snapdyn.validation.grid import Grid

DOMAIN = replace(
    FLOWS,
    name="scheduled descent",
    vocab_size=(2, 10**6),
    ratio=(1e-3, 1.0),
    horizon=(1e-2, 1.0),
    eta_Y=(1e-4, 1e-2),
    shared_next_tokens=True,
)
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


def change(instance: Instance) -> float:
    """Relative change x = eta N of gradients over the run."""
    return max(instance.eta_Y, instance.eta_Z) * instance.t_end


SMALL_RATES = Requirement(
    "small change", "max(eta_Y, eta_Z) times the number of steps <= 1", change, at_most=1.0 + 1e-9, defining=True
)
FEW_STEPS = Requirement("steps that are run", "N <= 20,000", updates_of, at_most=20_000, defining=True)
NO_MOMENTUM = Requirement("no momentum", "mu = 0", lambda instance: instance.momentum, at_most=0.0)


def error_at(clock: Callable[[Floats], float]) -> Callable[[Instance], Measured]:
    """Relative error of the fall of the loss, on the flow at clock(m) against descent, over max(eta) sum m^2/sum m.

    A step eta m of descent falls by eta m |g|^2 - (eta m)^2 gHg/2, the flow by eta m |g|^2 - (eta m)^2 gHg, with the
    gradient g and the Hessian H of the loss. So the fall differs by the share eta m lambda/2 for a step, where the
    largest eigenvalue lambda of H is about 1 or less.
    """

    def measure(instance: Instance) -> Measured:
        N, m = updates_of(instance), multipliers("warm-up, stable, decay", updates_of(instance))
        rates = instance.classes, instance.eta_Y, instance.eta_Z
        start, end = run_on_rung(DESCENT, *rates, [0, N], momentum=instance.momentum, schedule=m).loss
        flow = run_on_rung(MEAN_FIELD, *rates, [clock(m)], rtol=1e-11, atol=1e-16)
        allowed = max(rates[1:]) * (m**2).sum() / m.sum()
        # The loss is rounded to 1e-16 of ln V.
        rounding = 1e-14 * np.log(instance.vocab_size) / (start - end)
        error = abs((start - flow.loss[0]) / (start - end) - 1)
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
    grid = Grid({"momentum": momenta, "eta": rates}, instance, lambda at: error_of_sum(at).value)
    return Map.over("t = sum m with momentum", ("eta", "mu"), "error over its bound", grid, 1.0, [line])


CLAIM = Claim(
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
            DOMAIN,
            conditions=(replace(ZERO_START, defining=True), SMALL_RATES, FEW_STEPS, NO_MOMENTUM),
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
            controls={
                "wrong theory: t = N": distance(None),
                "wrong theory: t = 1.1 sum m": distance(1.1),
            },
            cases={name: name for name in SCHEDULES},
        ),
    ),
    proved=("schedule-clock",),
    map=schedule_map,
)
