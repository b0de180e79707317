"""Lemmas 10 and 18: counts of batch-size-1 steps and of the tokens of finite sequences concentrate."""

from dataclasses import replace
from functools import cache, partial
from operator import itemgetter

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    ONE_STEP,
    by_hoeffding,
    count_property,
    steps_of,
    tail,
    variance_of_sgd,
    worst_entry,
)
from snapdyn.validation.claims.decoder._shared import FROZEN, Numbers, own_lead
from snapdyn.validation.claims.language import EPS, Box, Claim, Floats, Instance, Map, Measured, Property, Requirement

# Settings of the SGD run.
PRIOR = np.array([0.5, 0.3, 0.2])


def counts_of(instance: Instance) -> tuple[float, Floats]:
    """N and p_n of the counts of all classes."""
    return steps_of(instance), instance.prior


def printed_end(instance: Instance, narrower: float = 1.0) -> Measured:
    """P(|N_n - ceil(p_n N)| >= sqrt(N ln(2/delta))/narrower)/delta, exact: the largest over classes and delta <= 1.

    The probability changes only where the bound is a whole number k, so the worst delta is one of 2 exp(-k^2/N).
    """
    N, p = counts_of(instance)
    first = np.ceil(np.sqrt(N * np.log(2)))  # delta <= 1
    wide = np.floor(np.linspace(0, np.sqrt(50 * N), 6))
    k = np.unique(first + np.concatenate([np.arange(8), wide]))[:, None]
    k = k[k[:, 0] <= max(N, first)]
    delta = 2 * np.exp(-(k**2) / N)
    # p_n N that is whole up to rounding is its own ceiling.
    chance = tail(N, p, k / narrower - 0.5, np.ceil(N * p * (1 - 1e-15)))
    return worst_entry(chance, N, delta, deltas=delta)


def sides(x: Numbers) -> Floats:
    """Left side over right side of sqrt(x/2) + 1 < sqrt(x), x = N ln(2/delta)."""
    return np.sqrt(0.5) + 1 / np.sqrt(x)


@cache
def counts_of_visits(steps: int) -> Floats:
    """Visits N_n (20,000, classes) in stretches of `steps` batch-size-1 steps of SGD at eta_Y = 1, read off its logits.

    On classes of one token w_n follows the recursion (33) exactly, so the logits give whole numbers of visits.
    """
    end = 20_000 * steps
    classes = SequenceClasses(np.eye(3), np.zeros(3, dtype=int), prior=PRIOR, vocab_size=10)
    run = sgd(classes, 1.0, FROZEN, end, record=range(steps, end + 1, steps), save_decoder=True, seed=0)
    # The table's steps are 1/s apart and more, 1e-6; rounding is below 1e-10.
    visits = np.searchsorted(10 * analytic.discrete_h(end, 1.0, 10), own_lead(run) - 1e-9)
    return np.diff(visits.astype(float), axis=0, prepend=0.0)


def map_of_second_inequality(level: str) -> Map:
    """F16: the second inequality of (58) over N and delta."""
    N, delta = np.geomspace(1, 1e3, 40), np.geomspace(1e-6, 1, 40)
    labels = ("Second inequality of (58)", "N (batch-size-1 steps)", "delta", "left side over right side")
    return Map(*labels, N, delta, sides(N * np.log(2 / delta[:, None])), threshold=1.0, scale="linear")


LEMMA10 = Claim(
    "lemma10",
    of_rule="any",
    source="Lemma 10, Eqs. (58)-(59)",
    title="The number of visits of a class in N steps stays within about sqrt(N) of its mean",
    statement=(
        "After N batch-size-1 steps class n has been drawn N_n times, and |N_n - ceil(p_n N)| <= sqrt(N "
        "ln(2/delta)/2) + 1 < sqrt(N ln(2/delta)) with probability at least 1 - delta; for deviations from p_n N "
        "itself, the 1 is not needed. The last bound alone, |N_n - ceil(p_n N)| < sqrt(N ln(2/delta)), holds for N "
        ">= 2 at any delta."
    ),
    latex=r"|N_n-\lceil p_nN\rceil|\le\sqrt{\tfrac N2\ln\tfrac2\delta}+1<\sqrt{N\ln\tfrac2\delta}"
    r"\quad\text{w.p. }\ge1-\delta",
    conditions=(
        "steps draw classes independently with the prior p_n",
        "second inequality: N ln(2/delta) > 6 + 4 sqrt(2) = 11.7, as N >= 17 ensures",
        "last bound alone: N >= 2",
    ),
    conclusion=(
        "Holds for N >= 2; the second printed inequality needs N ln(2/delta) > 6 + 4 sqrt(2). At N = 1 the last bound "
        "is violated with probability {one step, p = 0.001} delta (a rare class, delta = 2/e). Hoeffding's bound is "
        "tight at p_n = 1/2: a bound that is 1.1 times narrower fails. The last printed bound is about sqrt(2) times "
        "too wide: a bound has to be 1.5 times narrower to fail."
    ),
    expected="conditional",
    findings=("F16",),
    properties=(
        by_hoeffding(
            "P(|N_n - p_n N| > sqrt(N ln(2/delta)/2))/delta, delta = 1/2..1e-12",
            counts_of,
            "classes",
            domain=ANY_CLASSES,
            conditions=(ONE_STEP,),
            evaluations=(300, 30_000),
        ),
        count_property(
            "P(|N_n - ceil(p_n N)| >= sqrt(N ln(2/delta)))/delta, every delta <= 1",
            printed_end,
            Requirement("two steps", "N >= 2", steps_of, at_least=2),
            controls={"wrong theory: 1.5 times narrower": partial(printed_end, narrower=1.5)},
            beyond={
                "one step, p = 0.001": Instance(np.eye(2), np.zeros(2, int), np.array([0.001, 0.999]), 2, 1.0, 1.0, 1.0)
            },
        ),
        Property(
            "F16: second inequality, left side over right side, x = N ln(2/delta)",
            "closed form",
            lambda point: Measured(float(sides(point["x"])), at_most=1.0, error=4 * EPS),
            Box(x=(np.log(2), 1e13, "log")),
            conditions=(
                Requirement("large x", "N ln(2/delta) >= 6 + 4 sqrt(2)", itemgetter("x"), at_least=6 + 4 * np.sqrt(2)),
            ),
        ),
        variance_of_sgd(
            "mean of (N_n - p_n N)^2 against p_n (1-p_n) N, in standard errors",
            counts_of_visits,
            PRIOR,
            {"priors 0.5, 0.3 and 0.2, 20,000 times 40 steps": 40},
        ),
    ),
    proved=("hoeffding-radius", "ceiling-absorbed"),
    map=map_of_second_inequality,
)


# P(l|n) of the SGD run.
PROFILE = np.array([0.5, 0.3, 0.15, 0.04, 0.01])


def tokens_of(instance: Instance) -> tuple[float, Floats]:
    """T-1 and P(l|n) of the counts of all tokens of all classes."""
    assert instance.seq_len is not None
    P = instance.P / instance.P.sum(axis=1, keepdims=True)
    return float(instance.seq_len), P[P > 0]


@cache
def counts_of_tokens(length: int) -> Floats:
    """Counts of the tokens (sequences, tokens) in the sequences of SGD, T-1 = `length`."""
    classes = SequenceClasses(PROFILE[None], [0], vocab_size=20)
    # Y moves by eta_Y f (e - alpha)^T, f proportional to the frequencies: the steps of Y are the sequences. A small
    # eta_Y keeps Y small, so that its differences have rounding of 12,000 times 1e-16.
    seed = (10, 100, 1000).index(length)
    run = sgd(classes, 1e-6, FROZEN, 12_000, seq_len=length, seed=seed, save_decoder=True)
    assert run.Y is not None
    steps = np.diff(run.Y[:, run.decoder_rows, 0], axis=0)
    return np.round(steps / steps.sum(axis=1, keepdims=True) * length)


LEMMA18 = Claim(
    "lemma18",
    of_rule="any",
    source="Lemma 18, Eqs. (134)-(138)",
    title="Token frequencies of finite sequences concentrate like 1/sqrt(T)",
    statement="The frequency of a token among the T-1 contextual tokens is within sqrt(ln(2/delta)/(2(T-1))) of P(l|n) "
    "with probability at least 1 - delta, for each token.",
    latex=r"\Bigl|\hat P(l|n)-P(l|n)\Bigr|\le\sqrt{\frac{\ln(2/\delta)}{2(T-1)}}\quad\text{w.p. }\ge1-\delta",
    conditions=("contextual tokens independent given the class, no positions",),
    conclusion=(
        "Holds; at P = 1/2 a bound 1.1 times narrower fails, while for rare tokens the bound is about 1/sqrt(4P) "
        "times too wide. The bound uses the variance at P = 1/2, which is 1/4; the counts of SGD's sequences have the "
        "variance P (1-P) per drawn token."
    ),
    properties=(
        by_hoeffding(
            "P(|frequency - P(l|n)| > sqrt(ln(2/delta)/(2(T-1))))/delta, delta = 1/2..1e-12",
            tokens_of,
            "tokens",
            domain=replace(ANY_CLASSES, name="any classes, finite sequences", seq_len=(1, 10**9)),
            conditions=(
                Requirement(
                    "finite sequences",
                    "1/(T - 1) > 0, T - 1 given by seq_len",
                    lambda instance: 1.0 / (instance.seq_len or np.inf),
                    at_least=float(np.nextafter(0, 1)),
                    defining=True,
                ),
            ),
            evaluations=(400, 40_000),
        ),
        variance_of_sgd(
            "mean of (count - P(T-1))^2 against P(1-P)(T-1), in standard errors",
            counts_of_tokens,
            PROFILE,
            {f"T-1 = {length}, 12,000 sequences": length for length in (10, 100, 1000)},
        ),
    ),
    proved=("hoeffding-radius",),
)
