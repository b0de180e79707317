"""The formulas behind the proofs, evaluated, against independent computations.

References: the recursion (33) run step by step, roots of (45) at 50 digits, dense linear algebra, complex steps.
"""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from snapdyn.analytic.symbolic import derivations
from tests.analytic.mpmath_reference import root, scaled_h

BY_ID = {derivation.id: derivation for derivation in derivations()}


def value(id_: str, **values: float) -> float:
    """Return the right-hand side of a derivation in numbers, symbols by name."""
    expression = BY_ID[id_].statement.rhs
    return float(expression.subs({symbol: values[symbol.name] for symbol in expression.free_symbols}).evalf(30))


def recursion(eta_Y: float, V: int, visits: int) -> np.ndarray:
    """Return V h*(s), s = 0..visits, Eq. (33) step by step."""
    u = np.zeros(visits + 1)
    for s in range(visits):
        u[s + 1] = u[s] + V * eta_Y / (V - 1 + np.exp(u[s]))
    return u


def lead(eta_Y: float, V: int, visits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return c with h*(s) = h(s + c), from (45), and V h*."""
    u = recursion(eta_Y, V, visits)
    return (np.expm1(u) + (V - 1) * u) / (V * eta_Y) - np.arange(visits + 1), u


@pytest.mark.parametrize("V", [20, 1000])
def test_the_lead_is_the_derived_one_to_first_order_in_the_rate(V: int) -> None:
    """Assert that the error of the derived lead halves with eta_Y at fixed eta_Y s."""
    errors = []
    for eta_Y in (0.2, 0.1, 0.05):
        visits = round(40 / eta_Y)
        c, u = lead(eta_Y, V, visits)
        errors.append([c[s] - value("lag", y=float(np.exp(u[s])), V=V) for s in (visits // 2, visits)])
    coarse, fine = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    # The slopes are 1 + O(eta_Y): the second deviates half as much, so 2 fine - coarse is 1 to the next order,
    # which is below the first order they show.
    assert np.all(np.abs(2 * fine - coarse - 1) <= np.abs(fine - coarse))
    np.testing.assert_allclose(fine, 1, atol=0.1)


SMALL, LARGE = (0.8, 50, 3.0), (1.3, 2000, 400.0)  # eta_Y, V, visits: before and after the transition


@pytest.mark.parametrize(("eta_Y", "V", "s"), [SMALL, LARGE])
@pytest.mark.parametrize(
    ("id_", "reference"),
    [
        ("h-early-stage", lambda u, V: u / V),
        ("h-late-stage", lambda u, V: u / V),
        ("gamma-early-stage", lambda u, V: (V - 1) ** 2 / V * u / (V - 1 + mp.exp(u))),
        ("gamma-late-stage", lambda u, V: (V - 1) ** 2 / V * u / (V - 1 + mp.exp(u))),
    ],
)
def test_the_stages_of_lemma_9_are_identities(
    id_: str, reference: Callable[..., Any], eta_Y: float, V: int, s: float
) -> None:
    """Assert that (53), (54), (56), (57) give h and gamma at the root of (45), before and after the transition."""
    u = scaled_h(s, eta_Y, V)
    assert value(id_, u=u, V=V, eta_Y=eta_Y, s=s) == pytest.approx(float(reference(u, V)), rel=1e-12)


@pytest.mark.parametrize("V", [4, 5, 100, 10**6])
def test_the_first_stage_outlasts_ln_V_from_five_outputs_on(V: int) -> None:
    """Assert that (52) is the s of (45) at exp(V h) = V-1, and exceeds ln V/eta_Y for V >= 5 only."""
    s = value("first-stage", V=V, eta_Y=0.6)
    assert float(scaled_h(s, 0.6, V)) == pytest.approx(np.log(V - 1), rel=1e-12)
    assert (s > np.log(V) / 0.6) == (V >= 5)


@pytest.mark.parametrize("V", [100, 10**4])
def test_omega_0_is_the_smaller_root(V: int) -> None:
    """Assert that V^(omega_0 - 1) solves exp(u) = (V-1) u below its minimum, and that omega_0 < 0.01."""
    with mp.workdps(30):
        smaller = root(lambda u: (V - 1) * u - mp.exp(u), mp.mpf(0), mp.log(V - 1))
    omega_0 = value("omega-0", V=V)
    assert V ** (omega_0 - 1) == pytest.approx(float(smaller), rel=1e-12)
    assert omega_0 < 0.01


def test_h_at_the_ends_of_the_pieces() -> None:
    """Assert that V h misses ln V by W(1) at t0', and that ln(V eta_Y t0) exceeds V h by ln 2, as V grows."""
    early, late = [], []
    for V in (1e4, 1e8, 1e12):
        early.append(np.log(V) - float(scaled_h(float(np.log(V)), 1.0, V)))
        with mp.workdps(30):
            upper = root(lambda u, V=V: mp.exp(u) - (V - 1) * u, mp.log(V - 1), 3 * mp.log(V))
        t0 = 2 * upper
        late.append(float(mp.log(V * t0) - scaled_h(float(t0), 1.0, V)))
    # Corrections: exp(-x) = x (1 - ln V/V) early, O(1/V) late.
    np.testing.assert_allclose(early, value("early-end"), atol=1e-3)
    np.testing.assert_allclose(early[1:], value("early-end"), atol=1e-6)
    np.testing.assert_allclose(late, [value("late-start", V=V) for V in (1e4, 1e8, 1e12)], atol=3e-4)


def test_more_decoder_rate_means_less_growth_once_late() -> None:
    """Assert that h^2/eta_Y rises with eta_Y below the derived u, falls above it, and where that is for V = 1000."""
    V, K = 1000, 1
    with mp.workdps(30):
        place = root(lambda u: mp.exp(u) * (u - 2) - (V - 1) * u + 2, mp.mpf(3), mp.mpf(12))
    assert float(place) == pytest.approx(7.230, abs=1e-3)
    crossing = float((mp.exp(place) + (V - 1) * place - 1) / V)  # eta_Y s
    assert np.log(V) < crossing < 2 * 9.116883  # between t0' and t0
    for factor, sign in ((0.9, 1), (1.1, -1)):
        s = factor * crossing
        gammas = [float(scaled_h(s, eta_Y, V, K)) ** 2 / eta_Y for eta_Y in (1.0, 1.001)]
        assert np.sign(gammas[1] - gammas[0]) == sign
        assert np.sign(value("decoder-rate-effect", u=scaled_h(s, 1.0, V), V=V)) == sign


def test_visits_until_an_error_are_a_sum_not_a_product() -> None:
    """Assert that the error reaches epsilon after the derived visits; the product in (73) is 13.6 times that."""
    V, eta_Y, epsilon = 1000, 0.5, 1e-3
    s = value("visits-to-error", V=V, eta_Y=eta_Y, epsilon=epsilon)
    u = float(scaled_h(s, eta_Y, V))
    error = (V - 1) / (V - 1 + np.exp(u)) * np.sqrt(V / (V - 1))
    # exp(V h) = V/epsilon makes the norm epsilon up to 1/V and epsilon.
    assert error == pytest.approx(epsilon, rel=2e-3)
    assert np.log(V / epsilon) / (epsilon * eta_Y) / s == pytest.approx(13.6, abs=0.05)


def test_sampled_counts_give_the_derived_coefficients() -> None:
    """Assert (81)-(88) by dense algebra: Y solves the modified flow with counts N_k, g_n is expanded in the f_k."""
    rng = np.random.default_rng(86)
    K, V, eta_Y = 3, 40, 0.7
    P = np.hstack([rng.uniform(0.05, 0.1, (K, 2)), np.kron(np.eye(K), [0.5, 0.3])])
    F = (P / np.linalg.norm(P, axis=1, keepdims=True)).T
    E_prime = np.eye(K) - np.linalg.inv(F.T @ F)
    mean, counts = 60.0, np.array([52.0, 60.0, 71.0])
    h_mean = float(scaled_h(mean, eta_Y, V)) / V
    h = np.array([float(scaled_h(float(count), eta_Y, V)) for count in counts]) / V
    zeta = V / (V - 1) * (np.eye(V)[:K] - 1 / V)
    # The least-norm Y with F^T Y = W: pinv takes no part in the derivation.
    Y = np.linalg.pinv(F.T) @ ((V - 1) * h[:, None] * zeta)
    gamma = (V - 1) ** 2 * h_mean / (V - 1 + np.exp(V * h_mean))
    for n in range(K):
        logits = Y.T @ F[:, n]
        alpha = np.exp(logits) / np.exp(logits).sum()
        coefficients = np.linalg.lstsq(F, Y @ (np.eye(V)[n] - alpha), rcond=None)[0] / gamma
        names = {f"e_{i + 1}{j + 1}": E_prime[i, j] for i in range(K) for j in range(i, K)}
        names |= {f"theta_{k + 1}": h[k] / h_mean - 1 for k in range(K)}
        sigma = (V - 1 + np.exp(V * h_mean)) / (V - 1 + np.exp(V * h[n])) - 1
        names |= {"V": V, "sigma": sigma}

        def numbers(matrix: sp.Basic, names: dict = names) -> np.ndarray:
            return np.array(matrix.subs({symbol: names[symbol.name] for symbol in matrix.free_symbols}), dtype=float)

        others = np.arange(K) != n
        iota, beta = numbers(BY_ID["iota-counted"].statement.rhs), numbers(BY_ID["beta-counted"].statement.rhs)
        np.testing.assert_allclose(coefficients[n], iota[n, 0], rtol=1e-11)
        np.testing.assert_allclose(-coefficients[others], beta[n][others], rtol=1e-9)
        # The print's sign moves beta by 2 q0, far more than the rounding.
        printed = numbers(BY_ID["beta-counted"].printed)
        assert np.abs(printed[n][others] + coefficients[others]).min() > 1e-2
