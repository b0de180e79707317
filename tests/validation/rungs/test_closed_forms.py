"""Closed forms as rungs."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import (
    SingleCommonToken,
    integrate,
)
from snapdyn.validation import ladder
from snapdyn.validation.rungs.run import (
    CLOSED,
    ORBIT,
    REDUCED,
)
from tests.validation.rungs.helpers import CLASSES, ETA, ETA_Z, K, whole


def test_exact_closed_forms_close_their_gap() -> None:
    """Assert that orbit and closed form agree with the integrated rungs to the solver's tolerance."""
    assert float(whole().gaps.gap.sel(rung=[ORBIT, CLOSED]).max()) < 1e-7


def test_reduced_rung_has_the_growth_exponent_in_every_logit() -> None:
    """Assert that z of (13) obeys z_l' = f_l^2 B' at constant rho0, by finite differences of the closed form."""
    t = np.linspace(50.0, 60.0, 101)
    found = ladder(CLASSES, ETA, ETA_Z, t, seeds=0, max_steps=1)
    P = CLASSES.P.toarray()[0]
    rho0 = float(np.linalg.norm(P) / P[0])
    B = analytic.growth_exponent(t, ETA, ETA_Z, K, K, rho0)
    z = found[CLOSED].observables["z"][:, 1:5]  # distinct tokens of class 0
    rate = (P[1:5] / (P[0] * rho0)) ** 2 * np.exp(2 * z) * np.gradient(B, t)[:, None]
    inside = slice(1, -1)
    assert np.gradient(z, t, axis=0)[inside] == pytest.approx(rate[inside], rel=1e-4)
    run = integrate(SingleCommonToken(K, K, ETA, ETA_Z, rho0), t)
    assert found[REDUCED].observables["z"][:, 0] == pytest.approx(run.z_support[:, 0], rel=1e-6)
