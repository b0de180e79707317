"""Work on all cores: compiled code that lets go of the interpreter, one thread per core."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import joblib


def cores() -> int:
    """Cores that this process may use; joblib knows affinity, containers, and processes that run side by side."""
    return int(joblib.cpu_count())


def in_threads(
    calls: Sequence[Callable[[], Any]],
    threads: int,
    stop: threading.Event,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """Results of the calls, in their order; after Ctrl-C, or an error, `stop` is set and the calls end early.

    `progress` (finished, total) is called in the calling thread after each call.
    """
    results: list[Any] = [None] * len(calls)
    waiting = iter(range(len(calls)))
    finished: SimpleQueue[bool] = SimpleQueue()

    def work() -> None:
        # Each thread takes the next call by itself: handing out calls one by one costs more than a short one.
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
            stop.set()  # the threads return what they have
        except BaseException:
            stop.set()
            raise
    for worker in workers:
        worker.result()
    return results
