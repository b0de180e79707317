"""Work in threads: results in order, the interpreter's switch interval put back."""

from __future__ import annotations

import sys
import threading

import pytest

from snapdyn.dynamics.threads import SWITCH_INTERVAL, in_threads


def fail() -> None:
    raise ValueError("a call that fails")


def test_switch_interval_is_put_back() -> None:
    """Assert short switches during the calls, the caller's interval afterwards, also after an error."""
    before = sys.getswitchinterval()
    assert in_threads([sys.getswitchinterval, threading.get_ident], 2, threading.Event())[0] == pytest.approx(
        SWITCH_INTERVAL
    )
    assert sys.getswitchinterval() == before
    with pytest.raises(ValueError, match="a call that fails"):
        in_threads([fail, fail], 2, threading.Event())
    assert sys.getswitchinterval() == before
    assert before > SWITCH_INTERVAL
