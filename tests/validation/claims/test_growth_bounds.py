"""Bounds of growth, by routes of their own: dense algebra, scipy, bisection."""

import numpy as np
import pytest
from scipy.optimize import brentq

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, single_common_token
from snapdyn.validation.claims.sample_classes import dominant_token
from snapdyn.validation.claims.transition import _shared as growth_bounds, theorem4
from snapdyn.validation.claims.transition._shared import EqualClasses, Overlap, five_tokens
from snapdyn.validation.dense_algebra import dense_attention
from snapdyn.validation.search.instance import Instance
from tests.analytic.helpers import integrated_eq_10
from tests.validation.claims.helpers import dense


def overlap(classes: SequenceClasses) -> Overlap:
    """Overlap of symmetric classes with a table."""
    return EqualClasses.of(Instance.of(classes, 1.0, 1.0, 1.0)).overlap


@pytest.mark.parametrize("num_classes", [2, 3, 8])
def test_overlap_bounds_the_sum_of_beta_while_the_overlap_falls(num_classes: int) -> None:
    """Assert least (y/x)^2 <= sum_k E'_nk f_n.f_k <= most (y/x)^2 for all y <= x, E' from a matrix inverse."""
    classes = single_common_token(num_classes, 2, 0.5, 100)
    _, f = dense_attention(classes, np.zeros((1, classes.num_tokens)))
    found = overlap(classes)
    assert found.x == pytest.approx(f[0] @ f[1])
    assert found.f0 == pytest.approx(f[0].max() if f[0].argmax() else np.sort(f[0])[-2])
    for y in found.x * np.linspace(0.01, 1, 40):
        G = np.full((num_classes, num_classes), y)
        np.fill_diagonal(G, 1)
        total = (num_classes - 1) * y * (np.eye(num_classes) - np.linalg.inv(G))[0, 1]
        scale = (y / found.x) ** 2
        assert found.least * scale <= total * (1 + 1e-9)
        assert total <= found.most * scale * (1 + 1e-9)


@pytest.mark.parametrize("V", [10, 1000, 10**7])
def test_omega_bounds_the_slowing_of_h(V: int) -> None:
    """Assert u >= x (1 - OMEGA/ln V) for x = eta_Y s <= ln V with u from bisection, and that less than OMEGA fails."""
    assert growth_bounds.OMEGA * np.exp(growth_bounds.OMEGA) == pytest.approx(1)
    x = np.linspace(0.01, 1, 30) * np.log(V)
    u = np.array([brentq(lambda u, x=x: np.expm1(u) + (V - 1) * u - V * x, 0, 50, xtol=1e-14) for x in x])
    assert np.all(u >= x * (1 - growth_bounds.OMEGA / np.log(V)))
    if V > 10:
        assert np.any(u < x * (1 - 0.98 * growth_bounds.OMEGA / np.log(V)))


def test_five_tokens_are_those_of_the_classes() -> None:
    """Assert profile and growth of `five_tokens` against classes with a table, and the overlap of 1e9 of them."""
    classes = single_common_token(4, 5, 0.3, 100)
    found, expected = five_tokens(4, 0.3, 100, 0.5), EqualClasses.of(Instance.of(classes, 1.0, 0.5, 1.0))
    t = np.array([1.0, 30.0])
    np.testing.assert_allclose(found.growth(t, "exact"), expected.growth(t, "exact"), rtol=1e-12)
    z = integrated_eq_10(dense(classes), t, 1.0, 0.5)[:, dominant_token(classes)]
    np.testing.assert_allclose(found.growth(t, "exact"), 2 * z, rtol=1e-6)  # ln chi of class 0
    np.testing.assert_allclose(found.overlap, overlap(classes), rtol=1e-12)
    assert five_tokens(10**9, 0.3, 10**15).overlap.x == pytest.approx(found.overlap.x)


def test_growth_along_the_orbit_is_the_integral_of_xi() -> None:
    """Assert B of the orbit (odds against its logits) = B by constant wbar, exact for equal distinct tokens."""
    P = np.array([[0.2, 0.4, 0.4, 0, 0], [0.2, 0, 0, 0.4, 0.4]])
    instance = Instance(P, np.zeros(2, int), np.ones(2), 100, 1.0, 50.0, 1e3)
    exponent = theorem4.exponent_on_orbit(instance)
    Gamma = 50 * analytic.gamma_integral(1e3, 1.0, 100, 2)
    expected = analytic.growth_and_common_logit(Gamma, 2, overlap(instance.classes).rho0, 0.5).B
    assert exponent == pytest.approx(float(expected), rel=1e-6)
