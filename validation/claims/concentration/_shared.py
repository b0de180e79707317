"""Counts of batch-size-1 steps, for the chapter's claims.

N counts batch-size-1 steps; s = N_n counts visits of class n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.properties import Measured, Requirement
from snapdyn.validation.search import Family, Instance
from snapdyn.validation.statistics import DECISIVE, Order, standard_error
from snapdyn.validation.visits import FROZEN, Numbers, WholeVisits, own_lead

# Shares of seeds are compared at this family level: normal quantile of SIGNIFICANCE/(2 number of comparisons).
SIGNIFICANCE = 1e-4
# Levels 1 - delta at which a statement "with probability at least 1 - delta" is evaluated. The orders with ln(1/delta)
# in place of ln(2/delta) need delta <= 1/2.
DELTAS = np.array([0.5, 1e-2, 1e-6, 1e-12])
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


def at_most_probability(count: Numbers, draws: Numbers, p: Numbers) -> Floats:
    """P(X <= count) of a binomial X, by the incomplete beta function: N = 1e18 costs as much as N = 10."""
    from scipy.special import betainc

    count = np.floor(count)
    inside = (count >= 0) & (count < draws)
    k = np.where(inside, count, 0)
    return np.where(inside, betainc(np.where(inside, draws - k, 1.0), k + 1, 1 - np.asarray(p)), count >= draws)


def above_probability(count: Numbers, draws: Numbers, p: Numbers) -> Floats:
    """P(X > count) of a binomial X."""
    from scipy.special import betainc

    count = np.floor(count)
    inside = (count >= 0) & (count < draws)
    k = np.where(inside, count, 0)
    return np.where(inside, betainc(k + 1, np.where(inside, draws - k, 1.0), np.asarray(p)), count < 0)


def tail(draws: Numbers, p: Numbers, deviation: Numbers, centre: Numbers | None = None) -> Floats:
    """P(|X - centre| > deviation) of a binomial count X of N draws (default p N).

    With scipy before 1.17 its relative error grows with N, from 2e-8 at 1e9 draws to 0.025 at 1e15.
    """
    centre = draws * p if centre is None else centre
    below, above = np.ceil(centre - deviation) - 1, np.floor(centre + deviation)
    return np.asarray(at_most_probability(below, draws, p) + above_probability(above, draws, p))


def in_standard_errors(sample: Floats, expected: Numbers) -> Floats:
    """|mean over the first axis - expected| in standard errors of that mean."""
    return np.asarray(np.abs(sample.mean(axis=0) - expected) / standard_error(sample))


def quantile(comparisons: int) -> float:
    """Largest deviation in standard errors that `comparisons` of them reach with probability SIGNIFICANCE."""
    from scipy.special import ndtri

    return float(-ndtri(SIGNIFICANCE / (2 * comparisons)))


def trained_counts(classes: SequenceClasses, steps: int, seeds: Sequence[int]) -> tuple[Floats, Floats]:
    """Visits N_n (seeds, K) of batch-size-1 SGD at eta_Y = 1, read off its logits, and V h* of the logits themselves.

    On classes of one token w_n follows the recursion (33) exactly, which turns logits into whole visits.
    """
    V = classes.vocab_size
    runs = sgd(classes, 1.0, FROZEN, steps, record=[steps], save_decoder=True, seed=seeds)
    lead = np.array([own_lead(run)[0] for run in runs])
    table = V * analytic.discrete_h(steps, 1.0, V)
    # The table's steps are 1/s apart and more; rounding is below 1e-10.
    return np.searchsorted(table, lead - 1e-9).astype(float), lead


def decoder_of(instance: Instance) -> WholeVisits:
    """Decoder of an instance after whole visits."""
    return WholeVisits.of(instance.eta_Y, instance.vocab_size)


def order_of_theta(instance: Instance) -> Floats:
    """(1/(p_n sqrt(N))) sqrt(ln(K/delta)), (deltas, classes): (K/sqrt(N)) sqrt(ln(K/delta)) for equal priors."""
    ln = np.log(instance.num_classes / DELTAS)[:, None]
    return np.asarray(np.sqrt(ln / steps_of(instance)) / instance.prior)


def many_draws(K: float, N: float) -> Condition:
    """Return the condition N >> K^2 of Theorem 5, evaluated."""
    return Condition("many draws", "N/K^2 >= 10 (N >> K^2)", 10.0, N / K**2, N / K**2 >= 10)


def worst_entry(
    values: Floats,
    instance: Instance,
    deltas: Floats = DELTAS,
    rounding: Floats | float = 0.0,
    **bound: float,
) -> Measured:
    """Largest entry of `values` (deltas, classes) as a measured number, with its rounding, class and delta."""
    d, n = np.unravel_index(np.argmax(values), values.shape)
    error = float(np.broadcast_to(rounding, values.shape)[d, n])
    where = f"class {n}, delta = {deltas[d]:.3g}, N = {steps_of(instance):.4g}"
    return Measured(float(values[d, n]), error=error, where=where, **bound)


def hold_order(evidence: Evidence, name: str, rung: str, order: Order, expected: float) -> None:
    """Add the checks that a fitted order lies within its margin and that the margin is narrow."""
    evidence.holds(
        f"{name}: |corrected slope - ({expected:g})|", rung, abs(order.corrected - expected), at_most=order.margin()
    )
    evidence.holds(f"{name}: margin of the slope", rung, order.margin(), at_most=DECISIVE)
