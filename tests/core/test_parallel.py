"""Threads give results in order and pass errors on; worker processes leave signals to their parent, end with it."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from snapdyn.core.parallel import WorkerPool, in_processes, in_threads, is_running, startable

PARENT = """
import os, sys, time
from snapdyn.core.parallel import WorkerPool

pool = WorkerPool(2)
futures = [pool.submit(time.sleep, 300) for _ in range(2)]
print(os.getpid(), flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.slow
def test_workers_of_a_killed_parent_end() -> None:
    """Assert that busy workers of a parent that gets SIGKILL end and close its pipe within seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        time.sleep(0.5)
        parent.kill()
        parent.communicate(timeout=30)


@pytest.mark.slow
def test_workers_leave_signals_to_their_parent() -> None:
    """Assert that a worker goes on after SIGINT and SIGTERM, and that its libraries use the threads they are given."""
    pool = WorkerPool(1, threads=1)
    try:
        pid = pool.submit(os.getpid).result(timeout=120)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        assert pool.submit(os.getpid).result(timeout=120) == pid
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result(timeout=120) == "1"
    finally:
        pool.shutdown(kill_workers=True)


@pytest.mark.slow
def test_calls_in_processes() -> None:
    """Assert that each call ends with its key and value or error, that running ones are shown, and that none stays."""
    calls = [("a", (math.sqrt, 4.0)), ("b", (math.sqrt, -1.0)), ("c", (os.getpid,))]
    shown: list[list[str]] = []
    ended = dict(in_processes(calls, 2, shown.append))
    assert ended["a"].result() == 2.0
    assert "math domain error" in str(ended["b"].exception())
    worker = ended["c"].result()
    assert worker != os.getpid()
    assert [len(each) for each in shown] == [2, 2, 1]
    left = in_processes([("pid", (os.getpid,)), ("long", (time.sleep, 300))], 1)
    _, first = next(left)
    left.close()
    assert not is_running(first.result())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_has_ended_does_not_run() -> None:
    """Assert that this process runs, and that one that has ended does not, before and after its parent has seen it."""
    assert is_running(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    deadline = time.monotonic() + 60
    while is_running(child.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.wait()
    child.stdout.close()
    assert not is_running(child.pid)


@pytest.mark.slow
def test_a_shutdown_right_after_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that no thread ends with an error when a call has just been submitted."""
    errors: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    for _ in range(2):
        pool = WorkerPool(1)
        pool.submit(os.getpid).result(timeout=120)
        pool.submit(time.sleep, 300)
        pool.shutdown(kill_workers=True)
    assert errors == []


def test_one_process_works_where_no_more_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one worker where the system refuses a thread, as under `ulimit -u 10`, and all of them elsewhere."""
    running = threading.active_count()
    assert startable(2) == 2
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if threading.active_count() > running + 5:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert startable(2) == 1
    assert threading.active_count() <= running  # threads of earlier pools may end meanwhile


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
