"""Theorem 4: the growth exponent, before and after the phase transition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn import analytic
from snapdyn.analytic import DistinctProfile
from snapdyn.dynamics import SingleCommonToken, Trajectory, log_times, single_common_token, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.transition._shared import SYMMETRIC, SYMMETRIC_FAMILY, log_growth, transition
from snapdyn.validation.growth_bounds import common_growth, overlap, profile_of
from snapdyn.validation.measured import Measured
from snapdyn.validation.observables import growth_integral
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import Claim, Headline
from snapdyn.validation.rungs.closed_forms import SingleCommonProfile
from snapdyn.validation.rungs.run import EXACT, LEADING, MEAN_FIELD, run_on_rung
from snapdyn.validation.search import Instance, flow
from snapdyn.validation.search.box import Box

# rtol 1e-9 per step over some thousand steps.
SOLVER = 1e-5
# Where the explicit law of the consistent form's error has been compared: largest x = 4 A Gamma and K/rho0^2.
LARGEST_X = 1e4
LARGEST_OVERLAP = 0.1
LEADING_BETA = "modified decoder, leading beta"
# Named settings have five classes with five distinct tokens each.
K, V = 5, 100_000
TIMES = log_times(1e-2, 1e5, 1200)

Shape = Callable[[SingleCommonProfile], DistinctProfile]


def measured_profile(profile: SingleCommonProfile) -> DistinctProfile:
    """Concentration of the distinct tokens of the classes."""
    return analytic.distinct_profile(profile.distinct_probabilities)


def constant_rho0(profile: SingleCommonProfile) -> DistinctProfile:
    """Wrong theory: the distinct tokens do not grow, rho0 is constant."""
    return DistinctProfile(0.0, 0.0, 0.0)


def one_token(profile: SingleCommonProfile) -> DistinctProfile:
    """Wrong theory: the profile does not matter, every class has one distinct token."""
    return DistinctProfile(1.0, 0.0, 1.0)


def bounds(instance: Instance, t: Floats, shape: Shape, vocab_size: int | None) -> tuple[Any, Any]:
    """Lower and upper bound of B and z_c at the times t; with leading beta where `vocab_size` is None."""
    Gamma, rho0 = common_growth(instance, t), overlap(instance.classes).rho0
    return analytic.bounds_of_growth(Gamma, instance.num_classes, rho0, shape(profile_of(instance)), vocab_size)


def outside(t: Floats, values: Floats, lower: Floats, upper: Floats) -> Measured:
    """How far `values` lie outside their bounds at most, relative."""
    excess = np.maximum(values / upper - 1, 1 - values / lower)
    i = int(excess.argmax())
    return Measured(float(excess[i]), at_most=SOLVER, where=f"t = {t[i]:.3g}")


def run_of(instance: Instance) -> Trajectory | None:
    """Run of Eq. (10), accurate relative to the first saved logits too.

    In the time itself, which short runs choose, the first saved times lie inside one step, and interpolation errs by
    up to 2 % of them.
    """
    return flow(instance, EXACT, method="compiled", rtol=1e-9, atol=1e-30, log_time=True)


def enclosed(shape: Shape) -> Callable[[Instance], Measured | None]:
    """How far |z_c| of Eq. (10) lies outside its bounds, relative."""

    def measure(instance: Instance) -> Measured | None:
        run = run_of(instance)
        if run is None:
            return None
        z = run.z[:, 0, int(instance.classes.common_tokens()[0])]
        lower, upper = bounds(instance, run.t, shape, instance.vocab_size)
        return outside(run.t, z, lower.z_common, upper.z_common)

    return measure


def growth_enclosed(instance: Instance) -> Measured | None:
    """How far ln chi of the dominant token lies outside 2 f0^2 B (lower bound) and 2 B (upper bound), relative."""
    run = run_of(instance)
    if run is None:
        return None
    lower, upper = bounds(instance, run.t, measured_profile, instance.vocab_size)
    return outside(run.t, log_growth(run), 2 * overlap(instance.classes).f0 ** 2 * lower.B, 2 * upper.B)


def printed_encloses(instance: Instance) -> Measured | None:
    """Wrong theory: 2 f0^2 B <= ln chi <= 2 B with the printed B, its origin mended (F1)."""
    run = run_of(instance)
    if run is None:
        return None
    start = overlap(instance.classes)
    B = np.log1p(4 * instance.num_classes / start.rho0**4 * common_growth(instance, run.t)) / 4
    return outside(run.t, log_growth(run), 2 * start.f0**2 * B, 2 * B)


def exponent_on_orbit(
    t: Floats, distinct: Floats, common: float, num_classes: int, vocab_size: int, *rates: float
) -> float:
    """B with leading beta at the last time: z_c = -K sigma on the orbit, dB = (1+o) dsigma, o = C/D."""
    from scipy.integrate import cumulative_simpson

    orbit = analytic.single_common_token_orbit(t, distinct, common, num_classes, vocab_size, *rates, beta="leading")
    o = common**2 * np.exp(2 * orbit.z_common) / (distinct**2 * np.exp(2 * orbit.z_distinct)).sum(axis=1)
    sigma = -orbit.z_common / num_classes
    return float(cumulative_simpson(1 + o, x=sigma, initial=0)[-1] + (1 + o[0]) * sigma[0])


def strength(instance: Instance) -> float:
    """x = 4 A Gamma(t_end), A = (K-1)/rho0^4."""
    A = (instance.num_classes - 1) / overlap(instance.classes).rho0 ** 4
    return float(4 * A * common_growth(instance, np.array([instance.t_end]))[0])


COMPARED = (
    Requirement("range of the explicit law", f"x = 4 A Gamma <= {LARGEST_X:g}", strength, at_most=LARGEST_X),
    Requirement(
        "small overlap",
        f"K/rho0^2 <= {LARGEST_OVERLAP:g}",
        lambda i: i.num_classes / overlap(i.classes).rho0 ** 2,
        at_most=LARGEST_OVERLAP,
    ),
)


def error_law(shape: Shape | None) -> Callable[[Instance], Measured]:
    """|error of the consistent form - its law| at t_end, over 1.5 (K/rho0^2)^2 + 0.015; None: only (K-2)/rho0^2."""

    def measure(instance: Instance) -> Measured:
        rho0, K, x, profile = (
            overlap(instance.classes).rho0,
            instance.num_classes,
            strength(instance),
            profile_of(instance),
        )
        t = np.geomspace(1e-4, 1, 400) * instance.t_end
        B = exponent_on_orbit(t, *profile[:2], K, instance.vocab_size, *instance.flow_rates)
        law = (K - 2) / rho0**2
        if shape is not None:
            pi, slope, _ = shape(profile)
            law = float(analytic.error_of_consistent_form(x, K, rho0, pi, slope))
        # What the law leaves out: 1.5 (K/rho0^2)^2 bounds the second order in the overlap as measured, and 0.015 the
        # drift as a search found it (0.013 at K = 2); neither is derived.
        scale = 1.5 * (K / rho0**2) ** 2 + 0.015
        return Measured(float(abs(np.log1p(x) / (4 * K) / B - 1 - law) / scale), at_most=1)

    return measure


def of_many_classes(theory: Callable[[float, int, float], Any]) -> Callable[[Mapping[str, Any]], Measured]:
    """Relative error of B = theory(x, K, rho0) on the orbit of K = V = 1e9 classes, eta_Y t = 10 K ln V."""

    def measure(at: Mapping[str, Any]) -> Measured:
        K, x, weights = 10**9, at["x"], np.linspace(0.1, 1.0, at["tokens"])
        rho0, profile = float(np.sqrt(K / at["q"])), weights / weights.sum()
        odds = float(np.linalg.norm(profile) / np.sqrt(rho0**2 - 1))  # P(l_c) over the sum of the distinct ones
        end = 10 * K * np.log(K)
        eta_Z = x * rho0**4 / (4 * (K - 1) * float(analytic.gamma_integral(end, 1.0, K, K)))
        t = np.geomspace(1e-4, 1, 400) * end
        B = exponent_on_orbit(t, profile / (1 + odds), odds / (1 + odds), K, K, 1.0, eta_Z)
        # Left out: 1/K and 1/rho0^2, 1e-6 at most; Simpson's rule over 400 times.
        return Measured(abs(float(theory(x, K, rho0)) / B - 1), at_most=1e-4)

    return measure


def closed_form(t: ArrayLike, rho0: float, form: str) -> Floats:
    """B_n of the named settings."""
    return np.asarray(analytic.growth_exponent(t, 1.0, 1.0, V, K, rho0, form=form))


def printed_origin(rho0: float) -> Measured:
    """|B_n(0)| of the printed form, which must be 0."""
    return Measured(abs(float(closed_form(0.0, rho0, "printed"))), at_most=1e-12)


def against_reduced_system(rho0: float) -> Measured:
    """Largest error of the consistent form against the reduced system."""
    run = whole_run(SingleCommonToken(K, V, 1.0, 1.0, rho0, "consistent"), TIMES, rtol=1e-11, atol=1e-14)
    return Measured(float(np.abs(run.extra["B"][:, 0] - closed_form(TIMES, rho0, "consistent")).max()), at_most=1e-8)


def setting(share: float, vocab_size: int = V, eta_Z: float = 1.0) -> Instance:
    """Five classes with `share` of their tokens common."""
    return Instance.of(single_common_token(K, 5, share, vocab_size), 1.0, eta_Z, float(TIMES[-1]))


@cache
def settings() -> dict[str, Instance]:
    """Settings of a large and of a small overlap 1/rho0^2."""
    return {"rho0 = 4.8": setting(0.1), "rho0 = 165": setting(0.1 / 32)}


@cache
def integrated(instance: Instance) -> Floats:
    """B by quadrature along Eq. (10) with leading beta, the theorem's premise.

    The exact beta differs by 1/V against f.f = 1/rho0^2.
    """
    return growth_integral(run_on_rung(LEADING, instance.classes, 1.0, 1.0, TIMES, rtol=1e-10, atol=1e-14), 1.0)[:, 0]


def printed_growth(instance: Instance) -> Measured:
    """|growth of the printed B over the integrated one - 1| at the last time."""
    rho0 = overlap(instance.classes).rho0
    growth = float(np.ptp(closed_form(TIMES, rho0, "printed")))
    return Measured(abs(growth / float(integrated(instance)[-1]) - 1), at_most=3 / rho0**2)


def integrated_enclosed(instance: Instance) -> Measured:
    """How far B by quadrature lies outside its bounds with leading beta, relative; Simpson's rule over 1200 times."""
    lower, upper = bounds(instance, TIMES, measured_profile, None)
    return outside(TIMES, integrated(instance), lower.B, upper.B)


def common_logit_ratio(instance: Instance) -> Measured:
    """Common logit under Eq. (10) over that of the mean field at the last time."""
    slow, full = (run_on_rung(rung, instance.classes, 1.0, instance.eta_Z, TIMES) for rung in (EXACT, MEAN_FIELD))
    return Measured(float(slow.z[-1, 0, 0] / full.z[-1, 0, 0]), at_most=2)


def picture() -> Picture:
    instance = setting(0.1)
    rho0 = overlap(instance.classes).rho0
    start, end = transition(instance.classes, 1.0)
    return Picture(
        "t (batch-size-1 steps)",
        f"B, K = 5, V = 1e5, rho0 = {rho0:.1f}",
        (
            Picture.line("printed (124)", TIMES, closed_form(TIMES, rho0, "printed"), "printed"),
            Picture.line("consistent", TIMES, closed_form(TIMES, rho0, "consistent")),
            Picture.line("integrated along Eq. (10)", TIMES, integrated(instance), "simulation"),
        ),
        verticals=(("t0'", start), ("t0", end)),
    )


CLAIM = Claim(
    "theorem4",
    source="Theorem 4, Eqs. (13)-(14), (118)-(131)",
    title="The growth exponent is B_n = (1/4) ln(C0 + 4 Gamma)",
    headline=Headline(
        1,
        printed=r"B_n=\frac14\ln\left(\frac{\rho_0^4}{K}+4\Gamma\right)",
        recomputed=r"B_n=\frac{1}{4(K+\pi)}\ln\left(1+\left(1+\frac\pi K\right)\frac{4(K-1)}{\rho_0^4}\Gamma\right)"
        r"\ \ (\rho_0\to\infty)",
    ),
    statement="With one common token, B_n(t) = (1/4) ln(C0 + 4 Gamma(t)), C0 = rho0^4/K, Gamma = eta_Z int gamma dt: "
    "it grows like a logarithm of t^2 before and of ln^2 t after the transition. Corrected, on the per-step clock: "
    "were rho0 constant, B_n = (1/(4K)) ln(1 + x), x = 4 A Gamma, A = (K-1)/rho0^4. But distinct tokens grow: with "
    "pi = sum_l w_l^2, w_l the share of token l in the distinct part of |c~|^2, B_n lies between its values at "
    "constant pi(0) and at pi = 1/m (m most frequent tokens), at any overlap and Gamma. At pi(0) and rho0 -> infinity "
    "it is (1/(4(K+pi))) ln(1 + (1+pi/K) x): the form with constant rho0 errs by (K-2)/rho0^2 + (pi/K) x/2 for x << 1 "
    "and by about (pi/K)(1 - 1/ln(1+x)), whatever rho0, beyond. With leading beta, K -> infinity and q = "
    "K/rho0^2 fixed it is ln(sqrt((1+q)^2 + x) - q)/(2K), for any profile.",
    latex=r"B_n=\frac14\ln\left(C_0+4\Gamma\right)\quad\to\quad "
    r"B_n=\frac{1}{4(K+\pi)}\ln\left(1+\left(1+\frac\pi K\right)\frac{4(K-1)}{\rho_0^4}\Gamma\right)"
    r"\ (\rho_0\to\infty)",
    expected="corrected",
    conditions=(
        "one common token, one query, uniform classes of equal profiles, zero start",
        "the decoder follows the modified flow",
        "the explicit error of the form with constant rho0: leading beta, x <= 1e4, K/rho0^2 <= 0.1",
    ),
    conclusion="The printed growth exponent of attention starts at 0 only for rho0^4 = K and grows about K times too fast. At K = 5 "
    "its growth exceeds the integrated one by {rho0 = 165:.0%} (F3), and at rho0 = 5 it starts at {rho0 = 5:.2f} in "
    "place of 0 (F1). The form with constant rho0 errs however large rho0 is, once x is. The premise, the modified decoder, "
    "exceeds the mean field's common logit {V = 1e5:.0f} times (F4).",
    findings=("F1", "F3", "F4"),
    proved=(
        "premise",
        "growth-exponent",
        "common-logit",
        "xi",
        "early-piece",
        "late-piece",
        "odds-of-common-token",
        "profile-drift",
        "profile-growth",
        "profile-time-leading",
        "profile-time-exact",
        "growth-overlap",
        "growth-drift",
    ),
    picture=picture,
    properties=(
        Property(
            "how far |z_c| lies outside its bounds at pi(0) and at pi = 1/m, relative",
            "modified decoder",
            enclosed(measured_profile),
            SYMMETRIC_FAMILY,
            conditions=SYMMETRIC,
            controls={
                "wrong theory: rho0 is constant (pi = 0)": enclosed(constant_rho0),
                "wrong theory: pi = 1 for every profile": enclosed(one_token),
            },
            evaluations=(60, 2000),
            corrected=True,
        ),
        Property(
            "how far ln chi lies outside 2 f0^2 B and 2 B, relative",
            "modified decoder",
            growth_enclosed,
            SYMMETRIC_FAMILY,
            conditions=SYMMETRIC,
            controls={"wrong theory (F3): the printed B with its origin mended": printed_encloses},
            evaluations=(60, 2000),
            corrected=True,
        ),
        Property(
            "|error of (1/(4K)) ln(1+x) - its law| over 1.5 (K/rho0^2)^2 + 0.015",
            LEADING_BETA,
            error_law(measured_profile),
            # x is mostly between 1e-4 and 1e4 there.
            replace(SYMMETRIC_FAMILY, num_classes=(2, 10), ratio=(1e-2, 1e6), horizon=(1e1, 1e6)),
            conditions=(*SYMMETRIC, *COMPARED),
            controls={
                "wrong theory: it errs by (K-2)/rho0^2 only": error_law(None),
                "wrong theory: pi = 1 for every profile": error_law(one_token),
            },
            evaluations=(60, 2000),
            corrected=True,
        ),
        Property(
            "K -> infinity: B against ln(sqrt((1+q)^2 + x) - q)/(2K), q = K/rho0^2, K = V = 1e9, relative",
            LEADING_BETA,
            of_many_classes(analytic.growth_exponent_of_many_classes),
            Box(q=(1e-3, 1e3, "log"), x=(1e-2, 1e8, "log"), tokens=(1, 5)),
            controls={
                "wrong theory: q does not matter": of_many_classes(lambda x, K, rho0: np.log1p(x) / (4 * K)),
                "wrong theory: the factor 1 + q at every x": of_many_classes(
                    lambda x, K, rho0: np.log1p(x) / (4 * K) / (1 + K / rho0**2)
                ),
            },
            evaluations=(40, 1000),
            corrected=True,
        ),
        Property("F1: |B_n(0)| as printed, which must be 0", "closed form", printed_origin, cases={"rho0 = 5": 5.0}),
        Property(
            "F3: |growth of the printed B over the integrated one - 1| at t = 1e5, K = 5",
            LEADING_BETA,
            printed_growth,
            cases=settings,
        ),
        Property(
            "how far B by quadrature along Eq. (10) lies outside its bounds, relative",
            LEADING_BETA,
            integrated_enclosed,
            corrected=True,
            cases=settings,
        ),
        Property(
            "consistent form against the reduced system integrated",
            "single common token",
            against_reduced_system,
            corrected=True,
            cases={"rho0 = 5": 5.0},
        ),
        Property(
            "F4: common logit under Eq. (10) over the mean field's, K = 5, eta_Z/eta_Y = 0.001",
            "mean field",
            common_logit_ratio,
            conditions=(Requirement("no other output", "V = K", lambda i: i.vocab_size / i.num_classes, at_most=1),),
            corrected=True,
            cases=lambda: {"V = K": setting(0.1, K, 1e-3)},
            beyond=lambda: {"V = 1e5": setting(0.1, V, 1e-3)},
        ),
    ),
)
