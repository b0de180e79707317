"""Lemma 18: token frequencies of finite sequences."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    hoeffding,
    mean_in_errors,
    picture_of_deviations,
    too_far,
    wrong_radii,
)
from snapdyn.validation.statement import Claim, Instance, Property, Requirement
from snapdyn.validation.visits import FROZEN

# P(l|n) of the SGD run.
PROFILE = np.array([0.5, 0.3, 0.15, 0.04, 0.01])


def tokens_of(instance: Instance) -> tuple[float, Floats]:
    """T-1 and P(l|n) of the counts of all tokens of all classes."""
    assert instance.seq_len is not None
    P = instance.P / instance.P.sum(axis=1, keepdims=True)
    return float(instance.seq_len), P[P > 0]


@cache
def squared_deviations(length: int) -> Floats:
    """(count - P(l|n) (T-1))^2 of the sequences of SGD, (sequences, tokens)."""
    classes = SequenceClasses(PROFILE[None], [0], vocab_size=20)
    # Y moves by eta_Y f (e - alpha)^T, f proportional to the frequencies: the steps of Y are the sequences. A small
    # eta_Y keeps Y small, so that its differences have rounding of 4000 times 1e-16.
    seed = (10, 100, 1000).index(length)
    run = sgd(classes, 1e-6, FROZEN, 4000, seq_len=length, seed=seed, save_decoder=True)
    assert run.Y is not None
    steps = np.diff(run.Y[:, run.decoder_rows, 0], axis=0)
    counts = np.round(steps / steps.sum(axis=1, keepdims=True) * length)
    return np.asarray((counts - PROFILE * length) ** 2)


CLAIM = Claim(
    "lemma18",
    source="Lemma 18, Eqs. (134)-(138)",
    title="Token frequencies of finite sequences concentrate like 1/sqrt(T)",
    statement="The frequency of a token among the T-1 contextual tokens is within sqrt(ln(2/delta)/(2(T-1))) of P(l|n) "
    "with probability at least 1 - delta, for each token.",
    latex=r"\Bigl|\hat P(l|n)-P(l|n)\Bigr|\le\sqrt{\frac{\ln(2/\delta)}{2(T-1)}}\quad\text{w.p. }\ge1-\delta",
    conditions=("contextual tokens independent given the class, no positions",),
    conclusion="Holds; for rare tokens the bound is about 1/sqrt(4P) times too wide. The bound has the variance 1/4 of "
    "P = 1/2, where SGD's own sequences have P (1-P).",
    properties=(
        Property(
            "P(|frequency - P(l|n)| > sqrt(ln(2/delta)/(2(T-1))))/delta, delta = 1/2..1e-12",
            "closed form",
            too_far(tokens_of, lambda N, p, delta: hoeffding(N, delta)),
            replace(ANY_CLASSES, name="any classes, finite sequences", seq_len=(1, 10**9)),
            conditions=(
                Requirement(
                    "finite sequences", "T - 1 is given", lambda instance: instance.seq_len or 0, at_least=1,
                    defining=True,
                ),
            ),
            controls=wrong_radii(tokens_of, "(T-1)", "tokens"),
            evaluations=(400, 40_000),
        ),
        Property(
            "mean of (count - P(T-1))^2 against P(1-P)(T-1), in standard errors",
            "SGD",
            mean_in_errors(squared_deviations, lambda length: length * PROFILE * (1 - PROFILE), comparisons=30),
            controls={
                "wrong theory: tokens occur like Poisson counts, variance P (T-1)": mean_in_errors(
                    squared_deviations, lambda length: length * PROFILE, comparisons=30
                )
            },
            cases={f"T-1 = {length}, 4000 sequences": length for length in (10, 100, 1000)},
        ),
    ),
    proved=("hoeffding-radius",),
    picture=lambda: picture_of_deviations(
        "|count - P (T-1)|, P = 1/2, T-1 = 100", 100, np.sqrt(squared_deviations(100)[:, 0])
    ),
)  # fmt: skip
