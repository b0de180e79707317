"""Lemma 11: h of the count is close to h of the mean count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.concentration._lemma11_settings import size_of_changes
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    ONE_STEP,
    above_probability,
    at_most_probability,
    hoeffding,
    steps_of,
    worst_entry,
)
from snapdyn.validation.dense_algebra import EPS
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.maps.decoder import decoder_map
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import CLAIMS, claim
from snapdyn.validation.requirements import LARGE_VOCABULARY
from snapdyn.validation.search import Instance
from snapdyn.validation.visits import log_error, slope_of_h, visits_of

# Level of the statements on sigma', which say something for D much smaller than the mean count only.
DELTA = 0.01


def outside_order(deviation: Callable[[float, Floats], Floats]) -> Callable[[Instance], Measured]:
    """P(|h(N_n) - h(p_n N)| > h(p_n N) D/(p_n N))/delta, exact, with D = deviation(N, delta).

    h rises, so that the counts outside are those below and above two numbers of visits, by (45).
    """

    def measure(instance: Instance) -> Measured:
        N, eta, V, delta = steps_of(instance), instance.eta_Y, instance.vocab_size, DELTAS[:, None]
        p = instance.prior[None]
        u = V * analytic.h(p * N, eta, V)
        allowed = u * deviation(N, delta) / (p * N)
        with np.errstate(over="ignore"):
            high = np.where(u + allowed < 700, visits_of(np.minimum(u + allowed, 700), eta, V), np.inf)
        low = np.where(allowed <= u, visits_of(np.maximum(u - allowed, 0), eta, V), -1.0)
        # A count on the edge lies inside; the edge has rounding.
        chance = above_probability(np.minimum(high * (1 + 1e-12), N), N, p)
        chance = chance + at_most_probability(np.ceil(low * (1 - 1e-12)) - 1, N, p)
        return worst_entry(chance / delta, instance, at_most=1.0)

    return measure


def over_slope(end: int) -> Callable[[Instance], Measured]:
    """|h(p_n N +- d) - h(p_n N)| over d h'(p_n N + end d), d of `hoeffding`; the fall alone for end = 1."""

    def measure(instance: Instance) -> Measured:
        N, eta, V = steps_of(instance), instance.eta_Y, instance.vocab_size
        mean, d = instance.prior[None] * N, hoeffding(N, DELTAS[:, None])
        h = analytic.h(mean, eta, V)
        moved = h - analytic.h(np.maximum(mean - d, 0.0), eta, V)
        if end < 0:
            moved = np.maximum(moved, analytic.h(mean + d, eta, V) - h)
        bound = d * slope_of_h(mean + end * d, eta, V)
        return worst_entry(moved / bound, instance, rounding=8 * EPS * h / bound, at_most=1.0)

    return measure


def moved_errors(instance: Instance, delta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean count and D (deltas, classes), and ln of the error at p_n N - D and p_n N + D less that at p_n N."""
    N, eta, V = steps_of(instance), instance.eta_Y, instance.vocab_size
    mean, D = np.broadcast_arrays(instance.prior[None] * N, np.sqrt(N * np.log(1 / delta))[:, None])
    counts = np.stack([mean, np.maximum(mean - D, 0.0), mean + D])
    middle, fewer, more = log_error(V * analytic.h(counts, eta, V), V)
    return mean, D, fewer - middle, more - middle


def exponent(instance: Instance) -> Measured:
    """|ln(1 + sigma')| over eta_Y D V/(4 (V-1))."""
    _, D, fewer, more = moved_errors(instance, DELTAS)
    V = instance.vocab_size
    bound = instance.eta_Y * D * V / (4 * (V - 1))
    # Logits of order u have rounding EPS u.
    rounding = 8 * EPS * np.log(V * (instance.eta_Y * steps_of(instance) + 1)) / bound
    return worst_entry(np.maximum(fewer, -more) / bound, instance, rounding=rounding, at_most=1.0)


def exponent_as_late(instance: Instance) -> Measured:
    """Wrong theory: the error falls as 1/s at all times, |ln(1 + sigma')| = |ln(1 -+ D/s)|, over the same bound."""
    mean, D, _, _ = moved_errors(instance, DELTAS)
    V = instance.vocab_size
    moved = np.maximum(np.log1p(D / mean), np.where(mean > D, -np.log1p(-np.minimum(D / mean, 1 - EPS)), 0.0))
    return worst_entry(moved / (instance.eta_Y * D * V / (4 * (V - 1))), instance, at_most=1.0)


def share(over: Callable[[Instance, Floats, Floats], Floats], **bound: float) -> Callable[[Instance], Measured]:
    """|sigma'| over a bound of (instance, mean count, D) at delta = DELTA, sigma' as a share of the error at p_n N."""

    def measure(instance: Instance) -> Measured:
        level = np.array([DELTA])
        mean, D, fewer, more = moved_errors(instance, level)
        sigma = np.maximum(np.expm1(np.minimum(fewer, 700)), -np.expm1(more))
        scale = over(instance, mean, D)
        # Logits of order u have rounding EPS u.
        rounding = 8 * EPS * np.log(instance.vocab_size * (instance.eta_Y * steps_of(instance) + 1)) / scale
        return worst_entry(sigma / scale, instance, level, rounding, **bound)

    return measure


def relative_deviation(instance: Instance) -> float:
    """D/(p_n N) of the rarest class."""
    N = steps_of(instance)
    return float(np.sqrt(N * np.log(1 / DELTA)) / (instance.prior.min() * N))


def past_transition(instance: Instance) -> float:
    """Visits p_n N - D of the rarest class over 2 (1+omega_1) ln V/eta_Y."""
    N = steps_of(instance)
    least = instance.prior.min() * N - np.sqrt(N * np.log(1 / DELTA))
    V = instance.vocab_size
    return float(least * instance.eta_Y / (2 * (1 + analytic.omega_1(V)) * np.log(V)))


SMALL_DEVIATION = Requirement("small deviation", f"D/(p_n N) <= 1/10, delta = {DELTA}", relative_deviation, at_most=0.1)
FIVE_OUTPUTS = Requirement("five outputs", "V >= 5", lambda instance: float(instance.vocab_size), at_least=5)
# Directed search: at most 0.965 up to V = 1e9 (at V = 5), 0.998 at V = 9e9, above 1 from V = 2e10.
BILLION_OUTPUTS = Requirement(
    "at most 1e9 outputs", "V <= 1e9", lambda instance: float(instance.vocab_size), at_most=1e9
)
LATE = Requirement("past the transition", "p_n N - D >= 2(1+omega_1) ln V/eta_Y", past_transition, at_least=1)


@claim(
    "lemma11",
    source="Lemma 11, Eqs. (60)-(65)",
    title="h of the count is close to h of the mean count",
    answer="Holds for h; the error e_n - alpha_n can move up to 1 + ln(V)/4 times as much, and needs N >> K^2 ln(V)^2.",
    statement="After N batch-size-1 steps |h(N_n) - h(p_n N)| <= h(p_n N) D/(p_n N), D = sqrt(N ln(1/delta)), with "
    "probability at least 1 - delta, delta <= 1/2; p_n N = N/K for equal priors. 1/(V-1+exp(V h)) changes by a factor "
    "of at most exp(eta_Y D V/(4 (V-1))) between p_n N and p_n N +- D (own, the source of the printed 1/3: V = 4), and "
    "by a share sigma' of at most eta_Y D/3 where D <= p_n N/10 and 5 <= V <= 1e9, and of at most 2.35 D/(p_n N) where "
    "D <= p_n N/10 and p_n N - D >= 2(1+omega_1) ln V/eta_Y. (own: |h(N_n) - h(p_n N)| <= d h'(p_n N - d), "
    "d = sqrt(N ln(2/delta)/2).)",
    latex=r"|h(N_n)-h(\tfrac NK)|\lesssim h(\tfrac NK)\frac{\Delta}{N/K},\quad"
    r"|\sigma'|\lesssim\min\Bigl(\tfrac13\eta_Y\Delta,\ \frac{\Delta}{N/K}\Bigr),\quad\Delta=\sqrt{N\ln\tfrac1\delta}",
    expected="conditional",
    assumptions=(
        "modified flow, attention frozen",
        "sigma': D <= p_n N/10 (N >> K^2), 5 <= V <= 1e9; the second bound: V >= 4 and also p_n N - D >= "
        "2(1+omega_1) ln V/eta_Y",
    ),
    properties=(
        Property(
            "P(|h(N_n) - h(p_n N)| > h(p_n N) D/(p_n N))/delta, delta = 1/2..1e-12",
            "closed form",
            outside_order(lambda N, delta: np.sqrt(N * np.log(1 / delta))),
            ANY_CLASSES,
            conditions=(ONE_STEP,),
            controls={
                "wrong theory: D = sqrt(N) at every delta": outside_order(lambda N, delta: np.sqrt(N) + 0 * delta),
            },
            evaluations=(200, 20_000),
        ),
        Property(
            "|h(p_n N +- d) - h(p_n N)|/(d h'(p_n N - d))",
            "closed form",
            over_slope(-1),
            ANY_CLASSES,
            conditions=(ONE_STEP,),
            controls={"wrong theory: the slope at the largest count bounds the fall": over_slope(1)},
            evaluations=(200, 20_000),
        ),
        Property(
            "own: |ln of the change of 1/(V-1+exp(V h))| over eta_Y D V/(4 (V-1))",
            "closed form",
            exponent,
            ANY_CLASSES,
            conditions=(ONE_STEP,),
            controls={"wrong theory: the error falls as 1/s at all times": exponent_as_late},
            evaluations=(200, 20_000),
        ),
        Property(
            "|sigma'| over eta_Y D/3",
            "closed form",
            share(lambda instance, mean, D: instance.eta_Y * D / 3, at_most=1.0),
            ANY_CLASSES,
            conditions=(ONE_STEP, FIVE_OUTPUTS, BILLION_OUTPUTS, SMALL_DEVIATION),
            evaluations=(300, 20_000),
        ),
        Property(
            "|sigma'| over D/(p_n N), past the transition",
            "closed form",
            # The error's elasticity is below 2: (1 - 1/10)^-2 - 1 over 1/10.
            share(lambda instance, mean, D: D / mean, at_most=2.35),
            ANY_CLASSES,
            conditions=(ONE_STEP, LARGE_VOCABULARY, SMALL_DEVIATION, LATE),
            evaluations=(300, 20_000),
        ),
    ),
)
def lemma11(evidence: Evidence) -> None:
    evidence.maps = [
        decoder_map(
            CLAIMS["lemma11"].properties[3], "Where |sigma'| <= eta_Y D/3", evidence.full, ("t_end", "vocab_size")
        )
    ]
    evidence.proved("h-elasticity", "error-slope")
    size_of_changes(evidence)
