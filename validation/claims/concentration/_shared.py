"""Counts of batch-size-1 steps, for the chapter's claims.

N counts batch-size-1 steps; s = N_n counts visits of class n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.statement import Family, Instance, Measure, Measured, Picture, Requirement
from snapdyn.validation.statistics import standard_error
from snapdyn.validation.visits import Numbers, WholeVisits

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
ANY_CLASSES = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(1, 12),
    num_common=(0, 3),
    num_distinct=(0, 4),
    vocab_size=(2, 10**12),
    eta_Y=(1e-6, 1e6),
    horizon=(1e-2, 1e12),
    shared_next_tokens=True,
)

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

ONE_STEP = Requirement("at least one step", "N >= 1", lambda instance: steps_of(instance), at_least=1, defining=True)
NO_MOMENTUM = Requirement("no momentum", "mu = 0", lambda instance: instance.momentum, at_most=0, defining=True)


def steps_of(instance: Instance) -> float:
    """N, the number of batch-size-1 steps until t_end, at most MOST_STEPS."""
    return float(min(round(instance.t_end), MOST_STEPS))


def hoeffding(draws: Numbers, delta: Numbers) -> Floats:
    """Deviation sqrt(N ln(2/delta)/2) of a count of N draws that Hoeffding's inequality allows."""
    return np.asarray(np.sqrt(draws * np.log(2 / delta) / 2))


def outside(low: Numbers, high: Numbers, draws: Numbers, p: Numbers) -> Floats:
    """P(X < low or X > high) of a binomial count X of N draws.

    With scipy before 1.17 its relative error grows with N, from 2e-8 at 1e9 draws to 0.025 at 1e15.
    """
    from scipy.stats import binom

    return np.asarray(binom.cdf(np.ceil(low) - 1, draws, p) + binom.sf(high, draws, p))


def tail(draws: Numbers, p: Numbers, deviation: Numbers, centre: Numbers | None = None) -> Floats:
    """P(|X - centre| > deviation) of a binomial count X of N draws (default p N)."""
    centre = draws * p if centre is None else centre
    return outside(centre - deviation, centre + deviation, draws, p)


def too_far(trials: Trials, radius: Callable[..., Floats]) -> Measure:
    """P(|count - p N| > radius(N, p, delta))/delta, exact, N and p by `trials`: the largest over counts and delta."""

    def measure(instance: Instance) -> Measured:
        N, p = trials(instance)
        return worst_entry(tail(N, p, radius(N, p, DELTAS)) / DELTAS, N)

    return measure


def wrong_radii(trials: Trials, draws: str, of: str) -> dict[str, Measure]:
    """Wrong theories of how far the counts of `draws` are from their means."""
    normal = f"wrong theory: the normal law's variance p (1-p) for 1/4, rare {of} too"
    return {
        f"wrong theory: {draws}^0.4 for {draws}^0.5": too_far(trials, lambda N, p, d: hoeffding(N, d) * N**-0.1),
        "wrong theory: without ln(2/delta)": too_far(trials, lambda N, p, delta: np.sqrt(N / 2) + 0 * delta),
        normal: too_far(trials, lambda N, p, delta: np.sqrt(2 * N * p * (1 - p) * np.log(2 / delta))),
    }


def mean_in_errors(sample: Callable[..., Floats], expected: Callable[..., Floats], comparisons: int) -> Measure:
    """|mean over seeds - expected| in standard errors, at most what `comparisons` of them reach by chance."""

    def measure(case: Any) -> Measured:
        from scipy.special import ndtri

        values = sample(case)
        away = np.abs(values.mean(axis=0) - expected(case)) / standard_error(values)
        return Measured(away.max(), at_most=-ndtri(SIGNIFICANCE / (2 * comparisons)))

    return measure


def picture_of_deviations(xlabel: str, draws: int, deviations: Floats) -> Picture:
    """Probability of a deviation of a count of p = 1/2: of SGD, exact, and by Hoeffding."""
    shown = np.sort(deviations)
    as_large = np.arange(shown.size, 0, -1) / shown.size
    return Picture(
        xlabel, "probability of one as large",
        (
            Picture.line("Hoeffding", shown, np.minimum(2 * np.exp(-2 * shown**2 / draws), 1), "bound"),
            Picture.line("binomial, exact", shown, np.minimum(tail(draws, 0.5, shown - 0.5), 1)),
            Picture.line("SGD", shown, as_large, "simulation"),
        ),
        xscale="linear", yscale="log",
    )  # fmt: skip


def decoder_of(instance: Instance) -> WholeVisits:
    """Decoder of an instance after whole visits."""
    return WholeVisits.of(instance.eta_Y, instance.vocab_size)


def order_of_theta(instance: Instance) -> Floats:
    """(1/(p_n sqrt(N))) sqrt(ln(K/delta)), (deltas, classes): (K/sqrt(N)) sqrt(ln(K/delta)) for equal priors."""
    return np.asarray(np.sqrt(np.log(instance.num_classes / DELTAS) / steps_of(instance)) / instance.prior)


def worst_entry(
    values: Floats, draws: float, deltas: Floats = DELTAS, rounding: Floats | float = 0.0, at_most: float = 1.0
) -> Measured:
    """Largest entry of `values` (deltas, counts) as a measured number, with its rounding, count and delta."""
    d, n = np.unravel_index(np.argmax(values), values.shape)
    error = np.broadcast_to(rounding, values.shape)[d, n]
    where = f"count {n} of {draws:.4g} draws, delta = {deltas[d, 0]:.3g}"
    return Measured(float(values[d, n]), at_most=at_most, error=error, where=where)
