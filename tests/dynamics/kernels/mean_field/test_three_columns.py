"""The kernel for three output columns against the general one."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, syn_small
from snapdyn.dynamics.kernels.mean_field.three_columns import three_column_rate
from tests.dynamics.dense_reference import Array, random_instance
from tests.dynamics.helpers import EPS


def with_two_next_tokens(seed: int) -> SequenceClasses:
    """Classes that share queries and next tokens, with lumped tokens, and tokens that no class has."""
    return random_instance(seed, next_token=(0, 1, 1, 0, 1), vocab_size=3 if seed % 3 == 0 else 14).classes()


def with_three_outputs(seed: int) -> SequenceClasses:
    """Three next tokens and no other output: no column is shared."""
    instance = random_instance(seed, num_classes=4, next_token=(0, 1, 2, 2), num_tokens=3, twins=(), query=(0, 0, 1, 2))
    return SequenceClasses(instance.P, instance.query, instance.next_token, instance.prior, 3)


def with_a_query_each(seed: int) -> SequenceClasses:
    """One class per query, so that slots and entries are the same."""
    instance = random_instance(seed, num_classes=3, next_token=(0, 1, 1), query=(0, 1, 2), twins=((1, 2),))
    return instance.classes()


def rates(system: MeanField, state: Array) -> tuple[Array, Array]:
    fast, general = np.empty((2, system.size))
    three_column_rate(state, fast, *system.kernel_arguments())
    system.write_rate(state, general)
    return fast, general


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("build", [with_two_next_tokens, with_three_outputs, with_a_query_each])
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
@pytest.mark.parametrize("shift", [-700.0, -140.0, 240.0, 320.0, 700.0])
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
