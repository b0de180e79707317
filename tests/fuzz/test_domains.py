"""Properties of public functions on the whole of their documented domains, searched by hypothesis."""

import numpy as np
from hypothesis import given, strategies as st

import snapdyn as sd
from tests.fuzz.conftest import searched


@searched(25, 3000)
@given(st.floats(1e-300, 1e300), st.floats(1.001, 1e8), st.integers(2, 1000))
def test_log_times(first: float, factor: float, count: int) -> None:
    """Assert that log-spaced times start and end exactly, rise, and have one ratio."""
    last = first * factor
    times = sd.log_times(first, last, count)
    assert (times[0], times[-1], times.size) == (first, last, count)
    assert (np.diff(times) > 0).all()
    np.testing.assert_allclose(np.diff(np.log(times)), np.log(factor) / (count - 1), rtol=1e-6, atol=1e-12)
