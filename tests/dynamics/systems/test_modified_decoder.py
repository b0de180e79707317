"""The modified decoder against dense linear algebra."""

import numpy as np
import pytest

from snapdyn.dynamics import ModifiedDecoder
from tests.dynamics.dense_reference import (
    Instance,
    decoder_inputs,
    eq_10,
)
from tests.dynamics.systems.helpers import TWO_QUERIES, assert_close, initial_logits

EQ_10 = {
    "two queries": TWO_QUERIES,
    "one query": Instance(TWO_QUERIES.P, np.zeros(4, int), TWO_QUERIES.next_token, TWO_QUERIES.prior, 40),
    "K = V = 4": Instance(TWO_QUERIES.P, TWO_QUERIES.query, np.array([3, 1, 0, 2]), TWO_QUERIES.prior, 4),
    "uniform": Instance(TWO_QUERIES.P, TWO_QUERIES.query, TWO_QUERIES.next_token, np.full(4, 0.25), 1000),
}


@pytest.mark.kernel
@pytest.mark.parametrize("beta", ["exact", "leading"])
@pytest.mark.parametrize("name", EQ_10)
def test_modified_decoder_equals_dense_linear_algebra(name: str, beta: str) -> None:
    """Assert that Eq. (10) with exact or leading beta is g_n = Y (e_n - alpha_n) with Y = F (I - E') Wbar.

    The two forms differ at order 1/V, which is told apart.
    """
    instance = EQ_10[name]
    z_initial = initial_logits(instance, 6)
    system = ModifiedDecoder(instance.classes(), 0.7, 1.3, beta=beta, z_initial=z_initial)
    L = system.layout
    for seed in range(2):
        rng = np.random.default_rng(seed)
        state = np.concatenate([rng.normal(0, 1.0, L.num_slots), rng.uniform(0.01, 12.0, 4)])
        z, actual_dz = z_initial.copy(), np.zeros_like(z_initial)
        z[system.classes.z_coordinates] = state[: L.num_slots][L.slot_of_z]
        dz, du = eq_10(instance, state[L.num_slots :], z, 0.7, 1.3, beta == "leading")
        actual = system.derivative(0.0, state)
        actual_dz[system.classes.z_coordinates] = actual[: L.num_slots][L.slot_of_z]
        f, _, _ = decoder_inputs(instance, z, residual=False)
        # G^{-1} enters: rounding is multiplied by its condition number.
        assert_close(actual_dz, dz, float(np.abs(dz).max()) * float(np.linalg.cond(f @ f.T)))
        assert_close(actual[L.num_slots :], du)
        other, _ = eq_10(instance, state[L.num_slots :], z, 0.7, 1.3, beta != "leading")
        assert np.abs(other - dz).max() > 1e-4 * np.abs(dz).max()
