"""The reduced system of one common token, eq. (13)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from snapdyn.dynamics import SingleCommonToken, integrate, log_times
from tests.dynamics.dense_reference import u_of_time
from tests.dynamics.helpers import ROUNDING_OF_SUMS
from tests.dynamics.integration.helpers import tolerance


@pytest.mark.kernel
@pytest.mark.parametrize("form", ["printed", "consistent"])
def test_single_common_token_is_eq_13(form: str) -> None:
    """Assert z' = -eta_Z gamma exp(4z)/C0 with C0 = rho0^4/K and B' = -z', or (K-1)/rho0^4 and B' = -z'/K."""
    K, V, eta_Y, eta_Z, rho0 = 7, 300, 0.6, 0.2, 4.0
    system = SingleCommonToken(K, V, eta_Y, eta_Z, rho0, form=form)
    for z, u in ((0.0, 0.0), (-0.3, 2.0), (-2.0, 9.0), (-4.0, 40.0)):
        h = u / V
        gamma = (V - 1) ** 2 * h / (V - 1 + math.exp(u))
        C0 = rho0**4 / K if form == "printed" else rho0**4 / (K - 1)
        fall = -eta_Z * gamma * math.exp(4 * z) / C0
        rise = -fall if form == "printed" else -fall / K
        expected = [fall, rise, V * (eta_Y / K) / (V - 1 + math.exp(u))]
        actual = system.derivative(0.0, np.array([z, 0.3, u]))
        # (1 + a) V with a = exp(-u)(V-1): a few operations, so a few ulp.
        np.testing.assert_allclose(actual, expected, rtol=ROUNDING_OF_SUMS, atol=0)


@pytest.mark.parametrize("form", ["printed", "consistent"])
def test_reduced_system_has_its_closed_form(form: str) -> None:
    """Assert exp(-4 z) = 1 + 4 A Gamma with Gamma from quadrature of gamma over h, A = K/rho0^4 or (K-1)/rho0^4."""
    K, V, eta_Y, eta_Z, rho0 = 5, 1000, 1.0, 0.5, 3.0
    run = integrate(
        SingleCommonToken(K, V, eta_Y, eta_Z, rho0, form=form), log_times(0.1, 1e6, 12), rtol=1e-11, atol=1e-13
    )
    A = (K if form == "printed" else K - 1) / rho0**4
    for i, t in enumerate(run.t):
        h_end = u_of_time(eta_Y * t / K, V) / V
        # gamma dt = (V-1)^2 h dh K/eta_Y
        Gamma = eta_Z * quad(lambda h: (V - 1) ** 2 * h * K / eta_Y, 0, h_end)[0]
        z = -0.25 * math.log1p(4 * A * Gamma)
        # The largest state value is V h < ln(1e7).
        assert abs(run.z[i, 0, 0] - z) < tolerance(run, float(np.log(1e7)))
        assert run.extra["B"][i, 0] == pytest.approx(-run.z[i, 0, 0] / (1 if form == "printed" else K), rel=1e-12)
        assert abs(run.extra["h"][i, 0] * V - h_end * V) < tolerance(run, float(np.log(1e7)))
