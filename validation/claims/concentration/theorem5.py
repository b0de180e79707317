"""Theorem 5: the decoder after N batch-size-1 steps."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    NO_MOMENTUM,
    ONE_STEP,
    RATE_OF_LARGE_STEPS,
    above_probability,
    at_most_probability,
    decoder_of,
    order_of_theta,
    steps_of,
    worst_entry,
)
from snapdyn.validation.claims.concentration._theorem5_settings import size_of_theta
from snapdyn.validation.dense_algebra import EPS
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.search import Instance
from snapdyn.validation.search.instance import Ints

# Steps of the full Y that are made one by one.
STEPS = 150


def modified_steps(instance: Instance) -> tuple[Floats, Ints, Floats]:
    """Y after whole steps of drawn classes, the counts N_n, and zeta_n.

    Each step is Y += eta_Y (f_n - F E' e_n)(e_n - alpha_n)^T. At most STEPS are made. The outputs that are no class's
    next token have equal columns: Y (M, outputs + 1) and zeta (classes, outputs + 1) keep one of them, the last.
    """
    rng = np.random.default_rng([instance.seed % 2**31, instance.number])
    tokens = instance.classes.next_token
    outputs, own = np.unique(tokens, return_inverse=True)
    V, K = instance.vocab_size, instance.num_classes
    many = np.append(np.ones(outputs.size), V - outputs.size)
    f = _attention(instance)
    update = np.linalg.solve(instance.gram, f)  # rows f_n - F E' e_n of F (I+E)^{-1}
    drawn = rng.choice(K, size=int(min(STEPS, steps_of(instance))), p=instance.prior)
    Y = np.zeros((f.shape[1], outputs.size + 1))
    for n in drawn:
        w = f[n] @ Y
        error = -many * np.exp(w - w.max())
        error /= -error.sum()
        # The own entry is the sum of the others: 1 - alpha would cancel.
        error[own[n]] = 0.0
        error[own[n]] = -error.sum()
        error[-1] /= max(many[-1], 1)
        Y += instance.eta_Y * np.outer(update[n], error)
    zeta = np.full((K, outputs.size + 1), -1 / (V - 1))
    zeta[np.arange(K), own] = 1.0
    if many[-1] == 0:
        Y[:, -1] = zeta[:, -1] = 0.0
    return Y, np.bincount(drawn, minlength=K).astype(np.int64), np.asarray(zeta)


def distance_from_form(instance: Instance, mixed: bool = True) -> Measured:
    """|Y - F (I - E')(I + Theta) Wbar| over |Y| with the true counts in h*, over what rounding allows.

    `mixed` = False leaves out I - E'.
    """
    Y, counts, zeta = modified_steps(instance)
    V = instance.vocab_size
    h_star = analytic.discrete_h(int(counts.max()), instance.eta_Y, V)[counts]
    W = (V - 1) * h_star[:, None] * zeta
    form = _attention(instance).T @ (np.linalg.solve(instance.gram, W) if mixed else W)
    # A step solves with G once and reads the logits back through F: eps times the condition number each. The softmax
    # turns an absolute error of the logits into a relative error of the step.
    condition = instance.eigenvalues[-1] / instance.eigenvalues[0]
    largest = max(1.0, V * h_star.max())
    allowed = 8 * EPS * (counts.sum() + instance.num_classes) * condition * largest
    distance = float(np.linalg.norm(Y - form) / np.linalg.norm(Y))
    return Measured(distance / allowed, at_most=1.0, where=f"after {counts.sum()} steps")


def without_mixing(instance: Instance) -> Measured:
    """Wrong theory: Y = F (I + Theta) Wbar, without I - E'."""
    return distance_from_form(instance, mixed=False)


def chance_of_theta(instance: Instance, order: Floats | None = None) -> Measured:
    """Sum over classes of P(|theta_n| > order), exact, over delta; the order of the theorem by default.

    h* rises with the count, so that the counts outside are those below and above two numbers of visits.
    """
    N, p, V = steps_of(instance), instance.prior[None], instance.vocab_size
    decoder = decoder_of(instance)
    # theta on the edge lies inside, and has rounding.
    allowed = (order_of_theta(instance) if order is None else order) + 8 * EPS
    u = V * analytic.h(p * N, instance.eta_Y, V)
    low, high = (np.ceil(decoder.visits(np.maximum(u * (1 + sign * allowed), 0.0))) for sign in (-1, 1))
    chance = above_probability(np.minimum(high, N + 1) - 1, N, p)
    chance = chance + np.where(allowed < 1, at_most_probability(np.minimum(low, N + 1) - 1, N, p), 0.0)
    return worst_entry((chance.sum(axis=1) / DELTAS)[:, None], instance, at_most=1.0)


def chance_without_classes(instance: Instance) -> Measured:
    """Wrong theory: the order without 1/p_n, sqrt(ln(K/delta)/N)."""
    return chance_of_theta(instance, order_of_theta(instance) * instance.prior)


@claim(
    "theorem5",
    source="Theorem 5, Eq. (70)",
    title="The decoder after N steps is F (I-E')(I+Theta) Wbar, with small Theta",
    answer="Exact with the true counts; with the mean counts it holds where eta_Y <= 3 + ln(N)/2, and Theta is "
    "smaller than printed.",
    statement="Under the modified flow after N batch-size-1 steps Y = F (I - E')(I + Theta) Wbar, rows of Wbar "
    "(V-1) h(p_n N) zeta_n (p_n N = N/K for equal priors), Theta diagonal. With the true counts N_n in h* it is exact. "
    "With probability at least 1 - delta, delta <= 1/2, |theta_n| <= (1/(p_n sqrt(N))) sqrt(ln(K/delta)) for all "
    "classes, where eta_Y <= 3 + ln(N)/2.",
    latex=r"Y=F(I-E')(I+\Theta)\bar W,\quad\bar w_n=(V-1)h(\tfrac NK)\zeta_n,\quad"
    r"|\theta_n|\lesssim\frac K{\sqrt N}\sqrt{\ln\tfrac K\delta}",
    expected="conditional",
    assumptions=(
        "modified flow, Y(0) = 0, attention frozen",
        "attention vectors f_n linearly independent",
        "eta_Y <= 3 + ln(N)/2",
    ),
    properties=(
        Property(
            "sum over classes of P(|theta_n| > (1/(p_n sqrt(N))) sqrt(ln(K/delta)))/delta",
            "closed form",
            chance_of_theta,
            ANY_CLASSES,
            conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION, RATE_OF_LARGE_STEPS),
            controls={"wrong theory: the order without 1/p_n": chance_without_classes},
            evaluations=(300, 15_000),
        ),
        Property(
            f"Y after whole steps, at most {STEPS}, against the form with the true counts in h*, over rounding",
            "descent",
            distance_from_form,
            ANY_CLASSES,
            conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION),
            controls={"wrong theory: without I - E'": without_mixing},
            evaluations=(100, 3000),
            directed=False,
        ),
    ),
)
def theorem5(evidence: Evidence) -> None:
    size_of_theta(evidence)


def _attention(instance: Instance) -> Floats:
    """f_n at the start, (classes, M)."""
    return np.asarray(instance.classes.decoder_inputs(instance.start).toarray())
