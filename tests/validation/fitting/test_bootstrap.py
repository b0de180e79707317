"""The test of residuals on noise that is made by hand: its level, its power, and what digits and seeds change."""

import numpy as np
import pytest

from snapdyn.dynamics.classes.table import Floats
from snapdyn.validation.fitting.bootstrap import (
    DRAWS,
    FEWEST_RUNS,
    LEVEL,
    Noise,
    Records,
    judged,
    noise_of_runs,
    noise_of_seeds,
)

TIMES = np.linspace(10.0, 100.0, 10)
# Two curves that grow with time, and a parameter that shifts time.
CHANGE = np.stack([TIMES / 100, (TIMES / 100) ** 2], axis=1)
SHIFT = np.stack([TIMES / 100, 2 * (TIMES / 100) ** 2], axis=1)
CURVES, J = np.stack([CHANGE, SHIFT]), SHIFT.reshape(-1, 1)
BUMP = (CHANGE * np.exp(-0.5 * (np.log(TIMES / 40.0) / 0.7) ** 2)[:, None]).ravel()
NO_DIGITS, FLOORS = np.zeros((1, 20)), np.full(20, 1e-6)


def records(seeds: int) -> Records:
    row, column = (each.ravel() for each in np.indices((10, 2)))
    return Records(row, column, np.log(TIMES[row]), np.full((seeds, 20), 1.0 / seeds))


def noise(rng: np.random.Generator, runs: int) -> Floats:
    """Skewed random walks in common, 1 % of the change, and a tenth of that for each value: (runs, 20)."""
    walk = np.cumsum(rng.exponential(size=(runs, 10)) - 1.0, axis=1)[:, :, None] * CHANGE / 300
    return (walk + 0.001 * rng.normal(size=(runs, 10, 2)) * CHANGE).reshape(runs, 20)


def share_rejected(found: Noise, residuals: Floats) -> float:
    return float(np.mean([judged(found, each, BUMP[None]).p_value < LEVEL for each in residuals]))


@pytest.mark.parametrize("seeds", [pytest.param(1, marks=pytest.mark.long), 4])
def test_the_level_and_the_power_are_those_that_are_said(seeds: int) -> None:
    """Assert 5 % rejections without a misfit, and 95 % at the visible one, with 3.5 standard deviations of 150 traces.

    Further ones: less than 70 % at a third of the misfit; at least 60 % where runs are simulated with half the noise.
    """
    rng = np.random.default_rng(1)
    found = noise_of_runs(noise(rng, FEWEST_RUNS), NO_DIGITS, FLOORS, records(seeds), CURVES, J, J)
    traces = noise(rng, 150 * seeds).reshape(150, seeds, 20).mean(axis=1)
    misfit = judged(found, traces[0], BUMP[None]).misfit
    assert share_rejected(found, traces) < 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 150)
    assert abs(share_rejected(found, traces + misfit * BUMP) - 0.95) < 3.5 * np.sqrt(0.05 * 0.95 / 150)
    assert share_rejected(found, traces + misfit / 3 * BUMP) < 0.7
    quiet = noise_of_runs(0.5 * noise(rng, FEWEST_RUNS), NO_DIGITS, FLOORS, records(seeds), CURVES, J, J)
    assert share_rejected(quiet, traces) > 0.6


def test_errors_of_estimates_are_the_scatter_of_estimates() -> None:
    """Assert the standard error of the shift within 10 % of the scatter of 2000 fits, and that it is below plain."""
    rng = np.random.default_rng(2)
    found = noise_of_runs(noise(rng, FEWEST_RUNS), NO_DIGITS, FLOORS, records(1), CURVES, J, J)
    traces = noise(rng, 2000)
    A = found.weights @ J
    estimates = traces @ (np.linalg.pinv(A) @ found.weights).T
    assert np.sqrt(found.covariance(found.weights)[0, 0]) == pytest.approx(estimates.std(), rel=0.1)
    assert found.covariance(found.weights)[0, 0] < found.covariance(np.ones(20))[0, 0]


def test_rounding_that_all_seeds_share_is_no_misfit() -> None:
    """Assert that curves rounded to 0.01, far above the noise, are not rejected if it is known, and else are."""
    rng = np.random.default_rng(3)
    runs, rounding = 0.01 * noise(rng, FEWEST_RUNS), rng.uniform(-0.005, 0.005, size=(DRAWS, 20))
    rounded = np.array([np.round(CHANGE.ravel() * scale, 2) - CHANGE.ravel() * scale for scale in (0.99, 1.003, 1.017)])
    known, unknown = (noise_of_runs(runs, each, FLOORS, records(4), CURVES, J, J) for each in (rounding, NO_DIGITS))
    assert share_rejected(known, rounded) == 0.0
    assert share_rejected(unknown, rounded) == 1.0


def test_signs_of_eight_seeds_give_the_level() -> None:
    """Assert 5 % rejections of symmetric noise with 8 seeds, with 3 standard deviations of 300, and the power of 10 %.

    The noise differs from value to value and is correlated in time, and no run is simulated.
    """
    rng = np.random.default_rng(4)
    walks = np.cumsum(rng.normal(size=(300, 8, 10)), axis=2)[..., None] * CHANGE / 300

    def rejected(misfit: float) -> float:
        found = []
        for trace in (walks + 0.001 * rng.normal(size=walks.shape)).reshape(300, 8, 20) + misfit * BUMP:
            mean = trace.mean(axis=0)
            residuals = trace - J[:, 0] * (J[:, 0] @ mean) / (J[:, 0] @ J[:, 0])
            by_signs = noise_of_seeds(residuals, np.ones(20), FLOORS, records(8), CURVES, J)
            found.append(judged(by_signs, residuals.mean(axis=0), BUMP[None]).p_value < LEVEL)
        return float(np.mean(found))

    assert rejected(0.0) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    assert rejected(0.1) > 0.95


def test_errors_know_a_shift_that_moves_with_the_parameter() -> None:
    """Assert errors 1/0.8 times as large where the mean moves by 0.8 J, whose multiples the refit takes away."""
    runs = noise(np.random.default_rng(5), FEWEST_RUNS)
    still, moving = (noise_of_runs(runs, NO_DIGITS, FLOORS, records(1), CURVES, J, mean) for mean in (J, 0.8 * J))
    ratio = moving.covariance(moving.weights) / still.covariance(still.weights)
    np.testing.assert_allclose(ratio, 1 / 0.8**2, rtol=1e-9)
    np.testing.assert_allclose(moving.left(0.8 * J[:, 0]), 0.0, atol=1e-9)
