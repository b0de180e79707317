"""Common token, xi and growth exponent in the simplified system (Theorem 4, Eqs. 13-14, 122-131)."""

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from snapdyn import analytic
from tests.analytic import mpmath_reference as reference

FORMS = ["consistent", "printed"]


@pytest.mark.parametrize("form", FORMS)
def test_closed_forms_match_the_reference(form: str) -> None:
    """Assert that z_c, xi and B_n are within 1e-12 of 50 digits; printed B_n absolutely near its zero."""
    rng = np.random.default_rng(3)
    for t, eta_Y, V in reference.sample_points(count=60, seed=4):
        eta_Z, K, rho0 = 10 ** rng.uniform(-6, 3), float(rng.integers(2, 100)), 10 ** rng.uniform(0, 2)
        arguments = (t, eta_Y, eta_Z, V, K, rho0, form)
        with mp.workdps(reference.DIGITS):
            Gamma = mp.mpf(eta_Z) * reference.gamma_integral(t, eta_Y, V, K)
            C = mp.mpf(rho0) ** 4 / (K if form == "printed" else K - 1)
            logit, speed = -mp.log1p(4 * Gamma / C) / 4, reference.gamma(t, eta_Y, V, K) / (C + 4 * Gamma)
            exponent = mp.log(C + 4 * Gamma) / 4 if form == "printed" else -logit / K
            assert abs(float(analytic.common_token_logit(*arguments)) / logit - 1) < 1e-12
            assert abs(float(analytic.xi(*arguments)) / speed - 1) < 1e-12
            scale = max(abs(exponent), 1) if form == "printed" else abs(exponent)
            assert abs(float(analytic.growth_exponent(*arguments)) - exponent) < 1e-12 * scale


def _premise_solution(end: float, eta_Y: float, eta_Z: float, V: int, K: int, rho0: float, form: str) -> np.ndarray:
    """Integrate h, z_c and int p_n eta_Z xi dt (printed: without p_n) from their differential equations."""
    coefficient, weight = (K / rho0**4, 1.0) if form == "printed" else ((K - 1) / rho0**4, 1 / K)

    def rates(t: float, state: np.ndarray) -> list[float]:
        h, z_c, _ = state
        gamma = (V - 1) ** 2 * h / (V - 1 + np.exp(V * h))
        xi = coefficient * gamma * np.exp(4 * z_c)
        return [eta_Y / K / (V - 1 + np.exp(V * h)), -eta_Z * xi, weight * eta_Z * xi]

    solution = solve_ivp(rates, (0, end), np.zeros(3), method="DOP853", rtol=1e-12, atol=1e-15)
    assert solution.success
    return solution.y[:, -1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", [3.0, 60.0, 700.0])
def test_closed_forms_solve_the_premise(end: float, form: str) -> None:
    """Assert that z_c and B_n solve Eq. (13) integrated from 0, before, at and after the transition."""
    eta_Y, eta_Z, V, K, rho0 = 1.0, 0.5, 1000, 5, 2.0
    _, z_c, B = _premise_solution(end, eta_Y, eta_Z, V, K, rho0, form)
    arguments = (end, eta_Y, eta_Z, V, K, rho0, form)
    assert analytic.common_token_logit(*arguments) == pytest.approx(z_c, rel=1e-10)
    # The printed exponent starts at (1/4) ln C0.
    origin = np.log(rho0**4 / K) / 4 if form == "printed" else 0.0
    assert analytic.growth_exponent(*arguments) - origin == pytest.approx(B, rel=1e-10)


def test_the_other_form_is_rejected_by_the_premise() -> None:
    """Assert that the integrated premise distinguishes the two forms, far beyond the tolerance used."""
    _, z_c, B = _premise_solution(700.0, 1.0, 0.5, 1000, 5, 2.0, "consistent")
    printed = (700.0, 1.0, 0.5, 1000, 5, 2.0, "printed")
    assert abs(analytic.common_token_logit(*printed) / z_c - 1) > 1e-3
    assert analytic.growth_exponent(*printed) / B > 5


def test_pieces_are_given_where_they_are_printed() -> None:
    """Assert that each piece of (14) is NaN outside its times, finite inside, and that these are t0', t0."""
    K, V, eta_Y = 10, 1000, 1.0
    start, end = 10 * np.log(1000), 20 * float(analytic.u_plus(1000))
    t = np.array([0.0, 0.999 * start, start, 0.999 * end, end, 1e6])
    pieces = analytic.growth_exponent_pieces(t, eta_Y, 0.5, V, K, 2.0)
    np.testing.assert_array_equal(np.isfinite(pieces.early), [True, True, False, False, False, False])
    np.testing.assert_array_equal(np.isfinite(pieces.late), [False, False, False, False, True, True])
    assert pieces.early_until == pytest.approx(start, rel=1e-14)
    assert pieces.late_from == pytest.approx(end, rel=1e-14)
