"""Lemma 18: token frequencies of finite sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    hoeffding,
    in_standard_errors,
    quantile,
    tail,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.search import Instance
from snapdyn.validation.visits import FROZEN

FINITE = Requirement(
    "finite sequences", "T - 1 is given", lambda instance: float(instance.seq_len or 0), at_least=1, defining=True
)


def beyond(radius: Callable[[float, Floats, Floats], Floats]) -> Callable[[Instance], Measured]:
    """P(|count - P(l|n) (T-1)| > radius(T-1, P, delta))/delta, exact: the largest over tokens and delta."""

    def measure(instance: Instance) -> Measured:
        assert instance.seq_len is not None
        length, delta = float(instance.seq_len), DELTAS[:, None]
        P = instance.P / instance.P.sum(axis=1, keepdims=True)
        n, token = np.nonzero(P)
        p = P[n, token][None]
        values = tail(length, p, radius(length, p, delta)) / delta
        d, i = np.unravel_index(np.argmax(values), values.shape)
        where = f"token {token[i]} of class {n[i]}, delta = {DELTAS[d]:.3g}, T - 1 = {length:g}"
        return Measured(float(values[d, i]), at_most=1.0, where=where)

    return measure


@claim(
    "lemma18",
    source="Lemma 18, Eqs. (134)-(138)",
    title="Token frequencies of finite sequences concentrate like 1/sqrt(T)",
    answer="Holds; for rare tokens the bound is about 1/sqrt(4P) times too wide.",
    statement="The frequency of a token among the T-1 contextual tokens is within sqrt(ln(2/delta)/(2(T-1))) of P(l|n) "
    "with probability at least 1 - delta, for each token.",
    latex=r"\Bigl|\hat P(l|n)-P(l|n)\Bigr|\le\sqrt{\frac{\ln(2/\delta)}{2(T-1)}}\quad\text{w.p. }\ge1-\delta",
    assumptions=("contextual tokens independent given the class, no positions",),
    properties=Property(
        "P(|frequency - P(l|n)| > sqrt(ln(2/delta)/(2(T-1))))/delta, delta = 1/2..1e-12",
        "closed form",
        beyond(lambda length, p, delta: hoeffding(length, delta)),
        replace(ANY_CLASSES, name="any classes, finite sequences", seq_len=(1, 10**9)),
        conditions=(FINITE,),
        controls={
            "wrong theory: (T-1)^-0.6 for (T-1)^-0.5": beyond(
                lambda length, p, delta: hoeffding(length, delta) * length**-0.1
            ),
            "wrong theory: without ln(2/delta)": beyond(lambda length, p, delta: np.sqrt(length / 2) + 0 * delta),
            "wrong theory: the normal law's variance P (1-P) for 1/4, rare tokens too": beyond(
                lambda length, p, delta: np.sqrt(2 * length * p * (1 - p) * np.log(2 / delta))
            ),
        },
        evaluations=(400, 40_000),
    ),
)
def lemma18(evidence: Evidence) -> None:
    evidence.proved("hoeffding-radius")
    profile = np.array([0.5, 0.3, 0.15, 0.04, 0.01])
    classes = SequenceClasses(profile[None], [0], vocab_size=20)
    drawn, half, sampled = (100_000 if evidence.full else 4000), 0.5, (10, 100, 1000)
    miss = share_error = spread = 0.0
    shares, poisson = [], np.inf
    shown: Floats = np.empty(0)
    for seed, tokens in enumerate(sampled):
        # Y moves by eta_Y f (e - alpha)^T, f proportional to the frequencies: the steps of Y are the sequences. A small
        # eta_Y keeps Y small, so that its differences have rounding of drawn times 1e-16.
        run = sgd(classes, 1e-6, FROZEN, drawn, seq_len=tokens, seed=seed, save_decoder=True)
        assert run.Y is not None
        steps = np.diff(run.Y[:, run.decoder_rows, 0], axis=0)
        frequency = steps / steps.sum(axis=1, keepdims=True)
        counts = np.round(frequency * tokens)
        miss = max(miss, float(np.abs(frequency * tokens - counts).max()))
        allowed = hoeffding(tokens, half)
        passed = (np.abs(counts - profile * tokens) > allowed).mean(axis=0)
        expected = tail(tokens, profile, allowed)
        shares.append(float(passed.max()) / half)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.abs(passed - expected) / np.sqrt(expected * (1 - expected) / drawn)
        # The normal quantile needs some ten sequences beyond the bound.
        share_error = max(share_error, float(errors[expected * drawn > 10].max(initial=0.0)))
        square = (counts - profile * tokens) ** 2
        spread = max(spread, float(in_standard_errors(square, tokens * profile * (1 - profile)).max()))
        poisson = min(poisson, float(in_standard_errors(square, tokens * profile).max()))
        if tokens == 100:
            shown = np.sort(np.abs(counts[:, 0] / tokens - profile[0]))[::-1]
    few = quantile(2 * len(sampled) * profile.size)
    evidence.holds(
        "counts read off the steps of Y are whole: largest distance from a whole number", "SGD", miss, at_most=1e-5
    )
    evidence.holds(
        "share of SGD's sequences beyond the bound, over delta = 1/2: largest", "SGD", max(shares), at_most=1
    )
    evidence.holds(
        "share of SGD's sequences beyond the bound against the exact one, in standard errors",
        "SGD",
        share_error,
        at_most=few,
    )
    evidence.holds(
        "mean of (count - P(T-1))^2 against P(1-P)(T-1), T-1 = 10, 100, 1000, in standard errors",
        "SGD",
        spread,
        at_most=few,
    )
    evidence.control(
        "wrong theory: tokens occur like Poisson counts, variance P (T-1), in standard errors",
        "SGD",
        poisson,
        at_most=few,
    )
    evidence.conclusion = (
        "SGD's own sequences follow the exact probability (share beyond the bound at delta = 1/2: at most "
        f"{max(shares):.3f} delta). The bound has the variance 1/4 of P = 1/2; for rare tokens it is about "
        "1/sqrt(4P) times too wide."
    )
    thinned = np.unique(shown)[::-1]
    evidence.picture = Picture(
        "|frequency - P|, P = 1/2, T-1 = 100",
        "probability of one as large",
        (
            Picture.line("Hoeffding", thinned, np.minimum(2 * np.exp(-2 * 100 * thinned**2), 1), "bound"),
            Picture.line("binomial, exact", thinned, tail(100, 0.5, 100 * thinned - 1e-9)),
            Picture.line(
                "sequences of SGD", thinned, [(shown >= value - 1e-12).mean() for value in thinned], "simulation"
            ),
        ),
        xscale="linear",
        yscale="log",
    )
    evidence.seeds = list(range(len(sampled)))
