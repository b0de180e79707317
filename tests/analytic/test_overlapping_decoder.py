"""Decoder at identical overlaps, against direct integration of Eq. (7) over all outputs."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from snapdyn import analytic

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
def integrated(name: str) -> dict[str, np.ndarray]:
    """Integrate y_k of Eq. (7), each over its K class outputs and one of the V-K equal others, and int beta."""
    rho, K, V = FAMILIES[name]
    gram = (1 - rho) * np.eye(K) + rho
    outputs = np.append(np.ones(K), V - K)

    def probabilities(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = gram @ y
        alpha = np.exp(logits - logits.max(axis=1, keepdims=True))
        return logits, alpha / (alpha @ outputs)[:, None]

    def beta(y: np.ndarray, alpha: np.ndarray) -> float:
        error = -alpha[0]
        error[0] += 1
        return float(-(y[1] * outputs) @ error)

    def rates(t: float, state: np.ndarray) -> np.ndarray:
        y = state[:-1].reshape(K, K + 1)
        _, alpha = probabilities(y)
        return np.append((np.eye(K, K + 1) - alpha).ravel(), beta(y, alpha))

    solution = solve_ivp(rates, (0, TIMES[-1]), np.zeros(K * (K + 1) + 1), "LSODA", TIMES, rtol=1e-11, atol=1e-17)
    assert solution.success
    rows = []
    for state in solution.y.T:
        y = state[:-1].reshape(K, K + 1)
        logits, alpha = probabilities(y)
        lead = logits[0] - logits[0, -1]
        rows.append([alpha[0, 0], alpha[0, 1], alpha[0, -1], lead[0], lead[1], beta(y, alpha), state[-1]])
    return dict(zip(analytic.OverlapDecoder._fields, np.array(rows).T, strict=True))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_closed_form_is_the_solution_of_equation_7(name: str) -> None:
    """Assert that probabilities, leads, beta and its integral equal direct integration."""
    rho, K, V = FAMILIES[name]
    decoder = analytic.overlap_decoder(TIMES * K / 0.5, 0.5, V, K, rho)
    for field, expected in integrated(name).items():
        np.testing.assert_allclose(getattr(decoder, field), expected, rtol=1e-6, atol=1e-12, err_msg=field)


@pytest.mark.parametrize("name", ["moderate", "strong", "nearly parallel"])
def test_no_overlap_is_not_the_solution(name: str) -> None:
    """Assert that the comparison excludes the decoupled flow, and Remark 1's rate for K < V (negative controls)."""
    rho, K, V = FAMILIES[name]
    expected = integrated(name)["own"]
    decoupled = analytic.overlap_decoder(TIMES * K, 1.0, V, K, 0.0).own
    slowed = analytic.overlap_decoder(TIMES * K, 1 - rho, V, K, 0.0).own
    assert np.abs(decoupled / expected - 1).max() > 1e-2
    assert np.abs(slowed / expected - 1).max() > 1e-2


def test_limits_are_equation_45_and_remark_1() -> None:
    """Assert that rho = 0 gives h, and K = V gives h at the rate (1-rho) eta_Y."""
    t = np.geomspace(1e-3, 1e9, 13)
    no_overlap = analytic.overlap_decoder(t, 0.7, 1000, 5, 0.0)
    np.testing.assert_allclose(no_overlap.lead_own, 1000 * analytic.h(t / 5, 0.7, 1000), rtol=1e-12)
    assert np.all(no_overlap.lead_other == 0)
    np.testing.assert_allclose(no_overlap.beta_integral, 1000 * analytic.h(t / 5, 0.7, 1000) ** 2 / 2, rtol=1e-12)
    full = analytic.overlap_decoder(t, 0.7, 8, 8, 0.3)
    np.testing.assert_allclose(full.lead_own - full.lead_other, 8 * analytic.h(t / 8, 0.7 * 0.7, 8), rtol=1e-12)


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
def test_gaps_are_ratios_of_beta_integrals(name: str) -> None:
    """Assert both gaps against integrated beta of the flow, and beta of Theorem 1 by matrix inversion."""
    rho, K, V = FAMILIES[name]
    E_prime = np.eye(K) - np.linalg.inv((1 - rho) * np.eye(K) + rho)
    beta = analytic.speed_coefficients(E_prime, V).beta[0, 1]
    t = TIMES * K
    drive = beta * analytic.gamma_integral(t, 1.0, V, K) / K
    gaps = analytic.ladder_gaps(t, 1.0, V, K, rho)
    expected = drive / integrated(name)["beta_integral"]
    np.testing.assert_allclose(1 + gaps.modified, expected, rtol=1e-6)
    np.testing.assert_allclose(gaps.leading, E_prime[0, 1] / beta - 1, rtol=1e-12)
    # The start, and the fall from there.
    first = analytic.first_ladder_gaps(K, V, rho)
    early = analytic.ladder_gaps(1e-7, 1.0, V, K, rho).modified[0]
    assert early == pytest.approx(float(first.modified), rel=1e-5)
    assert np.all(np.diff(gaps.modified) < 1e-12)
    # The scale of the largest gap is the end of the run.
    original = integrated(name)["beta_integral"]
    largest = max(np.abs(drive - original).max() / original[-1], -float(first.leading))
    assert analytic.largest_ladder_gap(t, 1.0, V, K, rho) == pytest.approx(largest, rel=1e-6)


def test_extreme_times_are_quiet() -> None:
    """Assert finite, monotone leads at the ends of the range without floating-point trouble."""
    t = np.geomspace(1e-9, 1e15, 30)
    for rho, K, V in ((1e-9, 2, 10**12), (0.9999, 300, 10**9), (0.5, 2, 2)):
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            decoder = analytic.overlap_decoder(t, 1.0, V, K, rho)
        assert np.all(np.diff(decoder.lead_own) > 0)
        assert np.all(np.diff(decoder.beta_integral) > 0)
        assert np.all(decoder.beta > 0)
