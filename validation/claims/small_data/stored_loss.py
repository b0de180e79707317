"""Training on stored sequences against their distribution: the loss on other sequences, and the order in N."""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, data_set, integrate, sgd
from snapdyn.dynamics.observables import loss_on
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.language import (
    FROM_ZERO,
    Claim,
    Floats,
    Instance,
    Measured,
    Property,
)
from snapdyn.validation.claims.sample_classes import equal_classes
from snapdyn.validation.claims.small_data._shared import ANY_SEQUENCES, STORED, length_of, run_stored, source_of, stored

OTHER = 1000  # added to the seed of the other data set
RTOL, ATOL = 1e-9, 1e-12
LEAST = 1e-9  # smallest difference that is told from rounding, over the loss
STEP = 0.1  # eta of SGD over that of the flow
LENGTH = 4  # T-1 of the named setting
SIZES, MANY = (10, 30, 100, 300), 30_000  # sequences per class, and so many that they stand for all


def trained_fresh(instance: Instance, seed: int) -> Trajectory:
    """SGD on fresh sequences at each step, of the classes and the length of the instance, at the last time alone."""
    steps = round(instance.t_end / STEP)
    rates = STEP * instance.eta_Y, STEP * instance.eta_Z
    return sgd(
        source_of(instance), *rates, steps, seq_len=length_of(instance), seed=instance.number + seed, record=[steps],
        save_decoder=True,
    )  # fmt: skip


def trained(instance: Instance, seed: int) -> Trajectory:
    """Run on a data set of the instance, with its decoder, at the last time alone."""
    return run_stored(instance, stored(instance, seed), [instance.t_end], rtol=RTOL, atol=ATOL, save_decoder=True)


def exchange(instance: Instance, fresh: bool = False) -> Measured | None:
    """Mean loss of two runs, each on the sequences of the other, less that on their own, over the latter.

    `fresh`: the wrong theory that training on fresh sequences at each step knows the stored ones too. Both runs have
    seen neither data set, so that this excess is noise of either sign.
    """
    train = trained_fresh if fresh else trained
    runs = [train(instance, seed) for seed in (0, OTHER)]
    data = [stored(instance, seed) for seed in (0, OTHER)]
    if data[0] == data[1]:
        return None
    losses = np.array([[loss_on(run, classes)[-1] for classes in data] for run in runs])
    own, other = losses.trace(), losses.sum() - losses.trace()
    return Measured((other - own) / own, at_least=LEAST, error=1e-10)


def kept_attention(sequences: int, fresh: bool = False) -> Measured:
    """Attention on spurious tokens at t = 2000 over that at z = 0, mean over ten data sets of N sequences per class.

    The three classes are equal, so that no token is distinct. Wrong theory: training on `fresh` sequences keeps this
    attention too.
    """
    found = []
    for seed in range(10):
        instance = Instance.of(data_set(equal_classes(3, 50), sequences, 20, seed), 1.0, 1.0, 2000.0)
        run, data = trained_fresh(instance, seed) if fresh else trained(instance, 0), stored(instance)
        query, token = data.z_coordinates
        of_spurious = np.isin(data.P.indices, data.spurious[:, 1]) * data.prior[data.class_of_entry]
        found.append(
            data.attention_from_support(run.z[-1:, query, token])[0] @ of_spurious / (data.P.data @ of_spurious)
        )
    return Measured(np.mean(found), at_least=1.0, error=1e-3)


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
        "infinitely long sequences. In three equal classes attention on spurious tokens ends above its start."
    ),
    latex=r"L_B(\theta_A)+L_A(\theta_B)>L_A(\theta_A)+L_B(\theta_B),\qquad |z_N-z_\infty|\sim N^{-1/2}",
    conditions=("zero start", "sequences drawn independently"),
    conclusion=(
        "Holds: sequences that were not stored have the larger loss, at every time and size tried. Early it is exact: "
        "the sum of the differences is eta_Y t times the square of the difference of the two gradients. Training on "
        "fresh sequences at each step leaves an excess of either sign. Attention on spurious tokens of equal classes "
        "ends at {one sequence per class:.1f} (one sequence per class) and {three sequences per class:.1f} "
        "(three) times its start, with fresh sequences at 0.4. The distance of logits from the limit of many sequences "
        "falls like 1/sqrt(N); that to infinitely long sequences stays. An attack found an excess of 5e-11 only."
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
            conditions=(FROM_ZERO, STORED),
            controls={"wrong theory: SGD on fresh sequences at each step": partial(exchange, fresh=True)},
            evaluations=(60, 2000),
        ),
        Property(
            "attention on spurious tokens at t = 2000 over that at z = 0, three equal classes, mean of ten data sets",
            "mean field",
            kept_attention,
            controls={"wrong theory: SGD on fresh sequences at each step": partial(kept_attention, fresh=True)},
            cases={"one sequence per class": 1, "three sequences per class": 3},
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
