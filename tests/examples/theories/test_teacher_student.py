"""The teacher-student theory against samples, moments in another form, its own Jacobian, and its claims."""

import math
from typing import Any

import numpy as np
import pytest

from snapdyn.validation import validate

pytestmark = pytest.mark.long  # of the three theories, `make test` takes the deep linear network


def rate_of(theory: dict[str, Any], state: np.ndarray, eta: float) -> np.ndarray:
    out = np.empty(state.size)
    theory["rate"](0.0, state, out, eta)
    return out


def jacobian(theory: dict[str, Any], state: np.ndarray, eta: float) -> np.ndarray:
    """Central differences of the rate; step 1e-6: error about 1e-10."""
    moves = 1e-6 * np.eye(state.size)
    return np.array([(rate_of(theory, state + d, eta) - rate_of(theory, state - d, eta)) / 2e-6 for d in moves]).T


@pytest.mark.parametrize(("eta", "passes"), [(1.0, True), (0.0, False)])
def test_rate_against_sampled_steps(theory: dict[str, Any], eta: float, passes: bool) -> None:
    """Assert that the rate is the mean of numpy's SGD steps, within 4 standard errors and 4/N of the noise term.

    |xi|^2 is N - 4 plus the squares of four fields, so the noise term differs from its limit by a relative O(4/N).
    """
    N, samples = 50, 40_000
    start = theory["packed"](theory["PARTS"])
    steps = (theory["train"](N, 1.0, [1 / N], theory["PARTS"], samples, np.random.default_rng(1))[0] - start) * N
    noise = rate_of(theory, start, 1.0) - rate_of(theory, start, 0.0)
    allowed = 4 * steps.std(0) / math.sqrt(samples) + 4 / N * np.abs(noise)
    apart = np.abs(steps.mean(0) - rate_of(theory, start, eta))
    assert bool((apart <= allowed).all()) is passes


@pytest.mark.parametrize("K", [2, 5])
def test_plateau_is_stationary_and_breaks_at_lambda(theory: dict[str, Any], K: int) -> None:
    """Assert rate 0 at the plateau, its loss, and that the largest eigenvalue is lambda, simplified and not."""
    Q, R, loss = theory["plateau"](K)
    state = np.repeat([Q, R], K * K)
    assert np.abs(rate_of(theory, state, 0.0)).max() < 1e-14
    assert theory["loss"](state[None])[0] == pytest.approx(loss, rel=1e-12)
    simplified = 2 / math.pi * K / ((2 * K + 1) ** 1.5 * (2 * K - 1) ** 0.5)
    assert theory["escape_rate"](K, Q, R) == pytest.approx(simplified, rel=1e-12)
    largest = np.linalg.eigvals(jacobian(theory, state, 0.0)).real.max()
    assert largest == pytest.approx(simplified, abs=1e-8)


@pytest.mark.parametrize("id_", ["plateau", "escape", "end", "finite-N"])
def test_claims(theory: dict[str, Any], id_: str) -> None:
    """Assert that each claim holds and that its wrong theories fail."""
    assert validate(f"saad-solla-{id_}").as_expected
