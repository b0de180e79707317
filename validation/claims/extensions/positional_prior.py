"""Relative positional bias as a fixed exponent on the prior of attention."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from snapdyn.dynamics import random_classes
from snapdyn.validation.claims.extensions._shared import (
    INFINITE_T,
    WIDE,
    StartedFamily,
    alike,
    on_flows,
    order_gap,
    run_error,
    run_of,
)
from snapdyn.validation.claims.language import (
    DESCENT,
    FINITE_LENGTH,
    SGD,
    Claim,
    Floats,
    Grid,
    Instance,
    Map,
    Measured,
    Property,
    flow,
    largest_relative,
    noise,
    standard_error,
    starts,
)

# Largest difference of two paths relative to the movement that counts as none.
SAME_PATH = 1e-4

# By the power of exp(z0) that they put into P.
WRONG: dict[str, dict[str, Any]] = {
    "wrong theory: the bias does not matter": {"power": 0.0},
    "wrong theory: P exp(2 z0), as if squares of attention were reweighted": {"power": 2.0},
}


@dataclass(frozen=True)
class Biased(StartedFamily):
    """Family of instances whose initial logits prefer some tokens, since without a bias the claim says nothing."""

    def speaks_of(self, instance: Any) -> bool:
        """Whether `instance` is one of sequence classes with a start that differs between tokens of a query."""
        return super().speaks_of(instance) and instance.start is not None and bool(np.ptp(instance.start, axis=1).any())


def reweighted(instance: Instance, power: float = 1.0) -> Instance:
    """The instance with P(l|n) exp(z0[psi(n), l])^power in place of P(l|n), from the start 0."""
    return replace(instance, P=instance.P * np.exp(power * starts(instance)), start=None)


def difference(instance: Instance, rung: str, power: float = 1.0) -> Measured | None:
    """Largest |(z - z0) - z~| over what is allowed; z starts from z0, z~ of the reweighted classes from 0.

    Allowed are SAME_PATH times the movement plus the error of both runs.
    """
    z0 = instance.start
    if z0 is None:
        return None
    biased, plain = flow(instance, rung), flow(reweighted(instance, power), rung)
    largest = np.abs(biased.z_support - z0[instance.classes.z_coordinates] - plain.z_support).max()
    moved = float(np.abs(plain.z_support).max())
    # On one class no logit moves: what remains is the noise of both runs.
    error = run_error(instance, float(np.abs(biased.z).max()) + moved) + 2 * noise(instance, rung)
    return Measured(largest / (SAME_PATH * moved + error), at_most=1.0)


# At named settings: strongly correlated classes of one query, with a bias.
CLASSES = random_classes(4, 2, 3, vocab_size=50, correlation="strong", seed=1)
BIAS = np.random.default_rng(29).normal(size=(1, CLASSES.num_tokens))


def gap(setting: dict[str, Any], power: float = 1.0, size: float = 1.0) -> float:
    """Largest |(z - z0) - z~| over the largest |z~|, with a bias of the given size."""
    biased = Instance.of(CLASSES, 0.5, 0.5, 60.0, size * BIAS)
    z, plain = (run_of(each, **setting).z_support for each in (biased, reweighted(biased, power)))
    return largest_relative(z - size * BIAS[CLASSES.z_coordinates], plain)


def rounding_gap(setting: dict[str, Any], power: float = 1.0) -> Measured:
    """`gap` of a setting, which must be 0 up to rounding."""
    return Measured(gap(setting, power), at_most=1e-11)


def finite_length_setting(length: float) -> dict[str, Any]:
    """Mean field to second order in 1/T, with T - 1 = length."""
    return {"rung": FINITE_LENGTH, "seq_len": round(length), "rtol": 1e-11, "atol": 1e-14}


def order_in_length(lengths: Floats, power: float = 1.0) -> Measured | None:
    """Distance from 1 of the order in 1/T of the gap, over some lengths."""
    return order_gap(1.0, 1 / lengths, [gap(finite_length_setting(length), power) for length in lengths])


def score(halves: list[Floats], late: float = 2.0) -> Measured:
    """Largest difference of the mean attention over sequences from a prior, in standard errors, at z = 0.

    `halves` are P(l|n) in the early and in the late half of 4000 positions; the late half has a bias of 2. The prior
    is the sum of both, the late one times exp(`late`).
    """

    def tilted(halves: Any, bias: float) -> Floats:
        total = halves[0] + np.exp(bias) * halves[1]
        return total / total.sum(-1, keepdims=True)

    rng = np.random.default_rng(17)
    counts = [rng.multinomial(2000, P, size=(2000, 3)) for P in halves]
    attention, prior = tilted(counts, 2.0), tilted(halves, late)
    error = np.where(prior > 0, standard_error(attention), 1.0)
    return Measured((np.abs(attention.mean(axis=0) - prior) / error).max(), at_most=4.0)


def finite_length_map(level: str) -> Map:
    """Gap of bias and reweighting over T - 1 and the size of the bias, mean field to second order in 1/T."""
    count = 11 if level == "full" else 5
    lengths, sizes = np.unique(np.geomspace(30, 1e5, count).round()), np.geomspace(0.03, 2, count)
    grid = Grid(
        {"size": sizes, "length": lengths},
        lambda size, length: (finite_length_setting(length), size),
        lambda cell: gap(cell[0], size=cell[1]),
    )
    return Map.over(
        "Where a bias is not a reweighted P: strong correlation, eta_Y = eta_Z = 0.5, t = 60",
        ("T - 1, contextual tokens", "standard deviation of the bias"),
        "|(z - z0) - z of the reweighted P|, largest, relative", grid, 0.01,
    )  # fmt: skip


CLAIM = Claim(
    "positional-prior",
    source="Section 7 (positional encoding)",
    title="A fixed positional bias acts as a prior on tokens",
    statement="A fixed bias z0 added to the logits, f ~ P exp(z + z0), gives the dynamics of classes whose P is "
    "reweighted by exp(z0): it acts as a prior.",
    latex=r"f_{nl}\propto P(l|n)e^{z_{l}+z^0_{l}}\ \equiv\ \tilde P(l|n)e^{z_l},\quad "
    r"\tilde P(l|n)\propto\sum_ie^{b_i}P(l|n,i)",
    conditions=("T infinite: with finite T the counts fluctuate as under P, not as under the reweighted P",),
    conclusion=(
        "Exact for a bias per token and infinite T; at finite T the difference falls as 1/T. At T - 1 = 500 the "
        "difference is {T - 1 = 500:.1%} of the largest logit. With a bias b_i per position P becomes sum_i exp(b_i) "
        "P(l|n, i): the bias has no effect where tokens do not depend on their position. Where classes of one query "
        "depend differently on the position, the bias is a prior for each class, and no row of Z has the same effect."
    ),
    expected="conditional",
    properties=(
        *on_flows(
            "|z - z0 with the bias z0 - z with reweighted P|, over 1e-4 of the largest |z| and the runs' error",
            difference,
            WRONG,
            Biased(
                **vars(WIDE)
                | {"name": "any classes and bias", "num_distinct": (1, 4), "ratio": (1e-3, 1e2), "start": (0.1, 3.0)}
            ),
            evaluations=(60, 2000),
            directed=False,
        ),
        Property(
            "|z - z0 with the bias z0 - z with reweighted P| over the largest |z|, strong correlation",
            "flow and training",
            rounding_gap,
            conditions=(INFINITE_T,),
            controls={name: partial(rounding_gap, **wrong) for name, wrong in WRONG.items()},
            cases={"descent": {"rung": DESCENT}, "SGD": {"rung": SGD}},
            beyond={"T - 1 = 500": finite_length_setting(500)},
        ),
        Property(
            "order in 1/T of that difference, less 1",
            "finite T",
            order_in_length,
            controls={"wrong theory: the bias drops out once T is large": partial(order_in_length, power=0.0)},
            cases={"T - 1 = 500 to 8000": 500.0 * 2 ** np.arange(5)},
        ),
        Property(
            "sequences with positions: |mean attention - P~(l|n)| in standard errors, largest",
            "Monte Carlo",
            score,
            controls={"wrong theory: plain frequencies": partial(score, late=0.0)},
            cases={
                "tokens depend on their position": [alike(0.4, 0.45, 0.15), alike(0.4, 0.15, 0.45)],
                "tokens do not": 2 * [alike(0.4, 0.3, 0.3)],
            },
        ),
    ),
    map=finite_length_map,
)
