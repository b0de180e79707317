"""The mean field with LayerNorm against differences of the objective, and against the root mean square."""

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, integrate
from snapdyn.validation.claims.extensions import layer_norm
from snapdyn.validation.search.instance import Instance

Array = np.ndarray


def objective(instance: Instance, z: Array, Y: Array) -> float:
    """Mean of ln alpha at the next token, from the definition: attention, mean subtracted, norm, decoder (M, V)."""
    total = 0.0
    for n, row in enumerate(instance.P):
        c = row * np.exp(z[instance.classes.query_index[n]])
        c = c / c.sum()
        u = (c - c.mean()) / (len(c) ** 0.5 * c.std())
        logits = Y.T @ u
        total += instance.prior[n] * (logits[n] - np.log(np.exp(logits).sum()))
    return float(total)


def example() -> Instance:
    """Three classes of two queries, with a common token."""
    P = np.array([[0.3, 0.5, 0.2, 0.0, 0.0], [0.2, 0.0, 0.0, 0.8, 0.0], [0.6, 0.0, 0.0, 0.0, 0.4]])
    return Instance(P, np.array([0, 1, 0]), np.array([1.0, 2.0, 1.0]), 6, 0.7, 1.3, 1.0)


def test_rates_are_the_gradient() -> None:
    """Assert both rates against central differences at a state whose outputs of no class are equal."""
    instance, rng = example(), np.random.default_rng(2)
    z, Y = rng.normal(size=(2, 5)), rng.normal(size=(5, 4))
    full = np.hstack([Y[:, :3], np.repeat(Y[:, 3:], 3, axis=1)])
    of_z, of_Y = layer_norm.rate(instance, z, Y)
    step = 1e-5
    for index in np.ndindex(z.shape):
        up, down = z.copy(), z.copy()
        up[index] += step
        down[index] -= step
        slope = (objective(instance, up, full) - objective(instance, down, full)) / (2 * step)
        assert of_z[index] == pytest.approx(1.3 * slope, abs=1e-8)
    for index in np.ndindex(Y.shape):  # the last column is the first one of three equal outputs
        up, down = full.copy(), full.copy()
        up[index] += step
        down[index] -= step
        slope = (objective(instance, z, up) - objective(instance, z, down)) / (2 * step)
        assert of_Y[index] == pytest.approx(0.7 * slope, abs=1e-8)


def test_over_many_tokens_it_is_the_root_mean_square() -> None:
    """Assert that logits near those of the paper's norm like 1/M, and differ from them at M = 10."""
    plain = integrate(MeanField(layer_norm.over(10).classes, 1.0, 1.0), [100.0], rtol=1e-9, atol=1e-12).z[-1, 0, :4]
    gaps = []
    for M in (10, 100, 200):
        instance = layer_norm.over(M)
        paths = layer_norm.attention_logits(instance)
        assert paths is not None
        gaps.append(np.abs(paths[-1, 0, :4] - np.log(instance.P[0, :4]) - plain).max())
    assert gaps[0] > 0.05
    assert gaps[1] / gaps[2] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("common", [0.1, 0.4])
def test_distinct_tokens_fall_without_overlap(common: float) -> None:
    """Assert the early sign against the law by hand: 1/M + (c_l - 1/M)(c_n.c_k - 1/M)/|c_n - 1/M|^2 > 0."""
    M = 10
    instance = layer_norm.over(M, common)
    c, product = instance.P[0], common**2
    law = 1 / M + (c[1:4] - 1 / M) * (product - 1 / M) / (c @ c - 1 / M)
    found = layer_norm.least_rise(instance)
    assert found.holds is bool((law > 0).all()) is (common == 0.4)
