"""Growth exponent with the growth of distinct tokens, against Eqs. (98), (100) with E' by matrix inversion."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from snapdyn import analytic

X = 10.0 ** np.arange(-3, 5)
RISING = (0.1, 0.325, 0.55, 0.775, 1.0)
PROFILES = {"rising": RISING, "one": (1.0,), "steep": (0.01, 0.1, 1.0), "near": (0.9, 0.95, 1.0), "equal": (1.0,) * 3}


def gamma_of(x: np.ndarray, K: int, rho0: float) -> np.ndarray:
    """Return Gamma = x rho0^4/(4 (K-1))."""
    return x * rho0**4 / (4 * (K - 1))


@cache
def integrated(K: int, rho0_squared: float, profile: tuple, V: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return B_n and z_c at X by integration of all logits over ln Gamma; V None: leading beta."""
    p = np.array(profile)
    p_c = np.sqrt((p**2).sum() / (rho0_squared - 1))
    d = p.size
    Gamma = gamma_of(X, K, np.sqrt(rho0_squared))

    def rates(log_Gamma: float, state: np.ndarray) -> np.ndarray:
        c = np.zeros((K, 1 + K * d))
        c[:, 0] = p_c * np.exp(state[d])
        for n in range(K):
            c[n, 1 + n * d : 1 + (n + 1) * d] = p * np.exp(state[:d])
        f = c / np.linalg.norm(c, axis=1, keepdims=True)
        E_prime = np.eye(K) - np.linalg.inv(f @ f.T)
        beta = E_prime[0, 1] if V is None else analytic.speed_coefficients(E_prime, V).beta[0, 1]
        xi = (K - 1) * beta * (f[0] @ f[1])  # over gamma
        z_rate = f[0, 1 : 1 + d] ** 2 * xi / K
        return np.exp(log_Gamma) * np.array([*z_rate, -(1 - f[0, 0] ** 2) * xi, xi / K])

    # The start is linear in Gamma.
    first = np.log(Gamma[0] * 1e-9)
    start = rates(first, np.zeros(d + 2))
    end = np.log(Gamma[-1])
    solution = solve_ivp(rates, (first, end), start, "DOP853", np.log(Gamma), rtol=1e-11, atol=1e-18)
    assert solution.success
    return solution.y[-1], solution.y[d]


@pytest.mark.parametrize("V", [None, 200, 10**6])
@pytest.mark.parametrize("K", [2, 5, 20])
@pytest.mark.parametrize("rho0_squared", [3.0, 50.0, 1e3])
def test_equal_tokens_have_the_closed_form(K: int, rho0_squared: float, V: int | None) -> None:
    """Assert that B_n and z_c of equally frequent tokens equal direct integration, and that wbar = 0 does not."""
    B, z_common = integrated(K, rho0_squared, PROFILES["equal"], V)
    rho0 = np.sqrt(rho0_squared)
    law = analytic.growth_and_common_logit(gamma_of(X, K, rho0), K, rho0, 1 / 3, V)
    np.testing.assert_allclose(law.B, B, rtol=1e-8)
    np.testing.assert_allclose(law.z_common, z_common, rtol=1e-8)
    without_drift = analytic.growth_and_common_logit(gamma_of(X, K, rho0), K, rho0, 0.0, V)
    assert np.abs(without_drift.B / B - 1).max() > 1e-3


@pytest.mark.parametrize("V", [None, 100_000])
@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("rho0_squared", [3.0, 50.0, 66_000.0])
@pytest.mark.parametrize("name", ["rising", "steep", "near"])
def test_the_bounds_enclose_the_integrated_growth(name: str, rho0_squared: float, K: int, V: int | None) -> None:
    """Assert both bounds of B_n and |z_c|, and the stated accuracy of `growth_exponent_of_profile` between them."""
    B, z_common = integrated(K, rho0_squared, PROFILES[name], V)
    profile, rho0 = analytic.distinct_profile(PROFILES[name]), np.sqrt(rho0_squared)
    Gamma = gamma_of(X, K, rho0)
    lower, upper = analytic.bounds_of_growth(Gamma, K, rho0, profile, V)
    rounding = 1 + 1e-8
    assert np.all(B * rounding >= lower.B)
    assert np.all(B / rounding <= upper.B)
    assert np.all(-lower.z_common <= -z_common * rounding)
    assert np.all(-upper.z_common >= -z_common / rounding)
    estimate = analytic.growth_exponent_of_profile(Gamma, K, rho0, profile, V)
    stated = {(2, None): 0.010, (5, None): 0.0013, (2, 100_000): 0.046, (5, 100_000): 0.0083}
    assert np.abs(estimate / B - 1).max() < stated[K, V]
    if name == "rising":
        # Each bound alone is off by more than the estimate's accuracy: the enclosure is not trivially narrow.
        assert (upper.B / lower.B - 1).max() > stated[K, V]


@pytest.mark.parametrize(
    ("K", "rounded"), [(2, [5.0, 11.3, 18.2]), (5, [2.0, 4.5, 6.7])], ids=["two classes", "five classes"]
)
def test_the_error_of_the_consistent_form_does_not_fall_with_rho0(K: int, rounded: list[float]) -> None:
    """Assert the integrated errors (%) at rho0^2 = 66,000, x = 1, 10, 1e4, and that the explicit law gives them."""
    B, _ = integrated(K, 66_000.0, RISING)
    measured = np.log1p(X) / (4 * K) / B - 1
    np.testing.assert_allclose(100 * measured[[3, 4, 7]], rounded, atol=0.06)
    profile = analytic.distinct_profile(RISING)
    law = analytic.error_of_consistent_form(X, K, np.sqrt(66_000.0), profile.wbar, profile.wbar_slope)
    # Of second order in the slope, largest at x = 1e4: percentage points for this profile.
    np.testing.assert_allclose(law, measured, atol={2: 0.006, 5: 0.0005}[K])
    # Wrong theory: the overlap alone, (K-2)/rho0^2.
    assert np.all(measured[3:] > 100 * max(K - 2, 1) / 66_000)


def test_profiles() -> None:
    """Assert wbar, its slope and its limit for equal, single and unequal tokens."""
    assert analytic.distinct_profile([0.3]) == (1.0, 0.0, 1.0)
    assert analytic.distinct_profile([0.1] * 4) == pytest.approx((0.25, 0.0, 0.25))
    w = np.array([1, 4, 4]) / 9
    expected = (np.sum(w**2), 4 * (np.sum(w**3) - np.sum(w**2) ** 2), 0.5)
    assert analytic.distinct_profile([0.1, 0.2, 0.2]) == pytest.approx(expected)


def test_extreme_arguments_are_quiet() -> None:
    """Assert finite, rising growth from 0 on, at the ends of the range, without floating-point trouble."""
    Gamma = np.array([0.0, *np.geomspace(1e-9, 1e18, 40)])
    for V in (None, 5, 10**12):
        for rho0 in (1 + 1e-9, 2.0, 1e6):
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                growth = analytic.growth_and_common_logit(Gamma, 5, rho0, 0.3, V)
            assert growth.B[0] == growth.z_common[0] == 0
            assert np.all(np.diff(growth.B) > 0)
            assert np.all(np.diff(growth.z_common) < 0)
