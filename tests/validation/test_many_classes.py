"""Equivalent classes in any number: first gaps, turns of distinct tokens."""

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import ClassKind, MeanField, integrate, symmetric_classes
from snapdyn.validation.claims.approximations.slow_attention import turn


def first_gaps_of_runs(num_classes: int, vocab_size: int, overlap: float) -> tuple[float, float]:
    """Gaps of z at eta_Y t = 1e-4 K: mean field to exact beta, and exact to leading beta, of one distinct token.

    The mean field is integrated, Eq. (10) is the quadrature of its orbit. eta_Z/eta_Y = 1e-3/K: attention does not
    disturb the decoder.
    """
    K, V, odds = num_classes, vocab_size, float(np.sqrt(overlap / (1 - overlap)))
    share = odds / (1 + odds)
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


@pytest.mark.parametrize("K", [2, 10**3, 10**9])
@pytest.mark.parametrize("rho", [0.01, 0.5])
def test_first_gaps_of_runs_are_the_closed_form(K: int, rho: float) -> None:
    """Assert the integrated gap of the modified decoder against its closed form at t -> 0, V = K to 1e6 K."""
    for V in (K, 3 * K, 10**6 * K):
        modified, leading = first_gaps_of_runs(K, V, rho)
        closed = analytic.first_ladder_gaps(K, V, rho)
        # The gap falls with t: by the order of u = 1e-4.
        assert modified == pytest.approx(closed.modified, rel=1e-3)
        assert leading == pytest.approx(-closed.leading, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("K", [30, 3 * 10**8])
def test_turn_follows_k_times_the_ratio(K: int) -> None:
    """Assert that the turn lies at a K (eta_Z/eta_Y) u^2 that hardly depends on K, not at a fixed ratio times u^2."""
    found, law = turn(0.15, 0.8, K)
    # Left out: 1/K; the law is the limit of many classes.
    assert found == pytest.approx(law, rel=3 / K + 3e-3)
