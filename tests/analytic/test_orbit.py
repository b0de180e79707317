"""Orbit of the symmetric single-common-token system under Eq. (10)."""

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.analytic.orbit import inverse_of_integral
from tests.analytic.helpers import integrated_eq_10
from tests.dynamics.dense_reference import Instance

# distinct probabilities, common probability, K, V, eta_Y, eta_Z
SYSTEMS = {
    "three tokens": ([0.2, 0.3, 0.4], 0.1, 3, 50, 1.0, 0.5),
    "strong overlap": ([0.5], 0.5, 2, 10, 0.3, 5.0),
    "rare token": ([0.0001, 0.2999, 0.3], 0.4, 5, 1000, 1.0, 0.5),
    "dominant common token": ([0.02, 0.03], 0.95, 3, 100, 1.0, 2.0),
    "equal tokens": ([0.2, 0.2, 0.2], 0.4, 4, 200, 2.0, 1.0),
}
TIMES = np.array([0.1, 3.0, 30.0, 300.0, 3000.0])


def _integrate(system: tuple, beta: str, class_weight: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Integrate h and z under Eq. (10) by dense algebra; return class 0's distinct z, and the common one."""
    p, p_c, K, V, eta_Y, eta_Z = system
    P = np.hstack([np.full((K, 1), p_c), np.kron(np.eye(K), p)])
    prior = np.full(K, 1 / K if class_weight else 1.0)
    instance = Instance(P, np.zeros(K, int), np.arange(K), prior, V)
    z = integrated_eq_10(instance, TIMES, eta_Y / prior.sum(), eta_Z, beta == "leading")
    return z[:, 1 : 1 + len(p)], z[:, 0]


@pytest.mark.parametrize("beta", ["exact", "leading"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_orbit_is_the_solution_of_equation_10(name: str, beta: str) -> None:
    """Assert that the orbit equals direct integration of (10), E' by matrix inversion, to 1e-9."""
    p, p_c, K, V, eta_Y, eta_Z = SYSTEMS[name]
    z_distinct, z_common = _integrate(SYSTEMS[name], beta)
    orbit = analytic.single_common_token_orbit(TIMES, p, p_c, K, V, eta_Y, eta_Z, beta)
    # The inverted Gram matrix limits the integration: rounding over the smallest E'.
    np.testing.assert_allclose(orbit.z_distinct, z_distinct, rtol=1e-9)
    np.testing.assert_allclose(orbit.z_common, z_common, rtol=1e-9)
    assert -orbit.z_common[-1] > 0.01


@pytest.mark.parametrize(("beta", "class_weight"), [("leading", True), ("exact", False)])
def test_another_system_is_rejected(beta: str, class_weight: bool) -> None:
    """Assert that the comparison excludes the other beta and the missing class weight (negative control)."""
    p, p_c, K, V, eta_Y, eta_Z = SYSTEMS["three tokens"]
    _, z_common = _integrate(SYSTEMS["three tokens"], beta, class_weight)
    orbit = analytic.single_common_token_orbit(TIMES, p, p_c, K, V, eta_Y, eta_Z, "exact")
    assert np.all(np.abs(orbit.z_common / z_common - 1) > 1e-2)


def test_start_order_and_scalar_time() -> None:
    """Assert that t = 0 is exact, the order of times does not matter, and a scalar time gives one row."""
    arguments = ([0.2, 0.3], 0.5, 3, 30, 1.0, 1.0)
    orbit = analytic.single_common_token_orbit([50.0, 0.0, 7.0], *arguments)
    assert np.all(orbit.z_distinct[1] == 0)
    assert orbit.z_common[1] == 0
    alone = analytic.single_common_token_orbit(7.0, *arguments)
    assert alone.z_distinct.shape == (1, 2)
    assert alone.z_common.shape == (1,)
    np.testing.assert_allclose(alone.z_distinct[0], orbit.z_distinct[2], rtol=1e-13)
    start = analytic.single_common_token_orbit(0, *arguments)
    assert np.all(start.z_distinct == 0)


def test_extreme_times_are_quiet() -> None:
    """Assert that the ends of the range give finite, monotone logits without floating-point trouble."""
    t = np.geomspace(1e-9, 1e15, 40)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        orbit = analytic.single_common_token_orbit(t, [0.1, 0.899], 0.001, 2, 10**7, 1e-6, 1e3)
        other = analytic.single_common_token_orbit(t, [0.1, 0.899], 0.001, 50, 10**3, 1e3, 1e-6)
    assert np.all(np.diff(orbit.z_common) < 0)
    assert np.all(np.diff(orbit.z_distinct, axis=0) > 0)
    assert np.all(np.isfinite(other.z_common))


def test_the_quadrature_resolves_poles_one_panel_from_the_axis() -> None:
    """Assert that int_0^w dx/(1 + (x-5)^2), its poles one panel width from the axis, is inverted to rounding."""
    w = np.linspace(0, 20, 101)
    inverse = inverse_of_integral(np.arctan(w - 5) - np.arctan(-5), lambda x: 1 / (1 + (x - 5) ** 2), lambda _: 1.0)
    # The inverse magnifies rounding of the integral, at most pi, by 1/q <= 226; fourteen nodes leave 4.2^-28.
    np.testing.assert_allclose(inverse, w, rtol=0, atol=1e-12)
