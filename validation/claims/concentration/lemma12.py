"""Lemma 12: all classes at once, in whole steps."""

from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims._shared import NO_MOMENTUM
from snapdyn.validation.claims.concentration._shared import (
    DELTAS,
    RATE_OF_LARGE_STEPS,
    count_property,
    decoder_of,
    hoeffding,
    order_of_theta,
    steps_of,
    tail,
    worst_entry,
)
from snapdyn.validation.claims.decoder._visits import Numbers, slope_of_h, visits_of
from snapdyn.validation.claims.language import EPS, Claim, Floats, Instance, Measured
from snapdyn.validation.claims.maps import decoder_map


def extremes(instance: Instance) -> tuple[Floats, Floats, Floats, Floats]:
    """p_n N, d = sqrt(N ln(2K/delta)/2), the extreme whole counts within d of p_n N, and V h* after these counts.

    The extreme counts are (2, deltas, classes), the smallest and the largest.
    """
    N = steps_of(instance)
    mean, d = instance.prior * N, hoeffding(N, DELTAS / instance.num_classes)
    counts = np.stack([np.maximum(np.ceil(mean - d), 0.0), np.minimum(np.floor(mean + d), N)])
    return mean, d, counts, decoder_of(instance).logits(counts)


def any_class_outside(instance: Instance, narrower: float = 1.0) -> Measured:
    """Sum over classes of P(|N_n - p_n N| > d/narrower), exact, over delta."""
    N = steps_of(instance)
    chance = tail(N, instance.prior, hoeffding(N, DELTAS / instance.num_classes) / narrower)
    return worst_entry(chance.sum(axis=1, keepdims=True), N)


def theta_at_extremes(instance: Instance, share: float | None = None, order: Numbers = 1.0) -> Measured:
    """|theta_n| = |h*(N_n)/h(share N) - 1| at the extreme counts, over `order` times the lemma's; default share p_n."""
    N, eta, V = steps_of(instance), instance.eta_Y, instance.vocab_size
    expected = V * analytic.h(N * (instance.prior if share is None else share), eta, V)
    scale = order_of_theta(instance) * order
    return worst_entry(np.abs(extremes(instance)[3] / expected - 1).max(axis=0), N, scale, 8 * EPS)


def moved_over_bound(instance: Instance, lags: bool = True) -> Measured:
    """|h*(N_n) - h(p_n N)| at the extreme counts over (d + X) h'(p_n N - d), X the lag at the largest count, or 0."""
    eta, V = instance.eta_Y, instance.vocab_size
    mean, d, counts, logits = extremes(instance)
    with np.errstate(over="ignore"):
        lag = np.where(lags, np.maximum(visits_of(logits[1], eta, V) - counts[1], 0.0), 0.0)
    moved = np.abs(logits - V * analytic.h(mean, eta, V)).max(axis=0)
    bound = V * (d + lag) * slope_of_h(mean - d, eta, V)
    return worst_entry(moved, steps_of(instance), bound, lags * 8 * EPS * logits.max(axis=0))


ORDER = count_property(
    "|theta_n| at the extreme counts over (1/(p_n sqrt(N))) sqrt(ln(K/delta))",
    theta_at_extremes,
    NO_MOMENTUM,
    RATE_OF_LARGE_STEPS,
    rung="descent",
    controls={
        "wrong theory: the order without 1/p_n": lambda instance: theta_at_extremes(instance, order=instance.prior),
        "wrong theory: h(N/2) for h(p_n N)": partial(theta_at_extremes, share=0.5),
    },
    evaluations=(200, 15_000),
)

CLAIM = Claim(
    "lemma12",
    source="Lemma 12, Eqs. (66)-(69)",
    title="The logits of all classes after N random steps stay close to those of mean counts",
    statement=(
        "After N batch-size-1 steps w_n = (1+theta_n) (V-1) h(p_n N) zeta_n, p_n N = N/K for equal priors, and with "
        "probability at least 1 - delta, delta <= 1/2, |theta_n| <= (1/(p_n sqrt(N))) sqrt(ln(K/delta)) for all "
        "classes at once. (Not in the paper, for any learning rate: for all classes |h*(N_n) - h(p_n N)| <= (d + X) "
        "h'(p_n N - d), d = sqrt(N ln(2K/delta)/2), X the lag in h*(s) = h(s + X).)"
    ),
    latex=r"w_n=(1+\theta_n)(V-1)h(\tfrac NK)\zeta_n,\qquad"
    r"\max_n|\theta_n|\lesssim\frac K{\sqrt N}\sqrt{\ln\tfrac K\delta}",
    conditions=("modified flow, discrete steps, Y(0) = 0, attention frozen", "eta_Y <= 3 + ln(N)/2"),
    conclusion=(
        "Holds while eta_Y <= 3 + ln(N)/2. The first step moves V h* by eta_Y (h*: h after discrete steps). The flow "
        "needs about exp(eta_Y)/(V eta_Y) visits for the same move, so at larger rates the steps are too far ahead of "
        "the flow. At V = 2, K = 1 the bound fails for eta_Y >= 3.2 at N = 1, and for eta_Y >= 8.6 at N = 1000."
    ),
    expected="conditional",
    properties=(
        ORDER,
        count_property(
            "sum over classes of P(|N_n - p_n N| > d)/delta",
            any_class_outside,
            controls={"wrong theory: d is 1.1 times smaller": partial(any_class_outside, narrower=1.1)},
            evaluations=(200, 15_000),
        ),
        count_property(
            "|h*(N_n) - h(p_n N)| at the extreme counts over (d + X) h'(p_n N - d)",
            moved_over_bound,
            NO_MOMENTUM,
            rung="descent",
            controls={"wrong theory: no lag, X = 0": partial(moved_over_bound, lags=False)},
            evaluations=(200, 15_000),
        ),
    ),
    certified=("lag-bound", "lemma12-rate"),
    map=lambda level: decoder_map(ORDER, "Where the order of theta_n holds", level == "full"),
)
