"""Relative positional bias as a fixed exponent on the prior of attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, random_classes
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.extensions._shared import alike, on_two_rungs, order_gap, run_error, run_from
from snapdyn.validation.dense_algebra import largest_relative
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import Claim
from snapdyn.validation.rungs.run import DESCENT, FINITE_LENGTH, SGD
from snapdyn.validation.search import Instance, flow
from snapdyn.validation.search.flows import noise
from snapdyn.validation.statistics import standard_error

# Largest difference of two paths relative to the movement that counts as none.
SAME_PATH = 1e-4

# Classes that a theory puts in place of the given ones with a bias z0 (Q, M).
Reweighting = Callable[[SequenceClasses, Floats], SequenceClasses]


def reweighted(classes: SequenceClasses, z0: Floats) -> SequenceClasses:
    """The classes with P(l|n) exp(z0[psi(n), l]), normalised, in place of P(l|n)."""
    P = classes.P.toarray() * np.exp(z0[classes.query_index])
    return SequenceClasses(
        P / P.sum(axis=1, keepdims=True), classes.query, classes.next_token, classes.prior, classes.vocab_size
    )


WRONG: dict[str, Reweighting] = {
    "wrong theory: the bias does not matter": lambda classes, z0: classes,
    "wrong theory: P exp(2 z0), as if squares of attention were reweighted": lambda classes, z0: reweighted(
        classes, 2 * z0
    ),
}


def difference(rung: str, reweight: Reweighting) -> Callable[[Instance], Measured | None]:
    """Largest |(z - z0) - z~|, z from z0, z~ of `reweight(classes, z0)` from 0, over what counts as no difference.

    That is SAME_PATH of the movement, and the error of both runs.
    """

    def measure(instance: Instance) -> Measured | None:
        z0 = instance.start
        if z0 is None or not z0.any():
            return Measured(0.0, at_most=1.0, where="z(0) = 0: no bias to put into P")
        biased = flow(instance, rung)
        other = Instance.of(
            reweight(instance.classes, z0), instance.eta_Y, instance.eta_Z, instance.t_end,
            seq_len=instance.seq_len, momentum=instance.momentum,
        )  # fmt: skip
        plain = flow(other, rung)
        if biased is None or plain is None:
            return None
        query, token = instance.classes.z_coordinates
        gaps = np.abs(biased.z_support - z0[query, token] - plain.z_support)
        i, k = np.unravel_index(np.argmax(gaps), gaps.shape)
        moved = float(np.abs(plain.z_support).max())
        # On one class no logit moves: what remains is the noise of both runs.
        error = run_error(instance, float(np.abs(biased.z).max()) + moved) + 2 * noise(instance, rung)
        where = f"token {token[k]}, query {instance.classes.queries[query[k]]} at t = {biased.t[i]:.3g}"
        return Measured(gaps[i, k] / (SAME_PATH * moved + error), at_most=1.0, where=where)

    return measure


# At named settings: strongly correlated classes of one query, and a bias z0 (1, M).
CLASSES = random_classes(4, 2, 3, vocab_size=50, correlation="strong", seed=1)
BIAS = np.random.default_rng(29).normal(size=(1, CLASSES.num_tokens))


def gap(setting: Mapping[str, Any], reweight: Reweighting = reweighted, bias: Floats = BIAS) -> float:
    """Largest |(z - z0) - z~| over the largest |z~| at eta t = 30."""
    biased = run_from(bias, classes=CLASSES, end=60, **setting)
    plain = run_from(0 * bias, classes=reweight(CLASSES, bias), end=60, **setting)
    query, token = CLASSES.z_coordinates
    return largest_relative(biased.z_support - bias[query, token], plain.z_support)


def of_length(length: float) -> dict[str, Any]:
    """Mean field to second order in 1/T, with T - 1 = length."""
    return {"rung": FINITE_LENGTH, "seq_len": round(length), "rtol": 1e-11, "atol": 1e-14}


def order_in_length(reweight: Reweighting = reweighted) -> Callable[[Floats], Measured | None]:
    """Distance from 1 of the order in 1/T of the gap, over some lengths."""
    return lambda lengths: order_gap(1.0, 1 / lengths, [gap(of_length(length), reweight) for length in lengths])


# Probabilities of the common and of the distinct tokens of a class, in the early and in the late half of positions.
Halves = tuple[tuple[float, ...], tuple[float, ...]]
DEPENDENT, INDEPENDENT = ((0.4, 0.45, 0.15), (0.4, 0.15, 0.45)), ((0.4, 0.3, 0.3), (0.4, 0.3, 0.3))
LATE = np.exp(2.0)  # factor of the bias in the late half


def attention_with_positions(halves: Halves) -> Floats:
    """Attention (2000, 3, 7) of drawn sequences of 4000 tokens whose late half has a bias, at z = 0."""
    rng = np.random.default_rng(17)
    early, late = (rng.multinomial(2000, alike(*profile), size=(2000, 3)) for profile in halves)
    weights = early + LATE * late
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def prior_of_positions(halves: Halves, factor: float) -> Floats:
    """Sum of exp(b_i) P(l|n, i) over positions, normalised, (3, 7)."""
    early, late = (alike(*profile) for profile in halves)
    return (early + factor * late) / (1 + factor)


def scores(factor: float) -> Callable[[Halves], Measured]:
    """Largest difference of the mean attention from the prior, in standard errors, of 12 tokens that occur."""

    def measure(halves: Halves) -> Measured:
        found, prior = attention_with_positions(halves), prior_of_positions(halves, factor)
        present = prior > 0
        score = np.abs(found.mean(axis=0) - prior)[present] / standard_error(found)[present]
        return Measured(score.max(), at_most=4.0)

    return measure


def picture() -> Picture:
    tokens = np.arange(7)
    found = attention_with_positions(DEPENDENT).mean(axis=0)
    return Picture(
        "token",
        "attention of class 0 on sequences with positions, z = 0",
        (
            Picture.line("reweighted P", tokens, prior_of_positions(DEPENDENT, LATE)[0]),
            Picture.line("mean over sequences", tokens, found[0], "simulation"),
            Picture.line("plain frequencies", tokens, prior_of_positions(DEPENDENT, 1.0)[0], "control"),
        ),
        xscale="linear",
    )


def finite_length_map(level: str) -> Map:
    """Gap of bias and reweighting over T - 1 and the size of the bias, mean field to second order in 1/T."""
    count = 11 if level == "full" else 5
    lengths, sizes = np.unique(np.geomspace(30, 1e5, count).round()), np.geomspace(0.03, 2, count)
    return Map(
        "Where a bias is not a reweighted P: strong correlation, eta_Y = eta_Z = 0.5, t = 60",
        "T - 1, contextual tokens",
        "standard deviation of the bias",
        "|(z - z0) - z of the reweighted P|, largest, relative",
        lengths,
        sizes,
        np.array([[gap(of_length(length), bias=size * BIAS) for length in lengths] for size in sizes]),
        0.01,
    )


CLAIM = Claim(
    "positional-prior",
    source="Section 7 (positional encoding)",
    title="A fixed positional bias acts as a prior on tokens",
    statement="A fixed bias z0 added to the logits, f ~ P exp(z + z0), gives the dynamics of classes whose P is "
    "reweighted by exp(z0): it acts as a prior.",
    latex=r"f_{nl}\propto P(l|n)e^{z_{l}+z^0_{l}}\ \equiv\ \tilde P(l|n)e^{z_l},\quad "
    r"\tilde P(l|n)\propto\sum_ie^{b_i}P(l|n,i)",
    conditions=(
        "T infinite: with finite T the counts scatter as under P, not as under the reweighted P",
        "a bias b_i of positions acts through sum_i exp(b_i) P(l|n, i): a fixed factor per token and class, which is "
        "1 when tokens do not depend on the position",
    ),
    conclusion="Exact for a bias per token and infinite T; at finite T the difference falls as 1/T. At T - 1 = 500 it "
    "is {T - 1 = 500:.1%} of the largest logit. A bias per position averages to sum_i exp(b_i) P(l|n, i): it drops out "
    "when tokens do not depend on their position, and is a prior per class, no row of Z, when classes of one query "
    "differ in how they do.",
    expected="conditional",
    properties=(
        *on_two_rungs(
            "|z - z0 with the bias z0 - z with reweighted P|, over 1e-4 of the largest |z| and the runs' error",
            difference,
            reweighted,
            WRONG,
            "any classes and bias",
            {"num_distinct": (1, 4), "ratio": (1e-3, 1e2), "start": (0.1, 3.0)},
            evaluations=(20, 400),
            directed=False,
        ),
        Property(
            "|z - z0 with the bias z0 - z with reweighted P| over the largest |z|, strong correlation",
            "flow and training",
            lambda setting: Measured(gap(setting), at_most=1e-11),
            conditions=(
                Requirement("infinite T", "1/T = 0", lambda setting: 1 / setting.get("seq_len", np.inf), at_most=0),
            ),
            controls={
                name: lambda setting, wrong=wrong: Measured(gap(setting, wrong), at_most=1e-11)
                for name, wrong in WRONG.items()
            },
            cases={"descent": {"rung": DESCENT}, "SGD": {"rung": SGD}},
            beyond={"T - 1 = 500": of_length(500)},
        ),
        Property(
            "order in 1/T of that difference, less 1",
            "finite T",
            order_in_length(),
            controls={"wrong theory: the bias drops out once T is large": order_in_length(lambda classes, z0: classes)},
            cases={"T - 1 = 500 to 8000": 500.0 * 2 ** np.arange(5)},
        ),
        Property(
            "sequences with positions: |mean attention - P~(l|n)| in standard errors, largest",
            "Monte Carlo",
            scores(LATE),
            controls={"wrong theory: plain frequencies": scores(1.0)},
            cases={"tokens depend on their position": DEPENDENT, "tokens do not": INDEPENDENT},
        ),
    ),
    picture=picture,
    map=finite_length_map,
)
