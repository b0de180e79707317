"""Systems on one value for all that stay equal, against the full systems."""

from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, ModifiedDecoder, integrate, log_times
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.reduction import reduced
from tests.dynamics.systems.helpers import random_other, random_system


def drawn(seed: int) -> tuple[Any, bool]:
    """A random system, a MeanField every second time, and whether it has equal classes."""
    return random_other(seed // 2) if seed % 2 else random_system(seed // 2)


def rounding(system: System) -> float:
    """Largest relative difference that rounding leaves: of sums of a thousand terms, and of the inverse of G."""
    if not isinstance(system, ModifiedDecoder):
        return 1e-13
    return 1e-13 * float(np.linalg.cond(system.classes.gram(system.z_initial)))


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.kernel] if s < 8 else []) for s in range(12)])
def test_rates_are_those_of_the_full_system(seed: int) -> None:
    """Assert the rate, the loss and what is saved at a random symmetric state, and that equal classes are found.

    With steps weighted by the numbers of copies, runs differ by rounding too: by 1e-12 to 1e-10 with equal weights.
    """
    system, symmetric = drawn(seed)
    small = reduced(system)
    if small is None:
        assert not symmetric
        return
    state = small.initial_state() + np.abs(np.random.default_rng(seed).normal(size=small.size))
    full_state = small.full_state(state)
    rate, full_rate = np.empty(small.size), np.empty(system.size)
    small.write_rate(state, rate)
    system.write_rate(full_state, full_rate)
    bound = rounding(system) * np.abs(full_rate).max()
    np.testing.assert_allclose(small.full_state(rate), full_rate, rtol=0, atol=bound)
    rel = 1e-13 if type(system) is MeanField else 1e-12
    assert small.loss(state) == pytest.approx(system.loss(full_state), rel=rel)
    assert np.array_equal(small.z_support(state), system.z_support(full_state))
    assert np.array_equal(small.full_state(small.initial_state()), system.initial_state())
    for name, violation in system.invariants(full_state).items():
        assert small.invariants(state)[name] == pytest.approx(violation, rel=1e-9)
    for name, values in system.extra(full_state).items():
        np.testing.assert_allclose(small.extra(state)[name], values, rtol=1e-12)
    assert len({small.value_name(i) for i in range(small.size)}) == small.size
    times = log_times(0.1, 30.0, 5) / (system.eta_Y * max(1.0, system.rate_ratio))
    full, ours = (integrate(system, times, "compiled", reduce=on) for on in (False, True))
    assert ours.stats["steps"] == full.stats["steps"]
    np.testing.assert_allclose(ours.loss, full.loss, rtol=rel)
