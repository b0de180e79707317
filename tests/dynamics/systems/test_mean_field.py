"""The mean field against dense numpy: derivative, loss, lumping, late accuracy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from snapdyn.dynamics import FrozenDecoder, MeanField, from_text, syn_small
from snapdyn.dynamics.kernels.mean_field import general as kernel
from snapdyn.errors import InputError
from tests.dynamics.dense_reference import (
    Array,
    Instance,
    decoder_inputs,
    error_and_loss,
    mean_field,
    objective,
)
from tests.dynamics.helpers import EPS, ROUNDING_OF_SUMS
from tests.dynamics.systems.helpers import INSTANCES, RESIDUAL, assert_close, initial_logits, random_state
from tests.helpers import FABLE

pytestmark = pytest.mark.kernel


def expand(system: MeanField, instance: Instance, state: Array, rest: Array) -> tuple[Array, Array]:
    """Scatter a flat state to dense Y (R, V) and z (Q, M); `rest` holds the logits that cannot move."""
    L = system.layout
    z = rest.copy()
    z[system.classes.z_coordinates] = state[: L.num_slots][L.slot_of_z]
    Y_compressed = state[L.num_slots :].reshape(L.num_rows, L.num_columns)
    outputs = list(L.output_token)
    columns = [outputs.index(v) if v in outputs else outputs.index(-1) for v in range(instance.vocab_size)]
    Y = np.zeros((instance.num_rows, instance.vocab_size))
    for token, row in enumerate(L.row_of_token):
        if row >= 0:
            Y[token] = Y_compressed[row, columns]
    return Y, z


@pytest.mark.parametrize("residual", RESIDUAL.values(), ids=RESIDUAL.keys())
@pytest.mark.parametrize("start", [False, True], ids=["zero start", "initial logits"])
@pytest.mark.parametrize("name", INSTANCES)
def test_mean_field_equals_dense_numpy(name: str, start: bool, residual: bool) -> None:
    """Assert that derivative and loss equal the dense mean field with every token and every output."""
    instance = INSTANCES[name]
    z_initial = initial_logits(instance, 20) if start else None
    system = MeanField(instance.classes(), 0.7, 1.3, z_initial=z_initial, residual=residual)
    rest = np.zeros((len(instance.query_ids), instance.P.shape[1])) if z_initial is None else z_initial
    for seed in range(3):
        state = random_state(system, seed)
        Y, z = expand(system, instance, state, rest)
        dY, dz, loss = mean_field(instance, Y, z, 0.7, 1.3, residual)
        actual_dY, actual_dz = expand(system, instance, system.derivative(0.0, state), np.zeros_like(rest))
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


def test_initial_logits_that_differ_forbid_lumping() -> None:
    """Assert that twins with different initial logits keep rows of their own, with equal ones share a row."""
    instance = INSTANCES["one query"]
    z_initial = np.zeros((1, 9))
    z_initial[0, 2] = 0.5
    rows = MeanField(instance.classes(), 1.0, 1.0, z_initial=z_initial).layout.row_of_token
    assert rows[1] != rows[2]
    assert rows[5] == rows[7]


@pytest.mark.parametrize("wrong", ["prior", "projection", "rate"])
def test_dense_comparison_rejects_a_wrong_theory(wrong: str) -> None:
    """Assert that uniform priors, a missing projection or swapped rates differ by far more than the tolerance."""
    instance = INSTANCES["one query"]
    system = MeanField(instance.classes(), 0.7, 1.3)
    state = random_state(system, 0)
    Y, z = expand(system, instance, state, np.zeros((1, 9)))
    _, actual = expand(system, instance, system.derivative(0.0, state), np.zeros((1, 9)))
    if wrong == "prior":
        uniform = Instance(instance.P, instance.query, instance.next_token, np.full(5, 0.2), instance.vocab_size)
        _, dz, _ = mean_field(uniform, Y, z, 0.7, 1.3)
    elif wrong == "rate":
        _, dz, _ = mean_field(instance, Y, z, 1.3, 0.7)
    else:
        f, u, _ = decoder_inputs(instance, z, residual=False)
        error, _ = error_and_loss(u @ Y, instance.next_token)
        dz = 1.3 * (instance.prior[:, None] * f * (error @ Y.T)[:, :9]).sum(axis=0, keepdims=True)
    assert np.abs(actual - dz).max() > 1e8 * ROUNDING_OF_SUMS * np.abs(dz).max()


@pytest.mark.parametrize("residual", RESIDUAL.values(), ids=RESIDUAL.keys())
@pytest.mark.parametrize("name", ["shared next token and query", "query in its own and in other supports"])
def test_derivative_is_the_gradient_of_the_expected_objective(name: str, residual: bool) -> None:
    """Assert that the flow is eta times the gradient of J, by the complex step in every coordinate.

    Im J(x + i h)/h has error h^2, nothing at h = 1e-30, so the tolerance is rounding.
    """
    instance = INSTANCES[name]
    system = MeanField(instance.classes(), 0.7, 1.3, residual=residual)
    state = random_state(system, 3, size=1.0)
    rest = np.zeros((len(instance.query_ids), instance.P.shape[1]))
    Y, z = expand(system, instance, state, rest)
    actual_dY, actual_dz = expand(system, instance, system.derivative(0.0, state), rest)
    h = 1e-30
    dY, dz = np.zeros_like(Y), np.zeros_like(z)
    for index in np.ndindex(*Y.shape):
        moved = Y.astype(complex)
        moved[index] += 1j * h
        dY[index] = 0.7 * objective(instance, moved, z, residual).imag / h
    for index in np.ndindex(*z.shape):
        moved = z.astype(complex)
        moved[index] += 1j * h
        dz[index] = 1.3 * objective(instance, Y, moved, residual).imag / h
    assert_close(actual_dY, dY)
    assert_close(actual_dz, dz)


@pytest.mark.parametrize("residual", RESIDUAL.values(), ids=RESIDUAL.keys())
def test_loss_falls_at_the_rate_of_a_gradient_flow(residual: bool) -> None:
    """Assert -dloss/dt = |Y'|^2/eta_Y + |z'|^2/eta_Z over all tokens and outputs, by central differences."""
    instance = INSTANCES["query in its own and in other supports"]
    system = MeanField(instance.classes(), 0.7, 1.3, residual=residual)
    state = random_state(system, 4, size=1.0)
    rate = system.derivative(0.0, state)
    dY, dz = expand(system, instance, rate, np.zeros((4, 9)))
    expected = -((dY**2).sum() / 0.7 + (dz**2).sum() / 1.3)
    h = 1e-5
    slope = (system.loss(state + h * rate) - system.loss(state - h * rate)) / (2 * h)
    # Truncation h^2/6 times a third derivative of the order of the cubed speed (|rate| about 1), rounding eps/h.
    speed = float(np.abs(rate).max())
    assert abs(slope - expected) < 10 * (h**2 * (1 + speed) ** 3 + EPS * system.loss(state) / h)


def test_late_error_keeps_its_relative_accuracy() -> None:
    """Assert e_n - alpha_n to 1e-12 relative when alpha_n = 1 - 1e-30, where 1 - alpha would be 0."""
    instance = Instance(np.array([[1.0]]), np.array([0]), np.array([0]), np.array([1.0]), 50)
    system = FrozenDecoder(instance.classes(), 1.0)
    u = 30 * math.log(10)
    rate = system.derivative(0.0, np.array([u, 0.0]))
    expected = 49 * math.exp(-u) / (1 + 49 * math.exp(-u))
    np.testing.assert_allclose(rate, [expected, -expected / 49], rtol=ROUNDING_OF_SUMS, atol=0)


def test_mean_field_refuses_more_values_than_its_indices_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a state beyond the 32-bit indices of the kernel is refused in one sentence with its size."""
    monkeypatch.setattr("snapdyn.dynamics.systems.mean_field.LARGEST_STATE", 80)
    with pytest.raises(InputError, match=r"at most 80 values, received 85 \(21 rows of Y with 3 columns\)"):
        MeanField(syn_small(), 1.0, 1.0).kernel_arguments()


def test_bits_do_not_depend_on_where_arrays_lie() -> None:
    """Assert equal bits for scratch at every distance that its margin allows from the entries of P.

    Side by side, as the allocator may put small arrays, about one place in fifty gives other last bits.
    """
    classes = from_text(FABLE, min_count=1, min_token_count=1, window=4)
    system = MeanField(classes, 1.0, 0.1)
    state, rate = np.full(system.size, 1e-3), np.empty(system.size)
    *others, scratch = system.kernel_arguments()
    margin = scratch.ctypes.data - scratch.base.ctypes.data
    assert margin == 8 * (scratch.size + 512)
    margin //= 8
    entries = others[1]
    memory = np.zeros(entries.size + 2 * (margin + scratch.size + 300))
    start = margin + scratch.size + 300
    others[1] = memory[start : start + entries.size].reshape(entries.shape)
    others[1][...] = entries
    found = set()
    for further in range(0, 300, 2):
        for first in (start + entries.size + margin + further, start - margin - scratch.size - further):
            kernel.mean_field(state, rate, *others, memory[first : first + scratch.size].reshape(scratch.shape))
            found.add(rate.tobytes())
    assert len(found) == 1
