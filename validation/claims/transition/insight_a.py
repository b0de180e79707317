"""Reading (a) of Theorem 4: a larger eta_Y brings the transition forward."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trajectory, log_times, momentum_clock, single_common_token, syn_medium
from snapdyn.validation.claims.attention._shared import OWN
from snapdyn.validation.claims.language import (
    MEAN_FIELD,
    NOT_FASTER,
    SEVERAL,
    Claim,
    Floats,
    Grid,
    Instance,
    Map,
    Measured,
    Picture,
    Property,
    Requirement,
    flow,
    run_on_rung,
)
from snapdyn.validation.claims.published import FIGURE_6, figure_6_runs
from snapdyn.validation.claims.sample_classes import equal_overlap
from snapdyn.validation.claims.transition._shared import changed

RATES = np.array([0.5, 1.0, 2.0, 5.0])
ETA_Z = 0.5
# The factor of a rate in the searched statement.
FACTOR = 2.0


def largest_confusion(instance: Instance) -> float:
    """Largest f_n.f_k at the start of two classes with different next tokens; 0 where there are none."""
    tokens = instance.classes.next_token
    return instance.gram[tokens[:, None] != tokens].max(initial=0.0)


# By the units of time T(2 eta_Y, eta_Z) = T(eta_Y, eta_Z/2)/2: the ratio is 1/2 where attention does not matter, and
# 1/sqrt(2) where attention sets the time, which then goes as (eta_Y eta_Z)^(-1/2): classes that only attention can
# tell apart. With fast attention, or next tokens that classes share, a directed search reached 0.617 at overlaps of
# 0.7; without both 0.549.
TOLD_APART = Requirement(
    "the decoder can tell the classes apart",
    "f_n.f_k <= 0.7 for classes with different next tokens",
    largest_confusion,
    at_most=0.7,
)


def rate_of_query(instance: Instance) -> float:
    """Largest (eta_Z/eta_Y) P(m)/p_n over classes n, m the query of n and P(m) the sum of the priors of its classes.

    A common logit adds up over the classes of its query: |z_m'| is of order eta_Z P(m) gamma, and class n learns in a
    time of order 1/(eta_Y p_n). So attention moves during this time by (eta_Z/eta_Y) P(m)/p_n times a function of the
    class's own visits, K_m eta_Z/eta_Y for the K_m equal classes of a query. At eta_Z/eta_Y = 1e-4, overlaps of 0.69
    and one query of V = K classes the ratio of times differs from 1/2 by 1.3, 2.4 and 7.5 % at K = 60, 100 and 300; at
    K eta_Z/eta_Y = 1e-4 and K = 60 by 0.012 %.
    """
    prior, query = instance.prior, instance.classes.query_index
    return (instance.ratio * np.bincount(query, prior)[query] / prior).max()


SLOW_ATTENTION = Requirement(
    "attention much slower than the decoder",
    "(eta_Z/eta_Y) P(m)/p_n <= 1e-4 for every class n of a query m",
    rate_of_query,
    at_most=1e-4,
)


def equal_classes_of_a_query(num_classes: int) -> Instance:
    """V = K classes of one query, overlaps of 0.69, a common and a distinct token each, eta_Z/eta_Y = 1e-4."""
    common, distinct = np.sqrt([0.69, 0.31])
    P = np.hstack([np.full((num_classes, 1), common), distinct * np.eye(num_classes)]) / (common + distinct)
    classes = SequenceClasses(P, np.zeros(num_classes, dtype=int), vocab_size=num_classes)
    return Instance.of(classes, 1.0, 1e-4, 30.0 * num_classes)


def half_time(t: Floats, loss: Floats, level: float) -> float:
    """First time at which the loss is at most `level`, linear in ln t between the saved times; inf: never."""
    fall = -np.minimum.accumulate(loss)
    return np.exp(np.interp(-level, fall, np.log(t), right=np.inf))


def time_ratio(instance: Instance, eta_Y: float = FACTOR, eta_Z: float = 1.0) -> Measured | None:
    """Time to half of the fall of the loss by t_end: with the rates times these factors, over that with the rates."""
    run, other = (flow(each, MEAN_FIELD, 200) for each in (instance, changed(instance, eta_Y, eta_Z)))
    start = np.log(instance.vocab_size)
    if not run.loss[-1] < start * (1 - 1e-6):
        return None
    level = (start + run.loss[-1]) / 2
    return Measured(half_time(other.t, other.loss, level) / half_time(run.t, run.loss, level), at_most=0.6)


def over_half(instance: Instance, eta_Y: float = FACTOR) -> Measured | None:
    """|ratio of times over 1/2 - 1|: while attention moves little, the time is proportional to 1/eta_Y."""
    found = time_ratio(instance, eta_Y)
    return None if found is None else Measured(abs(FACTOR * found.value - 1), at_most=0.01)


def overlap_map(level: str) -> Map:
    """Map of the ratio of times over the overlap of two classes and the ratio of the rates, V = 2, eta_Y t to 1e4."""
    points = (17, 21) if level == "full" else (7, 9)
    ratios, overlaps = np.geomspace(1e-3, 10, points[0]), np.linspace(0.1, 0.99, points[1])

    grid = Grid(
        {"eta_Z": ratios, "overlap": overlaps},
        lambda eta_Z, overlap: Instance.of(equal_overlap(2, 2, overlap), 1.0, eta_Z, 1e4),
        lambda instance: found.value if (found := time_ratio(instance)) else None,
    )
    return Map.over(
        "Where twice eta_Y takes at most 0.6 times as long: two classes of one query, V = 2, mean field",
        ("f_1.f_2 at the start", "eta_Z/eta_Y"),
        "time to half of the fall of the loss at 2 eta_Y over that at eta_Y", grid, 0.6,
        [Picture.line("f_1.f_2 = 0.7", [0.7, 0.7], ratios[[0, -1]])], xscale="linear", scale="linear",
    )  # fmt: skip


def fastest_time(run: Trajectory) -> float:
    """Saved time around which the attention on common tokens falls fastest."""
    common = run.attention[:, :, run.require_classes().common_tokens()].sum(axis=(1, 2))
    return run.t[np.gradient(common, run.t).argmin()]


def attention_times() -> Floats:
    """Times at which the attention on common tokens falls fastest in the mean field, one per rate."""
    classes = single_common_token(10, 5, 0.1, 1000)
    times = [log_times(1e-2 / rate, 1e5 / rate, 2801) for rate in RATES]
    return np.array([fastest_time(run_on_rung(MEAN_FIELD, classes, 1e-2 / t[0], ETA_Z, t)) for t in times])


def trained_times(seeds: range) -> Floats:
    """Times at which the mean loss is half of ln V under SGD as in Fig. 6, on the momentum clock, one per rate."""
    classes, steps = syn_medium(3), range(1, FIGURE_6["steps"] + 1)
    t = momentum_clock(steps, FIGURE_6["momentum"])
    trained = figure_6_runs([(classes, rate, ETA_Z) for rate in RATES], seeds, steps)
    losses = (np.mean([run.loss for run in runs], axis=0) for runs in trained)
    return np.array([half_time(t, loss, np.log(classes.vocab_size) / 2) for loss in losses])


def largest_step(times: Floats) -> Measured:
    """Largest ratio of a time to that at the next smaller eta_Y."""
    return Measured((times[1:] / times[:-1]).max(), at_most=1)


CLAIM = Claim(
    "insight-a",
    source="Section 6, reading (a) of Theorem 4",
    title="A larger rate eta_Y of the decoder brings the transition forward",
    statement=(
        "The larger the decoder's rate, the earlier the transition: its time falls with eta_Y at fixed eta_Z. In the "
        "mean field, doubling eta_Y multiplies the time to half of the fall of the loss by at most 0.6 if classes "
        "have next tokens of their own, overlap by at most 0.7, and attention is not faster than the decoder; and by "
        "one half, to 1 %, if classes with different next tokens overlap by at most 0.7 and (eta_Z/eta_Y) P(m)/p_n <= "
        "1e-4 for each class n and its query m: K eta_Z/eta_Y for K equal classes of one query, whose common logits "
        "add up. "
        "Where only attention can tell two classes apart, the time goes about as (eta_Y eta_Z)^(-1/2)."
    ),
    latex=r"\eta_Y\uparrow\ \Rightarrow\ t_0=2(1+\omega_1)\frac{K\ln V}{\eta_Y}\downarrow",
    expected="conditional",
    conditions=(
        "the same classes and eta_Z",
        "the loss falls at all",
        "mean field: f_n.f_k <= 0.7 at the start for classes with different next tokens; for the factor 0.6 also "
        "next tokens of their own and eta_Z <= eta_Y; for one half to 1 % (eta_Z/eta_Y) P(m)/p_n <= 1e-4 for every "
        "class n of a query m",
    ),
    conclusion=(
        "Holds on every rung where the decoder can tell the classes apart; where attention must first separate them, "
        "the time falls by less. At eta_Z/eta_Y = 1e-4 the ratio differs from 1/2 by {60 equal classes of a "
        "query:.1%} with 60 equal classes of one query and by {300 equal classes of a query:.1%} with 300. From each "
        "of eta_Y = 0.5, 1, 2, 5 to the next, SGD as in Fig. 6 takes at most {Syn-Medium, 5 seeds:.2f} of the time, "
        "and the time at which attention moves fastest falls to at most {K = 10, V = 1000:.2f} of its value."
    ),
    map=overlap_map,
    properties=(
        Property(
            "time to half of the fall of the loss up to t_end: ratio of the times at 2 eta_Y and at eta_Y",
            "mean field",
            time_ratio,
            replace(SEVERAL, num_common=(0, 3), num_distinct=(0, 4), shared_next_tokens=True),
            conditions=(TOLD_APART, OWN, NOT_FASTER),
            controls={
                "wrong theory: the time goes as (eta_Y eta_Z)^(-1/2), sqrt(2) eta_Y does what 2 should": partial(
                    time_ratio, eta_Y=FACTOR**0.5
                )
            },
            evaluations=(60, 2000),
        ),
        Property(
            "|2 t(2 eta_Y)/t(eta_Y) - 1| with slow attention, (eta_Z/eta_Y) P(m)/p_n <= 1e-4",
            "mean field",
            over_half,
            replace(
                SEVERAL,
                name="slow attention",
                ratio=(1e-6, 1e-4),
                num_common=(0, 3),
                num_distinct=(0, 4),
                shared_next_tokens=True,
            ),
            conditions=(TOLD_APART, SLOW_ATTENTION),
            controls={"wrong theory: 1.1 times the time (2/1.1 eta_Y)": partial(over_half, eta_Y=FACTOR / 1.1)},
            evaluations=(12, 400),
            beyond=lambda: {f"{K} equal classes of a query": equal_classes_of_a_query(K) for K in (60, 300)},
        ),
        Property(
            "common attention falls fastest: largest ratio of a time to that at the next smaller eta_Y",
            "mean field",
            largest_step,
            cases=lambda: {"K = 10, V = 1000": attention_times()},
        ),
        Property(
            "loss half of ln V: largest ratio of a time to that at the next smaller eta_Y",
            "SGD",
            largest_step,
            cases=lambda: {"Syn-Medium, 5 seeds": trained_times(range(5))},
        ),
    ),
)
