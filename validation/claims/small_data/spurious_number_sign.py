"""Spurious tokens: how many a data set has, and which tokens of stored sequences rise early."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapdyn.analytic import expected_spurious, variance_of_spurious
from snapdyn.dynamics import MeanField, SequenceClasses, data_set
from snapdyn.validation.claims.attention._finite_length import early_rates
from snapdyn.validation.claims.language import (
    FROM_ZERO,
    Claim,
    Floats,
    Instance,
    Ints,
    Measured,
    Property,
    kept_on_instance,
)
from snapdyn.validation.claims.sample_classes import equal_classes, three_classes
from snapdyn.validation.claims.small_data._shared import (
    A_COMMON_TOKEN,
    ANY_SEQUENCES,
    STORED,
    arguments,
    log_absences,
    size_of,
    source_of,
    stored,
)

DATA_SETS = 4000
CHANCE = 1e-9  # with which draws of the right law leave their bound
NumberLaw = Callable[..., float]


def others_forgotten(*given: Any) -> float:
    """Wrong theory: the number of (next token, common token) pairs that occur at all."""
    absent = np.exp(log_absences(*given))
    return (1.0 - absent).sum()


def independent(*given: Any) -> float:
    """Wrong theory: the variance if tokens were independent."""
    log_absent = log_absences(*given)
    q, others = -np.expm1(log_absent), np.exp([np.delete(log_absent, v, 0).sum(0) for v in range(len(log_absent))])
    each = (q * others).sum(axis=0)
    return (each * (1.0 - each)).sum()


@kept_on_instance
def drawn(instance: Instance) -> Floats:
    """Numbers of spurious tokens in `DATA_SETS` data sets, (DATA_SETS,), from the counts of each class's tokens."""
    classes, (P, _, sequences, length) = source_of(instance), arguments(instance)
    found = np.zeros((classes.num_next_tokens, DATA_SETS, classes.num_tokens), np.bool_)
    rng = np.random.default_rng(instance.number)
    for v, row, N in zip(classes.next_index, P.toarray(), sequences, strict=True):
        found[v] |= rng.multinomial(N * length, row / row.sum(), size=DATA_SETS) > 0
    spurious = (found.sum(axis=0) == 1) & (classes.omega_size > 1)
    return spurious.sum(axis=1).astype(float)


def error_of_mean(instance: Instance, law: NumberLaw, squares: bool = False) -> Measured:
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

SPURIOUS_NUMBER = Claim(
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


RESOLVED = 1e-9  # of the prior of a sequence: smaller rates are rounding
# Overlaps with the other sequences of the same next token and with those of other ones, weighted by priors; and V.
RateLaw = Callable[[Floats, Floats, int], Floats]


def right_law(same: Floats, others: Floats, V: int) -> Floats:
    """z_l'/(eta_Z eta_Y t p_s f_sl^2): overlaps with other next tokens lift, those with the own next token lower."""
    return others / V - same * (V - 1) / V


def alone(data: SequenceClasses) -> Ints:
    """Entries of P of the tokens that exactly one stored sequence has."""
    return np.flatnonzero(np.bincount(data.P.indices)[data.P.indices] == 1)


def overlaps(data: SequenceClasses, labels: Ints) -> tuple[Floats, Floats]:
    """Sum of p_m f_s.f_m over the other sequences m of the same label, and over those of other labels, (S,) each."""
    f, p = data.decoder_inputs(), data.prior
    same = np.empty(p.size)
    for label in np.unique(labels):
        of = labels == label
        same[of] = f[of] @ (f[of].T @ p[of])
    return same - p, f @ (f.T @ p) - same


def rates_of(data: SequenceClasses) -> Floats:
    """Rates of z over eta_Z eta_Y t from a zero start, on `z_coordinates`, by the mean field."""
    rates, step = early_rates(MeanField(data, 1.0, 1.0))
    return rates / step


def law_error(instance: Instance, law: RateLaw = right_law, permuted: bool = False) -> Measured | None:
    """Largest error of the rate of a token of one stored sequence, over the sizes of the terms of the law."""
    data = stored(instance)
    entry, V = alone(data), data.vocab_size
    if not entry.size:
        return None
    of, f = data.class_of_entry[entry], data.decoder_inputs().data[entry]
    same, others = overlaps(data, np.roll(data.next_index, 1) if permuted else data.next_index)
    found = rates_of(data)[data.z_of_entry[entry]] / (data.prior[of] * f**2)
    size = others / V + same * (V - 1) / V + RESOLVED * data.prior
    return Measured(np.abs((found - law(same, others, V)[of]) / size[of]).max(), at_most=0.02)


SETTINGS: dict[
    str, tuple[Callable[[], SequenceClasses], int, bool]
] = {  # classes, sequences of 20 tokens per next token, and whether most tokens of one sequence rise
    "three classes, N = 1": (three_classes, 1, True),
    "three classes, N = 2": (three_classes, 2, False),
    "equal classes, K = V = 8, N = 4": (partial(equal_classes, 8, 8), 4, True),
    "equal classes, K = 8, V = 24, N = 2": (partial(equal_classes, 8, 24), 2, False),
}


def rising_share(name: str) -> float:
    """Share of the tokens of one stored sequence that rise early in the mean field, over 20 data sets."""
    classes, N, _ = SETTINGS[name]
    rises = []
    for seed in range(20):
        data = data_set(classes(), N, 20, seed)
        rises.append(rates_of(data)[data.z_of_entry[alone(data)]] > 0)
    return np.concatenate(rises).mean()


def most(name: str) -> Measured:
    """Share of tokens that do as the law of equal overlaps says."""
    share = rising_share(name)
    return Measured(share if SETTINGS[name][2] else 1.0 - share, at_least=0.7)


def all_rise(name: str) -> Measured:
    """Wrong theory: Theorem 2(a) as if it held for stored sequences, so that all rise at every N."""
    return Measured(rising_share(name), at_least=0.7)


SPURIOUS_SIGN = Claim(
    "spurious-sign",
    source="own; Theorem 2(a) on stored sequences",
    title="A token of one stored sequence rises early unless its next token has other sequences",
    statement=(
        "From zero start, a token that one stored sequence s alone has rises early if and only if (V-1) times the sum "
        "of p_m f_s.f_m over the other sequences m of its next token is below the same sum over all sequences of other "
        "next tokens. So with one stored sequence per next token every such token rises, spurious or not, as in "
        "Theorem 2(a), if its sequence overlaps another. With N sequences per next token and overlaps of one size it "
        "rises where N < R/(R-1), R = (V-1)/(K-1)."
    ),
    latex=r"(V-1)\sum_{m\ne s,\ \text{same}}p_m f_s\!\cdot\! f_m<\sum_{m,\ \text{other}}p_m f_s\!\cdot\! f_m",
    conditions=("zero start, early: eta_Y t V << 1",),
    conclusion=(
        "Holds in the mean field of stored sequences. Theorem 2(a) speaks of one sequence per next token: there every "
        "token of one sequence rises, spurious or not. With two, tokens fall where V - 1 >= 2 (K - 1) and overlaps are "
        "of one size; where V = K they can rise at every N. A token that many sequences of one next token have rises "
        "more easily."
    ),
    properties=(
        Property(
            "error of the early rate of a token of one stored sequence, over the size of its terms",
            "mean field",
            law_error,
            replace(ANY_SEQUENCES, name="stored sequences"),
            conditions=(FROM_ZERO, STORED),
            controls={
                "wrong theory: Theorem 2(a) as if each sequence had its own next token": partial(
                    law_error, law=lambda same, others, V: others / V
                ),
                "wrong theory: next tokens permuted": partial(law_error, permuted=True),
            },
            evaluations=(200, 2000),
        ),
        Property(
            "share of tokens of one stored sequence that do as equal overlaps say",
            "mean field",
            most,
            controls={"wrong theory: Theorem 2(a) for stored sequences, all rise": all_rise},
            cases={name: name for name in SETTINGS},
        ),
    ),
)
