"""Theorem 4: the growth exponent, before and after the phase transition."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.analytic import DistinctProfile, GrowthAndCommonLogit
from snapdyn.validation.claims.language import (
    EXACT,
    Box,
    Claim,
    Floats,
    Headline,
    Instance,
    Measure,
    Measured,
    Picture,
    Property,
    Requirement,
    flow,
)
from snapdyn.validation.claims.transition._shared import (
    LEADING_BETA,
    SYMMETRIC_FAMILY,
    EqualClasses,
    common_growth,
    log_growth,
    symmetric_property,
)

# rtol 1e-9 per step over some thousand steps.
SOLVER = 1e-5

Bounds = tuple[GrowthAndCommonLogit, GrowthAndCommonLogit]


def corrected(equal: EqualClasses, Gamma: Floats, shape: DistinctProfile | None = None) -> Bounds:
    """Lower and upper bound of B and z_c with the exact beta."""
    shape = shape or analytic.distinct_profile(equal.distinct)
    return analytic.bounds_of_growth(Gamma, equal.num_classes, equal.overlap.rho0, shape, equal.vocab_size)


def printed(equal: EqualClasses, Gamma: Floats) -> Bounds:
    """Wrong theory: the printed B, corrected only at its origin (F1)."""
    B = np.log1p(4 * equal.num_classes / equal.overlap.rho0**4 * Gamma) / 4
    return (GrowthAndCommonLogit(B, B),) * 2


def outside(
    instance: Instance, theory: Callable[[EqualClasses, Floats], Bounds] = corrected, growth: bool = False
) -> Measured:
    """How far z_c of Eq. (10), or with `growth` ln chi of the dominant token, lies outside its bounds, relative.

    The bounds of ln chi are 2 f0^2 B and 2 B. The run is made in ln t, so that the first saved logits are accurate
    too. In steps of t, the default of short runs, the first saved times lie inside one step, and interpolation errs by
    up to 2 %.
    """
    run = flow(instance, EXACT, rtol=1e-9, atol=1e-30, log_time=True)
    equal = EqualClasses.of(instance)
    lower, upper = theory(equal, common_growth(equal, run.t))
    values, least, most = run.z[:, 0, instance.classes.common_tokens()[0]], lower.z_common, upper.z_common
    if growth:
        values, least, most = log_growth(run), 2 * equal.overlap.f0**2 * lower.B, 2 * upper.B
    excess = np.maximum(values / most - 1, 1 - values / least)
    return Measured(excess.max(), at_most=SOLVER, where=f"t = {run.t[excess.argmax()]:.3g}")


def exponent_on_orbit(instance: Instance) -> float:
    """B with leading beta at t_end: z_c = -K sigma on the orbit, dB = (1+o) dsigma, o common over distinct |c~|^2."""
    from scipy.integrate import cumulative_simpson

    equal = EqualClasses.of(instance)
    orbit = equal.orbit(np.geomspace(1e-4, 1, 400) * instance.t_end)
    distinct = (equal.distinct**2 * np.exp(2 * orbit.z_distinct)).sum(axis=1)
    o, sigma = equal.common**2 * np.exp(2 * orbit.z_common) / distinct, -orbit.z_common / equal.num_classes
    return cumulative_simpson(1 + o, x=sigma, initial=0)[-1] + (1 + o[0]) * sigma[0]


def strength(instance: Instance) -> float:
    """x = 4 A Gamma(t_end), A = (K-1)/rho0^4."""
    equal = EqualClasses.of(instance)
    A = (equal.num_classes - 1) / equal.overlap.rho0**4
    return 4 * A * common_growth(equal, np.array([instance.t_end]))[0]


# Where the explicit law of the consistent form's error has been compared.
COMPARED = (
    Requirement("range of the explicit law", "x = 4 A Gamma <= 10000", strength, at_most=1e4),
    Requirement(
        "small overlap", "K/rho0^2 <= 0.1", lambda i: i.num_classes * EqualClasses.of(i).overlap.x, at_most=0.1
    ),
)


def over_law(instance: Instance, law: Callable[..., Any] = analytic.error_of_consistent_form) -> Measured:
    """|error of the consistent form - law(x, K, rho0, profile)| at t_end, over 1.5 (K/rho0^2)^2 + 0.015."""
    equal = EqualClasses.of(instance)
    K, rho0 = equal.num_classes, equal.overlap.rho0
    B = analytic.growth_exponent(instance.t_end, *equal.flow_rates, equal.vocab_size, K, rho0, form="consistent")
    expected = law(strength(instance), K, rho0, *analytic.distinct_profile(equal.distinct)[:2])
    error = B / exponent_on_orbit(instance) - 1 - expected
    # What the law leaves out: 1.5 (K/rho0^2)^2 bounds the second order in the overlap as measured, and 0.015 the
    # drift as a search found it (0.013 at K = 2); neither is derived.
    return Measured(abs(error) / (1.5 * (K / rho0**2) ** 2 + 0.015), at_most=1)


def exact(x: Floats, K: int, q: float, wbar: float) -> Floats:
    """B at constant wbar and leading beta, K/rho0^2 = q."""
    rho0 = np.sqrt(K / q)
    return analytic.growth_and_common_logit(x * rho0**4 / (4 * (K - 1)), K, rho0, wbar).B


def against_exact(theory: Callable[[float, int, float], Any]) -> Measure:
    """Relative error of B = theory(x, K, q)."""
    # Left out at K = 1e9: 1/K and 1/rho0^2, 1e-6 at most.
    return lambda at: Measured(abs(theory(at["x"], at["K"], at["q"]) / exact(**at) - 1), at_most=1e-4)


def picture() -> Picture:
    x = np.geomspace(1e-2, 1e6, 60)
    return Picture(
        "x = 4 (K-1)/rho0^4 Gamma",
        "growth of B, K = 5, K/rho0^2 = 0.1",
        (
            Picture.line("printed (124), x K/(K-1) = 4 K Gamma/rho0^4", x, np.log1p(1.25 * x) / 4, "printed"),
            Picture.line("rho0 constant", x, np.log1p(x) / 20),
            Picture.line("five equally frequent distinct tokens", x, exact(x, 5, 0.1, 0.2)),
        ),
    )


CLAIM = Claim(
    "theorem4",
    under_rules="Under sign descent and Adam the transition comes without the factor K: see sign-transition",
    source="Theorem 4, Eqs. (13)-(14), (118)-(131)",
    title="The growth exponent of attention is a logarithm of its speed, summed over time",
    headline=Headline(
        1,
        printed=r"B_n=\frac14\ln\left(\frac{\rho_0^4}{K}+4\Gamma\right)",
        recomputed=r"B_n=\frac{1}{4(K+\bar w)}"
        r"\ln\left(1+\left(1+\frac{\bar w}K\right)\frac{4(K-1)}{\rho_0^4}\Gamma\right)"
        r"\ \ (\rho_0\to\infty)",
        plain="The paper's formula overstates how much attention grows: its exponent grows too fast, by a factor of "
        "about the number of classes, and it does not start at zero.",
        where="B_n is the growth exponent of class n: a token's share grows by a factor of at most exp(2 B_n). K is "
        "the number of classes, Gamma the speed of attention summed over time, rho0 the 2-norm of a class's token "
        "probabilities over the probability of the common token, and wbar is 1/m for m equally frequent distinct "
        "tokens.",
    ),
    statement=(
        "With one common token, B_n(t) = (1/4) ln(C0 + 4 Gamma(t)), C0 = rho0^4/K, Gamma = eta_Z int gamma dt: B_n "
        "grows like ln(t^2) before the transition, and like ln(ln^2 t) after it. Corrected, on the per-step clock: if "
        "rho0 were constant, B_n would be (1/(4K)) ln(1 + x), x = 4 A Gamma, A = (K-1)/rho0^4. But distinct tokens "
        "grow: with wbar = sum_l w_l^2, w_l the share of token l in the distinct part of |c~|^2, B_n lies between its "
        "values at constant wbar(0) and at wbar = 1/m (m most frequent tokens), at any overlap and Gamma. At constant "
        "wbar(0) and rho0 -> infinity, B_n is (1/(4(K+wbar))) ln(1 + (1+wbar/K) x): the form with constant rho0 errs "
        "by (K-2)/rho0^2 + (wbar/K) x/2 for x << 1, and for larger x by about (wbar/K)(1 - 1/ln(1+x)), whatever rho0. "
        "With leading beta, K -> infinity and q = K/rho0^2 fixed, B_n is ln(sqrt((1+q)^2 + x) - q)/(2K), for any "
        "profile."
    ),
    latex=r"B_n=\frac14\ln\left(C_0+4\Gamma\right)\quad\to\quad "
    r"B_n=\frac{1}{4(K+\bar w)}\ln\left(1+\left(1+\frac{\bar w}K\right)\frac{4(K-1)}{\rho_0^4}\Gamma\right)"
    r"\ (\rho_0\to\infty)",
    expected="corrected",
    conditions=(
        "one common token, one query, uniform classes of equal profiles, zero start",
        "the decoder follows the modified flow",
        "the explicit error of the form with constant rho0: leading beta, x <= 1e4, K/rho0^2 <= 0.1",
    ),
    conclusion=(
        "The printed growth exponent of attention starts at 0 only for rho0^4 = K and grows about K times too fast. "
        "At K = 5 its growth exceeds the corrected one by {K = 5, rho0 = 165:.0%}, since it grows K^2/(K-1) times as "
        "fast (F3), and at rho0 = 5 it starts at {rho0 = 5:.2f} in place of 0 (F1). At fixed x the error of the form "
        "with constant rho0 does not fall with rho0. The premise of Theorem 4, the modified decoder, is also not the "
        "limit of the mean field for slow attention: see the claim named ladder."
    ),
    findings=("F1", "F3"),
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
        symmetric_property(
            "how far |z_c| lies outside its bounds at wbar(0) and at wbar = 1/m, relative",
            outside,
            controls={
                name: partial(outside, theory=partial(corrected, shape=DistinctProfile(wbar, 0, wbar)))
                for name, wbar in (
                    ("wrong theory: rho0 is constant (wbar = 0)", 0),
                    ("wrong theory: wbar = 1 for every profile", 1),
                )
            },
        ),
        symmetric_property(
            "how far ln chi lies outside 2 f0^2 B and 2 B, relative",
            partial(outside, growth=True),
            controls={
                "wrong theory (F3): the printed B with its origin mended": partial(outside, theory=printed, growth=True)
            },
        ),
        symmetric_property(
            "|error of (1/(4K)) ln(1+x) - its law| over 1.5 (K/rho0^2)^2 + 0.015",
            over_law,
            *COMPARED,
            controls={
                "wrong theory: it errs by (K-2)/rho0^2 only": partial(
                    over_law, law=lambda x, K, rho0, *_: (K - 2) / rho0**2
                ),
                "wrong theory: wbar = 1 for every profile": partial(
                    over_law, law=lambda x, K, rho0, *_: analytic.error_of_consistent_form(x, K, rho0, 1, 0)
                ),
                "wrong theory: 1.1 times the law": partial(
                    over_law, law=lambda *at: 1.1 * analytic.error_of_consistent_form(*at)
                ),
            },
            rung=LEADING_BETA,
            # x is mostly between 1e-4 and 1e4 there.
            domain=replace(SYMMETRIC_FAMILY, num_classes=(2, 10), ratio=(1e-2, 1e6), horizon=(1e1, 1e6)),
        ),
        Property(
            "K -> infinity: B against ln(sqrt((1+q)^2 + x) - q)/(2K), q = K/rho0^2, K = 1e9, relative",
            "closed form",
            against_exact(lambda x, K, q: analytic.growth_exponent_of_many_classes(x, K, np.sqrt(K / q))),
            Box(K=(10**9, 10**9), q=(1e-3, 1e3, "log"), x=(1e-2, 1e8, "log"), wbar=(0.01, 1.0)),
            controls={
                "wrong theory: q does not matter": against_exact(lambda x, K, q: np.log1p(x) / (4 * K)),
                "wrong theory: the factor 1 + q at every x": against_exact(
                    lambda x, K, q: np.log1p(x) / (4 * K * (1 + q))
                ),
            },
            corrected=True,
        ),
        Property(
            "F1: |B_n(0)| as printed, which must be 0",
            "closed form",
            lambda rho0: Measured(
                abs(float(analytic.growth_exponent(0, 1, 1, 1000, 5, rho0, form="printed"))), at_most=1e-12
            ),
            cases={"rho0 = 5": 5.0},
        ),
        Property(
            "F3: growth of the printed B over that at constant wbar, minus 1",
            "closed form",
            against_exact(lambda x, K, q: np.log1p(x * K / (K - 1)) / 4),
            cases={"K = 5, rho0 = 165": {"K": 5, "q": 5 / 165**2, "x": 2e-5, "wbar": 0.2}},
        ),
    ),
)
