"""h, gamma, its integral, the error norm and the recursion h* (Lemmas 5-7, 9, Corollary 1, Eq. 128)."""

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

from snapdyn import analytic
from tests.analytic import mpmath_reference as reference

TOLERANCE = 1e-12


def test_closed_forms_match_the_reference() -> None:
    """Assert h (45), gamma (85), its integral (128) and Corollary 1's norm within 1e-12 of 50 digits, K to 1000."""
    for s, eta_Y, V in reference.sample_points(count=150, seed=1):
        K = 1.0 + int(V) % 1000
        with mp.workdps(reference.DIGITS):
            u = reference.scaled_h(s, eta_Y, V)
            # The logit at the next token exceeds the V-1 others by V h.
            other = 1 / (mp.exp(u) + V - 1)
            for found, expected in (
                (analytic.h(s, eta_Y, V), u / V),
                (analytic.gamma(s, eta_Y, V, K), reference.gamma(s, eta_Y, V, K)),
                (analytic.gamma_integral(s, eta_Y, V, K), reference.gamma_integral(s, eta_Y, V, K)),
                (analytic.error_norm(s, eta_Y, V), mp.sqrt(((V - 1) * other) ** 2 + (V - 1) * other**2)),
            ):
                assert abs(float(found) / expected - 1) < TOLERANCE, (s, eta_Y, V)


@pytest.mark.parametrize("missing", ["one", "V eta_Y s", "V-1"])
def test_a_wrong_implicit_equation_is_rejected(missing: str) -> None:
    """Assert that the tolerance of the reference test excludes Eq. (45) with any of its parts wrong."""
    s, eta_Y, V = 30.0, 0.7, 50.0
    constant = 0 if missing == "one" else 1
    drive = eta_Y * s if missing == "V eta_Y s" else V * eta_Y * s
    slope = V if missing == "V-1" else V - 1
    with mp.workdps(30):
        wrong = reference.root(lambda u: mp.exp(u) + slope * u - drive - constant, mp.mpf(0), mp.mpf(50)) / V
        assert abs(float(analytic.h(s, eta_Y, V)) / wrong - 1) > 1e6 * TOLERANCE


def test_everything_starts_at_exactly_zero() -> None:
    """Assert that h, gamma and its integral are exactly 0 at time 0, and the error norm is sqrt(1 - 1/V)."""
    V = np.array([2, 10, 1e7])
    assert np.all(analytic.h(0, 1.0, V) == 0)
    assert np.all(analytic.gamma(0, 1.0, V, 7) == 0)
    assert np.all(analytic.gamma_integral(0, 1.0, V, 7) == 0)
    np.testing.assert_allclose(analytic.error_norm(0, 1.0, V), np.sqrt(1 - 1 / V), rtol=1e-15)


def test_scalars_give_floats_and_arrays_broadcast() -> None:
    """Assert that scalar arguments give a float, and array arguments the elementwise values."""
    assert isinstance(analytic.h(1.0, 1.0, 10), float)
    assert isinstance(analytic.gamma(1, 1, 10, 2), float)
    grid = analytic.gamma(np.array([1.0, 2.0])[:, None], 0.5, np.array([10, 20, 30]), 4)
    assert grid[1, 2] == analytic.gamma(2.0, 0.5, 30, 4)


@pytest.mark.parametrize(("eta_Y", "V", "K"), [(1.0, 1000, 10), (0.01, 2, 1), (100.0, 50, 3)])
@pytest.mark.parametrize("scaled_time", [0.3, 1.0, 30.0])
def test_gamma_integral_is_the_integral_of_gamma(eta_Y: float, V: int, K: int, scaled_time: float) -> None:
    """Assert that adaptive quadrature of gamma gives Eq. (128), before, at and after the peak."""
    end = scaled_time * float(analytic.transition_time(K, V, eta_Y))
    integral, error = quad(lambda t: float(analytic.gamma(t, eta_Y, V, K)), 0, end, epsabs=0, epsrel=1e-12, limit=500)
    assert error < 1e-10 * integral
    assert float(analytic.gamma_integral(end, eta_Y, V, K)) == pytest.approx(integral, rel=1e-10)


def _sgd_growth(num_steps: int, eta_Y: float, V: int) -> np.ndarray:
    """Return h* after each step from SGD on the logits of one class themselves."""
    w, growth = np.zeros(V), [0.0]
    for _ in range(num_steps):
        probability = np.exp(w - w.max()) / np.exp(w - w.max()).sum()
        w += eta_Y * (np.eye(V)[0] - probability)
        growth.append((w[0] - w[1]) / V)
    return np.array(growth)


@pytest.mark.parametrize(("eta_Y", "V"), [(1.0, 50), (0.2, 7), (500.0, 3)])
def test_discrete_h_is_sgd_on_the_logits(eta_Y: float, V: int) -> None:
    """Assert that recursion (33) equals SGD on w_n entry by entry, w_n - w_other = V h*."""
    np.testing.assert_allclose(analytic.discrete_h(60, eta_Y, V), _sgd_growth(60, eta_Y, V), rtol=1e-11)
