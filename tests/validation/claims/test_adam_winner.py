"""Which distinct token wins under Adam."""

from dataclasses import replace

import pytest

from snapdyn.validation.claims.adam._winner import base, lead, lead_with


def test_lead_is_that_of_adam_in_plain_numpy() -> None:
    """Assert that the mean map's lead is that of Adam in numpy, and not that without the correction of the start."""
    instance = replace(base(), eta_Y=0.03, eta_Z=0.03)
    found = lead(instance)
    assert found.value == pytest.approx(lead_with(instance), abs=1e-9)
    assert abs(found.value - lead_with(instance, corrected=False)) > 1e-3
