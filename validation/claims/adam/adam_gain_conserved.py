"""Adam on attention: the ratio of two distinct tokens does not change, and what the steps conserve."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import Adam, GradientDescent, SignDescent, Trajectory, sgd
from snapdyn.dynamics.rules import DescentRule
from snapdyn.validation.claims.attention._shared import along
from snapdyn.validation.claims.language import (
    EPS,
    MEAN_FIELD,
    OVERLAPPING,
    SEVERAL_CLASSES,
    UNIFORM,
    WIDEST,
    ZERO_START,
    Claim,
    Instance,
    Measured,
    NoNumber,
    Property,
    Requirement,
    by_query,
)
from snapdyn.validation.claims.sample_classes import strongly_correlated_classes

GAIN_DOMAIN = replace(
    WIDEST,
    name="attention by an adaptive rule",
    uniform=True,
    num_classes=(2, 100),
    num_common=(1, 3),
    num_distinct=(2, 6),
    vocab_size=(4, 10**4),
    ratio=(1e-9, 1.0),
    horizon=(1.0, 1.0),
    eta_Y=(1e-5, 1.0),
    shared_next_tokens=True,
)
# Rules that do not see the scale of a coordinate's gradients, and decoders that are linear in theirs.
ATTENTION = (Adam(epsilon=0.0), Adam(0.0, 0.9, 0.0), Adam(0.9, 0.99, 0.0), SignDescent())
DECODERS = (GradientDescent(), GradientDescent(0.9))
GAIN_UPDATES, BATCH = 64, 64
LATE_UPDATES = 3000

Pair = tuple[DescentRule, DescentRule]
GAIN_RULES = Requirement(
    "gradient descent on Y, a rule that ignores the scale of gradients on z",
    "layers with another rule, or with epsilon > 0 on z: 0",
    lambda instance: other_rules(*rules_of(instance)),
    at_most=0,
)
SMALL_STEPS = Requirement(
    "attention still far from its maximum",
    f"{GAIN_UPDATES} eta_Z V/(smallest overlap of a class) <= 0.1",
    lambda instance: GAIN_UPDATES * instance.eta_Z * instance.vocab_size / overlap_of(instance),
    at_most=0.1,
    defining=True,
)
PAIR = Requirement(
    "two distinct tokens of a class",
    "largest number of distinct tokens of a class >= 2",
    lambda instance: max(map(len, distinct_by_class(instance))),
    at_least=2,
    defining=True,
)


def rules_of(instance: Instance) -> Pair:
    """Rules (of Y, of z) of an instance: its own ones, or one of all pairs by the number of the draw."""
    if instance.rules:
        return instance.rules
    at = instance.number % (len(ATTENTION) * len(DECODERS))
    return DECODERS[at % len(DECODERS)], ATTENTION[at // len(DECODERS)]


def other_rules(of_Y: DescentRule, of_z: DescentRule) -> int:
    """Number of layers whose rule is not the claim's."""
    fits = of_z.numbers.adaptive and of_z.numbers.epsilon == 0.0
    return int(of_Y.numbers.adaptive) + int(not fits)


def overlap_of(instance: Instance) -> float:
    """Smallest over the classes of the largest overlap with another class."""
    return instance.overlaps.max(axis=1).min()


def distinct_by_class(instance: Instance) -> list[list[int]]:
    """Tokens of each class that no other class has; classes that share a next token are different classes here."""
    occurs = instance.P > 0
    alone = occurs.sum(axis=0) == 1
    return [[int(token) for token in np.flatnonzero(row & alone)] for row in occurs]


def change(instance: Instance, run: Trajectory) -> float:
    """Largest |z_l - z_l'| of two distinct tokens of a class in a run from z = 0."""
    of_class = run.z[:, instance.classes.query_index]
    return max((float(np.ptp(of_class[:, n][:, own], axis=1).max()) for n, own in enumerate(distinct_by_class(instance))
                if len(own) > 1), default=0.0)  # fmt: skip


def relative_change(instance: Instance, rules: Callable[[Instance], Pair] = rules_of) -> Measured | None:
    """The change over the largest |z|, on the expectation and on drawn batches, the larger one."""
    worst = 0.0
    for batch_size in (None, BATCH):
        run = sgd(
            *instance.setting, GAIN_UPDATES, batch_size, optimizer=rules(instance),
            seed=instance.number, reduce=False,
        )  # fmt: skip
        largest = np.abs(run.z).max()
        if not run.success or largest == 0.0:
            return None
        worst = max(worst, change(instance, run) / largest)
    # The terms of the gradient of z cancel to a share overlap/V of their size, when the decoder has just started.
    return Measured(worst, at_most=1e-4, error=1e3 * EPS * instance.vocab_size / overlap_of(instance))


def with_attention(rule: DescentRule) -> Callable[[Instance], Pair]:
    """Wrong theory: the ratio stays under another rule of attention."""
    return lambda instance: (GradientDescent(), rule)


def steps_late(instance: Instance) -> Measured:
    """The change, in steps eta_Z, of a long run, whose attention oscillates about its maximum."""
    run = sgd(*instance.setting, LATE_UPDATES, None, optimizer=rules_of(instance), reduce=False)
    return Measured(change(instance, run) / instance.eta_Z, at_most=10.0)


LATE = {
    f"{eta_Z:g}": replace(Instance.of(strongly_correlated_classes(), 0.1, eta_Z, 1.0), number=0)
    for eta_Z in (0.03, 0.003)
}

ADAM_GAIN = Claim(
    "adam-gain",
    of_rule="own",
    source="own; Fig. 5, rules of descent",
    title="Adam on attention keeps the ratio of two distinct tokens",
    statement=(
        "Attention by a rule that does not see the scale of a coordinate's gradients (Adam with epsilon = 0, RMSProp, "
        "sign descent), the decoder by gradient descent with any momentum, T infinite: if c_nl = r c_nl' and Y_l = r "
        "Y_l' at the start, with one r for all classes, then z_l - z_l' never changes, for every sequence of batches. "
        "So for two distinct tokens of a class the relative gain of Theorem 3 stays: there is no scanning by frequency."
    ),
    latex=r"z_{ml}(k)-z_{ml'}(k)=z_{ml}(0)-z_{ml'}(0)",
    conditions=(
        "T infinite; epsilon = 0 in the rule of z; gradients of z that are not rounding: classes that overlap",
        "in float64: until attention oscillates about its maximum",
    ),
    conclusion=(
        "Holds, exactly: the ratio of two distinct tokens never changes, so Adam on attention does not scan by "
        "frequency. Proved by induction over updates. In float64 the invariant is unstable once attention steps back "
        "and forth over its maximum: rounding then grows to {0.03:.1g} steps eta_Z after 3000 updates (eta_Z = 0.03). "
        "Where the gradient of z is zero but for rounding, a rule with epsilon = 0 makes full steps "
        "along rounding."
    ),
    properties=(
        Property(
            "change of z_l - z_l' over the largest |z|, distinct tokens of a class",
            "SGD with a rule",
            relative_change,
            GAIN_DOMAIN,
            conditions=(GAIN_RULES, ZERO_START, SEVERAL_CLASSES, UNIFORM, OVERLAPPING, PAIR, SMALL_STEPS),
            controls={
                "wrong theory: under gradient descent": partial(
                    relative_change, rules=with_attention(GradientDescent())
                ),
                "wrong theory: with epsilon = 1e-4": partial(relative_change, rules=with_attention(Adam(epsilon=1e-4))),
                "wrong theory: with the decoder by Adam": partial(
                    relative_change, rules=lambda instance: (Adam(epsilon=0.0), Adam(epsilon=0.0))
                ),
            },
            evaluations=(200, 10_000),
        ),
        Property(
            "change of z_l - z_l' in steps eta_Z, 3000 updates",
            "descent with a rule",
            steps_late,
            cases=LATE,
        ),
    ),
    proved=("adaptive-gain",),
)


CONSERVED_UPDATES = 30
HELD = 1e-7  # largest share of rounding in steps that count
CONSERVED_RULES = (Adam(), Adam(0.0, 0.9, 1e-8), Adam(0.5, 0.99, 1e-4))
CONSERVED_DOMAIN = replace(
    WIDEST,
    name="classes with Adam on attention",
    num_classes=(2, 8),
    num_common=(1, 3),
    vocab_size=(2, 10**4),
    ratio=(1e-3, 10.0),
    horizon=(1.0, 1.0),
    eta_Y=(1e-3, 1.0),
    shared_next_tokens=True,
)


def weighted_sums(instance: Instance, weighted: bool = True) -> Measured:
    """Largest row sum of (sqrt(vhat) + epsilon) times a step of z, over the sum of the sizes of its terms.

    The steps are those of training on the expectation; v is made of the gradients by dense linear algebra at the states
    before them.
    """
    rule = CONSERVED_RULES[instance.number % len(CONSERVED_RULES)]
    of_Y = (rule, GradientDescent(), SignDescent())[instance.number // len(CONSERVED_RULES) % 3]
    run = sgd(
        *instance.setting, CONSERVED_UPDATES, None, optimizer=(of_Y, rule), reduce=False,
        save_decoder=True,
    )  # fmt: skip
    v, worst = np.zeros_like(run.z[0]), -1.0
    for k, (_, f, g) in enumerate(along(run, instance, MEAN_FIELD)):
        if k == CONSERVED_UPDATES:
            break
        of_classes = instance.prior[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True))
        gradient = by_query(instance, of_classes)
        terms = by_query(instance, instance.prior[:, None] * np.abs(f * g)).sum(axis=1)
        v = rule.beta2 * v + (1 - rule.beta2) * gradient**2
        weights = np.sqrt(v / (1 - rule.beta2 ** (k + 1))) + rule.epsilon if weighted else np.ones_like(v)
        steps = weights * (run.z[k + 1] - run.z[k])
        sizes = np.abs(steps).sum(axis=1)
        # Steps so small that z does not hold them are rounding, and so are gradients of that share of their terms.
        is_held = (np.abs(gradient).sum(axis=1) * HELD > EPS * terms) & (
            4 * EPS * (weights * np.abs(run.z[k + 1])).sum(axis=1) < HELD * sizes
        )
        if k > 0 and is_held.any():
            worst = max(worst, float((np.abs(steps.sum(axis=1)) / np.maximum(sizes, 1e-300))[is_held].max()))
    # The terms of the gradient of z cancel to a share overlap/V of their size, when the decoder has just started.
    error = 1e3 * EPS * instance.vocab_size / overlap_of(instance)
    if worst < 0.0:
        raise NoNumber(f"in {CONSERVED_UPDATES} updates no step of a logit is above its rounding")
    return Measured(worst, at_most=1e-6, error=error)


ABOVE_ROUNDING = Requirement(
    "gradients above rounding",
    "V over the smallest overlap of a class <= 2e6",
    lambda instance: instance.vocab_size / overlap_of(instance),
    at_most=2e6,
)


ADAM_CONSERVED = Claim(
    "adam-conserved",
    source="own; Lemma 1, rules of descent",
    title="Under Adam the row sums of Z change; those of the mean of its past gradients stay 0",
    statement=(
        "Adam on attention, gradient descent, sign descent or Adam on Y, on the expectation: at each update the steps "
        "of the logits of a query, each times sqrt(v) + epsilon of its own coordinate, sum to 0. Plain row sums of Z, "
        "which gradient descent conserves, change; the weighted ones are conserved while v stands still."
    ),
    latex=r"\sum_l\big(\sqrt{\hat v_{ml}}+\varepsilon\big)\,\Delta z_{ml}=0",
    conditions=("T infinite; gradients of z that are not rounding: two or more classes that overlap",),
    conclusion=(
        "Exact: a step times sqrt(v) + epsilon is eta_Z times the mean of past gradients, and each of these has row "
        "sum 0, as Lemma 1 says. So the gain of one token is not the loss of the others: Adam moves a token with "
        "small gradients as far as one with large gradients."
    ),
    properties=(
        Property(
            "weighted row sum of a step of Z over the sizes of its terms",
            "descent with a rule",
            weighted_sums,
            CONSERVED_DOMAIN,
            conditions=(SEVERAL_CLASSES, replace(OVERLAPPING, at_least=1e-2), ABOVE_ROUNDING),
            controls={"wrong theory: plain row sums": partial(weighted_sums, weighted=False)},
            evaluations=(100, 2000),
        ),
    ),
)
