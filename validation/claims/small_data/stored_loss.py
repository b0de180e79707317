"""Training on stored sequences against their distribution: the loss on other sequences, and the order in N."""

import math
from dataclasses import replace
from functools import cache, partial

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, data_set, integrate, log_times, sgd
from snapdyn.dynamics.classes.stored_sequences import DataSet
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
from snapdyn.validation.claims.sample_classes import equal_classes, three_classes
from snapdyn.validation.claims.small_data._shared import (
    ANY_SEQUENCES,
    STORED,
    length_of,
    run_stored,
    source_of,
    stored,
    three_sequences,
)

OTHER = 1000  # added to the seed of the other data set
RTOL, ATOL = 1e-9, 1e-12
ROUNDING = 1e-14  # of differences of losses, over the loss
EARLY = 1e-2  # the larger of eta_Y t, for the decoder, and sqrt(eta_Y eta_Z) t, for attention
DIFFERING = 1e-20  # square of the difference of two gradients, over their own, below which it is rounding
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
    data = pair(instance)
    if data is None:
        return None
    losses = np.array([[loss_on(run, classes)[-1] for classes in data] for run in runs])
    own, other = losses.trace(), losses.sum() - losses.trace()
    excess = (other - own) / own
    # The logits err by RTOL, the excess is a square in the difference of the sets, and its slope a first power.
    return Measured(excess, at_least=0.0, error=ROUNDING + 10.0 * RTOL * math.sqrt(abs(excess)))


def pair(instance: Instance) -> list[DataSet] | None:
    """Two data sets of the classes of an instance; None if they are equal."""
    data = [stored(instance, seed) for seed in (0, OTHER)]
    return data if data[0] != data[1] else None


def gradient(data: DataSet) -> Floats:
    """Gradient of -loss in the decoder at the zero start, (tokens, next tokens), and its sum over outputs last."""
    f, weights = data.decoder_inputs().toarray(), data.prior[:, None]
    per_output = [(f * weights)[data.next_index == v].sum(axis=0) for v in range(data.num_next_tokens)]
    return np.array([*per_output, np.sum(per_output, axis=0)]).T


def square(gradient: Floats, vocab_size: int) -> float:
    """|G|^2 over all outputs of G_lv = D_lv - F_l/V, with F = sum_v D: sum D^2 - sum F^2/V."""
    return (gradient[:, :-1] ** 2).sum() - (gradient[:, -1] ** 2).sum() / vocab_size


def early_error(instance: Instance, factor: float = 1.0, right_angles: bool = False) -> Measured | None:
    """|early excess over eta_Y t |G_A - G_B|^2, minus 1|: the limit t -> 0 from three times, each twice the last.

    Wrong theories: another `factor`, and gradients of the two sets at `right_angles`.
    """
    data = pair(instance)
    if data is None:
        return None
    times = EARLY / max(instance.eta_Y, math.sqrt(instance.eta_Y * instance.eta_Z)) * np.array([1.0, 2.0, 4.0])
    runs = [run_stored(instance, each, times, rtol=RTOL, atol=ATOL, save_decoder=True) for each in data]
    (own, other), (exchanged, own_too) = [[loss_on(run, classes) for classes in data] for run in runs]
    G, V = [gradient(each) for each in data], data[0].vocab_size
    differing = square(G[0] - G[1], V)
    if abs(differing) < DIFFERING * (G[0] ** 2).sum():
        return None
    law = sum(square(each, V) for each in G) if right_angles else differing
    ratios = (other + exchanged - own - own_too) / (factor * law * instance.eta_Y * times)
    first, second = 2.0 * ratios[:-1] - ratios[1:]
    rounding = ROUNDING * own[0] / (factor * law * instance.eta_Y * times[0])
    return Measured(abs(first - 1.0), at_most=1e-3, error=abs(first - second) + rounding)


def nearly_equal(ratio: float) -> SequenceClasses:
    """Two nearly equal classes, one `ratio` times as frequent: attention has to find what tells them apart."""
    P, prior = [[1000 / 1001, 1 / 1001], [1 / 1.06, 0.06 / 1.06]], np.array([ratio, 1.0]) / (1.0 + ratio)
    return SequenceClasses(P, [0, 0], next_token=[1, 0], prior=prior, vocab_size=2)


def least_excess(ratio: float, early: bool = False) -> Measured:
    """Least excess of the loss on the other set until t = 3e4, over the loss, in two nearly equal classes.

    `early`: the wrong theory that the early law holds at all times.
    """
    instance = Instance.of(data_set(nearly_equal(ratio), [60, 1], 161, seed=3), 1.0, 0.1, 3e4)
    data, times = [stored(instance, seed) for seed in (0, OTHER)], log_times(30.0, instance.t_end, 13)
    runs = [run_stored(instance, each, times, rtol=1e-8, atol=1e-11, save_decoder=True) for each in data]
    losses = np.array([[loss_on(run, each) for each in data] for run in runs])
    own = losses[0, 0] + losses[1, 1]
    excess = square(gradient(data[0]) - gradient(data[1]), 2) * times if early else losses.sum(axis=(0, 1)) - 2.0 * own
    return Measured((excess / own).min(), at_most=-0.1, error=1e-6)


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


PAIRS = replace(
    ANY_SEQUENCES,
    name="pairs of data sets",
    num_classes=(2, 6),
    num_common=(1, 10),
    num_distinct=(0, 3),
    ratio=(1e-6, 1e6),
    horizon=(10.0, 1e3),
    vocab_size=(2, 10**6),
    seq_len=(1, 300),
)

CLAIM = Claim(
    "stored-loss",
    source="own; Sec. 9",
    title="Training on N stored sequences fits them, and nears the distribution like 1/sqrt(N)",
    statement=(
        "Two data sets of the same classes, one run on each: early the loss on the sequences of the other exceeds that "
        "on the own sequences, summed over both runs, by eta_Y t times the square of the difference of the gradients "
        "of the two sets. It does so at eta_Y t = 2000 in three classes, but not always in between. The logits near "
        "those of all sequences of this length, each with its probability, like 1/sqrt(N) in the number N of stored "
        "sequences per class; they do not near those of infinitely long sequences. In three equal classes attention on "
        "spurious tokens ends above its start."
    ),
    latex=r"L_B(\theta_A)+L_A(\theta_B)-L_A(\theta_A)-L_B(\theta_B)\simeq\eta_Yt\,|G_A-G_B|^2,\qquad "
    r"|z_N-z_\infty|\sim N^{-1/2}",
    conditions=("zero start", "sequences drawn independently"),
    conclusion=(
        "Holds. Early it is exact for all classes. While a class is learned it may turn: the run that is ahead has the "
        "smaller loss on both sets. In two nearly equal classes, one 150 times as frequent, the excess falls to "
        "{150 : 1:.1g} of the loss. Training on fresh sequences at each step leaves an excess of either "
        "sign. Attention on spurious tokens of equal classes ends at {one sequence per class:.1f} (one sequence per "
        "class) and {three sequences per class:.1f} (three) times its start, with fresh sequences at 0.4. The distance "
        "of logits from the limit of many sequences falls like 1/sqrt(N); that to infinitely long sequences stays."
    ),
    properties=(
        Property(
            "early loss on the other data set less that on the own one, over eta_Y t |G_A - G_B|^2, minus 1",
            "mean field",
            early_error,
            PAIRS,
            conditions=(FROM_ZERO, STORED),
            controls={
                "right law times 1.1": partial(early_error, factor=1.1),
                "wrong theory: gradients of the two sets at right angles": partial(early_error, right_angles=True),
            },
            evaluations=(60, 2000),
        ),
        Property(
            "loss on the other data set less that on the own one, over the latter, at eta_Y t = 2000",
            "mean field",
            exchange,
            controls={"wrong theory: SGD on fresh sequences at each step": partial(exchange, fresh=True)},
            cases={
                "three classes": three_sequences(three_classes()),
                "three equal classes": three_sequences(equal_classes(3, 50)),
            },
        ),
        Property(
            "least of it while a rare class is learned",
            "mean field",
            least_excess,
            controls={"wrong theory: the early law at all times": partial(least_excess, early=True)},
            cases={"150 : 1": 150.0},
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
