"""Properties of public functions on the whole of their documented domains, searched by hypothesis."""

import numpy as np
from hypothesis import given, strategies as st

import snapdyn as sd
from snapdyn import analytic
from tests.fuzz.conftest import searched

vocabularies = st.integers(2, 10**9)
class_numbers = st.integers(1, 10**6)
rates = st.floats(1e-6, 1e3)
# Below lie numbers that carry fewer digits.
visits = st.just(0.0) | st.floats(1e-280, 1e9)


@searched(25, 3000)
@given(visits, st.floats(1.0, 10.0), rates, vocabularies, class_numbers)
def test_the_decoder(s: float, factor: float, eta_Y: float, V: int, K: int) -> None:
    """Assert (V-1) u + exp(u) - 1 = V eta_Y s for u = V h(s), s visits: Eq. (45) after one integration.

    h does not fall, the error of the decoder does not rise, and h <= eta_Y s/V. At t = s steps gamma lies
    between 0 and gamma(t*), and its integral between 0 and gamma(t*) t.
    """
    both = [s, factor * s]
    h, error = analytic.h(both, eta_Y, V), analytic.error_norm(both, eta_Y, V)
    u, target = V * float(h[0]), V * eta_Y * s
    # u exp(u)/(exp(u) - 1) magnifies the rounding of u by at most 1 + u.
    assert abs((V - 1) * u + np.expm1(u) - target) <= 1e-13 * (1 + u) * target
    assert 0 <= h[0] <= h[1] * (1 + 1e-14)
    assert 0 <= error[1] <= error[0] * (1 + 1e-12)
    assert (h <= eta_Y * np.array(both) / V * (1 + 1e-14)).all()
    peak = float(analytic.gamma(analytic.transition_time(K, V, eta_Y), eta_Y, V, K))
    assert 0 <= analytic.gamma(s, eta_Y, V, K) <= peak * (1 + 1e-12)
    assert 0 <= analytic.gamma_integral(s, eta_Y, V, K) <= peak * s * (1 + 1e-9)


@searched(25, 3000)
@given(st.floats(1e-300, 1e300), st.floats(1.001, 1e8), st.integers(2, 1000))
def test_log_times(first: float, factor: float, count: int) -> None:
    """Assert that log-spaced times start and end exactly, rise, and have one ratio."""
    last = first * factor
    times = sd.log_times(first, last, count)
    assert (times[0], times[-1], times.size) == (first, last, count)
    assert (np.diff(times) > 0).all()
    np.testing.assert_allclose(np.diff(np.log(times)), np.log(factor) / (count - 1), rtol=1e-6, atol=1e-12)
