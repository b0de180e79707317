"""The mean field with both norms against differences of the objective, and against the paper's norm."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn.analytic import u_plus
from snapdyn.dynamics import MeanField, integrate
from snapdyn.validation.claims.extensions import layer_norm
from snapdyn.validation.search.instance import Instance
from tests.validation.helpers import differences

Array = np.ndarray


def objective(instance: Instance, z: Array, Y: Array, epsilon: float | None) -> float:
    """Mean of ln alpha at the next token, from the definition: attention, norm, decoder (M, V).

    Without `epsilon` the mean is subtracted; the scale is that of the paper, without the factor sqrt(M).
    """
    total = 0.0
    for n, row in enumerate(instance.P):
        c = row * np.exp(z[instance.classes.query_index[n]])
        c = c / c.sum()
        u = (c - c.mean()) / c.std() if epsilon is None else c / ((c**2).mean() + epsilon) ** 0.5
        u = u / len(c) ** 0.5
        logits = Y.T @ u
        total += instance.prior[n] * (logits[n] - np.log(np.exp(logits).sum()))
    return float(total)


def example() -> Instance:
    """Three classes of two queries, with a common token."""
    P = np.array([[0.3, 0.5, 0.2, 0.0, 0.0], [0.2, 0.0, 0.0, 0.8, 0.0], [0.6, 0.0, 0.0, 0.0, 0.4]])
    return Instance(P, np.array([0, 1, 0]), np.array([1.0, 2.0, 1.0]), 6, 0.7, 1.3, 1.0)


@pytest.mark.parametrize("epsilon", [None, 0.03])
def test_rates_are_the_gradient(epsilon: float | None) -> None:
    """Assert both rates against central differences at a state whose outputs of no class are equal."""
    instance, rng = example(), np.random.default_rng(2)
    z, Y = rng.normal(size=(2, 5)), rng.normal(size=(5, 4))
    full = np.hstack([Y[:, :3], np.repeat(Y[:, 3:], 3, axis=1)])
    of_z, of_Y = layer_norm.rate(instance, z, Y, epsilon)
    slopes_z = differences(lambda z: objective(instance, z, full, epsilon), z)
    slopes_Y = differences(lambda Y: objective(instance, z, Y, epsilon), full)
    np.testing.assert_allclose(of_z, 1.3 * slopes_z, atol=1e-8)
    # The last column is the first one of three equal outputs.
    np.testing.assert_allclose(of_Y, 0.7 * slopes_Y[:, :4], atol=1e-8)


def test_over_many_tokens_it_is_the_root_mean_square() -> None:
    """Assert that logits near those of the paper's norm like 1/M, and differ from them at M = 10."""
    plain = integrate(MeanField(layer_norm.over(10).classes, 1.0, 1.0), [100.0], rtol=1e-9, atol=1e-12).z[-1, 0, :4]
    gaps = []
    for M in (10, 100, 200):
        instance = layer_norm.over(M)
        paths = layer_norm.attention_logits(instance)
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


def test_without_epsilon_the_root_mean_square_is_the_norm_of_the_paper() -> None:
    """Assert logits of two queries against the mean field of the package, and that an epsilon changes them."""
    instance = replace(example(), t_end=50.0)
    times = np.linspace(0.0, 50.0, 30)
    plain = integrate(MeanField(instance.classes, 0.7, 1.3), times, rtol=1e-9, atol=1e-12)
    held = instance.P > 0
    for epsilon, same in ((0.0, True), (0.01, False)):
        gains = layer_norm.attention_logits(instance, epsilon)[-1][held] - np.log(instance.P[held])
        gap = np.abs(gains - plain.z[-1, instance.classes.query_index][held]).max()
        assert bool(gap < 1e-6) is same


@pytest.mark.parametrize(("M", "falls"), [(154, False), (155, True)])
def test_boundary_of_epsilon(M: int, falls: bool) -> None:
    """Assert the number of tokens at which the rarest distinct token begins to fall, by the law and by the rates."""
    instance = layer_norm.over(M)
    assert layer_norm.epsilon_of(instance) == 1e-5
    assert bool(layer_norm.small_epsilon(instance) < 0) is falls
    assert (layer_norm.least_rise(instance, rms=True).value < 0) is falls


def test_a_common_token_falls_as_long_as_classes_overlap_above_the_mean() -> None:
    """Assert Theorem 2(b) where c_n.c_k >= 1/M lasts, and a rise where the fall itself ends this."""
    lasting = layer_norm.over(100)
    assert layer_norm.lasting_overlap(lasting) > 1
    found = layer_norm.largest_rise(lasting)
    assert found is not None
    assert found.value < 0
    P = [[0.4565, 0.5435, 0.0, 0.0, 0.0]] + [list(np.eye(5)[n] * 0.5435) for n in (2, 3, 4)]
    table = np.array(P)
    table[:, 0] = 0.4565
    leaving = Instance(table, np.zeros(4, int), np.ones(4), 11, 1.0, 4.9, 615.0)
    assert layer_norm.least_overlap(leaving) > 1 > layer_norm.lasting_overlap(leaving)
    found = layer_norm.largest_rise(leaving)
    assert found is not None
    assert found.value > 0.03


def early_misses(M: int, epsilon: float | None) -> float:
    """Largest |ratio - 1| of early rates over c_l^2 of three distinct tokens, by hand; classes of `layer_norm.over`."""
    c, V, others = np.array([0.4, 0.2, 0.1]), 60, 2 * 0.3**2
    square = 0.3**2 + c @ c
    if epsilon is None:
        law = 1 / M + (c - 1 / M) * (0.3**2 - 1 / M) / (square - 1 / M)
    else:
        law = others * (c + M * epsilon) - M * epsilon * (V - 1) * (square - c)
    ratio = law / c
    return float(np.abs(ratio / ratio[0] - 1.0).max())


@pytest.mark.parametrize(
    ("M", "epsilon", "early", "growth"),
    [
        (10, None, 3.7, -1.04),
        (100, None, 0.18, -0.18),
        (1000, None, 0.018, -0.019),
        (10_000, None, 0.0018, -0.0019),
        (10, 1e-5, 0.072, 0.0095),
        (100, 1e-5, 0.67, 0.095),
        (1000, 1e-5, 4.0, 0.95),
        (10_000, 1e-5, 7.7, 9.42),
    ],
)
def test_numbers_of_the_table_on_the_page(M: int, epsilon: float | None, early: float, growth: float) -> None:
    """Assert rows Theorem 3 and 4 of docs/theory/heads_and_layer_norm.md; early rates also by the law by hand."""
    drift, P = layer_norm.early_drift(layer_norm.over(M), epsilon)
    ratio = drift[1:4] / P[1:4] ** 2
    found = np.abs(ratio / ratio[0] - 1.0).max()
    assert found == pytest.approx(early_misses(M, epsilon), rel=1e-4)
    assert found == pytest.approx(early, rel=0.03)
    assert layer_norm.growth_gap((M, epsilon)).value == pytest.approx(abs(growth), rel=0.03)


@pytest.mark.parametrize(
    ("M", "epsilon", "order", "rarest_rises"), [(10, None, False, True), (20, None, True, True),
                                               (100, 1e-5, True, True), (1000, 1e-5, True, False)]
)  # fmt: skip
def test_scanning_on_the_page(M: int, epsilon: float | None, order: bool, rarest_rises: bool) -> None:
    """Assert row "scanning": gains of distinct tokens to t0' = K ln V/eta_Y, the most frequent one first."""
    instance = replace(layer_norm.over(M), t_end=3 * np.log(60))
    paths = layer_norm.attention_logits(instance, epsilon)
    gains = paths[-1, 0, 1:4] - paths[0, 0, 1:4]
    assert bool((np.diff(gains) < 0).all()) is order
    assert bool(gains[2] > 0) is rarest_rises


@pytest.mark.parametrize(("epsilon", "exponent"), [(None, 0.0033), (0.01, 2.2)])
def test_snapping_on_the_page(epsilon: float | None, exponent: float) -> None:
    """Assert row "snapping": d ln chi/d ln ln(V eta_Y p t) at t0, of three classes with P = 0.1, V = 1000, M = 10."""
    instance = replace(layer_norm.over(10, 0.1), vocab_size=1000)
    t0 = 2 * 3 * u_plus(1000)
    (near, at) = (layer_norm.attention_logits(replace(instance, t_end=t0 * x), epsilon)[-1, 0, 1] for x in (1.0, 1.001))
    growth = 2 * (at - near) / np.diff(np.log(np.log(1000 / 3 * t0 * np.array([1.0, 1.001]))))[0]
    assert growth == pytest.approx(exponent, rel=0.05)
