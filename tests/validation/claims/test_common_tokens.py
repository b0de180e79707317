"""Several common tokens: rates of Eq. (10), the exact condition for two classes, the stored counterexamples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from snapdyn.dynamics import ModifiedDecoder, SequenceClasses, whole_run
from snapdyn.validation.claims.attention._common_rates import common_rates
from snapdyn.validation.claims.attention._corollary2_instances import (
    corollary_2_instance,
    shared_common_tokens,
    spread_profiles,
    unequal_queries,
)
from snapdyn.validation.claims.attention._corollary2_settings import RISE, TIMES, largest_rise


def test_rates_against_the_sum_of_equation_10() -> None:
    """Assert the rates against Eq. (10) summed term by term, with beta from an inverse and the zeta products."""
    rng = np.random.default_rng(0)
    f = rng.uniform(0, 1, (3, 6))
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    weight, V, h = rng.uniform(0.1, 1, 3), 7, rng.uniform(0.5, 2, 3)
    G = f @ f.T
    H = np.linalg.inv(G)
    expected = np.zeros(6)
    for n in range(3):
        v = [V / (V - 1) if k == n else -V / (V - 1) ** 2 * h[k] / h[n] for k in range(3)]
        for k in range(3):
            if k != n:
                beta = -sum(H[k, j] * v[j] for j in range(3))
                expected += weight[n] * beta * f[n] * (f[n] * G[n, k] - f[k])
    rates, _ = common_rates(f[None], weight[None], np.array([float(V)]), h[None])
    np.testing.assert_allclose(rates[0], expected, rtol=1e-11)


@pytest.mark.parametrize(("factor", "grows"), [(0.99, False), (1.01, True)])
@pytest.mark.parametrize("dot", [0.05, 0.4, 0.7])
def test_condition_for_two_classes_on_both_sides(dot: float, factor: float, grows: bool) -> None:
    """Assert that a common token grows just where (f_1l/f_2l + f_2l/f_1l)/2 > 1/(f_1.f_2)."""
    mean = factor / dot
    ratio = mean + np.sqrt(mean**2 - 1)
    own = np.sqrt(dot / 2)
    common = np.array([[own, np.sqrt(dot - own**2 / ratio)], [own / ratio, np.sqrt(dot - own**2 / ratio)]])
    rest = np.sqrt(1 - (common**2).sum(axis=1))
    f = np.hstack([common, np.diag(rest)])
    rates, _ = common_rates(f[None], np.ones((1, 2)), np.array([50.0]), np.ones((1, 2)))
    assert (rates[0, 0] > 0) == grows


def test_largest_rise_of_a_path() -> None:
    """Assert on a path made by hand that the rise counts from the running minimum, over the largest move."""
    z = np.zeros((3, 1, 3))
    z[:, 0, 0] = [-1.0, -4.0, -3.0]
    z[:, 0, 1] = [1.0, 0.5, 0.0]
    run = SimpleNamespace(z=z, z_initial=np.zeros((1, 3)))
    assert largest_rise(run, np.array([0])) == pytest.approx(1 / 4)
    assert largest_rise(run, np.array([1])) == pytest.approx(1 / 4)
    assert largest_rise(run, np.array([2])) == 0


def test_stored_counterexamples_are_their_seeds_rounded() -> None:
    """Assert that the literal data are what their seeds draw, rounded to three digits."""
    drawn = np.random.default_rng(351).dirichlet(np.ones(3), size=2)
    stored = spread_profiles().P.toarray()
    np.testing.assert_allclose(stored[[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 3]], drawn.round(3).ravel(), atol=1e-12)
    from_seed = corollary_2_instance(274, query=[0, 1, 1])
    np.testing.assert_allclose(unequal_queries().P.toarray(), from_seed.P.toarray().round(3), atol=1e-12)
    assert unequal_queries().vocab_size == from_seed.vocab_size


def _one_query(classes: SequenceClasses) -> SequenceClasses:
    return SequenceClasses(classes.P, np.zeros(classes.num_classes, dtype=int), vocab_size=classes.vocab_size)


@pytest.mark.parametrize(
    ("broken", "restored"),
    [
        (spread_profiles(), shared_common_tokens(np.full((2, 2), 0.3), np.full((2, 1), 0.4), [0, 0], 10)),
        (unequal_queries(), _one_query(unequal_queries())),
    ],
)
def test_growth_goes_with_the_condition_that_is_dropped(broken: SequenceClasses, restored: SequenceClasses) -> None:
    """Assert that a common token grows in the stored case, and none does once its condition is restored."""
    tokens = np.array([0, 1])
    assert largest_rise(whole_run(ModifiedDecoder(broken, 1.0, 1.0), TIMES), tokens) > 0.1
    assert largest_rise(whole_run(ModifiedDecoder(restored, 1.0, 1.0), TIMES), tokens) < RISE


def test_common_tokens_keep_their_proportions() -> None:
    """Assert (exp(-2 z_l) - 1)/rho_l^2 equal for all common tokens at every time, to the solver's tolerance."""
    classes = corollary_2_instance(3)
    tokens = classes.common_tokens()
    run = whole_run(ModifiedDecoder(classes, 1.0, 1.0), TIMES, rtol=1e-10, atol=1e-13)
    fall = np.expm1(-2 * run.z[10:, 0, tokens]) / classes.P.toarray()[0, tokens] ** 2
    assert tokens.size > 1
    # atol 1e-13 per step against falls of 1e-3 of the smallest rho^2 and more.
    np.testing.assert_allclose(fall / fall[:, :1], 1, rtol=1e-6)
