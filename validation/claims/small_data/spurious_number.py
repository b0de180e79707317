"""The number of spurious distinct tokens of a data set: its expectation, its variance, and its decay."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses
from snapdyn.validation.claims.language import Claim, Floats, Instance, Ints, Measured, Property
from snapdyn.validation.claims.small_data._shared import (
    A_COMMON_TOKEN,
    ANY_SEQUENCES,
    STORED,
    common_absences,
    length_of,
    sequences_of,
    size_of,
    source_of,
)

DATA_SETS = 4000
CHANCE = 1e-9  # with which draws of the right law leave a bound
DOMAIN = replace(ANY_SEQUENCES, vocab_size=(2, 10**12))
Law = Callable[[SequenceClasses, Ints, int], float]


def expected(classes: SequenceClasses, sequences: Ints, length: int) -> float:
    """The expected number by the formula."""
    return analytic.expected_spurious(classes.P, classes.next_token, sequences, length)


def variance(classes: SequenceClasses, sequences: Ints, length: int) -> float:
    """The variance by the formula."""
    return analytic.variance_of_spurious(classes.P, classes.next_token, sequences, length)


def present(classes: SequenceClasses, sequences: Ints, length: int) -> Floats:
    """Probability of each common token to occur with each next token, (next tokens, C), by plain powers."""
    P = classes.P.toarray()[:, classes.omega_size > 1]
    absent = (1.0 - np.minimum(P, 1.0)) ** (sequences * float(length))[:, None]
    return np.array([1.0 - absent[classes.next_index == v].prod(axis=0) for v in range(classes.num_next_tokens)])


def others_forgotten(classes: SequenceClasses, sequences: Ints, length: int) -> float:
    """Wrong theory: the number of (next token, common token) pairs that occur at all."""
    return float(present(classes, sequences, length).sum())


def independent(classes: SequenceClasses, sequences: Ints, length: int) -> float:
    """Wrong theory: the variance if tokens were independent."""
    q = present(classes, sequences, length)
    each = sum(q[v] * np.delete(1.0 - q, v, axis=0).prod(axis=0) for v in range(len(q)))
    return float((each * (1.0 - each)).sum())


def drawn(instance: Instance) -> Floats:
    """Numbers of spurious tokens in `DATA_SETS` data sets, (DATA_SETS,), from the counts of each class's tokens."""
    if "spurious" not in instance.runs:
        classes, length = source_of(instance), length_of(instance)
        common = classes.omega_size > 1
        found = np.zeros((classes.num_next_tokens, DATA_SETS, int(common.sum())), np.bool_)
        rng = np.random.default_rng(np.random.SeedSequence(instance.number))
        for n, (row, N) in enumerate(zip(classes.P.toarray(), sequences_of(instance).tolist(), strict=True)):
            shares = np.append(row[common], max(row[~common].sum(), 0.0))
            counts = rng.multinomial(N * length, shares / shares.sum(), size=DATA_SETS)
            found[classes.next_index[n]] |= counts[:, :-1] > 0
        instance.runs["spurious"] = (found.sum(axis=0) == 1).sum(axis=1).astype(float)
    numbers: Floats = instance.runs["spurious"]
    return numbers


def mean_number(instance: Instance, law: Law = expected) -> Measured:
    """|mean number - law| over Bernstein's bound for the mean of bounded numbers with the variance of the formula."""
    given = source_of(instance), sequences_of(instance), length_of(instance)
    numbers, n, L = drawn(instance), DATA_SETS, math.log(2.0 / CHANCE)
    most = float((given[0].omega_size > 1).sum())
    bound = math.sqrt(2.0 * max(variance(*given), 0.0) * L / n) + most * L / (3.0 * n)
    return Measured(abs(float(numbers.mean()) - law(*given)) / bound, at_most=1.0)


def mean_square(instance: Instance, law: Law = variance) -> Measured:
    """|mean squared deviation - law| over the empirical Bernstein bound (Maurer and Pontil 2009)."""
    given = source_of(instance), sequences_of(instance), length_of(instance)
    squares = (drawn(instance) - expected(*given)) ** 2
    n, L, most = DATA_SETS, math.log(4.0 / CHANCE), float((given[0].omega_size > 1).sum())
    bound = math.sqrt(2.0 * squares.var(ddof=1) * L / n) + 7.0 * most**2 * L / (3.0 * (n - 1))
    return Measured(abs(float(squares.mean()) - law(*given)) / bound, at_most=1.0)


def decay(instance: Instance, wrong: str = "") -> Measured | None:
    """How far ln E is above ln(number of pairs) - r N, or below ln q - r N of the slowest pair."""
    classes, N, length = source_of(instance), size_of(instance), length_of(instance)
    P, log_absent = common_absences(instance)
    each = P if wrong == "first order" else -log_absent
    rates = np.array([np.delete(each, v, axis=0).sum(axis=0) for v in range(len(P))])
    if wrong == "own class too":
        rates = np.tile(each.sum(axis=0), (len(P), 1))
    rates = np.where(P > 0, rates, np.inf)
    v, l = np.unravel_index(rates.argmin(), rates.shape)
    fall = rates[v, l] * N * length
    number = analytic.expected_spurious(classes.P, classes.next_token, N, length)
    if not fall < 600.0 or number <= 0.0:
        return None
    log = math.log(number) + fall
    slowest = math.log(-math.expm1(N * length * log_absent[v, l]))
    excess = max(log - math.log(np.count_nonzero(P)), slowest - log)
    return Measured(excess, at_most=1e-6, error=1e-11 * (1.0 + fall))


CONDITIONS = (STORED, A_COMMON_TOKEN)

CLAIM = Claim(
    "spurious-number",
    source="own; Sec. 9 (large and small data sets)",
    title="The number of spurious distinct tokens has an exact law and decays exponentially",
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
        "Holds: mean and variance agree with 4000 drawn data sets per instance, and e^(-rN) bounds the number. "
        "The rate is -ln(1-P), not P: with P the lower bound fails where tokens are frequent. The bound's factors are "
        "the number of (next token, common token) pairs above, and q of the slowest pair below. Tokens are not "
        "independent: one sequence cannot hold them all."
    ),
    properties=(
        Property(
            "error of the mean number over Bernstein's bound",
            "closed form",
            mean_number,
            DOMAIN,
            conditions=CONDITIONS,
            controls={
                "wrong theory: other next tokens forgotten": partial(mean_number, law=others_forgotten),
                "wrong theory: 1.1 times the number": partial(mean_number, law=lambda *given: 1.1 * expected(*given)),
            },
            evaluations=(200, 2000),
        ),
        Property(
            "error of the variance over the empirical Bernstein bound",
            "closed form",
            mean_square,
            replace(DOMAIN, name="few common tokens with stored sequences", num_common=(1, 8)),
            conditions=CONDITIONS,
            controls={"wrong theory: independent tokens": partial(mean_square, law=independent)},
            evaluations=(200, 2000),
        ),
        Property(
            "excess of ln E over its bounds of rate r",
            "closed form",
            decay,
            DOMAIN,
            conditions=CONDITIONS,
            controls={
                "wrong theory: the rate (T-1) sum P": partial(decay, wrong="first order"),
                "wrong theory: the own class suppresses too": partial(decay, wrong="own class too"),
            },
            evaluations=(400, 10_000),
        ),
    ),
)  # fmt: skip
