"""Claims on more equivalent classes than a list of classes could hold: the growth exponent."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.evidence import Evidence


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
