"""Snapping: after the transition attention freezes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.transition._many_classes import snapping_of_many_classes
from snapdyn.validation.claims.transition._shared import (
    DISTINCT_TOKENS,
    SYMMETRIC,
    SYMMETRIC_FAMILY,
    WHOLE,
    log_growth,
    transition,
)
from snapdyn.validation.claims.transition._snapping_settings import late_closed_form, late_runs
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.growth_bounds import common_growth, growth_on_orbit, overlap, upper_bound
from snapdyn.validation.headlines import Headline
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import (
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    LARGE_VOCABULARY,
    ONE_COMMON_TOKEN,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    UNIFORM,
    ZERO_START,
)
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD
from snapdyn.validation.search import Family, Instance, flow


def _transitions(instance: Instance) -> Floats:
    """t0 = 2 u_+/(p_n eta_Y) of every class (S,), batch-size-1 steps."""
    return 2 * float(analytic.u_plus(instance.vocab_size)) / (instance.flow_rates[0] * instance.prior)


def _common_share(instance: Instance) -> float:
    """Largest f_nc(0)^2 of the common token over the classes; of several, the sum."""
    f = instance.P / np.linalg.norm(instance.P, axis=1, keepdims=True)
    return float((np.linalg.norm(f[:, instance.classes.common_tokens()], axis=1) ** 2).max())


LATE = Requirement(
    "time after the transition", "t_end >= 2 t0 of the rarest class", lambda i: i.t_end / _transitions(i).max(),
    at_least=2, defining=True,
)  # fmt: skip
ONE_COMMON = (
    SEVERAL_CLASSES,
    OWN_NEXT_TOKENS,
    DISTINCT_TOKENS,
    OVERLAPPING,
    LARGE_VOCABULARY,
    replace(ZERO_START, defining=True),
    replace(INFINITE_LENGTH, defining=True),
    LATE,
)
# Under Eq. (10) two classes that overlap only each other have d ln chi/d ln ln = 2/((2 - f_1c^2 - f_2c^2) S), S the sum
# of 1 - f_nc^2: at most 1 for f_nc^2 <= 1 - 1/sqrt(2) = 0.29, if f is small on the dominant token; f_nc falls in time.
SMALL_SHARE = Requirement(
    "small share of the common token", "f_nc(0)^2 <= 0.25 for every class", _common_share, at_most=0.25
)
# In the mean field beta has a share of 1/V beside the overlap, whose effect does not slow down: an exponent of 1.21 at
# V = K = 4, and at V = 4 and priors 5:1 one that grows without end.
MANY_OUTPUTS = Requirement("many outputs", "V >= 10 K^2", lambda i: i.vocab_size / i.num_classes**2, at_least=10)
NOT_FASTER = Requirement("attention not faster than the decoder", "eta_Z/eta_Y <= 1", lambda i: i.ratio, at_most=1)
LATE_FAMILY = Family(
    "any classes", "any", uniform=False, num_common=(1, 2), num_distinct=(1, 4), num_queries=(1, 4),
    vocab_size=(4, 10**6), ratio=(1e-6, 2.0), horizon=(1e2, 1e7), eta_Y=(1e-6, 1e6),
)  # fmt: skip
ANY_LATE = replace(LATE_FAMILY, uniform=True, vocab_size=(4, 10**12), ratio=(1e-6, 1e6), horizon=(1e2, 1e12))
Rate = Callable[[Instance, int, Floats, Floats], Floats]


def slope(instance: Instance, n: int, t: Floats, growth: Floats) -> Floats:
    """d ln chi/d ln ln(V eta_Y p_n t) of class n between saved times."""
    logarithm = np.log(np.log(instance.vocab_size * instance.flow_rates[0] * instance.prior[n] * t))
    return np.asarray(np.diff(growth) / np.diff(logarithm))


def power(instance: Instance, n: int, t: Floats, growth: Floats) -> Floats:
    """d ln(ln chi)/d ln t between saved times over 4/(1+u_+)."""
    u = float(analytic.u_plus(instance.vocab_size))
    return np.asarray(np.diff(np.log(growth)) / np.diff(np.log(t)) * (1 + u) / 4)


def late_rate(rate: Rate, rung: str) -> Callable[[Instance], Measured | None]:
    """Largest rate of the dominant token's ln chi over the classes and the times t >= t0 of the class, at most 1."""

    def measure(instance: Instance) -> Measured | None:
        run = flow(instance, rung)
        if run is None:
            return None
        largest = Measured(-np.inf, at_most=1)
        for n in range(instance.num_classes):
            late = run.t >= _transitions(instance)[n]
            t, growth = run.t[late], log_growth(run, n)[late]
            if t.size > 1 and growth.min() > 0:
                rates = rate(instance, n, t, growth)
                i = int(np.argmax(rates))
                if rates[i] > largest.value:
                    largest = Measured(rates[i], at_most=1, error=1e-4, where=f"class {n} at t = {t[i]:.3g}")
        return largest if np.isfinite(largest.value) else None

    return measure


WITHOUT = "wrong theory: without the speed control (gamma = eta_Y p_n t for ever)"


def without_speed_control(rate: Rate) -> Callable[[Instance], Measured | None]:
    """Wrong theory: gamma = eta_Y p_n t for ever; ln chi = ln(1 + 4 A Gamma)/(2K), Gamma = p_n eta_Y eta_Z t^2/2."""

    def measure(instance: Instance) -> Measured | None:
        (eta_Y, eta_Z), K = instance.flow_rates, instance.num_classes
        x = float((instance.gram.sum() - K) / (K * (K - 1)))  # mean overlap
        n = int(np.argmax(instance.prior))
        t = np.geomspace(_transitions(instance).max(), instance.t_end, 60)
        growth = np.log1p(4 * (K - 1) * x**2 * instance.prior[n] * eta_Y * eta_Z * t**2 / 2) / (2 * K)
        return Measured(rate(instance, n, t, growth).max(), at_most=1) if growth.min() > 0 else None

    return measure


def _late_times(instance: Instance) -> Floats:
    end = transition(instance.classes, instance.flow_rates[0])[1]
    return np.geomspace(end, max(WHOLE * end, instance.t_end), 20)


def below_upper_bound(instance: Instance) -> Measured:
    """Largest ln chi over its upper bound under Eq. (10) with leading beta, t >= t0."""
    start, t = overlap(instance.classes), _late_times(instance)
    bound = upper_bound(start.x, start.most, instance.num_classes, common_growth(instance, t))
    return Measured(float(np.max(growth_on_orbit(instance, t) / bound)), at_most=1, error=1e-9)


def with_every_token_alone(instance: Instance) -> Measured:
    """Wrong theory: classes of one token each (f_l = 1), for any profile: ln chi of the orbit of such classes."""
    start, t, K = overlap(instance.classes), _late_times(instance), instance.num_classes
    share = 1 / (1 + np.sqrt(start.rho0**2 - 1))
    a = (1 - start.x) ** 2
    bound = np.log1p(4 * a * start.most / K**2 * common_growth(instance, t)) / (2 * a * K)
    growth = growth_on_orbit(instance, t, (np.array([1 - share]), share))
    return Measured(float(np.max(growth / bound)), at_most=1, error=1e-9)


WEAK_OVERLAP = Requirement(
    "small overlap", "rho0^2 >= 100", lambda i: overlap(i.classes).rho0 ** 2, at_least=100, defining=True
)


def _by_transition(instance: Instance) -> tuple[Floats, Floats]:
    """ln chi and Gamma at t0 and at 1e6 t0."""
    t = transition(instance.classes, instance.flow_rates[0])[1] * np.array([1.0, WHOLE])
    return growth_on_orbit(instance, t), common_growth(instance, t)


def share_by_transition(instance: Instance) -> Measured:
    """|share of ln chi(1e6 t0) gained by t0 - L(x0)/L(r x0)|, x0 = 4 A Gamma(t0), Eq. (10), leading beta."""
    growth, Gamma = _by_transition(instance)
    K, start = instance.num_classes, overlap(instance.classes)
    L = analytic.growth_exponent_of_many_classes(4 * (K - 1) * start.x**2 * Gamma, K, start.rho0)
    return Measured(abs(float(growth[0] / growth[1]) - float(L[0] / L[1])), at_most=0.05)


def proportional_share(instance: Instance) -> Measured:
    """Wrong theory: ln chi proportional to Gamma for ever, so the share is (u(t0)/u(1e6 t0))^2 at any rates."""
    growth, Gamma = _by_transition(instance)
    return Measured(abs(float(growth[0] / growth[1]) - float(Gamma[0] / Gamma[1])), at_most=0.05)


@claim(
    "snapping",
    source="Theorem 4, attention snapping; Sections 1 and 6",
    title="Snapping: after the transition attention freezes",
    answer="Attention does not freeze at the transition: much of its movement can still come, and chi = O(ln t) needs "
    "one common token of small weight and a large V.",
    headline=Headline(
        5,
        printed=r"\chi=O(\ln t)\quad(t\ge t_0)",
        recomputed=r"\chi=O(\ln t)\quad\mathrm{if}\ f_{nc}^2(0)\le\frac14,\ \eta_Z\le\eta_Y,\ V\ge10K^2",
    ),
    statement="For t >= t0 = 2 (1+omega_1) K ln V/eta_Y the growth factor is chi = O(ln t): attention hardly moves any "
    "more. As numbers: d ln chi/d ln ln(V eta_Y t/K) <= 1, and under Eq. (10) ln chi grows like a power of t that is 2 "
    "before and at most 4/(1+u_+) after t0. Of ln chi(T) the share L(x0)/L(r x0) is gained by t0, to 0.05: T = 1e6 t0, "
    "L(x) = ln(sqrt((1+q)^2 + x) - q), q = K/rho0^2, x0 = 2 K (K-1) u_+^2 (eta_Z/eta_Y)/rho0^4, r = (u(T)/u(t0))^2.",
    latex=r"\chi=O(\ln t),\qquad \frac{d\ln\chi}{d\ln\ln(V\eta_Yt/K)}\le1,\qquad "
    r"\frac{d\ln\ln\chi}{d\ln t}:\ 2\ \to\ \le\frac{4}{1+u_+}\quad(t\ge t_0)",
    expected="conditional",
    assumptions=(
        "one common token, K >= 2 classes with distinct tokens, zero start",
        "the exponent of ln t: f_nc(0)^2 <= 0.25 on the common token in every class, eta_Z <= eta_Y, V >= 10 K^2",
        "the power: modified decoder, equal priors (a rarer class that still learns lets xi of the others rise)",
        "the share by t0: modified decoder with leading beta, equal profiles and priors, rho0^2 >= 100; at least half "
        "for q << 1 and x0 >= r - 2. In the mean field this condition decides nothing",
    ),
    findings=("F3", "F4"),
    properties=(
        Property(
            "largest d ln chi/d ln ln(V eta_Y p_n t), t >= t0",
            "mean field",
            late_rate(slope, MEAN_FIELD),
            LATE_FAMILY,
            conditions=(*ONE_COMMON, ONE_COMMON_TOKEN, SMALL_SHARE, MANY_OUTPUTS, NOT_FASTER),
            controls={WITHOUT: without_speed_control(slope)},
            evaluations=(30, 1000),
        ),
        Property(
            "largest power of t in ln chi, t >= t0, over 4/(1+u_+)",
            "modified decoder",
            late_rate(power, EXACT),
            ANY_LATE,
            conditions=(*ONE_COMMON, INDEPENDENT_ATTENTION, ONE_COMMON_TOKEN, UNIFORM),
            controls={WITHOUT: without_speed_control(power)},
            evaluations=(60, 2000),
        ),
        Property(
            "largest ln chi over ln(1 + 4 a A Gamma)/(2 a K), a = (1-x)^2, so chi = O((ln t)^(1/(a K)))",
            "modified decoder, leading beta",
            below_upper_bound,
            SYMMETRIC_FAMILY,
            conditions=(*SYMMETRIC, LARGE_VOCABULARY),
            controls={"wrong theory: A without its K, one distinct token": with_every_token_alone},
            evaluations=(60, 2000),
            corrected=True,
        ),
        Property(
            "|share of ln chi(1e6 t0) gained by t0 - L(x0)/L(r x0)|",
            "modified decoder, leading beta",
            share_by_transition,
            SYMMETRIC_FAMILY,
            conditions=(*SYMMETRIC, LARGE_VOCABULARY, WEAK_OVERLAP),
            controls={"wrong theory: ln chi proportional to Gamma": proportional_share},
            evaluations=(60, 2000),
        ),
    ),
)
def snapping(evidence: Evidence) -> None:
    late_closed_form(evidence)
    late_runs(evidence)
    snapping_of_many_classes(evidence)
