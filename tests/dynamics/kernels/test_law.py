"""The law of the mean field: its bits do not depend on where arrays lie; large and broken logits; its tangent."""

import itertools
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, symmetric_classes, syn_small
from snapdyn.dynamics.kernels.law import TANGENT_ROWS, mean_field, tangent
from snapdyn.dynamics.systems.reduction import reduced
from tests.dynamics.dense_reference import Array
from tests.dynamics.helpers import EPS


@pytest.mark.parametrize("next_tokens", [2, 60])
def test_bits_do_not_depend_on_where_arrays_lie(next_tokens: int) -> None:
    """Assert equal bits where any array of the call lies directly before any other one.

    A loop is vectorised after a test that its arrays lie apart; where they do not, it sums in another order.
    """
    rng = np.random.default_rng(0)
    P = rng.random((60, 80))
    classes = SequenceClasses(
        P / P.sum(axis=1, keepdims=True), np.zeros(60, int), np.arange(60) % next_tokens, vocab_size=90
    )
    system = MeanField(classes, 1.0, 0.3)
    lists, rates, work = system.kernel_arguments()
    named = {"state": rng.normal(size=system.size), "out": np.zeros(system.size), "rates": rates, "work": work}
    named |= {name: each for name, each in lists._asdict().items() if isinstance(each, np.ndarray) and each.size}

    def call(given: dict[str, Any]) -> bytes:
        of_lists = {name: each for name, each in given.items() if name in lists._fields}
        loss = mean_field(given["state"], given["out"], lists._replace(**of_lists), given["rates"], given["work"])
        return bytes(given["out"].tobytes() + np.float64(loss).tobytes())

    expected = call({name: array.copy() for name, array in named.items()})
    for first, second in itertools.permutations(named, 2):
        placed = {name: array.copy() for name, array in named.items()}
        memory = np.empty(placed[first].nbytes + placed[second].nbytes + 8, np.uint8)
        start = 0
        for name in (first, second):
            array = placed[name]
            start += -start % array.itemsize
            placed[name] = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            placed[name][...] = array
            start += array.nbytes
        assert call(placed) == expected


def rate_of(system: MeanField, state: Array) -> Array:
    out = np.empty(system.size)
    system.write_rate(state, out)
    return out


@pytest.mark.kernel
@pytest.mark.parametrize("shift", [-700.0, 240.0, 700.0])
def test_a_shift_of_all_logits_of_a_class_changes_nothing(shift: float) -> None:
    """Assert equal rates up to rounding of the shift, where all logits of one class move; a shift of one logit acts."""
    system = MeanField(syn_small(), 1.0, 1.0)
    state = 0.1 * np.random.default_rng(0).normal(size=system.size)
    unshifted = rate_of(system, state)
    for moved, same in ((system.layout.num_slots // 2, True), (1, False)):
        shifted = state.copy()
        shifted[:moved] += shift
        rate = rate_of(system, shifted)
        assert np.isfinite(rate).all()
        change = np.abs(rate - unshifted).max()
        assert change < 100 * EPS * 700 if same else change > 0.01


@pytest.mark.kernel
def test_a_value_that_is_not_finite_is_seen() -> None:
    """Assert that NaN in a logit or in Y reaches the rate, so that a run that diverges is noticed."""
    system = MeanField(syn_small(), 1.0, 1.0)
    for index in (0, system.layout.num_slots + 1, system.size - 1):
        state = np.zeros(system.size)
        state[index] = np.nan
        assert np.isnan(rate_of(system, state)).any()


@pytest.mark.kernel
def test_tangent_on_kinds_is_the_derivative_of_the_rate() -> None:
    """Assert J v of a reduced system against differences of its rate of order 4; a rate ratio off by 1e-6 is seen."""
    kinds = [
        {"common": [0.3, 0.1], "distinct": [0.2, 0.4], "classes_per_query": 5},
        {"common": [0.2, 0.2], "distinct": [0.6], "classes_per_query": 7},
    ]
    system = reduced(MeanField(symmetric_classes(kinds, num_queries=2, vocab_size=40), 1.3, 0.7))
    assert isinstance(system, MeanField)
    rng = np.random.default_rng(1)
    state, v = rng.normal(size=(2, system.size))
    h = 1e-3
    expected = sum(
        weight * rate_of(system, state + k * h * v) for k, weight in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0))
    ) / (12.0 * h)
    lists, rates, work = system.kernel_arguments()
    found = np.empty((2, system.size))
    for out, eta_Z in zip(found, (0.7, 0.7 * (1 + 1e-6)), strict=True):
        given = np.array([rates[0], eta_Z]), np.empty((TANGENT_ROWS, work.shape[1])), np.empty(0)
        tangent(state, v, out, lists, *given)
    bound = 1e-9 * np.abs(expected).max()  # the difference errs by h^4 |f^(5)|/30
    assert np.abs(found[0] - expected).max() < bound
    assert np.abs(found[1] - expected).max() > 10 * bound
