"""Relative gain and companion growth (Theorem 3, Eqs. 11 and 110)."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from snapdyn import analytic


@pytest.fixture(scope="module")
def trajectory() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, z(0) and z(t) of five tokens that obey z_l' = a(t) f_l^2 on three and lose their sum on the last."""
    P, z_initial = np.array([0.1, 0.25, 0.15, 0.3, 0.2]), np.array([0.1, -0.3, 0.2, 0.0, 0.0])

    def rates(t: float, z: np.ndarray) -> np.ndarray:
        c = P * np.exp(z)
        growth = np.where(np.arange(5) < 4, c**2 / (c @ c), 0) * (1 + np.sin(t) ** 2)
        growth[-1] = -growth.sum()
        return growth

    solution = solve_ivp(rates, (0, 1.5), z_initial, method="DOP853", rtol=1e-12, atol=1e-14)
    return P, z_initial, solution.y[:, -1]


@pytest.mark.parametrize(("token", "other"), [(0, 1), (1, 0), (3, 2), (2, 3)])
def test_relative_gain_along_a_trajectory(trajectory: tuple, token: int, other: int) -> None:
    """Assert that Eq. (11) gives the gain of an integrated trajectory, for gains above and below 0."""
    P, z_initial, z_t = trajectory
    ratio = P[token] * np.exp(z_initial[token]) / (P[other] * np.exp(z_initial[other]))
    final = (P[token] * np.exp(z_t[token]) / (P[other] * np.exp(z_t[other]))) ** 2 - 1
    growth = z_t[token] - z_initial[token]
    assert growth > 0.02
    assert analytic.relative_gain(ratio**2 - 1, growth) == pytest.approx(final, rel=1e-9)
    # Negative control: exp(z) in place of exp(2 z).
    assert abs(analytic.relative_gain(ratio**2 - 1, growth / 2) / final - 1) > 1e-2


@pytest.mark.parametrize(("token", "other"), [(0, 1), (1, 0), (3, 2), (2, 3)])
def test_companion_growth_along_a_trajectory(trajectory: tuple, token: int, other: int) -> None:
    """Assert that Eq. (110) gives one token's growth from another's on an integrated trajectory."""
    P, z_initial, z_t = trajectory
    gain = (P[token] * np.exp(z_initial[token]) / (P[other] * np.exp(z_initial[other]))) ** 2 - 1
    growth = analytic.companion_growth(gain, z_t[other] - z_initial[other])
    assert growth == pytest.approx(z_t[token] - z_initial[token], rel=1e-9)


def test_both_are_exact_at_the_start() -> None:
    """Assert that without growth the gain is the initial gain and the companion has not grown."""
    assert analytic.relative_gain(0.7, 0.0) == 0.7
    assert analytic.companion_growth(0.7, 0.0) == 0


def test_tiny_growth_keeps_its_digits() -> None:
    """Assert that dz_l -> (r+1) dz_l' for tiny growth, to rounding."""
    assert analytic.companion_growth(0.5, 1e-14) == pytest.approx(1.5e-14, rel=1e-12)


@pytest.mark.parametrize("gain", [-1.0, -2.0, np.nan])
def test_an_impossible_gain_is_refused(gain: float) -> None:
    """Assert that a gain of -1 or less, or not a number, is refused."""
    with pytest.raises(ValueError, match="expected initial_gain"):
        analytic.relative_gain(gain, 0.1)


def test_growth_beyond_the_orbit_is_refused() -> None:
    """Assert that Eq. (110) refuses a growth at which the dominant logit has passed infinity."""
    limit = -np.log(1 - 1 / 3.0) / 2
    assert analytic.companion_growth(2.0, 0.999999 * limit) > 5
    with pytest.raises(ValueError, match="diverges"):
        analytic.companion_growth(2.0, 1.000001 * limit)
