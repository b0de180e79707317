"""The frozen decoder and its modified flow against dense numpy."""

import math

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    FrozenDecoder,
    integrate,
)
from tests.dynamics.dense_reference import (
    Array,
    Instance,
    decoder_inputs,
    error_and_loss,
)
from tests.dynamics.helpers import ROUNDING_OF_SUMS, dense_decoder
from tests.dynamics.systems.helpers import INSTANCES, RESIDUAL, assert_close, initial_logits


def test_modified_flow_with_residual_looks_at_its_own_overlaps() -> None:
    """Assert that independence is asked of the decoder inputs u_n, not of f_n, when the residual is on.

    Equal profiles under different queries: f_1 = f_2, but u_1 . u_2 = 0.65. And f_1 = e_0, f_2 = e_1 with
    queries 1 and 0: f_1 . f_2 = 0, but u_1 = u_2.
    """
    regular = Instance(np.array([[0.5, 0.5, 0], [0.5, 0.5, 0]]), np.array([1, 2]), np.arange(2), np.full(2, 0.5), 3)
    run = integrate(FrozenDecoder(regular.classes(), 1.0, modified=True, residual=True), [5.0])
    # Lemma 6 at V = 3 and s = 2.5: exp(u) + 2 u = 3 s + 1 for u = V h, and w = (V-1) h.
    u = 1.5 * run.extra["own_logit"]
    assert np.exp(u) + 2 * u == pytest.approx(3 * 2.5 + 1, rel=1e-6)
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
        if not modified:
            state[: system.num_logit_values] = system.initial_state()[: system.num_logit_values]
        Y = frozen_full(system, instance, state)
        error, loss = error_and_loss(F.T @ Y, instance.next_token)
        dY = 0.7 * (direction * instance.prior) @ error
        # The modified flow solves with G: its condition number multiplies the rounding.
        scale = float(np.abs(dY).max()) * (float(np.linalg.cond(F.T @ F)) if modified else 1.0)
        assert_close(frozen_full(system, instance, system.derivative(0.0, state)), dY, scale)
        assert math.isclose(system.loss(state), float(instance.prior @ loss), rel_tol=ROUNDING_OF_SUMS)
