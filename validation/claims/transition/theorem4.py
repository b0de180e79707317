"""Theorem 4: the growth exponent, before and after the phase transition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.analytic import DistinctProfile
from snapdyn.dynamics import Trajectory
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.transition._shared import SYMMETRIC, SYMMETRIC_FAMILY, log_growth
from snapdyn.validation.claims.transition._theorem4_settings import closed_forms
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.growth_bounds import common_growth, exponent_on_orbit, overlap, profile_of
from snapdyn.validation.headlines import Headline
from snapdyn.validation.many_classes import growth_of_many_classes
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.rungs.closed_forms import SingleCommonProfile
from snapdyn.validation.rungs.run import EXACT
from snapdyn.validation.search import Instance, flow

# rtol 1e-9 per step over some thousand steps.
SOLVER = 1e-5
# Where the explicit law of the consistent form's error has been compared: largest x = 4 A Gamma and K/rho0^2.
LARGEST_X = 1e4
LARGEST_OVERLAP = 0.1

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


def _bounds(instance: Instance, t: Floats, shape: Shape) -> tuple[Floats, Floats, Floats, Floats]:
    """Lower and upper bound of |z_c|, then of B, at the times t."""
    lower, upper = analytic.bounds_of_growth(
        common_growth(instance, t), instance.num_classes, overlap(instance.classes).rho0, shape(profile_of(instance)),
        instance.vocab_size,
    )  # fmt: skip
    return tuple(np.asarray(each) for each in (-lower.z_common, -upper.z_common, lower.B, upper.B))  # type: ignore[return-value]


def _run(instance: Instance) -> Trajectory | None:
    """Run of Eq. (10), accurate relative to the first saved logits too.

    In the time itself, which short runs choose, the first saved times lie inside one step, and interpolation errs by
    up to 2 % of them.
    """
    return flow(instance, EXACT, method="compiled", rtol=1e-9, atol=1e-30, log_time=True)


def enclosed(shape: Shape) -> Callable[[Instance], Measured | None]:
    """How far |z_c| of Eq. (10) lies outside its bounds, relative."""

    def measure(instance: Instance) -> Measured | None:
        run = _run(instance)
        if run is None:
            return None
        z = -run.z[:, 0, int(instance.classes.common_tokens()[0])]
        lower, upper, _, _ = _bounds(instance, run.t, shape)
        excess = np.maximum(z / upper - 1, 1 - z / lower)
        i = int(excess.argmax())
        return Measured(float(excess[i]), at_most=SOLVER, where=f"t = {run.t[i]:.3g}")

    return measure


def growth_enclosed(instance: Instance) -> Measured | None:
    """How far ln chi of the dominant token lies outside 2 f0^2 B (lower bound) and 2 B (upper bound), relative."""
    run = _run(instance)
    if run is None:
        return None
    _, _, lower, upper = _bounds(instance, run.t, measured_profile)
    return _outside(log_growth(run), 2 * overlap(instance.classes).f0 ** 2 * lower, 2 * upper)


def printed_encloses(instance: Instance) -> Measured | None:
    """Wrong theory: 2 f0^2 B <= ln chi <= 2 B with the printed B, its origin mended (F1)."""
    run = _run(instance)
    if run is None:
        return None
    start = overlap(instance.classes)
    B = np.log1p(4 * instance.num_classes / start.rho0**4 * common_growth(instance, run.t)) / 4
    return _outside(log_growth(run), 2 * start.f0**2 * B, 2 * B)


def _outside(growth: Floats, lower: Floats, upper: Floats) -> Measured:
    return Measured(float(np.maximum(growth / upper - 1, 1 - growth / lower).max()), at_most=SOLVER)


def _strength(instance: Instance) -> float:
    """x = 4 A Gamma(t_end), A = (K-1)/rho0^4."""
    A = (instance.num_classes - 1) / overlap(instance.classes).rho0 ** 4
    return float(4 * A * common_growth(instance, np.array([instance.t_end]))[0])


COMPARED = (
    Requirement("range of the explicit law", f"x = 4 A Gamma <= {LARGEST_X:g}", _strength, at_most=LARGEST_X),
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
        rho0, K, x = overlap(instance.classes).rho0, instance.num_classes, _strength(instance)
        B = exponent_on_orbit(instance, np.geomspace(1e-4, 1, 400) * instance.t_end)[-1]
        error = np.log1p(x) / (4 * K) / B - 1
        if shape is None:
            law = (K - 2) / rho0**2
        else:
            pi, slope, _ = shape(profile_of(instance))
            law = float(analytic.error_of_consistent_form(x, K, rho0, pi, slope))
        # What the law leaves out: 1.5 (K/rho0^2)^2 bounds the second order in the overlap as measured, and 0.015 the
        # drift as a search found it (0.013 at K = 2); neither is derived.
        return Measured(float(abs(error - law) / (1.5 * (K / rho0**2) ** 2 + 0.015)), at_most=1)

    return measure


@claim(
    "theorem4",
    source="Theorem 4, Eqs. (13)-(14), (118)-(131)",
    title="The growth exponent is B_n = (1/4) ln(C0 + 4 Gamma)",
    answer="The printed growth exponent of attention starts at 0 only for rho0^4 = K and grows about K times too fast.",
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
    assumptions=(
        "one common token, one query, uniform classes of equal profiles, zero start",
        "the decoder follows the modified flow",
        "the explicit error of the form with constant rho0: leading beta, x <= 1e4, K/rho0^2 <= 0.1",
    ),
    findings=("F1", "F3", "F4"),
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
            "modified decoder, leading beta",
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
    ),
)
def theorem4(evidence: Evidence) -> None:
    evidence.proved("premise", "growth-exponent", "common-logit", "xi", "early-piece", "late-piece", corrected=True)
    evidence.misprint("growth-exponent", "F1 and F3: the printed B in the derivation of the consistent one")
    evidence.proved(
        "odds-of-common-token", "profile-drift", "profile-growth", "profile-time-leading", "profile-time-exact",
        "growth-overlap", "growth-drift", corrected=True,
    )  # fmt: skip
    closed_forms(evidence)
    growth_of_many_classes(evidence)
