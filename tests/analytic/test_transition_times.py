"""Roots of exp(u) = (V-1) u, the peak of gamma, and the transition times (Lemmas 8-9)."""

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from snapdyn import analytic
from tests.analytic import mpmath_reference as reference

SIZES = sorted({4, 5, 6, 10, 50, 1000, 10**5, 10**7, *np.random.default_rng(2).integers(4, 10**6, 20).tolist()})


@pytest.mark.parametrize("V", SIZES)
def test_both_roots_solve_the_equation(V: int) -> None:
    """Assert that u_- and u_+ are within 1e-12 of the two roots of exp(u) = (V-1) u at 50 digits."""
    with mp.workdps(reference.DIGITS):
        bottom = mp.log(V - 1)
        small = reference.root(lambda u: (V - 1) * u - mp.exp(u), mp.mpf(0), bottom)
        large = reference.root(lambda u: mp.exp(u) - (V - 1) * u, bottom, 5 * bottom)
        assert abs(float(analytic.u_minus(V)) / small - 1) < 1e-12
        assert abs(float(analytic.u_plus(V)) / large - 1) < 1e-12
        assert abs(float(analytic.omega_1(V)) / (large / mp.log(V) - 1) - 1) < 1e-12


@pytest.mark.parametrize("V", [2, 3, *SIZES])
def test_the_peak_solves_its_equation(V: int) -> None:
    """Assert that u* solves (u-1) exp(u) = V-1, and t* is the time of Eq. (45) there, both within 1e-12."""
    with mp.workdps(reference.DIGITS):
        u = reference.root(lambda u: (u - 1) * mp.exp(u) - (V - 1), mp.mpf(1), mp.mpf(20))
        assert abs(float(analytic.u_peak(V)) / u - 1) < 1e-12
        expected = mp.mpf(10) / mp.mpf(0.3) * (mp.expm1(u) + (V - 1) * u) / V
        assert abs(float(analytic.transition_time(10, V, 0.3)) / expected - 1) < 1e-12


def test_the_peak_of_a_class_with_its_own_prior() -> None:
    """Assert that gamma of h' = p_n eta_Y/(V-1+exp(V h)), integrated by another solver, peaks at the class's t*."""
    V, eta_Y = 1000, 0.3
    for p in (0.7, 0.05):
        t = np.linspace(10, 600, 60001) / p
        solved = solve_ivp(lambda _, h, p=p: p * eta_Y / (V - 1 + np.exp(V * h)), (0, t[-1]), [0.0], "Radau", t,
                           rtol=1e-10, atol=1e-14)  # fmt: skip
        h = solved.y[0]
        peak = t[np.argmax(h / (V - 1 + np.exp(V * h)))]
        # The grid has steps of 0.01/p; near a maximum, errors of the solver move it by less.
        assert abs(float(analytic.transition_time(2, V, eta_Y, prior=p)) - peak) < 0.2 / p
        assert abs(float(analytic.transition_time(2, V, eta_Y)) - peak) > 5 / p
