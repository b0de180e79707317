"""Claims on more equivalent classes than a list of classes could hold: gaps of the ladder, growth exponent."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import ClassKind, MeanField, integrate, symmetric_classes
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.evidence import Evidence


def share_of(overlap: float) -> float:
    """Probability of the common token, with one distinct token, at which f_n.f_k = `overlap`."""
    odds = float(np.sqrt(overlap / (1 - overlap)))
    return odds / (1 + odds)


def first_gaps_of_runs(num_classes: int, vocab_size: int, overlap: float) -> tuple[float, float]:
    """Gaps of z at eta_Y t = 1e-4 K: mean field to exact beta, and exact to leading beta, of one distinct token.

    The mean field is integrated, Eq. (10) is the quadrature of its orbit. eta_Z/eta_Y = 1e-3/K: attention does not
    disturb the decoder.
    """
    K, V, share = num_classes, vocab_size, share_of(overlap)
    t, eta_Z = np.array([1e-4 * K]), 1e-3 / K
    classes = symmetric_classes([ClassKind([share], [1 - share], K)], vocab_size=V)
    # z is of order eta_Z (eta_Y t/K)^2 of it; below that, and below Y of order 1/V, nothing is resolved.
    run = integrate(MeanField(classes, 1.0, eta_Z), t, rtol=1e-9, atol=1e-18, reduce=True)
    finest = float(run.of_class(0).z[0, 0, 0])
    exact, leading = (
        float(analytic.single_common_token_orbit(t, [1 - share], share, K, V, 1.0, eta_Z, beta=beta).z_common[0])
        for beta in ("exact", "leading")
    )
    return abs(exact / finest - 1), abs(leading / exact - 1)


def growth_on_orbit(num_classes: int, rho0: float, profile: Floats, x: float) -> float:
    """Growth exponent B on the orbit with leading beta, at x = 4 (K-1)/rho0^4 Gamma.

    `profile` (d,) are shares of the distinct tokens, of sum 1. V = K and eta_Y t = 10 K ln V; eta_Z gives x.
    """
    from scipy.integrate import cumulative_simpson

    K = V = num_classes
    odds = np.linalg.norm(profile) / np.sqrt(rho0**2 - 1)  # P(l_c) over the sum of the distinct ones
    p, common = profile / (1 + odds), float(odds / (1 + odds))
    end = 10 * K * np.log(V)
    eta_Z = x * rho0**4 / (4 * (K - 1) * float(analytic.gamma_integral(end, 1.0, V, K)))
    orbit = analytic.single_common_token_orbit(
        np.geomspace(1e-4, 1, 400) * end, p, common, K, V, 1.0, eta_Z, beta="leading"
    )
    o = common**2 * np.exp(2 * orbit.z_common) / (p**2 * np.exp(2 * orbit.z_distinct)).sum(axis=1)
    sigma = -orbit.z_common / K
    return float(cumulative_simpson(1 + o, x=sigma, initial=0)[-1] + (1 + o[0]) * sigma[0])


def growth_of_many_classes(evidence: Evidence) -> None:
    """Add B at K = 1e9 against its limit, K/rho0^2 = 1e-3 to 1e3 and x = 0.01 to 1e8, and what does not hold there."""
    K, five = 10**9, np.linspace(0.1, 1.0, 5) / np.linspace(0.1, 1.0, 5).sum()
    worst = dict.fromkeys(("limit", "constant rho0", "first order"), 0.0)
    for q in (1e-3, 0.1, 1.0, 30.0, 1e3):
        rho0 = float(np.sqrt(K / q))
        for x in (1e-2, 1.0, 1e4, 1e8):
            theories = {
                "limit": float(analytic.growth_exponent_of_many_classes(x, K, rho0)),
                "constant rho0": float(np.log1p(x)) / (4 * K),
                "first order": float(np.log1p(x)) / (4 * K) / (1 + q),
            }
            for profile in (np.ones(1), five):
                B = growth_on_orbit(K, rho0, profile, x)
                for name, theory in theories.items():
                    worst[name] = max(worst[name], abs(theory / B - 1))
    settings = "K = V = 1e9, K/rho0^2 = 1e-3..1e3, x = 0.01..1e8, one or five distinct tokens"
    # Left out: 1/K and 1/rho0^2, 1e-6 at most; Simpson's rule over 400 times.
    evidence.corrected(
        f"K -> infinity: B against ln(sqrt((1+q)^2 + x) - q)/(2K), q = K/rho0^2, relative; {settings}",
        "modified decoder, leading beta", worst["limit"], at_most=1e-4,
    )  # fmt: skip
    for name, words in (("constant rho0", "q does not matter"), ("first order", "the factor 1 + q at every x")):
        evidence.control(f"wrong theory: {words}", "modified decoder, leading beta", worst[name], at_most=1e-4)


def gaps_of_many_classes(evidence: Evidence) -> None:
    """Add the first gaps of the ladder at K = 1e6 and 1e9, V/K = 1 to 1e6, against their limit."""
    worst = leading = wrong = 0.0
    for K in (10**6, 10**9):
        for ratio in (1, 2, 100, 10**6):
            for rho in (0.01, 0.3, 0.8):
                modified, second = first_gaps_of_runs(K, ratio * K, rho)
                worst = max(worst, abs(modified * (1 - rho) / (ratio - 1 + rho) - 1))
                wrong = max(wrong, abs(modified / (rho * ratio * K) - 1))
                leading = max(leading, second * rho * ratio * K)
    settings = "K = 1e6 and 1e9, V/K = 1..1e6, rho = 0.01..0.8, eta_Y t/K = 1e-4"
    # Left out: (1-rho)/(K rho) <= 1e-4, and u (1+rho)/(1-rho) at eta_Y t/K = 1e-4.
    evidence.corrected(
        f"K -> infinity: gap of the modified decoder against (V/K - 1 + rho)/(1 - rho), relative; {settings}",
        "modified decoder", worst, at_most=1e-3,
    )  # fmt: skip
    evidence.corrected(
        f"K -> infinity: gap of the leading beta times V rho, which is at most 1 + rho; {settings}",
        "modified decoder, leading beta", leading, at_most=2.0,
    )  # fmt: skip
    evidence.control("wrong theory: V rho, as for few classes", "modified decoder", wrong, at_most=1e-3)
