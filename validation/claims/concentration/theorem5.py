"""Theorem 5: the decoder after N batch-size-1 steps."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.decoder_speed import class_logits
from snapdyn.validation import Claim, Instance, Measured, Property, Requirement
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    NO_MOMENTUM,
    ONE_STEP,
    RATE_OF_LARGE_STEPS,
    decoder_of,
    order_of_theta,
    outside,
    steps_of,
    worst_entry,
)
from snapdyn.validation.dense_algebra import EPS
from snapdyn.validation.maps.decoder import decoder_map, decoder_picture
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.rungs.run import ORIGINAL, run_on_rung
from snapdyn.validation.search.instance import Ints
from snapdyn.validation.visits import discrete_logits, elasticity

# Steps of the full Y that are made one by one.
STEPS = 150
# Middles of equal shares of probability, at which a law of the counts is evaluated.
SHARES = (np.arange(4000) + 0.5) / 4000


def attention(instance: Instance) -> Floats:
    """f_n at the start, (classes, M)."""
    return np.asarray(instance.classes.decoder_inputs(instance.start).toarray())


def modified_steps(instance: Instance) -> tuple[Floats, Ints, Floats]:
    """Y after whole steps of drawn classes, the counts N_n, and (V-1) zeta_n.

    Each step is Y += eta_Y (f_n - F E' e_n)(e_n - alpha_n)^T. At most STEPS are made. The outputs that are no class's
    next token have equal columns, of which one is kept, the last.
    """
    rng = np.random.default_rng([instance.seed % 2**31, instance.number])
    outputs, own = np.unique(instance.classes.next_token, return_inverse=True)
    V, K = instance.vocab_size, instance.num_classes
    many = np.append(np.ones(outputs.size), V - outputs.size)
    f = attention(instance)
    update = np.linalg.solve(instance.gram, f)  # rows f_n - F E' e_n of F (I+E)^{-1}
    drawn = rng.choice(K, size=int(min(STEPS, steps_of(instance))), p=instance.prior)
    Y = np.zeros((f.shape[1], many.size))
    for n in drawn:
        w = f[n] @ Y
        error = -many * np.exp(w - w.max())
        error /= -error.sum()
        # The own entry is the sum of the others: 1 - alpha would cancel.
        error[own[n]] = 0.0
        error[own[n]] = -error.sum()
        error[-1] /= max(many[-1], 1)
        Y += instance.eta_Y * np.outer(update[n], error)
    kept = many > 0
    labels = V * (own[:, None] == np.arange(many.size)) - 1.0
    return Y[:, kept], np.bincount(drawn, minlength=K).astype(np.int64), labels[:, kept]


def distance_from_form(instance: Instance, mixed: bool = True) -> Measured:
    """|Y - F (I - E')(I + Theta) Wbar| over |Y| with the true counts in h*, over what rounding allows.

    `mixed` = False leaves out I - E'.
    """
    Y, counts, labels = modified_steps(instance)
    h_star = analytic.discrete_h(int(counts.max()), instance.eta_Y, instance.vocab_size)[counts]
    W = h_star[:, None] * labels
    form = attention(instance).T @ (np.linalg.solve(instance.gram, W) if mixed else W)
    # A step solves with G once and reads the logits back through F: eps times the condition number each. The softmax
    # turns an absolute error of the logits into a relative error of the step.
    condition = instance.eigenvalues[-1] / instance.eigenvalues[0]
    largest = max(1.0, instance.vocab_size * h_star.max())
    allowed = 8 * EPS * (counts.sum() + instance.num_classes) * condition * largest
    distance = float(np.linalg.norm(Y - form) / np.linalg.norm(Y))
    return Measured(distance / allowed, at_most=1.0, where=f"after {counts.sum()} steps")


def chance_of_theta(instance: Instance, order: Floats | float = 1.0) -> Measured:
    """Sum over classes of P(|theta_n| > `order` times the printed order), exact, over delta.

    h* rises with the count, so that the counts outside are those below and above two numbers of visits.
    """
    N, p, V = steps_of(instance), instance.prior, instance.vocab_size
    # theta on the edge lies inside, and has rounding.
    allowed = order_of_theta(instance) * order + 8 * EPS
    u = V * analytic.h(p * N, instance.eta_Y, V) * np.stack([1 - allowed, 1 + allowed])
    low, high = np.minimum(np.ceil(decoder_of(instance).visits(np.maximum(u, 0.0))), N + 1)
    chance = outside(np.where(allowed < 1, low, 0.0), high - 1, N, p)
    return worst_entry(chance.sum(axis=1, keepdims=True) / DELTAS, N)


def spread_off(case: tuple[int, float], hoeffding: bool = False) -> Measured:
    """|spread of theta_n over (s h'/h) sqrt((K-1)/N) - 1|, s = N/K, of K and N; `hoeffding`: counts of variance N/4."""
    from scipy.stats import binom, norm

    K, N = case
    law = norm(N / K, np.sqrt(N) / 2) if hoeffding else binom(N, 1 / K)
    logits = discrete_logits(1000, 0.5, law.ppf(SHARES).astype(np.int64))
    theta = logits / (1000 * analytic.h(N / K, 0.5, 1000))
    ratio = theta.std() / elasticity(N / K, 0.5, 1000) / np.sqrt((K - 1) / N)
    # To the next order: K/N times the lag; and to the width of the shares.
    return Measured(abs(float(ratio) - 1), at_most=0.01)


def original_distance(instance: Instance) -> Measured:
    """Distance of row 0 of W = F^T Y from every multiple of zeta_0, over |W| and the order at delta = 0.01."""
    K, V = instance.num_classes, instance.vocab_size
    run = run_on_rung(
        ORIGINAL, instance.classes, instance.eta_Y, 0.0, [instance.t_end], rtol=1e-12, atol=1e-14, save_decoder=True
    )
    W = class_logits(instance.classes, run.attention_entries, *run.require_decoder()).logits[0, 0]
    W = np.append(W[:K], np.full(V - K, W[K]))
    rest = np.delete(W, 0)
    return Measured(
        float(rest.std() * np.sqrt(V - 1) / np.linalg.norm(W) / order_of_theta(instance)[1, 0]), at_most=1.0
    )


CHANCE = Property(
    "sum over classes of P(|theta_n| > (1/(p_n sqrt(N))) sqrt(ln(K/delta)))/delta",
    "closed form",
    chance_of_theta,
    ANY_CLASSES,
    conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION, RATE_OF_LARGE_STEPS),
    controls={"wrong theory: the order without 1/p_n": lambda instance: chance_of_theta(instance, instance.prior)},
    evaluations=(300, 15_000),
)

CLAIM = Claim(
    "theorem5",
    source="Theorem 5, Eq. (70)",
    title="The decoder after N steps is F (I-E')(I+Theta) Wbar, with small Theta",
    statement="Under the modified flow after N batch-size-1 steps Y = F (I - E')(I + Theta) Wbar, rows of Wbar "
    "(V-1) h(p_n N) zeta_n (p_n N = N/K for equal priors), Theta diagonal. With the true counts N_n in h* it is exact. "
    "With probability at least 1 - delta, delta <= 1/2, |theta_n| <= (1/(p_n sqrt(N))) sqrt(ln(K/delta)) for all "
    "classes, where eta_Y <= 3 + ln(N)/2.",
    latex=r"Y=F(I-E')(I+\Theta)\bar W,\quad\bar w_n=(V-1)h(\tfrac NK)\zeta_n,\quad"
    r"|\theta_n|\lesssim\frac K{\sqrt N}\sqrt{\ln\tfrac K\delta}",
    conditions=(
        "modified flow, Y(0) = 0, attention frozen",
        "attention vectors f_n linearly independent",
        "eta_Y <= 3 + ln(N)/2",
    ),
    conclusion="Exact with the true counts; with the mean counts it holds where eta_Y <= 3 + ln(N)/2, and Theta is "
    "smaller than printed. The order is not attained: theta_n spreads as (s h'/h) sqrt((K-1)/N), s = N/K (Bernstein's "
    "sqrt(K/N), not K/sqrt(N), and late a factor ln(V eta_Y N/K) smaller). The original flow is off by about overlap "
    "sqrt(K-1) at any N: {overlap 0.1, N = 1e9} times the order at an overlap of 0.1 and N = 1e9.",
    expected="conditional",
    properties=(
        CHANCE,
        Property(
            f"Y after whole steps, at most {STEPS}, against the form with the true counts in h*, over rounding",
            "descent",
            distance_from_form,
            ANY_CLASSES,
            conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION),
            controls={"wrong theory: without I - E'": lambda instance: distance_from_form(instance, mixed=False)},
            evaluations=(100, 3000),
            directed=False,
        ),
        Property(
            "own: spread of theta_n over (s h'/h) sqrt((K-1)/N): |ratio - 1|",
            "closed form",
            spread_off,
            controls={
                "wrong theory: counts have the variance N/4 of Hoeffding's bound": lambda case: spread_off(case, True)
            },
            cases={f"K = {K}, N = {N:.0e}": (K, N) for K, N in ((10, 1e4), (10, 1e7), (3, 1e6), (65, 1e6))},
        ),
        Property(
            "original flow: distance from the form with any Theta over the order",
            "original flow",
            original_distance,
            conditions=(Requirement("no overlap", "E = 0", lambda instance: instance.gram[0, 1], at_most=0),),
            beyond=lambda: {
                "overlap 0.1, N = 1e9": Instance.of(single_common_token(10, 5, 0.15, 1000), 1.0, 1.0, 1e9)
            },
        ),
    ),
    picture=lambda: decoder_picture(CHANCE),
    map=lambda level: decoder_map(CHANCE, "Where the order of theta_n holds", level == "full", ("eta_Y", "t_end")),
)  # fmt: skip
