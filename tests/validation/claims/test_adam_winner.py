"""Which distinct token wins under Adam."""

from dataclasses import replace

import pytest

from snapdyn.dynamics import Adam
from snapdyn.validation.claims.adam._winner import base, lead, lead_with


def test_lead_is_that_of_adam_in_plain_numpy() -> None:
    """Assert that the mean map's lead is that of Adam in numpy, and not that without the correction of the start."""
    instance = replace(base(), eta_Y=0.03, eta_Z=0.03)
    found = lead(instance)
    assert found is not None
    assert found.value == pytest.approx(lead_with(instance), abs=1e-9)
    assert abs(found.value - lead_with(instance, corrected=False)) > 1e-3


def test_memory_of_the_decoder_reverses_the_lead() -> None:
    """Assert a reversal by long memory, and equality without it."""
    long, short = lead(base()), lead(base(), Adam(beta2=0.9))
    assert long is not None
    assert short is not None
    assert long.value < -0.2
    assert abs(short.value) < 0.1
