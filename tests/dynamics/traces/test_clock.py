"""The clock of traces: against what SGD does, and against the noise of an explicit model."""

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import sgd, syn_small
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.dynamics.training.steps import TraceClock


def test_clock_counts_the_steps_of_plain_descent() -> None:
    """Assert that descent of small steps lies on one curve of t, with momentum and at twice the rate.

    The tolerance is the change over one step, 1 % of the change here; without the conversion the difference is 80 %.
    """
    classes, updates = syn_small(), np.arange(0, 2001, 100)
    plain = sgd(classes, 0.01, 0.01, 40_000, batch_size=None, record=np.arange(40_001))
    for momentum, factor in ((0.9, 1.0), (0.0, 2.0)):
        run = sgd(classes, 0.01 * factor, 0.01 * factor, 2000, batch_size=None, momentum=momentum, record=updates)
        trace = Trace(updates, loss=np.ones(updates.size), batch_size=7, momentum=momentum, schedule=factor)
        t = trace.t
        token = (0, 19)
        expected = np.interp(t, plain.t, plain.growth_factor(*token)) - 1.0
        error = np.abs(run.growth_factor(*token) - 1.0 - expected).max()
        assert error < 0.02 * expected.max()
        unconverted = np.interp(updates, plain.t, plain.growth_factor(*token)) - 1.0
        assert np.abs(unconverted - expected).max() > 10 * error


def test_sequences_are_updates_times_the_batch() -> None:
    """Assert the two counts of one run agree, and that t itself is kept."""
    steps = np.array([0, 64, 640])
    by_sequences = TraceClock("sequences", 64, 0.5).to_time(steps)
    assert np.array_equal(by_sequences, TraceClock("updates", 64, 0.5).to_time(steps // 64))
    assert np.array_equal(TraceClock("theory", 64).to_time(steps), steps)


@pytest.mark.parametrize(
    "arguments",
    [("epochs",), ("updates", 1, 1.0), ("theory", 1, 0.9)],
)
def test_wrong_clocks_are_refused(arguments: tuple[object, ...]) -> None:
    """Assert InputError for each argument out of range."""
    with pytest.raises(InputError, match="expected"):
        TraceClock(*arguments)  # type: ignore[arg-type]
