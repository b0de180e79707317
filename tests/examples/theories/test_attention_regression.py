"""The attention theory against prompts, attention on tokens, mpmath, sympy, and its claims."""

from typing import Any

import mpmath
import numpy as np
import pytest

from snapdyn.validation import validate

pytestmark = pytest.mark.long  # of the three theories, `make test` takes the deep linear network

D, N = 4, 31


def prompts(runs: int, eigenvalues: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (runs, D + 1, N + 1), the query's label set to 0, and this label."""
    rng = np.random.default_rng(seed)
    tokens = np.empty((runs, D + 1, N + 1))
    tokens[:, :D] = rng.normal(size=(runs, D, N + 1)) * np.sqrt(eigenvalues)[:, None]
    tokens[:, D] = np.einsum("rd,rdn->rn", rng.normal(size=(runs, D)), tokens[:, :D])
    label = tokens[:, D, N].copy()
    tokens[:, D, N] = 0
    return tokens, label


def sampled_gradient(W: np.ndarray, eigenvalues: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of error x beta x^T over prompts."""
    tokens, label = prompts(runs, eigenvalues, 2)
    beta = np.einsum("rdn,rn->rd", tokens[:, :D], tokens[:, D]) / N
    error = label - np.einsum("rd,de,re->r", beta, W, tokens[:, :D, N])
    each = np.einsum("r,rd,re->rde", error, beta, tokens[:, :D, N])
    return each.mean(0), each.std(0) / np.sqrt(runs)


def test_rate_of_merged(theory: dict[str, Any]) -> None:
    """Assert that the rates of v and U are the means of the samples, within 5 standard errors, off the solution too."""
    rng = np.random.default_rng(3)
    v, U = 0.8, rng.normal(0, 0.5, (D, D))
    rate = np.empty(1 + D**2)
    theory["MERGED"].write_rate(np.append(v, U), rate)
    mean, error = sampled_gradient(v * U, np.ones(D), 50_000)
    assert (abs(rate[1:].reshape(D, D) - v * mean) <= 5 * v * error).all()
    assert rate[0] == pytest.approx((rate[1:].reshape(D, D) / v * U).sum(), rel=1e-12)


def test_time_of_an_aligned_head(theory: dict[str, Any]) -> None:
    """Assert the hypergeometric form against the integral of 1/u' in mpmath."""
    c = float(theory["C"][1])
    with mpmath.workdps(30):
        integral = mpmath.quad(lambda u: 1 / (0.09 * u**2 * (1 - 0.3 * c * u**3)), [0.02, 0.1, 0.5, 1, 1.3])
    assert theory["time_of"](1.3, 0.02, 0.3, c) == pytest.approx(float(integral), rel=1e-12)


@pytest.mark.parametrize("id_", ["sigmoid", "orders", "plateaus", "drops"])
def test_claims(theory: dict[str, Any], id_: str) -> None:
    """Assert the verdict of each claim."""
    assert validate(f"attention-{id_}").as_expected
