"""The cause of the threshold of Fig. 6, against descent in plain numpy that trains Y itself."""

import numpy as np
import pytest
from scipy.special import xlogy

from snapdyn.dynamics import syn_medium
from snapdyn.validation.claims.reproduction import figure6
from tests.dynamics.dense_reference import Instance, mean_field
from tests.validation.claims.helpers import dense, shares

Array = np.ndarray


def accelerated(v: Array, gradient: Array) -> Array:
    """Velocity with momentum 0.9."""
    return 0.9 * v + gradient


def decoder(instance: Instance, z: Array, eta_Y: float, steps: int) -> Array:
    """Y after steps from zero on fixed attention."""
    Y = v = np.zeros((instance.num_rows, instance.vocab_size))
    for _ in range(steps):
        v = accelerated(v, mean_field(instance, Y, z, 1.0, 1.0)[0])
        Y = Y + eta_Y * v
    return Y


def entropy(num_queries: int, eta_Y: float, eta_Z: float, steps: int, retrained: bool) -> float:
    """Entropy over distinct tokens after steps; the decoder is retrained at each step, or trained along."""
    instance = dense(syn_medium(num_queries))
    P = instance.P
    z = v = np.zeros((num_queries, P.shape[1]))
    Y = u = np.zeros((instance.num_rows, instance.vocab_size))
    for k in range(steps):
        if retrained:
            Y = decoder(instance, z, eta_Y, k)
        dY, dz, _ = mean_field(instance, Y, z, 1.0, 1.0)
        v, u = accelerated(v, dz), accelerated(u, dY)
        z, Y = z + eta_Z * v, Y + eta_Y * u
    distinct = (P > 0).sum(axis=0) == 1
    c = shares(P * distinct * np.exp(z[instance.query_row]))
    return float(-xlogy(c, c).sum(axis=1).mean())


@pytest.mark.parametrize("num_queries", [1, 3])
def test_retrained_decoder_by_plain_descent(num_queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert both columns of entropies against descent in Y over all V outputs, and that the two differ."""
    monkeypatch.setattr(figure6, "STEPS", 25)
    figure6.retrained.cache_clear()
    eta_Z, ratio = 3.0, 0.6
    found = [f(num_queries, eta_Z, (ratio,))[0] for f in (figure6.retrained, figure6.descended)]
    figure6.retrained.cache_clear()
    plain = [entropy(num_queries, ratio * eta_Z, eta_Z, 25, retrained) for retrained in (True, False)]
    np.testing.assert_allclose(found, plain, rtol=1e-9)
    assert abs(plain[0] - plain[1]) > 1e-3


def test_a_threshold_below_the_published_ratios_is_rejected() -> None:
    """Assert that entropies which rise everywhere fail, and those with a minimum at 2 pass."""
    ratios = np.array(figure6.RATIOS)
    assert not figure6.sparsest(ratios).holds
    assert figure6.sparsest(np.abs(np.log(ratios / 2))).holds
