"""The exponential of the kernels against numpy."""

import math

import numpy as np
import pytest

from snapdyn.dynamics.kernels.elementary import exp_nonpositive

pytestmark = pytest.mark.kernel


def test_exp_nonpositive_is_within_two_ulp() -> None:
    """Assert exp(x) to 2 ulp against 40-digit arithmetic over [-708, 0], denser near 0 and at k ln 2 edges."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    edges = -(np.arange(0, 60) + 0.5) * math.log(2)
    x = np.concatenate(
        [rng.uniform(-708, 0, 200), -np.geomspace(1e-18, 1, 100), edges, np.nextafter(edges, 0), [0.0, -708.0]]
    )
    with mpmath.workdps(40):
        exact = [mpmath.exp(mpmath.mpf(float(v))) for v in x]
        ulps = [
            abs(mpmath.mpf(float(exp_nonpositive(float(v)))) - e) / mpmath.mpf(float(np.spacing(float(e))))
            for v, e in zip(x, exact, strict=True)
        ]
    assert max(ulps) <= 2


def test_exp_nonpositive_at_its_edges() -> None:
    """Assert that below -708 the value is held at exp(-708), and NaN stays NaN."""
    floor = float(exp_nonpositive(-708.0))
    assert float(exp_nonpositive(0.0)) == 1.0
    assert 0 < floor < 4e-308
    assert float(exp_nonpositive(math.nextafter(-708.0, -1e9))) == floor
    assert float(exp_nonpositive(-1e300)) == floor
    assert float(exp_nonpositive(-math.inf)) == floor
    assert math.isnan(float(exp_nonpositive(math.nan)))
