"""Covariance between times: against an ensemble, and against the covariance at single times."""

import numpy as np
import pytest

from snapdyn.dynamics import FiniteLengthMeanField, SequenceClasses, fluctuations, sgd
from snapdyn.dynamics.traces.clock import TraceClock
from snapdyn.dynamics.traces.noise import covariance_between_times

CLASSES = SequenceClasses([[0.3, 0.7, 0.0], [0.5, 0.0, 0.5]], query=[0, 0], prior=[0.35, 0.65])
TIMES = np.array([200.0, 500.0, 1000.0])


@pytest.mark.slow
def test_against_the_equation_and_an_ensemble() -> None:
    """Assert blocks at one time as `fluctuations` gives them, and correlations between times as 300 runs of SGD.

    A sampled correlation of 300 runs has a standard error of at most 1/sqrt(300) = 0.058; 4 of them.
    """
    mean = FiniteLengthMeanField(CLASSES, 0.01, 0.02, None, lump=False)
    select = np.eye(mean.size)[mean.layout.slot_of_z]
    covariance, variance = covariance_between_times(mean, TraceClock(), TIMES, lambda k, x: select)
    m = len(select)
    expected = fluctuations(CLASSES, 0.01, 0.02, TIMES)
    for k in range(3):
        block = covariance[k * m : (k + 1) * m, k * m : (k + 1) * m]
        assert np.allclose(block, expected.z_covariance[k], rtol=1e-3, atol=1e-3 * block.max())
        assert variance[k] > np.trace(block)
    runs = sgd(CLASSES, 0.01, 0.02, steps=1000, seed=range(300), record=TIMES.astype(int))
    for token in range(m):
        values = np.array([run.z_support[:, token] for run in runs])
        predicted = covariance[token::m, token::m]
        scale = np.sqrt(np.diagonal(predicted))
        assert np.abs(np.corrcoef(values.T) - predicted / np.outer(scale, scale)).max() < 4 * 0.058


@pytest.mark.slow
def test_with_velocity_against_an_ensemble() -> None:
    """Assert the covariance of 2000 runs with momentum 0.9, which the noise of the clock alone misses.

    A sampled covariance has a relative standard error of at most sqrt(2/2000) = 0.032; 4 of them, and the order of the
    rates, 0.02. Records from 20 updates on, the time in which a velocity builds up.
    """
    updates = np.array([20.0, 60.0, 200.0])
    mean = FiniteLengthMeanField(CLASSES, 0.01, 0.02, None, lump=False)
    select = np.eye(mean.size)[mean.layout.slot_of_z]

    def predicted(clock: TraceClock, at: np.ndarray) -> np.ndarray:
        return covariance_between_times(mean, clock, at, lambda k, x: select)[0]

    clock, rescaled = TraceClock("updates", 8, 0.9), TraceClock("updates", 8, 0.0, 1.0)
    options = {"batch_size": 8, "momentum": 0.9, "record": updates.astype(int)}
    runs = sgd(CLASSES, 0.01, 0.02, steps=200, seed=range(2000), **options)
    seen = np.cov(np.array([run.z_support for run in runs]).reshape(2000, -1).T)
    scale = np.sqrt(np.outer(np.diagonal(seen), np.diagonal(seen)))
    allowed = 4 * 0.032 + 0.02
    assert (np.abs(predicted(clock, updates) - seen) / scale).max() < allowed
    by_clock = predicted(rescaled, clock.to_time(updates)) * clock.noise_factor / rescaled.noise_factor
    assert (np.abs(by_clock - seen) / scale).max() > 2 * allowed
