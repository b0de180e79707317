"""The number of spurious distinct tokens of a data set: its expectation, its variance, and its decay."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapdyn.analytic import expected_spurious, variance_of_spurious
from snapdyn.validation.claims.language import Claim, Floats, Instance, Measured, Property
from snapdyn.validation.claims.small_data._shared import (
    A_COMMON_TOKEN,
    ANY_SEQUENCES,
    STORED,
    arguments,
    log_absences,
    size_of,
    source_of,
)

DATA_SETS = 4000
CHANCE = 1e-9  # with which draws of the right law leave their bound
Law = Callable[..., float]


def others_forgotten(*given: Any) -> float:
    """Wrong theory: the number of (next token, common token) pairs that occur at all."""
    absent = np.exp(log_absences(*given))
    return float((1.0 - absent).sum())


def independent(*given: Any) -> float:
    """Wrong theory: the variance if tokens were independent."""
    log_absent = log_absences(*given)
    q, others = -np.expm1(log_absent), np.exp([np.delete(log_absent, v, 0).sum(0) for v in range(len(log_absent))])
    each = (q * others).sum(axis=0)
    return float((each * (1.0 - each)).sum())


def drawn(instance: Instance) -> Floats:
    """Numbers of spurious tokens in `DATA_SETS` data sets, (DATA_SETS,), from the counts of each class's tokens."""
    if "spurious" not in instance.runs:
        classes, (P, _, sequences, length) = source_of(instance), arguments(instance)
        found = np.zeros((classes.num_next_tokens, DATA_SETS, classes.num_tokens), np.bool_)
        rng = np.random.default_rng(instance.number)
        for v, row, N in zip(classes.next_index, P.toarray(), sequences, strict=True):
            found[v] |= rng.multinomial(N * length, row / row.sum(), size=DATA_SETS) > 0
        spurious = (found.sum(axis=0) == 1) & (classes.omega_size > 1)
        instance.runs["spurious"] = spurious.sum(axis=1).astype(float)
    numbers: Floats = instance.runs["spurious"]
    return numbers


def error_of_mean(instance: Instance, law: Law, squares: bool = False) -> Measured:
    """|mean of the numbers, or of their squared deviations, - law| over its empirical Bernstein bound.

    Maurer and Pontil (2009): it holds for bounded numbers, with probability 1 - CHANCE.
    """
    given, numbers = arguments(instance), drawn(instance)
    most, n, L = float((source_of(instance).omega_size > 1).sum()), DATA_SETS, math.log(4.0 / CHANCE)
    if squares:
        numbers, most = (numbers - expected_spurious(*given)) ** 2, most**2
    bound = math.sqrt(2.0 * numbers.var(ddof=1) * L / n) + 7.0 * most * L / (3.0 * (n - 1))
    return Measured(abs(float(numbers.mean()) - law(*given)) / bound, at_most=1.0)


def decay(instance: Instance, own_class: bool = False) -> Measured | None:
    """How far ln E is above ln(number of pairs) - r N, or below ln q - r N of the slowest pair."""
    P, next_token, _, length = arguments(instance)
    N = size_of(instance)
    rates = -log_absences(P, next_token, np.ones_like(next_token), length)  # per sequence of each class
    occurs = rates > 0
    of_others = [rates.sum(0) if own_class else np.delete(rates, v, 0).sum(0) for v in range(len(rates))]
    fall = np.where(occurs, of_others, np.inf) * N
    slowest, number = fall.argmin(), expected_spurious(P, next_token, N, length)
    if not fall.flat[slowest] < 600.0 or number <= 0.0:
        return None
    log = math.log(number) + fall.flat[slowest]
    least = math.log(-math.expm1(-N * rates.flat[slowest]))
    return Measured(max(log - math.log(occurs.sum()), least - log), at_most=1e-6, error=1e-11 * (1.0 + fall.min()))


CONDITIONS = (STORED, A_COMMON_TOKEN)

CLAIM = Claim(
    "spurious-number",
    source="own; Sec. 9 (large and small data sets)",
    title="The number of tokens that look distinct by chance falls exponentially with the data",
    statement=(
        "N_n sequences of class n with T-1 tokens each are stored. A token is spurious for next token n if it occurs "
        "in sequences of n and of no other next token, though another one has it in the classes. With "
        "q_n = 1 - (1-P(l|n))^(N_n (T-1)) the expected number is the sum over n and common l of q_n prod_(k != n) "
        "(1-q_k); its variance follows from pairs of tokens. With N sequences per class it decays at the rate "
        "r = (T-1) min sum_(k != n) -ln(1-P(l|k)), the minimum over l and n with P(l|n) > 0."
    ),
    latex=r"E=\sum_n\sum_{l\ \text{common}}q_n(l)\prod_{k\ne n}(1-q_k(l)),\qquad q\,e^{-rN}\le E(N)\le "
    r"C\,e^{-rN}",
    conditions=("sequences drawn independently, fixed numbers per class", "contextual tokens independent"),
    conclusion=(
        "Holds: mean and variance agree with 4000 drawn data sets per instance, and e^(-rN) bounds the number. The "
        "rate r is set by the probability of the token under the other next tokens. The upper bound has the number of "
        "(next token, common token) pairs as its factor, the lower bound has q of the slowest pair. Tokens are not "
        "independent: one sequence cannot hold them all."
    ),
    properties=(
        Property(
            "error of the mean number over the empirical Bernstein bound",
            "closed form",
            partial(error_of_mean, law=expected_spurious),
            ANY_SEQUENCES,
            conditions=CONDITIONS,
            controls={
                "wrong theory: other next tokens forgotten": partial(error_of_mean, law=others_forgotten),
                "wrong theory: 1.1 times the number": partial(
                    error_of_mean, law=lambda *given: 1.1 * expected_spurious(*given)
                ),
            },
            evaluations=(200, 2000),
        ),
        Property(
            "error of the variance over the empirical Bernstein bound",
            "closed form",
            partial(error_of_mean, law=variance_of_spurious, squares=True),
            replace(
                ANY_SEQUENCES,
                name="few common tokens in short sequences",
                num_classes=(2, 5),
                num_common=(1, 4),
                seq_len=(1, 6),
            ),
            conditions=CONDITIONS,
            controls={
                "wrong theory: independent tokens": partial(error_of_mean, law=independent, squares=True),
                "wrong theory: the variance is the number": partial(error_of_mean, law=expected_spurious, squares=True),
            },
            evaluations=(200, 2000),
        ),
        Property(
            "excess of ln E over its bounds of rate r",
            "closed form",
            decay,
            ANY_SEQUENCES,
            conditions=CONDITIONS,
            controls={"wrong theory: the own class suppresses too": partial(decay, own_class=True)},
            evaluations=(400, 10_000),
        ),
    ),
)
