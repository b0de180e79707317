"""The test of residuals: its level, and the misfit that it sees."""

import numpy as np
import pytest

from snapdyn.validation.fitting.result import LEVEL_OF_DOUBT, errors_from_noise, noise_weights, visible_misfit

TIMES = np.linspace(10.0, 100.0, 10)


@pytest.mark.parametrize("square", [1e-6, 1e-3, 0.3])
def test_the_visible_misfit_is_seen_every_second_time(square: float) -> None:
    """Assert that 30 to 70 % of 400 residuals with the misfit are rejected, and 98 % of those with 3 times the misfit.

    Two curves that grow with time, one parameter that shifts time. Noise of a random walk, drawn with the allowance for
    `square`. Residuals without misfit are rejected at most 33 times of 400 at the level 0.05, by the Bonferroni
    correction: expected 20, and 3 binomial standard deviations.
    """
    rng = np.random.default_rng(7)
    change = np.stack([TIMES / 100, (TIMES / 100) ** 2], axis=1)
    J = np.stack([TIMES / 100, 2 * (TIMES / 100) ** 2], axis=1).reshape(-1, 1)
    covariance = np.kron(np.minimum(TIMES[:, None], TIMES) * 1e-6, np.eye(2))
    weights = noise_weights(covariance, np.full(10, square), change, TIMES, 1)
    misfit = visible_misfit(J, weights)
    noise = np.linalg.solve(weights.inverse, rng.normal(size=(20, 400))).T

    def rejected(size: float) -> float:
        residuals = noise + size * misfit * change.ravel()
        return float(
            np.mean([errors_from_noise(each[None], J, weights).p_value < LEVEL_OF_DOUBT for each in residuals])
        )

    assert rejected(0.0) <= 33 / 400
    assert 0.3 < rejected(1.0) < 0.7
    assert rejected(3.0) > 0.98
    assert (misfit > 1.0) == (square == 0.3)
