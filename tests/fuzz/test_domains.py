"""Properties of public functions on the whole of their documented domains, searched by hypothesis."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import snapdyn as sd
from snapdyn import analytic

LARGE = os.environ.get("SNAPDYN_FUZZ") == "large"
searched = settings(
    deadline=None,
    derandomize=True,
    max_examples=3000 if LARGE else 25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each example writes its own file
)

vocabularies = st.integers(2, 10**9)
larger_vocabularies = st.integers(4, 10**9)  # with roots of exp(u) = (V-1) u
class_numbers = st.integers(1, 10**6)
rates = st.floats(1e-6, 1e3)
# Below lie numbers that carry fewer digits.
visits = st.just(0.0) | st.floats(1e-280, 1e9)
seeds = st.integers(0, 2**63 - 1)


@searched
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


@searched
@given(class_numbers, larger_vocabularies, rates)
def test_times_of_the_transition(K: int, V: int, eta_Y: float) -> None:
    """Assert that the times are K times those of one class, that it starts before it ends, and u- < ln(V-1) < u+."""
    for kind in ("peak", "start", "end"):
        one = float(analytic.transition_time(1, V, eta_Y, kind=kind))
        assert float(analytic.transition_time(K, V, eta_Y, kind=kind)) == pytest.approx(K * one, rel=1e-14)
    start, end = (float(analytic.transition_time(K, V, eta_Y, kind=kind)) for kind in ("start", "end"))
    assert start < end
    assert analytic.u_minus(V) < np.log(V - 1) < analytic.u_plus(V)


@searched
@given(visits, st.floats(1.0, 10.0), rates, rates, vocabularies, class_numbers, st.floats(1.0, 1e6))
def test_the_growth_exponent_rises(
    t: float, factor: float, eta_Y: float, eta_Z: float, V: int, K: int, rho0: float
) -> None:
    """Assert that B_n starts at 0, never falls, and is what the distinct tokens of one class take from the common."""
    B = analytic.growth_exponent([0.0, t, factor * t], eta_Y, eta_Z, V, K, rho0)
    assert B[0] == 0
    assert 0 <= B[1] <= B[2] * (1 + 1e-12)
    z = analytic.common_token_logit([0.0, t, factor * t], eta_Y, eta_Z, V, K, rho0)
    np.testing.assert_allclose(K * B, -z, rtol=1e-13, atol=0)


@searched
@given(st.floats(1e-300, 1e300), st.floats(1.001, 1e8), st.integers(2, 1000))
def test_log_times(first: float, factor: float, count: int) -> None:
    """Assert that log-spaced times start and end exactly, rise, and have one ratio."""
    last = first * factor
    times = sd.log_times(first, last, count)
    assert (times[0], times[-1], times.size) == (first, last, count)
    assert (np.diff(times) > 0).all()
    np.testing.assert_allclose(np.diff(np.log(times)), np.log(factor) / (count - 1), rtol=1e-6, atol=1e-12)
