"""Parallel work in threads, for compiled code that releases the lock of the interpreter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import joblib


def cores() -> int:
    """Number of cores that this process may use; joblib respects affinity, containers and parallel workers."""
    return int(joblib.cpu_count())


def in_threads(
    calls: Sequence[Callable[[], Any]],
    threads: int,
    stop: threading.Event,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """Make the calls in parallel.

    Parameters
    ----------
    calls : sequence of callable
    threads : int
    stop : threading.Event
        Set after Ctrl-C or an error; calls that watch it then end early.
    progress : callable, optional
        Called as progress(finished, total) in the calling thread after each call.

    Returns
    -------
    list
        Results in the order of the calls; after Ctrl-C, None for calls that did not start.
    """
    results: list[Any] = [None] * len(calls)
    waiting = iter(range(len(calls)))
    finished: SimpleQueue[bool] = SimpleQueue()

    def work() -> None:
        # Each thread takes the next call from the iterator: to submit calls one by one costs more than a short call.
        for i in waiting:
            results[i] = calls[i]()
            if progress:
                finished.put(True)

    with ThreadPoolExecutor(threads) as pool:
        workers = [pool.submit(work) for _ in range(min(threads, len(calls)))]
        for worker in workers:
            worker.add_done_callback(lambda _: finished.put(False))
        try:
            running, count = len(workers), 0
            while running:
                if not finished.get():
                    running -= 1
                    for worker in workers:
                        if worker.done():
                            worker.result()
                elif progress:
                    count += 1
                    progress(count, len(calls))
        except KeyboardInterrupt:
            stop.set()  # the calls return what they have computed
        except BaseException:
            stop.set()
            raise
    for worker in workers:
        worker.result()
    return results
