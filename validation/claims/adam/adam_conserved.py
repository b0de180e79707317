"""What Adam conserves: the row sums of its steps, weighted by sqrt(v) + epsilon."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import Adam, GradientDescent, SignDescent, sgd
from snapdyn.validation.claims._shared import WIDEST, by_query
from snapdyn.validation.claims.adam.adam_gain import overlap_of
from snapdyn.validation.claims.attention._shared import along
from snapdyn.validation.claims.language import (
    EPS,
    MEAN_FIELD,
    OVERLAPPING,
    SEVERAL_CLASSES,
    Claim,
    Instance,
    Measured,
    NoNumber,
    Property,
    Requirement,
)

UPDATES = 30
HELD = 1e-7  # largest share of rounding in steps that count
RULES = (Adam(), Adam(0.0, 0.9, 1e-8), Adam(0.5, 0.99, 1e-4))
DOMAIN = replace(
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
    rule = RULES[instance.number % len(RULES)]
    of_Y = (rule, GradientDescent(), SignDescent())[instance.number // len(RULES) % 3]
    run = sgd(
        instance.classes, instance.eta_Y, instance.eta_Z, UPDATES, None, optimizer=(of_Y, rule), reduce=False,
        save_decoder=True,
    )  # fmt: skip
    v, worst = np.zeros_like(run.z[0]), -1.0
    for k, (_, f, g) in enumerate(along(run, instance, MEAN_FIELD)):
        if k == UPDATES:
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
        raise NoNumber(f"in {UPDATES} updates no step of a logit is above its rounding")
    return Measured(worst, at_most=1e-6, error=error)


ABOVE_ROUNDING = Requirement(
    "gradients above rounding",
    "V over the smallest overlap of a class <= 2e6",
    lambda instance: instance.vocab_size / overlap_of(instance),
    at_most=2e6,
)


CLAIM = Claim(
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
            DOMAIN,
            conditions=(SEVERAL_CLASSES, replace(OVERLAPPING, at_least=1e-2), ABOVE_ROUNDING),
            controls={"wrong theory: plain row sums": partial(weighted_sums, weighted=False)},
            evaluations=(100, 2000),
        ),
    ),
)
