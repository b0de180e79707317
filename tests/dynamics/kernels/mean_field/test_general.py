"""The mean field class by class: its bits do not depend on where arrays lie; the kernel for three output columns."""

import itertools
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, syn_small
from snapdyn.dynamics.kernels.mean_field.general import (
    mean_field_of_any_columns,
    mean_field_of_three_columns,
    three_column_rate,
)
from tests.dynamics.dense_reference import Array, random_instance
from tests.dynamics.helpers import EPS


@pytest.mark.parametrize(("kernel", "next_tokens"), [(mean_field_of_three_columns, 2), (mean_field_of_any_columns, 60)])
def test_bits_do_not_depend_on_where_arrays_lie(kernel: Any, next_tokens: int) -> None:
    """Assert equal bits where any array of the call lies directly before any other one.

    A loop is vectorised after a test that its arrays lie apart; where they do not, it sums in another order.
    """
    rng = np.random.default_rng(0)
    P = rng.random((60, 80))
    classes = SequenceClasses(
        P / P.sum(axis=1, keepdims=True), np.zeros(60, int), np.arange(60) % next_tokens, vocab_size=90
    )
    system = MeanField(classes, 1.0, 0.3)
    arguments = [rng.normal(size=system.size), np.zeros(system.size), *system.kernel_arguments()]

    def call(arguments: list[Any]) -> bytes:
        loss = kernel(*arguments)
        return bytes(arguments[1].tobytes() + np.float64(loss).tobytes())

    expected = call([array.copy() for array in arguments])
    for first, second in itertools.permutations(range(len(arguments)), 2):
        placed = [array.copy() for array in arguments]
        memory = np.empty(placed[first].nbytes + placed[second].nbytes, np.uint8)
        start = 0
        for i in (first, second):
            array = placed[i]
            placed[i] = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            placed[i][...] = array
            start += array.nbytes
        assert call(placed) == expected


def with_two_next_tokens(seed: int) -> SequenceClasses:
    """Classes that share queries and next tokens, with lumped tokens, and tokens that no class has."""
    return random_instance(seed, next_token=(0, 1, 1, 0, 1), vocab_size=3 if seed % 3 == 0 else 14).classes()


def with_three_outputs(seed: int) -> SequenceClasses:
    """Three next tokens and no other output: no column is shared."""
    instance = random_instance(seed, num_classes=4, next_token=(0, 1, 2, 2), num_tokens=3, twins=(), query=(0, 0, 1, 2))
    return SequenceClasses(instance.P, instance.query, instance.next_token, instance.prior, 3)


def rates(system: MeanField, state: Array) -> tuple[Array, Array]:
    fast, general = np.empty((2, system.size))
    three_column_rate(state, fast, *system.kernel_arguments())
    system.write_rate(state, general)
    return fast, general


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("build", [with_two_next_tokens, with_three_outputs])
def test_agrees_with_the_general_kernel(seed: int, build: type) -> None:
    """Assert equal rates up to rounding: each is a sum of at most 5 classes of some 30 operations on values of order 1.

    A rate ratio off by 1e-11 is seen.
    """
    classes = build(seed)
    system, changed = MeanField(classes, 1.3, 0.7), MeanField(classes, 1.3, 0.7 * (1 + 1e-11))
    assert system.layout.num_columns == 3
    state = np.random.default_rng(seed).normal(size=system.size)
    fast, general = rates(system, state)
    bound = 5 * 30 * EPS * np.abs(general).max()
    assert np.abs(fast - general).max() < bound
    assert np.abs(rates(changed, state)[0] - general).max() > 2 * bound


@pytest.mark.kernel
@pytest.mark.parametrize("shift", [-700.0, 240.0, 700.0])
@pytest.mark.parametrize("whole_class", [False, True])
def test_large_logits(shift: float, whole_class: bool) -> None:
    """Assert the general kernel's rates where attention has to be shifted, on one entry or on all of a class.

    Attention does not feel a shift of all logits of a class, so the rates must not either, up to rounding of the shift.
    """
    system = MeanField(syn_small(), 1.0, 1.0)
    slots = system.layout.num_slots // 2 if whole_class else 1
    state = 0.1 * np.random.default_rng(0).normal(size=system.size)
    unshifted = rates(system, state)[1]
    state[:slots] += shift
    fast, general = rates(system, state)
    assert np.isfinite(fast).all()
    assert np.abs(fast - general).max() < 100 * EPS * np.abs(general).max()
    change = np.abs(fast - unshifted).max()
    assert change < 100 * EPS * 700 if whole_class else change > 0.01


@pytest.mark.kernel
def test_a_value_that_is_not_finite_is_seen() -> None:
    """Assert that NaN in a logit or in Y reaches the rate, so that a run that diverges is noticed."""
    system = MeanField(syn_small(), 1.0, 1.0)
    for index in (0, system.layout.num_slots + 1, system.size - 1):
        state = np.zeros(system.size)
        state[index] = np.nan
        assert np.isnan(rates(system, state)[0]).any()
