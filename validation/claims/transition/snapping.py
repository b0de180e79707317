"""Snapping: after the transition attention freezes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, syn_medium, syn_small
from snapdyn.validation.claims.language import (
    EXACT,
    INDEPENDENT_ATTENTION,
    LARGE_VOCABULARY,
    MEAN_FIELD,
    NOT_FASTER,
    ONE_COMMON_TOKEN,
    SEVERAL,
    UNIFORM,
    Claim,
    Floats,
    Grid,
    Headline,
    Instance,
    Map,
    Measured,
    Property,
    Requirement,
    flow,
    run_on_rung,
)
from snapdyn.validation.claims.transition._shared import (
    LEADING_BETA,
    MANY_CLASSES,
    ONE_COMMON,
    WHOLE,
    EqualClasses,
    Given,
    common_growth,
    equal_classes,
    five_tokens,
    log_growth,
    symmetric_property,
    transition,
    transitions,
    upper_bound,
)

LATE_FAMILY = replace(
    SEVERAL, num_common=(1, 2), num_queries=(1, 4), vocab_size=(4, 10**6), ratio=(1e-6, 2.0), horizon=(1e2, 1e7)
)
ANY_LATE = replace(LATE_FAMILY, uniform=True, vocab_size=(4, 10**12), ratio=(1e-6, 1e6), horizon=(1e2, 1e12))


def _common_share(instance: Instance) -> float:
    """Largest f_nc(0)^2 of the common token over the classes; with several common tokens, of their sum."""
    squares = instance.P**2
    return (squares[:, instance.classes.common_tokens()].sum(axis=1) / squares.sum(axis=1)).max()


LATE = Requirement(
    "time after the transition", "t_end >= 2 t0 of the rarest class", lambda i: i.t_end / transitions(i).max(),
    at_least=2, defining=True,
)  # fmt: skip
AFTER = (*ONE_COMMON, LARGE_VOCABULARY, LATE)
# Under Eq. (10) two classes have d ln chi/d ln ln = 2/((2 - f_1c^2 - f_2c^2) S), S the sum of 1 - f_nc^2: at most 1 for
# f_nc^2 <= 1 - 1/sqrt(2) = 0.29, if f is small on the dominant token; f_nc falls in time.
SMALL_SHARE = Requirement(
    "small share of the common token", "f_nc(0)^2 <= 0.25 for every class", _common_share, at_most=0.25
)
# The gradient of class n adds up the other classes k with the factors h_k/h_n, up to 1 + ln(p_k/p_n)/(V h_n): a rare
# class meets classes that learned long before, and its exponent grows with ln(p_k/p_n). 2800 instances at the corners
# of these conditions, with up to 100 distinct tokens, reached 0.49 for priors within 10, and 0.68 within 100.
LIKE_PRIORS = Requirement(
    "priors of one order", "largest p_n <= 10 times the smallest", lambda i: i.prior.max() / i.prior.min(), at_most=10
)
# In the mean field beta has a share of 1/V beside the overlap, whose effect does not slow down: 1.21 at V = K = 4.
MANY_OUTPUTS = Requirement("many outputs", "V >= 10 K^2", lambda i: i.vocab_size / i.num_classes**2, at_least=10)


def slope(V: float, visits: Floats, growth: Floats, rising: Floats) -> Floats:
    """d ln chi/d ln ln(V eta_Y p_n t) at visits = eta_Y p_n t; `rising` is d ln(ln chi)/d ln t."""
    return growth * rising * np.log(V * visits)


def power(V: float, visits: Floats, growth: Floats, rising: Floats, constant: float = 1.0) -> Floats:
    """d ln(ln chi)/d ln t over 4/(constant + u_+)."""
    return rising * (constant + analytic.u_plus(V)) / 4


def late_rate(instance: Instance, rate: Callable[..., Floats], rung: str, saves: int = 60) -> Measured | None:
    """Largest rate of the dominant token's ln chi over the classes and the times t >= t0 of the class, at most 1.

    The rate is the derivative of a spline of ln(ln chi) over ln t; the error is the change without every second node.
    """
    from scipy.interpolate import CubicSpline

    run, found = flow(instance, rung, saves), []
    for n, end in enumerate(transitions(instance)):
        near = run.t >= end / 10
        growth = log_growth(run, n)[near]
        if growth.min() <= 0:
            continue
        x, y, t = np.log(run.t[near]), np.log(growth), np.geomspace(end, instance.t_end, 200)
        visits = instance.flow_rates[0] * instance.prior[n] * t
        paths = [CubicSpline(x[::-step][::-1], y[::-step][::-1]) for step in (1, 2)]
        rates, coarse = (
            rate(instance.vocab_size, visits, np.exp(path(np.log(t))), path(np.log(t), 1)) for path in paths
        )
        i = np.argmax(rates)
        error, where = max(1e-4, abs(rates[i] - coarse[i])), f"class {n} at t = {t[i]:.3g}"
        found.append(Measured(rates[i], at_most=1, error=error, where=where))
    return max(found, key=lambda each: each.value, default=None)


WITHOUT = "wrong theory: without the speed control (gamma = eta_Y p_n t for ever)"


def without_speed_control(instance: Instance, rate: Callable[..., Floats]) -> Measured:
    """Wrong theory: gamma = eta_Y p_n t for ever; ln chi = ln(1 + 4 A Gamma)/(2K), Gamma = p_n eta_Y eta_Z t^2/2."""
    (eta_Y, eta_Z), K, p = instance.flow_rates, instance.num_classes, instance.prior.max()
    x = (instance.gram.sum() - K) / (K * (K - 1))  # mean overlap
    t = np.geomspace(transitions(instance).max(), instance.t_end, 60)
    grown = 4 * (K - 1) * x**2 * p * eta_Y * eta_Z * t**2 / 2
    growth, rising = np.log1p(grown) / (2 * K), 2 * grown / ((1 + grown) * np.log1p(grown))
    return Measured(rate(instance.vocab_size, eta_Y * p * t, growth, rising).max(), at_most=1)


def over_upper_bound(instance: Instance, alone: bool = False) -> Measured:
    """Largest ln chi over its upper bound under Eq. (10) with leading beta, t >= t0.

    The wrong theory `alone` has an A that is K^2 times smaller, and classes with a single distinct token.
    """
    equal = EqualClasses.of(instance)
    _, end = transition(equal, equal.flow_rates[0])
    t = np.geomspace(end, max(WHOLE * end, instance.t_end), 20)
    bound = upper_bound(equal, t, equal.num_classes**2 if alone else 1.0)
    if alone:
        share = 1 / (1 + np.sqrt(equal.overlap.rho0**2 - 1))
        equal = replace(equal, distinct=np.array([1 - share]), common=share)
    return Measured(np.max(equal.growth(t) / bound), at_most=1, error=1e-9)


WEAK_OVERLAP = Requirement(
    "small overlap", "rho0^2 >= 100", lambda given: equal_classes(given).overlap.rho0 ** 2, at_least=100, defining=True
)


def share_by_transition(given: Given, law: Callable[[Floats], Floats] | None = None) -> Measured:
    """|fraction of ln chi(1e6 t0) reached by t0 - that of a law of 4 A Gamma|, by default L; Eq. (10), leading beta."""
    equal = equal_classes(given)
    t = transition(equal, equal.flow_rates[0])[1] * np.array([1.0, WHOLE])
    growth, x = equal.growth(t), 4 * (equal.num_classes - 1) * equal.overlap.x**2 * common_growth(equal, t)
    expected = law(x) if law else analytic.growth_exponent_of_many_classes(x, equal.num_classes, equal.overlap.rho0)
    return Measured(abs(growth[0] / growth[1] - expected[0] / expected[1]), at_most=0.05)


def paper_instance(classes: SequenceClasses, eta_Y: float) -> Instance:
    """Instance of the given classes with eta_Z = 1 up to 1e6 t0."""
    return Instance.of(classes, eta_Y, 1.0, WHOLE * transition(classes, eta_Y)[1])


def rare_class(prior: float, tokens: int) -> Instance:
    """Two classes of one query with f_nc^2 = 0.25, the second rare, the first with many tokens, up to 30 t0."""
    common = 1 / (1 + np.sqrt(tokens * 0.7501 / 0.2499))
    P = np.zeros((2, tokens + 2))
    P[0] = [common, *[(1 - common) / tokens] * tokens, 0.0]
    P[1, [0, -1]] = 0.36596, 0.63404
    classes = SequenceClasses(P, [0, 0], prior=np.array([1.0, prior]) / (1 + prior), vocab_size=40)
    instance = Instance.of(classes, 1.0, 1.0, 1.0)
    return replace(instance, t_end=30 * transitions(instance).max())


def share_of_path(instance: Instance) -> Measured:
    """Share of the path of attention (total variation) to 1e6 t0 that is done by t0."""
    start, end = transition(instance.classes, instance.eta_Y)
    t = np.union1d(np.geomspace(1e-3 * start, instance.t_end, 121), end)
    run = run_on_rung(MEAN_FIELD, instance.classes, *instance.flow_rates, t, rtol=1e-9, atol=1e-16)
    steps = np.abs(np.diff(run.attention, axis=0)).sum(axis=(1, 2))
    return Measured(steps[: np.searchsorted(t, end)].sum() / steps.sum(), at_least=0.5)


def freezing_map(level: str) -> Map:
    """Share of the growth of ln chi to 1e6 t0 that comes after t0, over nu = eta_Y/eta_Z and the common probability."""
    nu, common = (np.geomspace(*ends, 15 if level == "full" else 5) for ends in ((1e-3, 1e3), (0.01, 0.5)))
    t = transition(five_tokens(5, 0.3, 1000))[1] * np.array([1.0, WHOLE])
    grid = Grid(
        {"common": common, "nu": nu},
        lambda common, nu: five_tokens(5, common, 1000, 1 / nu),
        lambda equal: 1 - np.divide(*equal.growth(t, "exact")),
    )
    return Map.over(
        "Where attention is frozen by t0: K = 5, V = 1000, modified decoder",
        ("eta_Y/eta_Z", "probability of the common token"),
        "share of ln chi(1e6 t0) gained after t0", grid, 0.5, scale="linear",
    )  # fmt: skip


CLAIM = Claim(
    "snapping",
    under_rules="Under Adam the end is set by the memory of v and by epsilon: see adam-end",
    source="Theorem 4, attention snapping; Sections 1 and 6",
    title="Snapping: after the transition attention freezes",
    headline=Headline(
        5,
        printed=r"\chi=O(\ln t)\quad(t\ge t_0)",
        recomputed=r"\chi=O(\ln t)\quad\mathrm{if}\ f_{nc}^2(0)\le\frac14,\ \eta_Z\le\eta_Y,\ V\ge10K^2",
        plain="Attention does not have to freeze after the transition: it grows at most logarithmically where the "
        "classes share one rare token, there are many outputs, and attention learns no faster than the decoder, but "
        "it can grow faster elsewhere.",
        where="chi is the growth factor of a distinct token, t0 the end of the transition, f_nc the weight of the "
        "common token in the attention of class n (scaled to 2-norm 1), eta_Y and eta_Z are the rates of decoder and "
        "attention, V is the number of outputs and K that of classes.",
    ),
    statement=(
        "For t >= t0 = 2 (1+omega_1) K ln V/eta_Y the growth factor is chi = O(ln t): attention hardly moves any "
        "more. In numbers: d ln chi/d ln ln(V eta_Y t/K) <= 1 for priors within a factor of 10, and under Eq. (10) ln "
        "chi grows like a power of t of at most 4/(1+u_+). By t0, ln chi has reached the fraction L(x0)/L(r x0) of ln "
        "chi(T), to 0.05: T = 1e6 t0, L(x) = ln(sqrt((1+q)^2 + x) - q), q = K/rho0^2, x0 = 2 K (K-1) u_+^2 "
        "(eta_Z/eta_Y)/rho0^4, r = (u(T)/u(t0))^2."
    ),
    latex=r"\chi=O(\ln t),\qquad \frac{d\ln\chi}{d\ln\ln(V\eta_Yt/K)}\le1,\qquad "
    r"\frac{d\ln\ln\chi}{d\ln t}\le\frac{4}{1+u_+}\quad(t\ge t_0)",
    conditions=(
        "one common token, K >= 2 classes with distinct tokens, zero start",
        "the exponent of ln t: a small share of the common token in every class, eta_Z <= eta_Y, many outputs, priors "
        "within a factor of 10 (otherwise the exponent is larger for a time; O(ln t) itself stands)",
        "the power: modified decoder, a small share of the common token in every class, equal priors",
        "the fraction by t0: modified decoder with leading beta, equal profiles and priors, rho0^2 >= 100; at least "
        "half for q << 1 and x0 >= r - 2.",
    ),
    conclusion=(
        "Attention does not freeze at the transition: chi = O(ln t) needs one common token of small weight and a "
        "large V. In the mean field this share of the change of attention up to 1e6 t0 comes before t0: {Syn-Small, "
        "eta_Y = 1:.0%} and {Syn-Small, eta_Y = 10:.0%} (Syn-Small, eta_Y = 1, 10), {Syn-Medium, eta_Y = 1:.0%} and "
        "{Syn-Medium, eta_Y = 2:.0%} (Syn-Medium, Q = 10, eta_Y = 1, 2). The exponent of ln t in chi is at most 1 by "
        "the theorem; measured, it is {ten common tokens:.1f} with ten common tokens, {priors 1 : 1e-10:.2f} for a "
        "rare class, and {largest d ln chi/d ln ln(V eta_Y p_n t), t >= t0:.2g} at most inside the conditions."
    ),
    expected="conditional",
    findings=("F3", "F4"),
    properties=(
        Property(
            "largest d ln chi/d ln ln(V eta_Y p_n t), t >= t0",
            "mean field",
            partial(late_rate, rate=slope, rung=MEAN_FIELD),
            LATE_FAMILY,
            conditions=(*AFTER, SMALL_SHARE, MANY_OUTPUTS, NOT_FASTER, LIKE_PRIORS),
            controls={WITHOUT: partial(without_speed_control, rate=slope)},
            evaluations=(60, 2000),
            beyond=lambda: {
                "ten common tokens": paper_instance(syn_small(), 1.0),
                "priors 1 : 1e-10": rare_class(1e-10, 100),
            },
        ),
        Property(
            "largest power of t in ln chi, t >= t0, over 4/(1+u_+)",
            "modified decoder",
            partial(late_rate, rate=power, rung=EXACT, saves=300),
            ANY_LATE,
            conditions=(*AFTER, INDEPENDENT_ATTENTION, UNIFORM, SMALL_SHARE),
            controls={
                WITHOUT: partial(without_speed_control, rate=power),
                "wrong theory: 4/(4+u_+), 1.09 times smaller at V = 1e12": partial(
                    late_rate, rate=partial(power, constant=4.0), rung=EXACT, saves=300
                ),
            },
            evaluations=(60, 2000),
        ),
        symmetric_property(
            "largest ln chi over ln(1 + 4 a A Gamma)/(2 a K), a = (1-x)^2, so chi = O((ln t)^(1/(a K)))",
            over_upper_bound,
            LARGE_VOCABULARY,
            controls={"wrong theory: A smaller by K^2, one distinct token": partial(over_upper_bound, alone=True)},
            rung=LEADING_BETA,
        ),
        symmetric_property(
            "|share of ln chi(1e6 t0) gained by t0 - L(x0)/L(r x0)|",
            share_by_transition,
            LARGE_VOCABULARY,
            WEAK_OVERLAP,
            controls={"wrong theory: ln chi proportional to Gamma": partial(share_by_transition, law=lambda x: x)},
            rung=LEADING_BETA,
            corrected=False,
        ),
        Property(
            "|share of ln chi(1e6 t0) of many classes gained by t0 - L(x0)/L(r x0)|",
            LEADING_BETA,
            share_by_transition,
            MANY_CLASSES,
            conditions=(WEAK_OVERLAP,),
            controls={"wrong theory: L(x) = ln(1+x), as for q << 1": partial(share_by_transition, law=np.log1p)},
        ),
        Property(
            "share of attention's path to 1e6 t0 that is done by t0",
            "mean field",
            share_of_path,
            conditions=(ONE_COMMON_TOKEN,),
            beyond=lambda: {
                "Syn-Small, eta_Y = 1": paper_instance(syn_small(), 1),
                "Syn-Small, eta_Y = 10": paper_instance(syn_small(), 10),
                "Syn-Medium, eta_Y = 1": paper_instance(syn_medium(10), 1),
                "Syn-Medium, eta_Y = 2": paper_instance(syn_medium(10), 2),
            },
        ),
    ),
    map=freezing_map,
)
