"""Theorem 4: the growth exponent, before and after the phase transition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.analytic import DistinctProfile
from snapdyn.dynamics import Trajectory, log_times, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.transition._shared import SYMMETRIC, SYMMETRIC_FAMILY, log_growth
from snapdyn.validation.growth_bounds import Overlap, common_growth, overlap, profile_of
from snapdyn.validation.measured import Measured
from snapdyn.validation.observables import growth_integral
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measure, Property, Requirement
from snapdyn.validation.register import Claim, Headline
from snapdyn.validation.rungs.run import EXACT, LEADING, run_on_rung
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
SMALL_OVERLAP = 0.1 / 32  # the share of the common token
TIMES = log_times(1e-2, 1e5, 1200)

CONSTANT_RHO0 = DistinctProfile(0.0, 0.0, 0.0)
ONE_TOKEN = DistinctProfile(1.0, 0.0, 1.0)


def shape_of(instance: Instance) -> DistinctProfile:
    """Concentration of the distinct tokens of the classes."""
    return analytic.distinct_profile(profile_of(instance).distinct_probabilities)


def outside(t: Floats, values: Floats, lower: Floats, upper: Floats) -> Measured:
    """How far `values` lie outside their bounds at most, relative."""
    excess = np.maximum(values / upper - 1, 1 - values / lower)
    i = int(excess.argmax())
    return Measured(float(excess[i]), at_most=SOLVER, where=f"t = {t[i]:.3g}")


def along_eq_10(measure: Callable[[Instance, Trajectory, Overlap, Floats], Measured]) -> Measure:
    """Measure a run of Eq. (10), its overlap at the start and Gamma; None where the run fails.

    The run is accurate relative to the first saved logits too. In the time itself, which short runs choose, the first
    saved times lie inside one step, and interpolation errs by up to 2 % of them.
    """

    def measured(instance: Instance) -> Measured | None:
        run = flow(instance, EXACT, method="compiled", rtol=1e-9, atol=1e-30, log_time=True)
        if run is None:
            return None
        return measure(instance, run, overlap(instance.classes), common_growth(instance, run.t))

    return measured


def enclosed(shape: DistinctProfile | None) -> Measure:
    """How far |z_c| of Eq. (10) lies outside its bounds, relative; None: for the profile of the classes."""

    def measure(instance: Instance, run: Trajectory, start: Overlap, Gamma: Floats) -> Measured:
        lower, upper = analytic.bounds_of_growth(
            Gamma, instance.num_classes, start.rho0, shape or shape_of(instance), instance.vocab_size
        )
        return outside(run.t, run.z[:, 0, int(instance.classes.common_tokens()[0])], lower.z_common, upper.z_common)

    return along_eq_10(measure)


@along_eq_10
def growth_enclosed(instance: Instance, run: Trajectory, start: Overlap, Gamma: Floats) -> Measured:
    """How far ln chi of the dominant token lies outside 2 f0^2 B (lower bound) and 2 B (upper bound), relative."""
    lower, upper = analytic.bounds_of_growth(
        Gamma, instance.num_classes, start.rho0, shape_of(instance), instance.vocab_size
    )
    return outside(run.t, log_growth(run), 2 * start.f0**2 * lower.B, 2 * upper.B)


@along_eq_10
def printed_encloses(instance: Instance, run: Trajectory, start: Overlap, Gamma: Floats) -> Measured:
    """Wrong theory: 2 f0^2 B <= ln chi <= 2 B with the printed B, its origin mended (F1)."""
    B = np.log1p(4 * instance.num_classes / start.rho0**4 * Gamma) / 4
    return outside(run.t, log_growth(run), 2 * start.f0**2 * B, 2 * B)


def exponent_on_orbit(t: Floats, P: Floats, num_classes: int, vocab_size: int, *rates: float) -> float:
    """B with leading beta at the last time, P (d + 1,) of the distinct tokens and then of the common one.

    z_c = -K sigma on the orbit, and dB = (1+o) dsigma, o = C/D.
    """
    from scipy.integrate import cumulative_simpson

    orbit = analytic.single_common_token_orbit(t, P[:-1], P[-1], num_classes, vocab_size, *rates, beta="leading")
    o = P[-1] ** 2 * np.exp(2 * orbit.z_common) / (P[:-1] ** 2 * np.exp(2 * orbit.z_distinct)).sum(axis=1)
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


def error_law(law: Callable[[float, int, float, DistinctProfile], Any]) -> Measure:
    """|error of the consistent form - law(x, K, rho0, profile)| at t_end, over 1.5 (K/rho0^2)^2 + 0.015."""

    def measure(instance: Instance) -> Measured:
        rho0, K, x = overlap(instance.classes).rho0, instance.num_classes, strength(instance)
        P, t = np.append(*profile_of(instance)[:2]), np.geomspace(1e-4, 1, 400) * instance.t_end
        B = exponent_on_orbit(t, P, K, instance.vocab_size, *instance.flow_rates)
        error = np.log1p(x) / (4 * K) / B - 1 - law(x, K, rho0, shape_of(instance))
        # What the law leaves out: 1.5 (K/rho0^2)^2 bounds the second order in the overlap as measured, and 0.015 the
        # drift as a search found it (0.013 at K = 2); neither is derived.
        return Measured(float(abs(error) / (1.5 * (K / rho0**2) ** 2 + 0.015)), at_most=1)

    return measure


def of_many_classes(theory: Callable[[float, int, float], Any]) -> Measure:
    """Relative error of B = theory(x, K, rho0) on the orbit of K = V = 1e9 classes, eta_Y t = 10 K ln V."""

    def measure(at: Mapping[str, Any]) -> Measured:
        K, x, distinct = 10**9, at["x"], np.linspace(0.1, 1.0, at["tokens"])
        rho0, end = float(np.sqrt(K / at["q"])), 10 * K * np.log(K)
        P = np.append(distinct, np.linalg.norm(distinct) / np.sqrt(rho0**2 - 1))
        eta_Z = x * rho0**4 / (4 * (K - 1) * float(analytic.gamma_integral(end, 1.0, K, K)))
        B = exponent_on_orbit(np.geomspace(1e-4, 1, 400) * end, P / P.sum(), K, K, 1.0, eta_Z)
        # Left out: 1/K and 1/rho0^2, 1e-6 at most; Simpson's rule over 400 times.
        return Measured(abs(float(theory(x, K, rho0)) / B - 1), at_most=1e-4)

    return measure


def closed_form(rho0: float, form: str) -> Floats:
    """B_n of the named settings at t = 0 and at the saved times."""
    return np.asarray(analytic.growth_exponent(np.append(0, TIMES), 1.0, 1.0, V, K, rho0, form=form))


@cache
def integrated(share: float) -> tuple[float, Floats, DistinctProfile]:
    """Normalisation rho0, B by quadrature along Eq. (10), and profile of classes with `share` of their tokens common.

    Leading beta is the theorem's premise; the exact one differs by 1/V against f.f = 1/rho0^2.
    """
    classes = single_common_token(K, 5, share, V)
    run = run_on_rung(LEADING, classes, 1.0, 1.0, TIMES, rtol=1e-10, atol=1e-14)
    shape = shape_of(Instance.of(classes, 1.0, 1.0, 1.0))
    return overlap(classes).rho0, growth_integral(run, 1.0)[:, 0], shape


def growth_error(form: str) -> Measure:
    """|growth of a closed form over the integrated one - 1| at the last time."""

    def measure(share: float) -> Measured:
        rho0, B, _ = integrated(share)
        return Measured(abs(float(np.ptp(closed_form(rho0, form)) / B[-1]) - 1), at_most=4 / rho0**2)

    return measure


def integrated_enclosed(share: float) -> Measured:
    """How far B by quadrature lies outside its bounds with leading beta, relative; Simpson's rule over 1200 times."""
    rho0, B, shape = integrated(share)
    lower, upper = analytic.bounds_of_growth(analytic.gamma_integral(TIMES, 1.0, V, K), K, rho0, shape)
    return outside(TIMES, B, lower.B, upper.B)


def picture() -> Picture:
    rho0, B, _ = integrated(0.1)
    return Picture(
        "t (batch-size-1 steps)",
        f"B, K = 5, V = 1e5, rho0 = {rho0:.1f}",
        (
            Picture.line("printed (124)", TIMES, closed_form(rho0, "printed")[1:], "printed"),
            Picture.line("consistent", TIMES, closed_form(rho0, "consistent")[1:]),
            Picture.line("integrated along Eq. (10)", TIMES, B, "simulation"),
        ),
        verticals=(("t0'", K * float(np.log(V))),),
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
            enclosed(None),
            SYMMETRIC_FAMILY,
            conditions=SYMMETRIC,
            controls={
                "wrong theory: rho0 is constant (pi = 0)": enclosed(CONSTANT_RHO0),
                "wrong theory: pi = 1 for every profile": enclosed(ONE_TOKEN),
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
            error_law(lambda x, K, rho0, at: analytic.error_of_consistent_form(x, K, rho0, *at[:2])),
            # x is mostly between 1e-4 and 1e4 there.
            replace(SYMMETRIC_FAMILY, num_classes=(2, 10), ratio=(1e-2, 1e6), horizon=(1e1, 1e6)),
            conditions=(*SYMMETRIC, *COMPARED),
            controls={
                "wrong theory: it errs by (K-2)/rho0^2 only": error_law(lambda x, K, rho0, at: (K - 2) / rho0**2),
                "wrong theory: pi = 1 for every profile": error_law(
                    lambda x, K, rho0, at: analytic.error_of_consistent_form(x, K, rho0, 1, 0)
                ),
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
        Property(
            "F1: |B_n(0)| as printed, which must be 0",
            "closed form",
            lambda rho0: Measured(abs(float(closed_form(rho0, "printed")[0])), at_most=1e-12),
            cases={"rho0 = 5": 5.0},
        ),
        Property(
            "F3: |growth of the printed B over the integrated one - 1|, K = 5, t = 1e5",
            LEADING_BETA,
            growth_error("printed"),
            cases={"rho0 = 165": SMALL_OVERLAP},
        ),
        Property(
            "|growth of the consistent B over the integrated one - 1|, K = 5, t = 1e5",
            LEADING_BETA,
            growth_error("consistent"),
            corrected=True,
            cases={"rho0 = 165": SMALL_OVERLAP},
        ),
        Property(
            "how far B by quadrature along Eq. (10) lies outside its bounds, relative",
            LEADING_BETA,
            integrated_enclosed,
            corrected=True,
            cases={"rho0 = 4.8": 0.1, "rho0 = 165": SMALL_OVERLAP},
        ),
    ),
)
