"""Coefficients of the gradient (Theorem 1)."""

import numpy as np
import pytest

from snapdyn import analytic


def _weakly_correlated(K: int, seed: int, common: float = 0.03) -> np.ndarray:
    """Return F (M, K): one common token of the given weight, four random distinct tokens per class."""
    rng = np.random.default_rng(seed)
    P = np.zeros((1 + 4 * K, K))
    for n in range(K):
        P[0, n] = common * rng.uniform(0.5, 1.5)
        P[1 + 4 * n : 5 + 4 * n, n] = rng.dirichlet(np.full(4, 2.0))
    return P / np.linalg.norm(P, axis=0)


def _gradients(F: np.ndarray, V: int, h: float) -> tuple[np.ndarray, float]:
    """Return g_n = Y (e_n - alpha_n) as columns, Y = F (I-E') W built entry by entry, and gamma."""
    K = F.shape[1]
    zeta = V / (V - 1) * (np.eye(K, V) - 1 / V)
    W = (V - 1) * h * zeta
    alpha = np.exp(W) / np.exp(W).sum(axis=1, keepdims=True)
    Y = F @ np.linalg.inv(F.T @ F) @ W
    return Y @ (np.eye(K, V) - alpha).T, (V - 1) ** 2 * h / (V - 1 + np.exp(V * h))


def _relative_error(K: int, V: int, form: str, seed: int) -> float:
    F = _weakly_correlated(K, seed)
    g, gamma = _gradients(F, V, h=2.0 / V)
    E_prime = np.eye(K) - np.linalg.inv(F.T @ F)
    iota, beta = analytic.speed_coefficients(E_prime, V, form)
    assembled = gamma * (F * iota - F @ beta.T)
    # Judged on the other classes' attention vectors, which only beta moves.
    dual = np.linalg.inv(F.T @ F) @ F.T
    off_diagonal = ~np.eye(K, dtype=bool)
    error = np.abs(dual @ (assembled - g))[off_diagonal].max() / np.abs(dual @ g)[off_diagonal].max()
    if form == "exact":
        np.testing.assert_allclose(assembled, g, atol=1e-13 * np.abs(g).max())
    return float(error)


@pytest.mark.parametrize(("K", "V"), [(2, 2), (2, 50), (3, 10), (7, 300), (12, 12)])
@pytest.mark.parametrize("seed", range(5))
def test_exact_coefficients_assemble_the_gradient(K: int, V: int, seed: int) -> None:
    """Assert that g_n = gamma (iota_n f_n - sum_k beta_nk f_k) to rounding, for exact coefficients."""
    assert _relative_error(K, V, "exact", seed) < 1e-11


@pytest.mark.parametrize("form", ["printed", "leading"])
@pytest.mark.parametrize("seed", range(3))
def test_other_forms_are_told_apart(form: str, seed: int) -> None:
    """Assert that the printed sign and the leading order do not assemble the gradient (negative control)."""
    assert _relative_error(5, 100, form, seed) > 0.1


@pytest.mark.parametrize("K", [2, 3, 6])
def test_leading_xi_is_minus_the_diagonal(K: int) -> None:
    """Assert that sum_k E'_nk f_n.f_k = -E'_nn > 0."""
    F = _weakly_correlated(K, seed=4)
    E_prime = np.eye(K) - np.linalg.inv(F.T @ F)
    beta = analytic.speed_coefficients(E_prime, 1000, "leading").beta
    overlap = (beta * (F.T @ F)).sum(axis=1)
    # 1 in I - (I+E)^{-1} cancels down to E'_nn, which is about 1e-5 here.
    np.testing.assert_allclose(overlap, -np.diag(E_prime), rtol=1e-9)
    assert np.all(overlap > 0)
