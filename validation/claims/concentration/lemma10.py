"""Lemma 10: counts of batch-size-1 steps concentrate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    ONE_STEP,
    at_most_probability,
    hoeffding,
    in_standard_errors,
    quantile,
    steps_of,
    tail,
    trained_counts,
    worst_entry,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.search import Instance

# sqrt(x/2) + 1 < sqrt(x) from here on.
SECOND_INEQUALITY = 6 + 4 * np.sqrt(2)
TWO_STEPS = Requirement("two steps", "N >= 2", steps_of, at_least=2)


def beyond(radius: Callable[[float, Floats, Floats], Floats]) -> Callable[[Instance], Measured]:
    """P(|N_n - p_n N| > radius(N, p_n, delta))/delta, exact: the largest over classes and delta."""

    def measure(instance: Instance) -> Measured:
        N, p, delta = steps_of(instance), instance.prior[None], DELTAS[:, None]
        return worst_entry(tail(N, p, radius(N, p, delta)) / delta, instance, at_most=1.0)

    return measure


def printed_end(instance: Instance) -> Measured:
    """P(|N_n - ceil(p_n N)| >= sqrt(N ln(2/delta)))/delta, exact: the largest over classes and all delta <= 1.

    Between two whole deviations k only delta changes, so the worst delta is that of a k: 2 exp(-k^2/N).
    """
    N, p = steps_of(instance), instance.prior[None]
    first = np.ceil(np.sqrt(N * np.log(2)))  # delta <= 1
    wide = np.floor(np.linspace(0, np.sqrt(50 * N), 6))
    k = np.unique(first + np.concatenate([np.arange(8), wide]))[:, None]
    k = k[k[:, 0] <= max(N, first)]
    delta = 2 * np.exp(-(k**2) / N)
    # p_n N that is whole up to rounding is its own ceiling.
    chance = tail(N, p, k - 0.5, np.ceil(N * p * (1 - 1e-15)))
    return worst_entry(chance / delta, instance, delta[:, 0], at_most=1.0)


def without_growth(instance: Instance) -> Measured:
    """Wrong theory: the count deviates by sqrt(ln(2/delta)/2) + 1, whatever the number of steps."""
    N, p, delta = steps_of(instance), instance.prior[None], DELTAS[:, None]
    return worst_entry(tail(N, p, hoeffding(1.0, delta) + 1, np.ceil(N * p)) / delta, instance, at_most=1.0)


@claim(
    "lemma10",
    source="Lemma 10, Eqs. (58)-(59)",
    title="The counts of a class stay within sqrt(N ln(2/delta)) of their mean",
    answer="Holds from N = 2 on; the second printed inequality needs N ln(2/delta) > 6 + 4 sqrt(2).",
    statement="After N batch-size-1 steps class n has been drawn N_n times, and "
    "|N_n - ceil(p_n N)| <= sqrt(N ln(2/delta)/2) + 1 < sqrt(N ln(2/delta)) with probability at least 1 - delta; about "
    "p_n N itself without the 1. The second inequality needs N ln(2/delta) > 6 + 4 sqrt(2); the two ends together, "
    "|N_n - ceil(p_n N)| < sqrt(N ln(2/delta)), hold for every delta from N = 2 on.",
    latex=r"|N_n-\lceil p_nN\rceil|\le\sqrt{\tfrac N2\ln\tfrac2\delta}+1<\sqrt{N\ln\tfrac2\delta}"
    r"\quad\text{w.p. }\ge1-\delta",
    expected="conditional",
    assumptions=(
        "steps draw classes independently with the prior p_n",
        "second inequality: N ln(2/delta) > 6 + 4 sqrt(2) = 11.7, as N >= 17 ensures",
        "the two ends together: N >= 2",
    ),
    findings=("F16",),
    properties=(
        Property(
            "P(|N_n - p_n N| > sqrt(N ln(2/delta)/2))/delta, delta = 1/2..1e-12",
            "closed form",
            beyond(lambda N, p, delta: hoeffding(N, delta)),
            ANY_CLASSES,
            conditions=(ONE_STEP,),
            controls={
                "wrong theory: N^0.4 for N^0.5": beyond(lambda N, p, delta: hoeffding(N, delta) * N**-0.1),
                "wrong theory: without ln(2/delta)": beyond(lambda N, p, delta: np.sqrt(N / 2) + 0 * delta),
                "wrong theory: the normal law's variance p (1-p) for 1/4, rare classes too": beyond(
                    lambda N, p, delta: np.sqrt(2 * N * p * (1 - p) * np.log(2 / delta))
                ),
            },
            evaluations=(300, 30_000),
        ),
        Property(
            "P(|N_n - ceil(p_n N)| >= sqrt(N ln(2/delta)))/delta, every delta <= 1",
            "closed form",
            printed_end,
            ANY_CLASSES,
            conditions=(ONE_STEP, TWO_STEPS),
            controls={"wrong theory: a deviation that does not grow with N": without_growth},
            evaluations=(200, 10_000),
        ),
    ),
)
def lemma10(evidence: Evidence) -> None:
    evidence.proved("hoeffding-radius", "ceiling-absorbed")
    # sqrt(x/2) + 1 < sqrt(x), x = N ln(2/delta), on both sides of x = 6 + 4 sqrt(2).
    x = np.geomspace(0.5, 1e6, 500)
    second = np.sqrt(x / 2) + 1 - np.sqrt(x)
    wide = x > SECOND_INEQUALITY
    evidence.holds(
        "second inequality, x = N ln(2/delta) > 6 + 4 sqrt(2): largest sqrt(x/2) + 1 - sqrt(x)",
        "closed form",
        second[wide].max(),
        at_most=0,
    )
    evidence.outside("F16: second inequality at smaller x: the same", "closed form", second[~wide].max(), at_most=0)
    evidence.outside(
        "the two ends together at N = 1, p = 1e-3: P(|N_n - 1| >= 1) over its delta = 2/e",
        "closed form",
        float(tail(1.0, 1e-3, 0.5, 1.0)) / (2 / math.e),
        at_most=1,
    )

    # The size: quantile of the deviation at p = 1/2 over the bound, for N delta large enough to have one.
    attained = [quantile_over_bound(N, delta) for N in (1e2, 1e6, 1e12) for delta in (1e-2, 1e-6, 1e-12)]
    evidence.holds(
        "the size is attained at p = 1/2: quantile of |N_n - p N| over the bound, delta <= 0.01: smallest",
        "closed form",
        min(attained),
        at_least=0.5,
    )

    steps, seeds = 1000, range(4000 if evidence.full else 400)
    prior = np.array([0.5, 0.3, 0.2])
    classes = SequenceClasses(np.eye(3), np.zeros(3, dtype=int), prior=prior, vocab_size=10)
    counts, _ = trained_counts(classes, steps, seeds)
    evidence.holds(
        "counts read off SGD's logits add up to N: largest miss", "SGD", float(np.ptp(counts.sum(1))), at_most=0
    )
    # At delta = 1/2 the bound is passed often enough to be compared with the exact probability.
    passed = (np.abs(counts - prior * steps) > hoeffding(steps, 0.5)).mean(axis=0)
    exact = tail(steps, prior, hoeffding(steps, 0.5))
    evidence.holds(
        "share of the seeds of SGD beyond the bound at delta = 1/2, N = 1000, over delta",
        "SGD",
        passed.max() / 0.5,
        at_most=1,
    )
    evidence.holds(
        "share of the seeds beyond the bound against the exact probability, in standard errors",
        "SGD",
        float((np.abs(passed - exact) / np.sqrt(exact * (1 - exact) / len(seeds))).max()),
        at_most=quantile(6),
    )
    square = (counts - prior * steps) ** 2
    evidence.holds(
        "mean of (N_n - p N)^2 against p (1-p) N, in standard errors",
        "SGD",
        float(in_standard_errors(square, steps * prior * (1 - prior)).max()),
        at_most=quantile(6),
    )
    evidence.control(
        "wrong theory: variance N/4 for every p, p = 0.2, in standard errors",
        "SGD",
        float(in_standard_errors(square, steps / 4)[2]),
        at_most=quantile(6),
    )
    evidence.conclusion = (
        f"At p = 1/2 the deviation reaches {min(attained):.2f} to {max(attained):.2f} of the bound at confidence "
        "1 - delta, delta = 0.01..1e-12. The printed end, |N_n - ceil(p_n N)| < sqrt(N ln(2/delta)), fails at N = 1 "
        "only (a rare class, delta > 2/e)."
    )
    evidence.maps = [_second_inequality_map()]
    deviation = np.abs(counts[:, 0] - 500)
    shown = np.sort(deviation)[::-1]
    evidence.picture = Picture(
        "deviation |N_n - N/2|, N = 1000 batch-size-1 steps",
        "probability of one as large",
        (
            Picture.line("Hoeffding: 2 exp(-2 d^2/N)", shown, np.minimum(2 * np.exp(-2 * shown**2 / 1000), 1), "bound"),
            Picture.line("binomial, exact", shown, tail(1000, 0.5, shown - 0.5)),
            Picture.line("SGD, share of the seeds", shown, (np.arange(shown.size) + 0.5) / shown.size, "simulation"),
        ),
        xscale="linear",
        yscale="log",
    )
    evidence.seeds = list(seeds)


def quantile_over_bound(N: float, delta: float) -> float:
    """Deviation that a fair count of N draws passes with probability delta, over Hoeffding's, to a draw."""
    bound = float(hoeffding(N, delta))
    low, high = 0.0, bound
    while high - low > max(1e-3 * bound, 0.5):
        middle = (low + high) / 2
        passed = 2 * float(at_most_probability(np.ceil(N / 2 - middle) - 1, N, 0.5))
        low, high = (middle, high) if passed > delta else (low, middle)
    return low / bound


def _second_inequality_map() -> Map:
    """F16: sqrt(x/2) + 1 over sqrt(x), x = N ln(2/delta): the second inequality of (58) over N and delta."""
    N, delta = np.geomspace(1, 1e3, 40), np.geomspace(1e-6, 1, 40)
    x = N * np.log(2 / delta)[:, None]
    edge = np.exp(-SECOND_INEQUALITY / N) * 2
    shown = (edge >= delta[0]) & (edge <= delta[-1])
    return Map(
        title="Second inequality of (58)",
        xlabel="N (batch-size-1 steps)",
        ylabel="delta",
        quantity="left side over right side",
        x=N,
        y=delta,
        violation=np.sqrt(0.5) + 1 / np.sqrt(x),
        threshold=1.0,
        boundaries=(Picture.line("N ln(2/delta) = 6 + 4 sqrt(2)", N[shown], edge[shown]),),
        scale="linear",
    )
