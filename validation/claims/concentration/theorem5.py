"""Theorem 5: the decoder after N batch-size-1 steps."""

from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims._shared import NO_MOMENTUM
from snapdyn.validation.claims.concentration._shared import (
    DELTAS,
    RATE_OF_LARGE_STEPS,
    count_property,
    decoder_of,
    order_of_theta,
    outside,
    steps_of,
    worst_entry,
)
from snapdyn.validation.claims.decoder._visits import Numbers, elasticity, logits_of, single_token_classes, whole_steps
from snapdyn.validation.claims.language import (
    EPS,
    INDEPENDENT_ATTENTION,
    Claim,
    Floats,
    Instance,
    Ints,
    Measured,
    Property,
)
from snapdyn.validation.claims.maps import decoder_map

# Steps of the full Y that are made one by one.
STEPS = 150


def modified_steps(instance: Instance) -> tuple[Floats, Floats, Ints]:
    """F^T at the start, Y (columns of `outputs`) after whole steps of drawn classes, and the counts N_n.

    Each step is Y += eta_Y (f_n - F E' e_n)(e_n - alpha_n)^T. At most STEPS are made.
    """
    rng = np.random.default_rng([instance.seed % 2**31, instance.number])
    f = instance.classes.decoder_inputs(instance.start).toarray()
    update = np.linalg.solve(instance.gram, f)  # rows f_n - F E' e_n of F (I+E)^{-1}
    drawn = rng.choice(len(f), size=int(min(STEPS, steps_of(instance))), p=instance.prior)
    return f, whole_steps(instance, drawn, update, f), np.bincount(drawn, minlength=len(f))


def distance_from_form(instance: Instance, mixed: bool = True) -> Measured:
    """|Y - F (I - E')(I + Theta) Wbar| over |Y| with the true counts in h*, over what rounding allows.

    `mixed` = False leaves out I - E'.
    """
    f, Y, counts = modified_steps(instance)
    u = instance.vocab_size * analytic.discrete_h(int(counts.max()), instance.eta_Y, instance.vocab_size)[counts]
    W = logits_of(instance, u)
    form = f.T @ (np.linalg.solve(instance.gram, W) if mixed else W)
    # A step solves with G once and reads the logits back through F: eps times the condition number each. The softmax
    # turns an absolute error of the logits into a relative error of the step.
    condition = instance.eigenvalues[-1] / instance.eigenvalues[0] * max(1.0, u.max())
    allowed = 8 * EPS * (counts.sum() + instance.num_classes) * condition
    distance = np.linalg.norm(Y - form) / np.linalg.norm(Y)
    return Measured(distance / allowed, at_most=1.0, where=f"after {counts.sum()} steps")


def chance_of_theta(instance: Instance, order: Numbers = 1.0) -> Measured:
    """Sum over classes of P(|theta_n| > `order` times the printed order), exact, over delta.

    h* rises with the count, so these are the chances of a count below one number of visits or above another.
    """
    N, p, V = steps_of(instance), instance.prior, instance.vocab_size
    # theta on the edge lies inside, and has rounding.
    allowed = order_of_theta(instance) * order + 8 * EPS
    u = V * analytic.h(p * N, instance.eta_Y, V) * np.stack([1 - allowed, 1 + allowed])
    low, high = np.minimum(np.ceil(decoder_of(instance).visits(np.maximum(u, 0.0))), N + 1)
    chance = outside(np.where(allowed < 1, low, 0.0), high - 1, N, p)
    return worst_entry(chance.sum(axis=1, keepdims=True), N)


def by_bernstein(instance: Instance, share: float = 1.0) -> Measured:
    """`chance_of_theta` for `share` times Bernstein's order (s h'/h) sqrt(2 ln(2K/delta)/s), s = p_n N."""
    K, p = instance.num_classes, instance.prior
    of_h = elasticity(p * steps_of(instance), instance.eta_Y, instance.vocab_size)
    return chance_of_theta(instance, share * of_h * np.sqrt(2 * p * np.log(2 * K / DELTAS) / np.log(K / DELTAS)))


CHANCE = count_property(
    "sum over classes of P(|theta_n| > (1/(p_n sqrt(N))) sqrt(ln(K/delta)))/delta",
    chance_of_theta,
    NO_MOMENTUM,
    INDEPENDENT_ATTENTION,
    RATE_OF_LARGE_STEPS,
    controls={"wrong theory: half of the order": partial(chance_of_theta, order=0.5)},
    evaluations=(300, 15_000),
)

CLAIM = Claim(
    "theorem5",
    source="Theorem 5, Eq. (70)",
    title="After N random steps the decoder is close to a closed form",
    statement="Under the modified flow after N batch-size-1 steps Y = F (I - E')(I + Theta) Wbar, rows of Wbar "
    "(V-1) h(p_n N) zeta_n (p_n N = N/K for equal priors), Theta diagonal. With probability at least 1 - delta, "
    "delta <= 1/2, |theta_n| <= (1/(p_n sqrt(N))) sqrt(ln(K/delta)) for all classes.",
    latex=r"Y=F(I-E')(I+\Theta)\bar W,\quad\bar w_n=(V-1)h(\tfrac NK)\zeta_n,\quad"
    r"|\theta_n|\lesssim\frac K{\sqrt N}\sqrt{\ln\tfrac K\delta}",
    conditions=(
        "modified flow, Y(0) = 0, attention frozen",
        "attention vectors f_n linearly independent",
        "eta_Y <= 3 + ln(N)/2",
    ),
    conclusion=(
        "The form is exact with the true counts; with the mean counts it holds where eta_Y <= 3 + ln(N)/2, and Theta "
        "is smaller than printed. Indeed, |theta_n| is within (s h'/h) sqrt(2 ln(2K/delta)/s), s = N/K: of the order "
        "sqrt(K/N) (Bernstein), not K/sqrt(N), and at late times a factor ln(V eta_Y N/K) smaller. The printed bound "
        "fails only when it is halved; Bernstein's bound fails already when it is 1.1 times smaller."
    ),
    expected="conditional",
    properties=(
        CHANCE,
        count_property(
            f"Y after whole steps, at most {STEPS}, against the form with the true counts in h*, over rounding",
            distance_from_form,
            NO_MOMENTUM,
            INDEPENDENT_ATTENTION,
            rung="descent",
            controls={"wrong theory: without I - E'": partial(distance_from_form, mixed=False)},
            evaluations=(200, 3000),
            directed=False,
        ),
        Property(
            "own: the same probability with (s h'/h) sqrt(2 ln(2K/delta)/s) as the order, s = p_n N",
            "closed form",
            by_bernstein,
            controls={"wrong theory: that order, 1.1 times smaller": partial(by_bernstein, share=1 / 1.1)},
            cases=lambda: {
                f"K = {K}, N = {N:.0e}": Instance.of(single_token_classes(K, 1000), 0.5, 1.0, N)
                for K, N in ((10, 1e4), (10, 1e7), (3, 1e6), (65, 1e6))
            },
        ),
    ),
    map=lambda level: decoder_map(CHANCE, "Where the order of theta_n holds", level == "full", ("eta_Y", "t_end")),
)
