"""Theorem 5 and Corollary 1: the decoder after N steps, its error, and the time to make this small."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    RATE_OF_LARGE_STEPS,
    below,
    count_property,
    decoder_of,
    order_of_theta,
    outside,
    steps_of,
    worst_entry,
)
from snapdyn.validation.claims.decoder._shared import (
    Numbers,
    elasticity,
    log_error,
    logits_of,
    single_token_classes,
    whole_steps,
)
from snapdyn.validation.claims.language import (
    EPS,
    INDEPENDENT_ATTENTION,
    NO_MOMENTUM,
    Claim,
    Floats,
    Instance,
    Ints,
    Measure,
    Measured,
    Property,
    Requirement,
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

THEOREM5 = Claim(
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


# Errors to which the time is measured on an instance.
TARGETS = np.array([0.5, 0.1, 1e-2, 1e-4, 1e-8, 1e-12])
# Beyond, the lag of whole steps moves the error by less than its rounding.
MOST_VISITS = 1e9


def whole_visits(instance: Instance) -> Floats:
    """First whole number of visits with |e_n - alpha_n| <= eps, for each eps of TARGETS, by the recursion (33)."""
    V = float(instance.vocab_size)
    return np.ceil(decoder_of(instance).visits(np.log(np.sqrt(V * (V - 1)) / TARGETS - (V - 1))))


def time_over(order: Callable[..., Floats], more: float = 0.0) -> Measure:
    """Whole visits to |e_n - alpha_n| <= eps over `more` + order(1/eps, ln(V/eps))/eta_Y: the largest over TARGETS."""

    def measure(instance: Instance) -> Measured:
        orders = order(1 / TARGETS, np.log(instance.vocab_size / TARGETS))
        values = whole_visits(instance) / (more + orders / instance.eta_Y)
        # Visits beyond the table are an integral, exact to some 1e-13.
        return Measured(values.max(), at_most=1.0, error=1e-11)

    return measure


def chance_of_late(instance: Instance, surplus: float = 0.5) -> Measured:
    """P(some class still above eps after N steps)/delta, exact, N by Hoeffding: the largest over TARGETS[::2], delta.

    N is the smallest number with p_n N - sqrt(surplus N ln(K/delta)) >= visits to eps for the rarest class.
    """
    need, p = whole_visits(instance)[::2, None], instance.prior
    a = surplus * np.log(instance.num_classes / DELTAS.T)
    least = p.min()
    N = np.ceil(((np.sqrt(a) + np.sqrt(a + 4 * least * need)) / (2 * least)) ** 2 * (1 + 4 * EPS))
    late = below(need[..., None], N[..., None], p).sum(axis=-1) / DELTAS.T
    return Measured(late.max(), at_most=1.0)


def visited(instance: Instance) -> Floats:
    """Whole numbers of visits p_n N, at most MOST_VISITS."""
    return np.minimum(np.floor(instance.prior * steps_of(instance) * (1 + 4 * EPS)), MOST_VISITS)


def norm_with_h(instance: Instance, lag: float | None = None) -> Measured:
    """|ln of the prediction error with h over that with h*|, over (5/4 + ln(V)/4) lag/s, s = p_n N whole visits.

    The lag is (1 + ln(1 + eta_Y s))/2 unless given.
    """
    s, eta, V = visited(instance), instance.eta_Y, instance.vocab_size
    u = decoder_of(instance).logits(s)
    moved = np.abs(log_error(V * analytic.h(s, eta, V), V) - log_error(u, V))
    bound = (5 + np.log(V)) / 4 * ((1 + np.log1p(eta * s)) / 2 if lag is None else lag) / s
    n = np.argmax(moved / bound)
    return Measured(moved[n] / bound[n], at_most=1.0, error=8 * EPS * (1 + u[n]) / bound[n])


PRINTED_TIME = Property(
    "visits until |e_n - alpha_n| <= eps over ln(V/eps)/(eps eta_Y), eps = 1/2..1e-12",
    "descent",
    time_over(np.multiply),
    ANY_CLASSES,
    conditions=(
        NO_MOMENTUM,
        Requirement(
            "the printed number of visits is at least one, also at eps = 1/2",
            "eta_Y/(2 ln(2V)) <= 1",
            lambda instance: instance.eta_Y / (2 * np.log(2 * instance.vocab_size)),
            at_most=1,
        ),
    ),
    controls={
        "wrong theory: the logarithm alone, ln(V/eps)/eta_Y": time_over(lambda inverse, log: log),
        "wrong theory: without the logarithm, 1/(eps eta_Y)": time_over(lambda inverse, log: inverse),
    },
    evaluations=(300, 20_000),
)

NORM = Property(
    "|ln of the error with h for h*| over (5/4 + ln(V)/4)(1 + ln(1+eta_Y s))/(2 s), s = p_n N <= 1e9",
    "descent",
    norm_with_h,
    ANY_CLASSES,
    conditions=(
        NO_MOMENTUM,
        Requirement(
            "every class visited", "p_n N >= 1", lambda instance: visited(instance).min(), at_least=1, defining=True
        ),
        Requirement("small steps", "eta_Y <= 3", lambda instance: instance.eta_Y, at_most=3),
    ),
    controls={"wrong theory: Remark 2's lag, which does not grow: 1/2 visit": partial(norm_with_h, lag=0.5)},
    evaluations=(300, 20_000),
)

COROLLARY1 = Claim(
    "corollary1",
    under_rules="Under Adam the error falls at a rate that the memory of v limits: see adam-end",
    source="Corollary 1, Eqs. (71)-(73)",
    title="The prediction error falls at least like one over the time, up to a logarithm",
    statement=(
        "|e_n - alpha_n| = (V-1)/(V-1+exp(V h*(N_n))) |zeta_n|; with h(N_n) for h*(N_n), as printed, the norm changes "
        "by a factor of at most exp((5/4 + ln(V)/4)(1 + ln(1+eta_Y s))/(2 s)), s = N_n visits. The norm is at most "
        "eps <= 1/2 after (1/(eps eta_Y)) ln(V/eps) visits of class n, that is K times as many batch-size-1 steps if "
        "N_n = N/K. For any learning rate (not in the paper), 1 + (1/eta_Y) (1/eps + ln(V/eps)) visits are enough."
    ),
    latex=r"\|e_n-\alpha_n\|=\frac{V-1}{V-1+e^{Vh(N_n)}}\|\zeta_n\|\le\epsilon\quad\text{after}\quad "
    r"O\!\left(\frac{K}{\epsilon\eta_Y}\ln\frac V\epsilon\right)\text{ steps}",
    conditions=(
        "modified flow, Y(0) = 0, attention frozen",
        "printed time: N_n = p_n N, eta_Y <= 2 ln(2V); printed norm, h for h*: eta_Y <= 3",
    ),
    conclusion=(
        "Holds where eta_Y <= 2 ln(2V); the bound is loose: the sum of 1/epsilon and ln(V/epsilon) suffices in place "
        "of their product. For eta_Y > 2 ln(2V) the printed bound at eps = 1/2, 2 ln(2V)/eta_Y visits, is less than "
        "one visit. The continuous flow reaches |e_n - alpha_n| = eps at the time (K/eta_Y) [sqrt(1-1/V)/eps - 1 + "
        "(1-1/V) V h], with the h of that time. For all classes at once, with probability 1 - delta, it is enough "
        "that p_n N exceeds these visits by sqrt(N ln(K/delta)/2); a term that is 1.1 times smaller is not enough."
    ),
    expected="conditional",
    properties=(
        PRINTED_TIME,
        replace(
            PRINTED_TIME,
            name="own: the same over 1 + (1/eps + ln(V/eps))/eta_Y",
            measure=time_over(np.add, more=1.0),
            conditions=(NO_MOMENTUM,),
            controls={"wrong theory: the same time without the one visit": time_over(np.add)},
        ),
        Property(
            "P(some class above eps)/delta after N steps, p_n N - sqrt(N ln(K/delta)/2) = the visits to eps",
            "closed form",
            chance_of_late,
            ANY_CLASSES,
            conditions=(NO_MOMENTUM,),
            controls={"wrong theory: a surplus 1.1 times smaller": partial(chance_of_late, surplus=0.5 / 1.1**2)},
        ),
        NORM,
    ),
    proved=("error-norm", "visits-to-error"),
    certified=("corollary1-time",),
    map=lambda level: decoder_map(PRINTED_TIME, "Where the printed time holds", level == "full"),
)
