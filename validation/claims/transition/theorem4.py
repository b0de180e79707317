"""Theorem 4: the growth exponent, before and after the phase transition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from snapdyn import analytic
from snapdyn.analytic import DistinctProfile
from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    Trajectory,
    log_times,
    single_common_token,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.transition._shared import (
    SYMMETRIC,
    SYMMETRIC_FAMILY,
    common_growth,
    log_growth,
    overlap,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.instances import SingleCommonProfile, single_common_profile
from snapdyn.validation.observables import growth_integral
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.search import Instance, flow

# rtol 1e-9 per step over some thousand steps.
SOLVER = 1e-5
# Where the explicit law of the consistent form's error has been compared: largest x = 4 A Gamma and K/rho0^2.
LARGEST_X = 1e4
LARGEST_OVERLAP = 0.1

Shape = Callable[[SingleCommonProfile], DistinctProfile]


def _profile(instance: Instance) -> SingleCommonProfile:
    profile = single_common_profile(instance.classes)
    assert profile is not None
    return profile


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
        common_growth(instance, t), instance.num_classes, overlap(instance.classes).rho0, shape(_profile(instance)),
        instance.vocab_size,
    )  # fmt: skip
    return tuple(np.asarray(each) for each in (-lower.z_common, -upper.z_common, lower.B, upper.B))  # type: ignore[return-value]


def _run(instance: Instance) -> Trajectory | None:
    """Run of Eq. (10), accurate relative to the first saved logits too.

    In the time itself, which short runs choose, the first saved times lie inside one step, and interpolation errs by
    up to 2 % of them.
    """
    return flow(instance, ModifiedDecoder, method="DOP853", rtol=1e-9, atol=1e-30, log_time=True)


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


def orbit_growth(instance: Instance, t: Floats) -> Floats:
    """B of Eq. (10) with leading beta at the times t (N,): z_c = -K sigma on the orbit, dB = (1+o) dsigma, o = C/D."""
    from scipy.integrate import cumulative_simpson

    profile, K = _profile(instance), instance.num_classes
    p, common = profile.distinct_probabilities, profile.common_probability
    eta_Y, eta_Z = instance.flow_rates
    orbit = analytic.single_common_token_orbit(t, p, common, K, instance.vocab_size, eta_Y, eta_Z, beta="leading")
    o = common**2 * np.exp(2 * orbit.z_common) / (p**2 * np.exp(2 * orbit.z_distinct)).sum(axis=1)
    sigma = -orbit.z_common / K
    return np.asarray(cumulative_simpson(1 + o, x=sigma, initial=0) + (1 + o[0]) * sigma[0])


def error_law(shape: Shape | None) -> Callable[[Instance], Measured]:
    """|error of the consistent form - its law| at t_end, over 1.5 (K/rho0^2)^2 + 0.015; None: only (K-2)/rho0^2."""

    def measure(instance: Instance) -> Measured:
        rho0, K, x = overlap(instance.classes).rho0, instance.num_classes, _strength(instance)
        B = orbit_growth(instance, np.geomspace(1e-4, 1, 400) * instance.t_end)[-1]
        error = np.log1p(x) / (4 * K) / B - 1
        if shape is None:
            law = (K - 2) / rho0**2
        else:
            pi, slope, _ = shape(_profile(instance))
            law = float(analytic.error_of_consistent_form(x, K, rho0, pi, slope))
        # What the law leaves out: 1.5 (K/rho0^2)^2 bounds the second order in the overlap as measured, and 0.015 the
        # drift as a search found it (0.013 at K = 2); neither is derived.
        return Measured(float(abs(error - law) / (1.5 * (K / rho0**2) ** 2 + 0.015)), at_most=1)

    return measure


@claim(
    "theorem4",
    source="Theorem 4, Eqs. (13)-(14), (118)-(131)",
    title="Growth exponent and phase transition",
    statement="With one common token, B_n(t) = (1/4) ln(C0 + 4 Gamma(t)), C0 = rho0^4/K, Gamma = eta_Z int gamma dt: "
    "it grows like a logarithm of t^2 before and of ln^2 t after the transition. Corrected, on the per-step clock: "
    "were rho0 constant, B_n = (1/(4K)) ln(1 + x), x = 4 A Gamma, A = (K-1)/rho0^4. But distinct tokens grow: with "
    "pi = sum_l w_l^2, w_l the share of token l in the distinct part of |c~|^2, B_n lies between its values at "
    "constant pi(0) and at pi = 1/m (m most frequent tokens), at any overlap and Gamma. At pi(0) and rho0 -> infinity "
    "it is (1/(4(K+pi))) ln(1 + (1+pi/K) x): the form with constant rho0 errs by (K-2)/rho0^2 + (pi/K) x/2 for x << 1 "
    "and by about (pi/K)(1 - 1/ln(1+x)), whatever rho0, beyond.",
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
    K, V, times = 5, 100_000, log_times(1e-2, 1e5, 1200)
    evidence.proved("premise", "growth-exponent", "common-logit", "xi", "early-piece", "late-piece", corrected=True)
    evidence.misprint("growth-exponent", "F1 and F3: the printed B in the derivation of the consistent one")
    evidence.proved(
        "odds-of-common-token", "profile-drift", "profile-growth", "profile-time-leading", "profile-time-exact",
        "growth-overlap", "growth-drift", corrected=True,
    )  # fmt: skip
    origin, reduced_error = _reduced_system(K, V, times)
    evidence.holds("F1: |B_n(0)| of the printed form, which must be 0", "closed form", abs(origin["printed"]),
                   at_most=1e-12)  # fmt: skip
    shares = 0.1 / 2.0 ** np.arange(0, 6, 1 if evidence.full else 5)
    steps = [_against_modified_decoder(single_common_token(K, 5, share, V), times) for share in shares]
    first, last = steps[0], steps[-1]
    evidence.holds("F3: |(printed B(t) - B(0))/integrated B(t) - 1| at t = 1e5, smallest overlap", "modified decoder",
                   abs(last.printed_growth - 1), at_most=3 / last.rho0**2)  # fmt: skip
    evidence.corrected("|B_n(0)| of the consistent form", "closed form", abs(origin["consistent"]), at_most=1e-12)
    evidence.corrected("consistent form against the reduced system integrated", "single common token", reduced_error,
                       at_most=1e-8)  # fmt: skip
    # Simpson's rule in ln t with 1200 times; xi along the run.
    for step in (first, last):
        evidence.corrected(
            f"B by quadrature along Eq. (10) against bounds: largest relative excess, rho0 = {step.rho0:.1f}",
            "modified decoder", step.excess, at_most=1e-5,
        )  # fmt: skip
    peak = float(analytic.transition_time(K, V, 1.0, kind="peak"))
    # A parabola through +-2 % of the peak: cubic terms shift its vertex by about (2 %)^2.
    evidence.corrected("measured peak of gamma against t*, relative", "modified decoder",
                       abs(_measured_peak(K, V, peak) / peak - 1), at_most=1e-3)  # fmt: skip
    ratio = _common_logit_ratio(single_common_token(K, 5, shares[0], V), times)
    evidence.outside("F4: common logit under Eq. (10) over the mean field's, V = 1e5; 1 if (10) were its slow limit",
                     "mean field", ratio, at_most=2)  # fmt: skip
    evidence.conclusion = (
        f"Printed B_n(0) = {origin['printed']:.3f} at rho0 = 5 in place of 0 (F1), and its growth is "
        f"{last.printed_growth:.2f} times the integrated one at K = 5, K^2/(K-1) = {K * K / (K - 1):.2f} (F3). "
        f"The form with constant rho0 errs by {first.consistent_error:.1%} at rho0 = {first.rho0:.1f} and by "
        f"{last.consistent_error:.2%} at {last.rho0:.0f}, here with x = 4 A Gamma up to {first.x:.2g} and "
        f"{last.x:.1g}; at fixed x its error does not fall with rho0. The premise, the modified decoder, exceeds the "
        f"mean field's common logit {ratio:.0f} times (F4)."
    )
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        f"B, K = 5, V = 1e5, rho0 = {first.rho0:.1f}",
        (
            Picture.line("printed (124)", times, first.printed, "printed"),
            Picture.line("consistent", times, first.consistent),
            Picture.line("integrated along Eq. (10)", times, first.integrated, "simulation"),
        ),
        verticals=(
            ("t0'", float(analytic.transition_time(K, V, 1.0, kind="start"))),
            ("t*", peak),
            ("t0", float(analytic.transition_time(K, V, 1.0, kind="end"))),
        ),
    )


def _reduced_system(K: int, V: int, times: Floats) -> tuple[dict[str, float], float]:
    """B(0) of both closed forms at rho0 = 5; largest error of the consistent one against (13) integrated."""
    origin, error = {}, {}
    for form in ("printed", "consistent"):
        run = whole_run(SingleCommonToken(K, V, 1.0, 1.0, 5.0, form), times, rtol=1e-11, atol=1e-14)
        closed = analytic.growth_exponent(np.append(0.0, times), 1.0, 1.0, V, K, 5.0, form=form)
        origin[form] = float(closed[0])
        error[form] = float(np.abs(run.extra["B"][:, 0] - (closed[1:] - closed[0])).max())
    return origin, error["consistent"]


class _Step(NamedTuple):
    """B by three routes at one overlap 1/rho0^2, and what the closed forms miss."""

    rho0: float
    x: float
    integrated: Floats
    consistent: Floats
    printed: Floats
    excess: float

    @property
    def consistent_error(self) -> float:
        """Largest relative error of the consistent form."""
        return float(np.max(np.abs(self.consistent / self.integrated - 1)))

    @property
    def printed_growth(self) -> float:
        """The printed form's growth over the integrated one at the last time, F1 aside."""
        return float((self.printed - self.printed[0])[-1] / self.integrated[-1])


def _against_modified_decoder(classes: SequenceClasses, times: Floats) -> _Step:
    """B by quadrature along Eq. (10), both closed forms and the bounds, eta_Y = eta_Z = 1.

    Leading beta = E' is the theorem's premise; the exact one differs by 1/V against f.f = 1/rho0^2.
    """
    K, V = classes.num_classes, classes.vocab_size
    rho0, profile = overlap(classes).rho0, single_common_profile(classes)
    assert profile is not None
    run = whole_run(ModifiedDecoder(classes, 1.0, 1.0, beta="leading"), times, rtol=1e-10, atol=1e-14)
    consistent, printed = (
        analytic.growth_exponent(times, 1.0, 1.0, V, K, rho0, form=form) for form in ("consistent", "printed")
    )
    integrated = growth_integral(run, 1.0)[:, 0]
    Gamma = analytic.gamma_integral(times, 1.0, V, K)
    lower, upper = analytic.bounds_of_growth(Gamma, K, rho0, measured_profile(profile))
    excess = float(np.maximum(integrated / upper.B - 1, 1 - integrated / lower.B).max())
    return _Step(rho0, float(4 * (K - 1) / rho0**4 * Gamma[-1]), integrated, consistent, printed, excess)


def _common_logit_ratio(classes: SequenceClasses, times: Floats) -> float:
    """Common logit at the last time: Eq. (10) over the full mean field, eta_Z/eta_Y = 0.001."""
    slow, full = (whole_run(kind(classes, 1.0, 1e-3), times) for kind in (ModifiedDecoder, MeanField))
    return float(slow.z[-1, 0, 0] / full.z[-1, 0, 0])


def _measured_peak(K: int, V: int, expected: float) -> float:
    """Time at which gamma peaks, from the integrated h: no closed form of h is used."""
    times = expected * np.linspace(0.98, 1.02, 81)
    run = whole_run(ModifiedDecoder(single_common_token(K, 5, 0.05, V), 1.0, 1e-3), times, rtol=1e-11)
    h = run.extra["h"][:, 0]
    decay = np.exp(-V * h)
    gamma = (V - 1) ** 2 * h * decay / ((V - 1) * decay + 1)
    a, b, _ = np.polyfit(times - expected, gamma, 2)
    return float(expected - b / (2 * a))
