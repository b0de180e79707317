"""The reduced system of one common token, eq. (13)."""

import math

import numpy as np
import pytest

from snapdyn.dynamics import SingleCommonToken
from tests.dynamics.helpers import ROUNDING_OF_SUMS


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
