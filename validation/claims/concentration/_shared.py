"""Counts of batch-size-1 steps, for the chapter's claims.

N counts batch-size-1 steps; s = N_n counts visits of class n.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from snapdyn.validation.claims.decoder._shared import Numbers, WholeVisits
from snapdyn.validation.claims.language import (
    WIDEST,
    Floats,
    Instance,
    Measure,
    Measured,
    Property,
    Requirement,
    properties_on,
    standard_error,
)

# Gives N and p of binomial counts.
Trials = Callable[[Instance], tuple[float, Floats]]
# Means over seeds are compared at this family level: normal quantile of SIGNIFICANCE/(2 number of comparisons).
SIGNIFICANCE = 1e-4
# Levels 1 - delta at which a statement "with probability at least 1 - delta" is evaluated. The orders with ln(1/delta)
# in place of ln(2/delta) need delta <= 1/2.
DELTAS = np.array([0.5, 1e-2, 1e-6, 1e-12])[:, None]
# Floats hold every whole number up to here; later times are measured after so many steps.
MOST_STEPS = 10**15

# Every number of steps, unequal priors, rates and V as wide as the words.
ANY_CLASSES = replace(WIDEST, ratio=(1e-3, 1e3), shared_next_tokens=True)


def steps_of(instance: Instance) -> float:
    """N, the number of batch-size-1 steps until t_end, at most MOST_STEPS."""
    return float(min(round(instance.t_end), MOST_STEPS))


# The first step from Y(0) = 0 moves V h* by eta_Y, for which the flow needs about exp(eta_Y)/(V eta_Y) visits: a lag of
# up to exp(eta_Y)/eta_Y^2 visits, which must stay below the deviation of the counts, of the order of sqrt(N). Measured
# with V = 2..1e12: the first to fail are V = 2, K = 1, at eta_Y = 3.155 for N = 1 (exp(u) + u = 2 eta_Y + 1 with
# eta_Y = u (1 + sqrt(ln 2))), 5.6 for N = 10, 7.1 for N = 100 and 8.6 for N = 1000.
RATE_OF_LARGE_STEPS = Requirement(
    "no overshoot",
    "eta_Y - ln(N)/2 <= 3",
    lambda instance: instance.eta_Y - np.log(max(steps_of(instance), 1.0)) / 2,
    at_most=3,
)

ONE_STEP = Requirement("at least one step", "N >= 1", steps_of, at_least=1, defining=True)


def hoeffding(draws: Numbers, delta: Numbers) -> Floats:
    """Deviation sqrt(N ln(2/delta)/2) of a count of N draws that Hoeffding's inequality allows."""
    return np.sqrt(draws * np.log(2 / delta) / 2)


def below(count: Numbers, draws: Numbers, p: Numbers) -> Floats:
    """P(X < count) of a binomial count X of N draws, `count` whole and from 0 to N + 1.

    It is the complement of I_p(count, N - count + 1): `binom.cdf` of scipy 1.17 is NaN at 38 of 1962712800 draws, and
    errs by 1e-7 near p N = 7, N = 2e9. With scipy before 1.17 the relative error grows with N, from 2e-8 at 1e9 draws
    to 0.025 at 1e15.
    """
    from scipy.special import betaincc

    return betaincc(count, draws - count + 1, p)


def outside(low: Numbers, high: Numbers, draws: Numbers, p: Numbers) -> Floats:
    """P(X < low or X > high) of a binomial count X of N draws; P(X > k) = I_p(k + 1, N - k)."""
    from scipy.special import betainc

    first, last = np.clip(np.ceil(low), 0, draws + 1), np.clip(np.floor(high), -1, draws)
    # Near 1 betainc is NaN at some counts as well; small probabilities lose their digits in 1 - x.
    more = np.where(last >= draws * p, betainc(last + 1, draws - last, p), 1 - below(last + 1, draws, p))
    return below(first, draws, p) + np.where(last < draws, more, 0.0)  # I_1(N + 1, 0) is 1, not 0


def tail(draws: Numbers, p: Numbers, deviation: Numbers, centre: Numbers | None = None) -> Floats:
    """P(|X - centre| > deviation) of a binomial count X of N draws (default p N)."""
    centre = draws * p if centre is None else centre
    return outside(centre - deviation, centre + deviation, draws, p)


# Of the counts after one step or more.
count_property = properties_on("closed form", ANY_CLASSES, ONE_STEP)


def by_hoeffding(name: str, trials: Trials, of: str, **facts: Any) -> Property:
    """P(|count - p N| > d)/delta, exact, N and p by `trials`: the largest over counts and delta; d by Hoeffding."""

    def beyond(radius: Callable[..., Numbers]) -> Measure:
        def measure(instance: Instance) -> Measured:
            N, p = trials(instance)
            return worst_entry(tail(N, p, radius(N, p)), N)

        return measure

    normal = f"wrong theory: the normal law's variance p (1-p) for 1/4, rare {of} too"
    controls = {
        "wrong theory: 1.1 times narrower": beyond(lambda N, p: hoeffding(N, DELTAS) / 1.1),
        "wrong theory: without ln(2/delta)": beyond(lambda N, p: np.sqrt(N / 2)),
        normal: beyond(lambda N, p: hoeffding(4 * N * p * (1 - p), DELTAS)),
    }
    return Property(name, "closed form", beyond(lambda N, p: hoeffding(N, DELTAS)), controls=controls, **facts)


def variance_of_sgd(name: str, counts: Callable[[int], Floats], p: Floats, cases: dict[str, int]) -> Property:
    """Mean of (counts(N) - p N)^2 over samples against p (1-p) N, in standard errors; at most what chance allows.

    N draws without replacement from an urn of 11 N have the variance p (1-p) N (1 - N/(11 N)), 1.1 times smaller.
    """

    def against(of_draw: Numbers) -> Measure:
        def measure(draws: int) -> Measured:
            from scipy.special import ndtri

            values = (counts(draws) - p * draws) ** 2
            away = np.abs(values.mean(axis=0) - of_draw * draws) / standard_error(values)
            return Measured(away.max(), at_most=-ndtri(SIGNIFICANCE / (4 * p.size * len(cases))))

        return measure

    urn = {
        "wrong theory: drawn without replacement from 11 N, a variance 1.1 times smaller": against(p * (1 - p) / 1.1)
    }
    return Property(name, "SGD", against(p * (1 - p)), controls=urn, cases=cases)


def decoder_of(instance: Instance) -> WholeVisits:
    """Decoder of an instance after whole numbers of visits."""
    return WholeVisits.of(instance.eta_Y, instance.vocab_size)


def order_of_theta(instance: Instance) -> Floats:
    """(1/(p_n sqrt(N))) sqrt(ln(K/delta)), (deltas, classes): (K/sqrt(N)) sqrt(ln(K/delta)) for equal priors."""
    return np.sqrt(np.log(instance.num_classes / DELTAS) / steps_of(instance)) / instance.prior


def worst_entry(
    values: Floats,
    draws: float,
    bounds: Floats = DELTAS,
    rounding: Numbers = 0.0,
    deltas: Floats = DELTAS,
    at_most: float = 1.0,
) -> Measured:
    """Largest entry (deltas, counts) of values over bounds as a measured number, with rounding, count and delta."""
    values = values / bounds
    d, n = np.unravel_index(np.argmax(values), values.shape)
    where = f"count {n} of {draws:.4g} draws, delta = {deltas[d, 0]:.3g}"
    return Measured(values[d, n], at_most, error=np.broadcast_to(rounding / bounds, values.shape)[d, n], where=where)
