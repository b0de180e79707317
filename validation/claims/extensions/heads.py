"""Heads as simultaneous starts: how many different tokens win, against the spread of z(0)."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import MeanField, integrate
from snapdyn.validation.claims.language import (
    INFINITE_LENGTH,
    MEAN_FIELD,
    SEVERAL,
    TWO_DISTINCT,
    Claim,
    Floats,
    Instance,
    Ints,
    Measured,
    Property,
    flow,
    start_of,
    starts,
)
from snapdyn.validation.claims.sample_classes import three_frequencies

SPREADS = (0.1, 0.5, 1.0, 3.0)  # by the number of the instance
HEADS = 4
TIE = 1e-3  # smallest lead, in ln(P exp(z(0))), of a winner that counts
GROUPS, GROUP = 10, 8  # groups of heads and heads in each, of the comparison with the law


def random_starts(instance: Instance, spread: float, heads: int) -> Floats:
    """Start logits of each head, Gumbel of scale `spread` around the start of the instance, (heads, Q, M)."""
    rng = np.random.default_rng(instance.number)
    centre = start_of(instance)
    return centre + spread * rng.gumbel(size=(heads, *centre.shape))


def distinct_weights(instance: Instance, frequency: bool = True) -> Floats:
    """ln P + z(0) of the distinct tokens of each class, -inf elsewhere, (S, M); or z(0) alone."""
    own = (instance.P > 0) & instance.of_one_class
    log_P = np.log(np.where(own, instance.P, 1.0))
    return np.where(own, log_P * frequency + starts(instance), -np.inf)


def clear_winners(ahead: Floats) -> Ints:
    """Token of the largest weight in each class, (S,); -1 without two distinct tokens, or where two are tied."""
    largest = np.sort(ahead, axis=1)[:, -2:]
    with np.errstate(invalid="ignore"):
        is_clear = (largest[:, 1] - largest[:, 0] >= TIE) & np.isfinite(largest[:, 0])
    return np.where(is_clear, ahead.argmax(axis=1), -1)


def wrong_diversity(instance: Instance, rule: str = "P exp(z(0))") -> Measured | None:
    """Largest difference of the number of tokens that win a class over the heads from that of a rule.

    The rules are the largest P exp(z(0)), and the wrong theories of the largest P and of the largest z(0).
    """
    won, predicted = [], []
    for start in random_starts(instance, SPREADS[instance.number % len(SPREADS)], HEADS):
        head = replace(instance, start=start)
        run = flow(head, MEAN_FIELD, saves=2)
        by_rule = clear_winners(distinct_weights(head))
        at_end = distinct_weights(replace(head, start=run.z[-1])).argmax(axis=1)
        won.append(np.where(by_rule >= 0, at_end, -1))
        wrong = instance if rule == "P" else head
        tokens = distinct_weights(wrong, frequency=rule != "z(0)").argmax(axis=1)
        predicted.append(np.where(by_rule >= 0, tokens, -1))
    counted = np.flatnonzero((np.array(won) >= 0).all(axis=0))
    if not counted.size:
        return None
    numbers = [np.array([len(set(np.array(tokens)[:, n])) for n in counted]) for tokens in (won, predicted)]
    return Measured(np.abs(numbers[0] - numbers[1]).max(), at_most=0.0)


def expected_diversity(P: Floats, spread: float, heads: int) -> tuple[float, float]:
    """Number of tokens of probabilities P that win over the heads, and its variance, for Gumbel starts.

    ln P + z(0) with Gumbel z(0) of scale s is largest at l with probability w_l = P_l^(1/s)/sum, so no head chooses l
    with probability (1-w_l)^H, and neither l nor k with (1-w_l-w_k)^H.
    """
    w = np.exp(np.log(P / P.max()) / spread)
    w /= w.sum()
    absent = (1.0 - w) ** heads
    both = np.maximum(1.0 - w[:, None] - w, 0.0) ** heads
    np.fill_diagonal(both, absent)
    return float(len(w) - absent.sum()), float(both.sum() - absent.sum() ** 2)


def mean_diversity(spread: float) -> float:
    """Mean number of tokens that win a class of the three, over groups of 8 heads in the mean field at t = 100."""
    classes, found = three_frequencies(), []
    instance = Instance.of(classes, 1.0, 1.0, 100.0)
    for group in np.split(random_starts(instance, spread, GROUPS * GROUP), GROUPS):
        runs = [integrate(MeanField(classes, 1.0, 1.0, start), [100.0], rtol=1e-6, atol=1e-8) for start in group]
        won = [distinct_weights(replace(instance, start=run.z[-1])).argmax(axis=1) for run in runs]
        found += [len(set(tokens)) for tokens in np.transpose(won)]
    return float(np.mean(found))


def error_of_law(spread: float, of_starts: float = 1.0, of_law: float = 1.0) -> Measured:
    """|Mean number of tokens that win - law|, in standard errors of the law; by chance above 4.5 once in 1e5.

    In wrong theories the starts, or the law, have another spread, by a factor.
    """
    mean, variance = expected_diversity(np.array([0.4, 0.2, 0.1]), of_law * spread, GROUP)
    found = mean_diversity(of_starts * spread)
    return Measured(abs(found - mean) / (variance / (3 * GROUPS)) ** 0.5, at_most=4.5)


GUMBEL = {"spread 0.3": 0.3, "spread 1": 1.0}

CLAIM = Claim(
    "heads",
    source="Secs. 3 and 5 (heads as simultaneous starts)",
    title="Heads choose different tokens only where their starts differ enough",
    statement=(
        "Heads as simultaneous starts, one run from each z(0): over the heads as many different distinct tokens win a "
        "class as have the largest P exp(z(0)) in one of them. For independent Gumbel starts of scale s token l wins "
        "a head with probability w_l = P_l^(1/s)/sum_k P_k^(1/s), so the expected number over H heads is the sum of "
        "1 - (1-w_l)^H over the distinct tokens of the class: 1 for equal starts."
    ),
    latex=r"E\,\#\{\text{winners}\}=\sum_l1-(1-w_l)^H,\qquad w_l=\frac{P(l\mid n)^{1/s}}{\sum_kP(k\mid n)^{1/s}}",
    conditions=("T infinite", "Y(0) = 0, a decoder for each head", "leads of 0.001 or more in ln(P exp(z(0)))"),
    conclusion=(
        "Holds: training adds no diversity, and takes none away. If the spread s of the starts is well below the "
        "logarithms of the ratios of the probabilities, all heads choose one token; if it is above them, they choose "
        "all tokens. With P in the ratios 4 : 2 : 1 the law gives 1.0, 1.6, 2.6 and 2.9 tokens over 8 heads at s = "
        "0.1, 0.3, 1 and 4. Heads that share a decoder are not covered."
    ),
    properties=(
        Property(
            "number of tokens that win a class over 4 heads, less the number by P exp(z(0)): largest difference",
            "mean field",
            wrong_diversity,
            replace(
                SEVERAL,
                name="heads",
                num_classes=(1, 4),
                num_distinct=(1, 5),
                num_queries=(1, 4),
                ratio=(1e-3, 10.0),
                shared_next_tokens=True,
            ),
            conditions=(TWO_DISTINCT, INFINITE_LENGTH),
            controls={
                "wrong theory: frequency alone decides": partial(wrong_diversity, rule="P"),
                "wrong theory: z(0) alone decides": partial(wrong_diversity, rule="z(0)"),
            },
            evaluations=(20, 1000),
        ),
        Property(
            "error of the expected number over 8 heads with Gumbel starts, in standard errors",
            "mean field",
            error_of_law,
            controls={
                "wrong theory: equal starts give as many": partial(error_of_law, of_starts=0.0),
                "wrong theory: a spread twice as large": partial(error_of_law, of_law=2.0),
            },
            cases=GUMBEL,
        ),
    ),
)  # fmt: skip
