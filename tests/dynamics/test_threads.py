"""Work in threads: results in order, errors passed on."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from snapdyn.dynamics.threads import in_threads


def later(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def fail() -> None:
    raise ValueError("a call that fails")


def test_results_stand_in_the_order_of_the_calls() -> None:
    """Assert the order of calls that end in another one, more calls than threads."""
    seconds = [0.05, 0.0, 0.03, 0.0, 0.01]
    assert in_threads([partial(later, s) for s in seconds], 2, threading.Event()) == seconds


def test_an_error_ends_all() -> None:
    """Assert that the caller receives the error and that the other calls are told to stop."""
    stop = threading.Event()
    with pytest.raises(ValueError, match="a call that fails"):
        in_threads([fail, partial(later, 0.01)], 2, stop)
    assert stop.is_set()
