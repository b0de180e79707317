"""Training on stored sequences against their distribution: the loss on other sequences, and the order in N."""

from dataclasses import replace
from functools import cache

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, data_set, integrate
from snapdyn.dynamics.observables import loss_on
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.language import (
    ZERO_START,
    Claim,
    Floats,
    Instance,
    Measured,
    Property,
    most_evaluations,
    succeeded,
)
from snapdyn.validation.claims.small_data._shared import ANY_SEQUENCES, STORED, stored

OTHER = 1000  # added to the seed of the other data set
RTOL, ATOL = 1e-9, 1e-12
LEAST = 1e-9  # smallest difference that is told from rounding, over the loss
LENGTH = 4  # T-1 of the named setting
SIZES, MANY = (10, 30, 100, 300), 30_000  # sequences per class, and so many that they stand for all


def trained(instance: Instance, seed: int) -> Trajectory:
    """Run on a data set of the instance, with its decoder, at the last time alone."""
    system = MeanField(stored(instance, seed), instance.eta_Y, instance.eta_Z)
    run = integrate(
        system, [instance.t_end], rtol=RTOL, atol=ATOL, save_decoder=True,
        most_evaluations=most_evaluations(system.size, True),
    )  # fmt: skip
    return succeeded(run)


def exchange(instance: Instance, fresh: bool = False) -> Measured | None:
    """Mean loss of two runs, each on the sequences of the other, less that on their own, over the latter.

    `fresh`: the wrong theory of training on fresh sequences, whose parameters do not know which sequences are stored:
    one run stands for both.
    """
    first = trained(instance, 0)
    second = first if fresh else trained(instance, OTHER)
    data = first.require_classes(), stored(instance, OTHER)
    if data[0] == data[1]:
        return None
    losses = np.array([[loss_on(run, classes)[-1] for classes in data] for run in (first, second)])
    own, other = losses.trace(), losses.sum() - losses.trace()
    return Measured(float((other - own) / own), at_least=LEAST, error=1e-10)


def source() -> SequenceClasses:
    """Two classes of one query, three common tokens and a distinct one each; V = 20."""
    P = [[0.3, 0.2, 0.1, 0.4, 0.0], [0.1, 0.3, 0.3, 0.0, 0.3]]
    return SequenceClasses(P, [0, 0], vocab_size=20)


def logits(classes: SequenceClasses) -> Floats:
    """z at eta_Y t = 100, eta_Z = eta_Y."""
    return integrate(MeanField(classes, 1.0, 1.0), [100.0], rtol=1e-9, atol=1e-12).z[-1, 0]


@cache
def power(limit: str) -> float:
    """Fitted power of N in the root mean square distance of z from a limit; 40 data sets of N sequences per class."""
    target = logits(source() if limit == "infinite length" else data_set(source(), MANY, LENGTH, OTHER))
    found = []
    for N in SIZES:
        z = np.array([logits(data_set(source(), N, LENGTH, seed)) for seed in range(40)])
        found.append(((z - target) ** 2).sum(axis=1).mean() ** 0.5)
    return float(np.polyfit(np.log(SIZES), np.log(found), 1)[0])


def order(limit: str) -> Measured:
    """|power of N + 1/2|.

    Forty data sets leave a relative error of 1/sqrt(80) to each distance, and 0.05 to the power over ln 30.
    """
    return Measured(abs(power(limit) + 0.5), at_most=0.15)


def wrong_limit(limit: str) -> Measured:
    """Wrong theory: many stored sequences of finite length train like infinitely long ones."""
    return order("infinite length")


CLAIM = Claim(
    "stored-loss",
    source="own; Sec. 9",
    title="Training on N stored sequences fits them, and nears the distribution like 1/sqrt(N)",
    statement=(
        "Two data sets of the same classes, one run on each: the loss on the sequences of the other exceeds that on "
        "the own sequences, summed over both runs. The logits near those of all sequences of this length, each with "
        "its probability, like 1/sqrt(N) in the number N of stored sequences per class; they do not near those of "
        "infinitely long sequences."
    ),
    latex=r"L_B(\theta_A)+L_A(\theta_B)>L_A(\theta_A)+L_B(\theta_B),\qquad |z_N-z_\infty|\sim N^{-1/2}",
    conditions=("zero start", "sequences drawn independently"),
    conclusion=(
        "Holds: sequences that were not stored have the larger loss, at every time and size tried. Early it is exact: "
        "the sum of the differences is eta_Y t times the square of the difference of the two gradients. The distance "
        "of logits from the limit of many sequences falls like 1/sqrt(N). This limit is at finite T: the distance to "
        "infinitely long sequences stays."
    ),
    properties=(
        Property(
            "loss on the other data set less that on the own one, over the latter",
            "mean field",
            exchange,
            replace(
                ANY_SEQUENCES,
                name="pairs of data sets",
                num_classes=(2, 6),
                num_common=(1, 10),
                num_distinct=(0, 3),
                ratio=(0.1, 10.0),
                horizon=(10.0, 1e3),
                vocab_size=(2, 10**6),
                seq_len=(1, 300),
            ),
            conditions=(replace(ZERO_START, defining=True), STORED),
            controls={
                "wrong theory: fresh sequences at each step, so none is known": lambda i: exchange(i, fresh=True)
            },
            evaluations=(60, 2000),
        ),
        Property(
            "power of N in the distance of z from its limit, plus 1/2",
            "mean field",
            order,
            controls={"wrong theory: the limit is that of infinitely long sequences": wrong_limit},
            cases={"two classes, T-1 = 4, N = 10 to 300": "finite length"},
        ),
    ),
)
