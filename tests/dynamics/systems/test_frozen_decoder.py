"""The frozen decoder and its modified flow against dense numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from snapdyn.dynamics import (
    FrozenDecoder,
    integrate,
    log_times,
    random_classes,
)
from snapdyn.errors import InputError
from tests.dynamics.dense_reference import (
    Array,
    Instance,
    decoder_inputs,
    error_and_loss,
    u_of_time,
)
from tests.dynamics.helpers import ROUNDING_OF_SUMS, dense_decoder
from tests.dynamics.integration.helpers import tolerance
from tests.dynamics.systems.helpers import INSTANCES, RESIDUAL, assert_close, initial_logits


def test_modified_flow_with_residual_looks_at_its_own_overlaps() -> None:
    """Assert that independence is asked of the decoder inputs u_n, not of f_n, when the residual is on.

    Equal profiles under different queries: f_1 = f_2, but u_1 . u_2 = 0.65. And f_1 = e_0, f_2 = e_1 with
    queries 1 and 0: f_1 . f_2 = 0, but u_1 = u_2.
    """
    regular = Instance(np.array([[0.5, 0.5, 0], [0.5, 0.5, 0]]), np.array([1, 2]), np.arange(2), np.full(2, 0.5), 3)
    run = integrate(FrozenDecoder(regular.classes(), 1.0, modified=True, residual=True), [5.0])
    assert run.extra["own_logit"] == pytest.approx(2 / 3 * u_of_time(2.5, 3), rel=1e-6)
    singular = Instance(np.eye(2), np.array([1, 0]), np.arange(2), np.full(2, 0.5), 3)
    with pytest.raises(InputError, match="independent"):
        FrozenDecoder(singular.classes(), 1.0, modified=True, residual=True)


def frozen_full(system: FrozenDecoder, instance: Instance, state: Array) -> Array:
    """Dense Y (R, V) of a frozen-decoder state."""
    return dense_decoder(system.decoder(state), *system.decoder_ids(), (instance.num_rows, instance.vocab_size))


@pytest.mark.kernel
@pytest.mark.parametrize("residual", RESIDUAL.values(), ids=RESIDUAL.keys())
@pytest.mark.parametrize(
    ("name", "modified"),
    [
        ("lumped tokens and shared column", False),
        ("lumped tokens and shared column", True),
        ("V equals number of next tokens", True),
        ("queries outside the context", False),
        ("shared next token and query", False),
    ],
)
def test_frozen_decoder_equals_dense_numpy(name: str, modified: bool, residual: bool) -> None:
    """Assert that Y' on the full Y is Eq. (7), or Eq. (8) with f_n - F E' e_n, from frozen initial logits."""
    instance = INSTANCES[name]
    z = initial_logits(instance, 5)
    system = FrozenDecoder(instance.classes(), 0.7, modified=modified, z_initial=z, residual=residual)
    _, u, _ = decoder_inputs(instance, z, residual)
    F = u.T
    direction = F @ np.linalg.inv(F.T @ F) if modified else F  # F (I - E')
    for seed in range(2):
        state = np.random.default_rng(seed).normal(0, 2.0, system.size)
        Y = frozen_full(system, instance, state)
        error, loss = error_and_loss(F.T @ Y, instance.next_token)
        dY = 0.7 * (direction * instance.prior) @ error
        # The modified flow solves with G: its condition number multiplies the rounding.
        scale = float(np.abs(dY).max()) * (float(np.linalg.cond(F.T @ F)) if modified else 1.0)
        assert_close(frozen_full(system, instance, system.derivative(0.0, state)), dY, scale)
        assert math.isclose(system.loss(state), float(instance.prior @ loss), rel_tol=ROUNDING_OF_SUMS)


def test_modified_flow_is_lemma_6() -> None:
    """Assert w_n = (V-1) h zeta_n with exp(V h) + (V-1) V h = V eta s + 1, s = p_n t, from t = 1e-2 to 1e6."""
    V, eta = 50, 0.7
    classes = random_classes(4, uniform_prior=False, vocab_size=V, seed=5)
    run = integrate(FrozenDecoder(classes, eta, modified=True), log_times(1e-2, 1e6, 25), rtol=1e-10, atol=1e-13)
    expected = np.array([[u_of_time(eta * p * t, V) for p in classes.prior] for t in run.t])
    own = (V - 1) / V * expected
    bound = tolerance(run, float(own.max()))
    assert np.abs(run.extra["own_logit"] - own).max() < bound
    loss = np.log1p((V - 1) * np.exp(-expected)) @ classes.prior
    assert np.abs(run.loss - loss).max() < 4 * bound
    # Control: the clock t/K in place of p_n t is far outside.
    uniform = np.array([(V - 1) / V * u_of_time(eta * t / 4, V) for t in run.t])
    assert np.abs(run.extra["own_logit"] - uniform[:, None]).max() > 1e3 * bound
