"""Lemma 18: token frequencies of finite sequences."""

from dataclasses import replace
from functools import cache

import numpy as np

from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    by_hoeffding,
    variance_of_sgd,
)
from snapdyn.validation.claims.decoder._visits import FROZEN
from snapdyn.validation.claims.language import Claim, Floats, Instance, Requirement

# P(l|n) of the SGD run.
PROFILE = np.array([0.5, 0.3, 0.15, 0.04, 0.01])


def tokens_of(instance: Instance) -> tuple[float, Floats]:
    """T-1 and P(l|n) of the counts of all tokens of all classes."""
    assert instance.seq_len is not None
    P = instance.P / instance.P.sum(axis=1, keepdims=True)
    return float(instance.seq_len), P[P > 0]


@cache
def trained_counts(length: int) -> Floats:
    """Counts of the tokens (sequences, tokens) in the sequences of SGD, T-1 = `length`."""
    classes = SequenceClasses(PROFILE[None], [0], vocab_size=20)
    # Y moves by eta_Y f (e - alpha)^T, f proportional to the frequencies: the steps of Y are the sequences. A small
    # eta_Y keeps Y small, so that its differences have rounding of 12,000 times 1e-16.
    seed = (10, 100, 1000).index(length)
    run = sgd(classes, 1e-6, FROZEN, 12_000, seq_len=length, seed=seed, save_decoder=True)
    assert run.Y is not None
    steps = np.diff(run.Y[:, run.decoder_rows, 0], axis=0)
    return np.round(steps / steps.sum(axis=1, keepdims=True) * length)


CLAIM = Claim(
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
                    "T - 1 >= 1, given by seq_len",
                    lambda instance: instance.seq_len or 0,
                    at_least=1,
                    defining=True,
                ),
            ),
            evaluations=(400, 40_000),
        ),
        variance_of_sgd(
            "mean of (count - P(T-1))^2 against P(1-P)(T-1), in standard errors",
            trained_counts,
            PROFILE,
            {f"T-1 = {length}, 12,000 sequences": length for length in (10, 100, 1000)},
        ),
    ),
    proved=("hoeffding-radius",),
)
