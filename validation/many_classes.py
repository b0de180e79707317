"""Gaps of the ladder for more equivalent classes than a list of classes could hold."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import ClassKind, MeanField, integrate, symmetric_classes
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
