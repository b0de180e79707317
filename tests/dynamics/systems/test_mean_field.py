"""The mean field against dense numpy: derivative, loss, lumping, late accuracy."""

import math
from dataclasses import replace

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import FrozenDecoder, MeanField, syn_small
from tests.dynamics.dense_reference import (
    Instance,
    mean_field,
)
from tests.dynamics.helpers import ROUNDING_OF_SUMS, dense_state
from tests.dynamics.systems.helpers import INSTANCES, RESIDUAL, assert_close, initial_logits, random_state

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("residual", RESIDUAL.values(), ids=RESIDUAL.keys())
@pytest.mark.parametrize("start", [False, True], ids=["zero start", "initial logits"])
@pytest.mark.parametrize("name", INSTANCES)
def test_mean_field_equals_dense_numpy(name: str, start: bool, residual: bool) -> None:
    """Assert that derivative and loss equal the dense mean field with every token and every output."""
    instance = INSTANCES[name]
    z_initial = initial_logits(instance, 20) if start else None
    system = MeanField(instance.classes(), 0.7, 1.3, z_initial=z_initial, residual=residual)
    for seed in range(3):
        state = random_state(system, seed)
        Y, z = dense_state(system, state, z_initial)
        dY, dz, loss = mean_field(instance, Y, z, 0.7, 1.3, residual)
        actual_dY, actual_dz = dense_state(system, system.derivative(0.0, state))
        assert_close(actual_dY, dY)
        # z' = f (g - f (f.g)) cancels when a class has one token: its scale is that of g.
        assert_close(actual_dz, dz, scale=1.3 * float(np.abs(Y).max()))
        assert math.isclose(system.loss(state), loss, rel_tol=ROUNDING_OF_SUMS)


@pytest.mark.parametrize("name", ["lumped tokens and shared column", "query in its own and in other supports"])
def test_lumping_and_the_shared_column_are_used(name: str) -> None:
    """Assert that the state is smaller than the dense one, so that the comparison above is about something."""
    instance = INSTANCES[name]
    system = MeanField(instance.classes(), 1.0, 1.0)
    occurring = int((instance.P.sum(axis=0) > 0).sum())
    assert system.layout.num_rows < occurring
    assert system.layout.num_columns == len(set(instance.next_token.tolist())) + 1 < instance.vocab_size


@pytest.mark.parametrize("wrong", ["prior", "rate"])
def test_dense_comparison_rejects_a_wrong_theory(wrong: str) -> None:
    """Assert that uniform priors or swapped rates differ by far more than the tolerance."""
    instance = INSTANCES["one query"]
    system = MeanField(instance.classes(), 0.7, 1.3)
    state = random_state(system, 0)
    Y, z = dense_state(system, state)
    _, actual = dense_state(system, system.derivative(0.0, state))
    rates = (1.3, 0.7) if wrong == "rate" else (0.7, 1.3)
    other = replace(instance, prior=np.full(5, 0.2)) if wrong == "prior" else instance
    _, dz, _ = mean_field(other, Y, z, *rates)
    assert np.abs(actual - dz).max() > 1e8 * ROUNDING_OF_SUMS * np.abs(dz).max()


def test_late_error_keeps_its_relative_accuracy() -> None:
    """Assert e_n - alpha_n to 1e-12 relative when alpha_n = 1 - 1e-30, where 1 - alpha would be 0."""
    instance = Instance(np.array([[1.0]]), np.array([0]), np.array([0]), np.array([1.0]), 50)
    system = FrozenDecoder(instance.classes(), 1.0)
    u = 30 * math.log(10)
    rate = system.derivative(0.0, np.array([0.0, u, 0.0]))[1:]
    expected = 49 * math.exp(-u) / (1 + 49 * math.exp(-u))
    np.testing.assert_allclose(rate, [expected, -expected / 49], rtol=ROUNDING_OF_SUMS, atol=0)


def test_mean_field_refuses_more_values_than_its_indices_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a state beyond the 32-bit indices of the kernel is refused in one sentence with its size."""
    monkeypatch.setattr("snapdyn.dynamics.systems.mean_field.LARGEST_STATE", 80)
    with pytest.raises(InputError, match=r"21 rows of Y with 3 columns to be a whole number in 0..80, received 85"):
        MeanField(syn_small(), 1.0, 1.0).kernel_arguments()
