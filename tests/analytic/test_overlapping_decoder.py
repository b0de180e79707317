"""Decoder at identical overlaps, against direct integration of Eq. (7) over all outputs."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from snapdyn import analytic
from snapdyn.errors import InputError

# rho, K, V
FAMILIES = {
    "moderate": (0.3, 5, 50),
    "weak": (0.05, 2, 1000),
    "strong": (0.8, 10, 1000),
    "nearly parallel": (0.98, 5, 1000),
    "few outputs": (0.2, 5, 6),
    "only class outputs": (0.4, 4, 4),
    "many classes": (0.001, 20, 400),
}
TIMES = np.array([0.01, 1.0, 10.0, 100.0, 3000.0])


@cache
def integrated(name: str, times: tuple[float, ...] = tuple(TIMES)) -> tuple[np.ndarray, np.ndarray]:
    """Integrate y_k of Eq. (7), each over its K class outputs and one of the V-K equal others: alpha_n and int beta."""
    rho, K, V = FAMILIES[name]
    gram = (1 - rho) * np.eye(K) + rho
    outputs = np.append(np.ones(K), V - K)

    def probabilities(y: np.ndarray) -> np.ndarray:
        logits = gram @ y
        alpha = np.exp(logits - logits.max(axis=1, keepdims=True))
        return alpha / (alpha @ outputs)[:, None]

    def beta(y: np.ndarray, alpha: np.ndarray) -> float:
        error = -alpha[0]
        error[0] += 1
        return float(-(y[1] * outputs) @ error)

    def rates(t: float, state: np.ndarray) -> np.ndarray:
        y = state[:-1].reshape(K, K + 1)
        alpha = probabilities(y)
        return np.append((np.eye(K, K + 1) - alpha).ravel(), beta(y, alpha))

    solution = solve_ivp(rates, (0, times[-1]), np.zeros(K * (K + 1) + 1), "LSODA", times, rtol=1e-11, atol=1e-17)
    assert solution.success
    own = [probabilities(state[:-1].reshape(K, K + 1))[0, 0] for state in solution.y.T]
    return np.array(own), solution.y[-1]


@pytest.mark.parametrize(("rho", "K", "V"), [(0.5, 3, 50), (0.99, 10, 10**7), (1e-6, 2, 10**12)])
def test_time_at_high_precision(rho: float, K: int, V: int) -> None:
    """Assert the transition against 30-digit quadrature of the time up to alpha = 1/u*."""
    with mp.workdps(40):
        m1 = mp.mpf(rho) * V / (1 - mp.mpf(rho))
        others, level = (V - K) / (1 + m1), mp.log(mp.lambertw((V - 1) / mp.e))

        def v(g: mp.mpf) -> mp.mpf:
            return mp.log1p(m1 * -mp.expm1(-g))

        def d(g: mp.mpf) -> mp.mpf:
            return others * (v(g) + g) + K * g

        low, high = mp.mpf(0), mp.log(V) / K
        for _ in range(120):
            g = (low + high) / 2
            low, high = (g, high) if d(g) + level < mp.log(K - 1 + (V - K) * mp.exp(-v(g))) else (low, g)
        # In the variable d the integrand changes by a factor e per unit.
        integral = mp.quad(lambda g: mp.exp(d(g)), [0, *(low * mp.mpf(2) ** -k for k in range(39, -1, -1))])
        time = (integral + (K - 1) * low + others * (v(low) + low)) / (1 - mp.mpf(rho))
    assert float(time) * K == pytest.approx(float(analytic.transition_time_with_overlap(K, V, 1.0, rho)), rel=1e-12)


def test_bounds_of_the_transition() -> None:
    """Assert t* <= t <= t*/(1-rho) over random families, and that both ends are attained."""
    rng = np.random.default_rng(3)
    K = np.round(10 ** rng.uniform(np.log10(2), np.log10(300), 100))
    V = np.round(10 ** rng.uniform(np.log10(K), 9))
    rho = np.where(rng.random(100) < 0.5, 10 ** rng.uniform(-4, -0.01, 100), 1 - 10 ** rng.uniform(-3, -0.01, 100))
    ratio = analytic.transition_time_with_overlap(K, V, 1.0, rho) / analytic.transition_time(K, V, 1.0)
    assert np.all(ratio >= 1 - 1e-12)
    assert np.all(ratio * (1 - rho) <= 1 + 1e-12)
    assert analytic.transition_time_with_overlap(4, 90, 0.1, 0.0) == pytest.approx(
        analytic.transition_time(4, 90, 0.1), rel=1e-12
    )
    assert analytic.transition_time_with_overlap(9, 9, 0.1, 0.6) == pytest.approx(
        analytic.transition_time(9, 9, 0.1) / 0.4, rel=1e-12
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_alpha_at_the_transition_is_that_of_the_peak(name: str) -> None:
    """Assert that alpha = 1/u* at the returned time."""
    rho, K, V = FAMILIES[name]
    t = analytic.transition_time_with_overlap(K, V, 0.3, rho)
    alpha = integrated(name, (0.3 * float(t) / K,))[0][0]
    assert alpha == pytest.approx(1 / analytic.u_peak(V), rel=1e-7)


@pytest.mark.parametrize("name", FAMILIES)
def test_gaps_are_ratios_of_beta_integrals(name: str) -> None:
    """Assert both gaps against integrated beta of the flow, and beta of Theorem 1 by matrix inversion."""
    rho, K, V = FAMILIES[name]
    E_prime = np.eye(K) - np.linalg.inv((1 - rho) * np.eye(K) + rho)
    beta = analytic.speed_coefficients(E_prime, V).beta[0, 1]
    t = TIMES * K
    drive = beta * analytic.gamma_integral(t, 1.0, V, K) / K
    gaps = analytic.ladder_gaps(t, 1.0, V, K, rho)
    expected = drive / integrated(name)[1]
    np.testing.assert_allclose(1 + gaps.modified, expected, rtol=1e-6)
    np.testing.assert_allclose(gaps.leading, E_prime[0, 1] / beta - 1, rtol=1e-12)
    # The start, and the fall from there.
    first = analytic.first_ladder_gaps(K, V, rho)
    early = analytic.ladder_gaps(1e-7, 1.0, V, K, rho).modified[0]
    assert early == pytest.approx(float(first.modified), rel=1e-5)
    assert np.all(np.diff(gaps.modified) < 1e-12)
    # The scale of the largest gap is the end of the run.
    original = integrated(name)[1]
    largest = max(np.abs(drive - original).max() / original[-1], -float(first.leading))
    assert analytic.largest_ladder_gap(t, 1.0, V, K, rho) == pytest.approx(largest, rel=1e-6)


def test_the_law_of_small_overlap_is_a_limit() -> None:
    """Assert that F4's ratio (1 + V E')/(2 (exp(X)-1)/X - 1), X = rho V h, holds at small overlap only."""

    def off(rho: float, K: int, V: int) -> float:
        t = np.geomspace(1, 1e4, 7) * K
        E_prime, X = rho / ((1 - rho) * (1 + (K - 1) * rho)), rho * V * analytic.h(t / K, 1.0, V)
        old = (1 + V * E_prime) / (2 * np.expm1(X) / X - 1)
        return float(np.abs(old / (1 + analytic.ladder_gaps(t, 1.0, V, K, rho).modified) - 1).max())

    assert off(0.01, 5, 10**5) < 1e-3
    assert off(0.5, 10, 1000) > 0.5


def test_overlap_strong_enough_changes_the_sign() -> None:
    """Assert that the modified flow is first faster and late slower at strong overlap: -0.54 and -0.82."""
    for rho, K, V, late in ((0.8, 3, 20, -0.54), (0.9, 16, 20, -0.82)):
        gaps = analytic.ladder_gaps(np.array([1e-2, 1e3]) * K, 1.0, V, K, rho).modified
        assert gaps[0] > 1
        assert gaps[1] == pytest.approx(late, abs=0.005)


def test_order_of_times() -> None:
    """Assert that times come in any order, and that a scalar gives one row."""
    both = analytic.ladder_gaps([50.0, 5.0], 1.0, 100, 5, 0.2).modified
    alone = analytic.ladder_gaps(50.0, 1.0, 100, 5, 0.2).modified
    assert alone.shape == (1,)
    assert alone[0] == pytest.approx(both[0], rel=1e-13)
    assert both[0] < both[1]


def test_extreme_times_are_quiet() -> None:
    """Assert finite gaps that fall, at the ends of the range, without floating-point trouble."""
    t = np.geomspace(1e-9, 1e15, 30)
    for rho, K, V in ((1e-9, 2, 10**12), (0.9999, 300, 10**9), (0.5, 2, 2)):
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            gaps = analytic.ladder_gaps(t, 1.0, V, K, rho).modified
        assert np.isfinite(gaps).all()
        assert np.all(np.diff(gaps) < 1e-9 * (1 + np.abs(gaps).max()))


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"t": -1.0}, "expected t "),
        ({"t": [[1.0]]}, "expected t 1-d"),
        ({"t": 0.0}, "expected t "),
        ({"eta_Y": 0.0}, "expected eta_Y"),
        ({"num_classes": 1}, "expected num_classes"),
        ({"vocab_size": 3}, "expected vocab_size >= num_classes, received 3 < 5; "),
        ({"overlap": 1.0}, r"expected overlap to lie in \[0, 1\), received 1; "),
        ({"overlap": -0.1}, "expected overlap"),
        ({"overlap": [0.1, 0.2]}, "expected overlap to be one number"),
    ],
)
@pytest.mark.parametrize("function", [analytic.ladder_gaps, analytic.largest_ladder_gap])
def test_bad_input_is_refused(function: object, changed: dict, match: str) -> None:
    """Assert that each argument out of range is refused by name."""
    arguments: dict = {"t": 1.0, "eta_Y": 1.0, "vocab_size": 10, "num_classes": 5, "overlap": 0.2}
    with pytest.raises(InputError, match=match):
        function(**(arguments | changed))
