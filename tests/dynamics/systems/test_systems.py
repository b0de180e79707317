"""The compiled right-hand sides against plain dense numpy, to rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdyn.dynamics import FrozenDecoder, MeanField, ModifiedDecoder, SingleCommonToken, from_text, syn_small
from snapdyn.dynamics.kernels.elementary import exp_nonpositive
from snapdyn.dynamics.kernels.mean_field import dispatch as kernel
from snapdyn.dynamics.kernels.modified_decoder import spd_inverse
from snapdyn.errors import InputError
from tests.dynamics.dense_reference import (
    Array,
    Instance,
    decoder_inputs,
    eq_10,
    error_and_loss,
    mean_field,
    objective,
    random_instance,
)
from tests.dynamics.helpers import EPS, ROUNDING_OF_SUMS
from tests.helpers import FABLE

pytestmark = pytest.mark.kernel


def assert_close(actual: Array, expected: Array, scale: float | None = None) -> None:
    """Assert agreement within ROUNDING_OF_SUMS of the scale of `expected`."""
    scale = float(np.abs(expected).max()) if scale is None else scale
    assert scale > 0
    np.testing.assert_allclose(actual, expected, rtol=0, atol=ROUNDING_OF_SUMS * scale)


INSTANCES = {
    "lumped tokens and shared column": random_instance(1),
    "one query": random_instance(2, query=(0, 0, 0, 0, 0)),
    "one query per class": random_instance(3, query=(4, 3, 2, 1, 0)),
    "shared next token and query": random_instance(4, query=(0, 0, 1, 1, 0), next_token=(3, 3, 3, 1, 8)),
    "V equals number of next tokens": random_instance(5, vocab_size=5, query=(0, 0, 1, 1, 4)),
    "all classes one next token": random_instance(6, next_token=(2, 2, 2, 2, 2)),
    "queries outside the context": random_instance(7, query=(10, 12, 10, 12, 13)),
    "query in its own and in other supports": random_instance(8, query=(1, 5, 1, 0, 7)),
    "three columns": random_instance(10, query=(1, 5, 1, 0, 7), next_token=(6, 2, 6, 6, 2)),
    "one class": random_instance(9, num_classes=1, query=(3,), next_token=(6,)),
    "one token per class": Instance(np.eye(3), np.array([0, 0, 1]), np.array([4, 2, 0]), np.array([0.2, 0.5, 0.3]), 6),
}
RESIDUAL = {"plain": False, "residual": True}


def initial_logits(instance: Instance, seed: int) -> Array:
    """Logits that leave some twins equal (rounded to few values) and reach tokens outside the supports."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (len(instance.query_ids), instance.P.shape[1])).astype(float)


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


def random_state(system: MeanField, seed: int, size: float = 2.0) -> Array:
    return np.random.default_rng(seed).normal(0.0, size, system.size)


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


def frozen_full(system: FrozenDecoder, instance: Instance, state: Array) -> Array:
    """Dense Y (R, V) of a frozen-decoder state."""
    rows, outputs = system.decoder_ids()
    compressed = system.decoder(state)
    found = list(outputs)
    columns = [found.index(v) if v in found else found.index(-1) for v in range(instance.vocab_size)]
    Y = np.zeros((instance.num_rows, instance.vocab_size))
    for token, row in enumerate(rows):
        if row >= 0:
            Y[token] = compressed[row][columns]
    return Y


@pytest.mark.parametrize("residual", RESIDUAL.values(), ids=RESIDUAL.keys())
@pytest.mark.parametrize("modified", [False, True], ids=["original (7)", "modified (8)"])
@pytest.mark.parametrize(
    "name", ["lumped tokens and shared column", "V equals number of next tokens", "queries outside the context"]
)
def test_frozen_decoder_equals_dense_numpy(name: str, modified: bool, residual: bool) -> None:
    """Assert that Y' on the full Y is Eq. (7), or Eq. (8) with f_n - F E' e_n, from frozen initial logits."""
    instance = INSTANCES[name]
    z = initial_logits(instance, 5)
    system = FrozenDecoder(instance.classes(), 0.7, modified=modified, z_initial=z, residual=residual)
    _, u, _ = decoder_inputs(instance, z, residual)
    F = u.T
    E_prime = np.eye(F.shape[1]) - np.linalg.inv(F.T @ F)
    direction = F - F @ E_prime if modified else F
    for seed in range(3):
        state = np.random.default_rng(seed).normal(0, 2.0, system.size)
        Y = frozen_full(system, instance, state)
        error, loss = error_and_loss(F.T @ Y, instance.next_token)
        dY = 0.7 * (direction * instance.prior) @ error
        # The modified flow solves with G: its condition number multiplies the rounding.
        scale = float(np.abs(dY).max()) * (float(np.linalg.cond(F.T @ F)) if modified else 1.0)
        assert_close(frozen_full(system, instance, system.derivative(0.0, state)), dY, scale)
        assert math.isclose(system.loss(state), float(instance.prior @ loss), rel_tol=ROUNDING_OF_SUMS)


def test_original_frozen_decoder_takes_shared_next_tokens() -> None:
    """Assert Eq. (7) with several classes per next token, where the modified flow is not defined."""
    instance = INSTANCES["shared next token and query"]
    system = FrozenDecoder(instance.classes(), 0.7)
    _, u, _ = decoder_inputs(instance, np.zeros((2, 9)), residual=False)
    state = np.random.default_rng(0).normal(0, 2.0, system.size)
    error, _ = error_and_loss(u @ frozen_full(system, instance, state), instance.next_token)
    expected = 0.7 * (u.T * instance.prior) @ error
    assert_close(frozen_full(system, instance, system.derivative(0.0, state)), expected)


TWO_QUERIES = random_instance(11, num_classes=4, num_tokens=12, twins=((8, 9), (10, 11)), vocab_size=40)
EQ_10 = {
    "two queries": TWO_QUERIES,
    "one query": Instance(TWO_QUERIES.P, np.zeros(4, int), TWO_QUERIES.next_token, TWO_QUERIES.prior, 40),
    "K = V = 4": Instance(TWO_QUERIES.P, TWO_QUERIES.query, np.array([3, 1, 0, 2]), TWO_QUERIES.prior, 4),
    "uniform": Instance(TWO_QUERIES.P, TWO_QUERIES.query, TWO_QUERIES.next_token, np.full(4, 0.25), 1000),
}


@pytest.mark.parametrize("beta", ["exact", "leading"])
@pytest.mark.parametrize("name", EQ_10)
def test_modified_decoder_equals_dense_linear_algebra(name: str, beta: str) -> None:
    """Assert that Eq. (10) with exact or leading beta is g_n = Y (e_n - alpha_n) with Y = F (I - E') Wbar."""
    instance = EQ_10[name]
    z_initial = initial_logits(instance, 6)
    system = ModifiedDecoder(instance.classes(), 0.7, 1.3, beta=beta, z_initial=z_initial)
    L = system.layout
    for seed in range(3):
        rng = np.random.default_rng(seed)
        state = np.concatenate([rng.normal(0, 1.0, L.num_slots), rng.uniform(0.01, 12.0, 4)])
        z = z_initial.copy()
        z[system.classes.z_coordinates] = state[: L.num_slots][L.slot_of_z]
        dz, du = eq_10(instance, state[L.num_slots :], z, 0.7, 1.3, beta == "leading")
        actual = system.derivative(0.0, state)
        actual_dz = np.zeros_like(z)
        actual_dz[system.classes.z_coordinates] = actual[: L.num_slots][L.slot_of_z]
        f, _, _ = decoder_inputs(instance, z, residual=False)
        # G^{-1} enters: rounding is multiplied by its condition number.
        assert_close(actual_dz, dz, float(np.abs(dz).max()) * float(np.linalg.cond(f @ f.T)))
        assert_close(actual[L.num_slots :], du)


def test_leading_and_exact_beta_differ() -> None:
    """Assert that the two forms of beta are told apart by the comparison above (they differ at order 1/V)."""
    instance = EQ_10["K = V = 4"]
    exact, leading = (ModifiedDecoder(instance.classes(), 0.7, 1.3, beta=b) for b in ("exact", "leading"))
    state = np.concatenate([np.zeros(exact.layout.num_slots), np.full(4, 2.0)])
    difference = np.abs(exact.derivative(0.0, state) - leading.derivative(0.0, state)).max()
    assert difference > 1e-3 * np.abs(exact.derivative(0.0, state)[: exact.layout.num_slots]).max()


@pytest.mark.parametrize("form", ["printed", "consistent"])
def test_single_common_token_is_eq_13(form: str) -> None:
    """Assert z' = -eta_Z gamma exp(4z)/C0 with C0 = rho0^4/K and B' = -z', or (K-1)/rho0^4 and B' = -z'/K."""
    K, V, eta_Y, eta_Z, rho0 = 7, 300, 0.6, 0.2, 4.0
    system = SingleCommonToken(K, V, eta_Y, eta_Z, rho0, form=form)
    for z, u in ((0.0, 0.0), (-0.3, 2.0), (-2.0, 9.0), (-4.0, 40.0)):
        h = u / V
        gamma = (V - 1) ** 2 * h / (V - 1 + math.exp(u))
        C0 = rho0**4 / K if form == "printed" else rho0**4 / (K - 1)
        fall = -eta_Z * gamma * math.exp(4 * z) / C0
        rise = -fall if form == "printed" else -fall / K
        expected = [fall, rise, V * (eta_Y / K) / (V - 1 + math.exp(u))]
        actual = system.derivative(0.0, np.array([z, 0.3, u]))
        # (1 + a) V with a = exp(-u)(V-1): a few operations, so a few ulp.
        np.testing.assert_allclose(actual, expected, rtol=ROUNDING_OF_SUMS, atol=0)


@given(size=st.integers(1, 12), seed=st.integers(0, 10**6), spread=st.floats(0.0, 3.0))
@settings(derandomize=True, max_examples=40, deadline=None)
def test_spd_inverse_equals_linalg(size: int, seed: int, spread: float) -> None:
    """Assert that the Cholesky inverse agrees with numpy's within rounding times the condition number."""
    A = np.random.default_rng(seed).normal(size=(size, size))
    G = np.eye(size) + spread * A @ A.T
    inverse = np.full((size, size), np.nan)
    spd_inverse(G, np.full((size, size), np.nan), inverse)
    bound = 10 * size**2 * EPS * np.linalg.cond(G) * np.abs(np.linalg.inv(G)).max()
    np.testing.assert_allclose(inverse, np.linalg.inv(G), rtol=0, atol=bound)


def test_spd_inverse_of_an_indefinite_matrix_is_nan() -> None:
    """Assert that a matrix that is not positive definite gives NaN, not a plausible inverse."""
    inverse = np.zeros((2, 2))
    spd_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((2, 2)), inverse)
    assert np.isnan(inverse).all()


def test_exp_nonpositive_is_within_two_ulp() -> None:
    """Assert exp(x) to 2 ulp against 40-digit arithmetic over [-708, 0], denser near 0 and at k ln 2 edges."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    edges = -(np.arange(0, 60) + 0.5) * math.log(2)
    x = np.concatenate(
        [rng.uniform(-708, 0, 400), -np.geomspace(1e-18, 1, 200), edges, np.nextafter(edges, 0), [0.0, -708.0]]
    )
    with mpmath.workdps(40):
        exact = [mpmath.exp(mpmath.mpf(float(v))) for v in x]
        ulps = [
            abs(mpmath.mpf(float(exp_nonpositive(float(v)))) - e) / mpmath.mpf(float(np.spacing(float(e))))
            for v, e in zip(x, exact, strict=True)
        ]
    assert max(ulps) <= 2


def test_exp_nonpositive_at_its_edges() -> None:
    """Assert that below -708 the value is held at exp(-708), and NaN stays NaN."""
    floor = float(exp_nonpositive(-708.0))
    assert float(exp_nonpositive(0.0)) == 1.0
    assert 0 < floor < 4e-308
    assert float(exp_nonpositive(math.nextafter(-708.0, -1e9))) == floor
    assert float(exp_nonpositive(-1e300)) == floor
    assert float(exp_nonpositive(-math.inf)) == floor
    assert math.isnan(float(exp_nonpositive(math.nan)))


def test_derivative_of_a_broken_state_is_not_finite() -> None:
    """Assert that NaN in Y or z reaches the derivative, so that a divergence is seen."""
    system = MeanField(INSTANCES["one query"].classes(), 1.0, 1.0)
    for index in (0, system.size - 1):
        state = random_state(system, 0)
        state[index] = np.nan
        assert np.isnan(system.derivative(0.0, state)).any()


def test_derivative_is_fresh_and_leaves_the_state() -> None:
    """Assert that a call writes neither into the state nor into the result of an earlier call."""
    for system in (
        MeanField(INSTANCES["one query"].classes(), 1.0, 1.0),
        FrozenDecoder(INSTANCES["one query"].classes(), 1.0),
        ModifiedDecoder(TWO_QUERIES.classes(), 1.0, 1.0),
        SingleCommonToken(3, 10, 1.0, 1.0, 2.0),
    ):
        state = np.abs(np.random.default_rng(1).normal(size=system.size))
        before = state.copy()
        first = system.derivative(0.0, state)
        kept = first.copy()
        system.derivative(0.0, 2 * state)
        np.testing.assert_array_equal(state, before)
        np.testing.assert_array_equal(first, kept)


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
        MeanField(syn_small(), 1.0, 1.0)


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
