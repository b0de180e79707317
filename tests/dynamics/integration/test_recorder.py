"""What a run keeps: logits alone, the decoder on request, more saves than fit into the buffer."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.dynamics import (
    integrate,
    log_times,
)
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import SYSTEMS, mean_field_system, tolerance


@pytest.mark.parametrize("name", SYSTEMS)
def test_z_alone_is_the_same_z(name: str) -> None:
    """Assert that keeping z only changes a logit by rounding only, keeps no loss, and makes no other step."""
    times = log_times(0.1, 50.0, 20)
    whole, z = (integrate(SYSTEMS[name](), times, "compiled", z_only=only) for only in (False, True))
    # The last values of a vector are not computed in lanes: another rounding in each of about 30 operations.
    np.testing.assert_allclose(z.z, whole.z, rtol=0, atol=30 * EPS * max(1.0, np.abs(whole.z).max()))
    assert np.isnan(z.loss).all()
    assert (z.invariants, z.extra) == ({}, {})
    assert {**z.stats} == {**whole.stats}
    by_scipy = integrate(SYSTEMS[name](), times, "DOP853", z_only=True)
    assert np.abs(z.z - by_scipy.z).max() < tolerance(whole)
    assert np.isnan(by_scipy.loss).all()


def test_decoder_is_saved_on_request() -> None:
    """Assert Y at every save against scipy's route."""
    ours, theirs = (
        integrate(mean_field_system(), [0.0, 0.3, 20.0], method, save_decoder=True) for method in ("compiled", "DOP853")
    )
    Y, expected = ours.require_decoder().Y, theirs.require_decoder().Y
    assert np.abs(Y - expected).max() < tolerance(ours) < 1e-3 * np.abs(expected).max()
    states = integrate(mean_field_system(), [0.0, 0.3, 20.0], "compiled", save_decoder=True, z_only=True)
    np.testing.assert_array_equal(states.Y, ours.Y)
    np.testing.assert_array_equal(states.z, ours.z)
    assert np.isnan(states.loss).all()
    assert states.invariants == {}


def test_more_saves_than_fit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a buffer of 3 rows gives the same run, and that saves are counted once."""
    import importlib

    times = np.linspace(0.0, 20.0, 50)
    whole = integrate(mean_field_system(), times, "compiled")
    monkeypatch.setattr(
        importlib.import_module("snapdyn.dynamics.integration.recorder"),
        "NUMBERS_AT_ONCE",
        3 * mean_field_system().size,
    )
    parts = integrate(mean_field_system(), times, "compiled")
    np.testing.assert_array_equal(parts.z, whole.z)
    np.testing.assert_array_equal(parts.loss, whole.loss)
    assert parts.stats == whole.stats
