"""Parallel work: threads for compiled code, and worker processes that end with their parent."""

from __future__ import annotations

import hashlib
import os
import platform
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import joblib
from joblib.externals.loky import ProcessPoolExecutor

from snapdyn.core.errors import optional_function, whole

Key = TypeVar("Key")
Item = TypeVar("Item")
Result = TypeVar("Result")
SECONDS_BETWEEN_LOOKS = 1.0
# Libraries that would otherwise start a thread for every core in every worker.
THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)
# What a pool needs beside its workers, and each of these: processes and threads count alike.
THREADS_OF_POOL, THREADS_OF_WORKER = 6, 4
# A Python that starts with `-c` or `-m` imports from the working folder before all others, unless this is set.
SAFE_PATH = "PYTHONSAFEPATH"
# Ctrl-C, SIGTERM and SIGHUP reach all processes of a group; the parent handles them for its workers.
HANDLED_BY_PARENT = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


class WorkerPool(ProcessPoolExecutor):
    """Pool of fresh processes that leave signals to their parent and end whenever it ends, even if it is killed.

    Parameters
    ----------
    workers : int
    threads : int
        Threads that the libraries in each worker may use; fewer where the environment says so.
    """

    def __init__(self, workers: int, threads: int = 1) -> None:
        limits = {name: str(min(threads, _asked_for(name) or threads)) for name in THREAD_LIMITS}
        safe_path = os.environ.get(SAFE_PATH)
        # loky ends a worker whose memory has grown and starts another one; nothing is lost that a user should hear of.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
        with _starting_processes():
            super().__init__(
                workers, initializer=_follow_parent, initargs=(os.getpid(), safe_path), env=limits | {SAFE_PATH: "1"}
            )

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Submit a call; the first one starts the processes."""
        with _starting_processes():
            future: Future[Any] = super().submit(function, *arguments, **options)
        return future

    def shutdown(self, wait: bool = True, kill_workers: bool = False) -> None:
        """End the processes, as loky does, after dropping the calls that still wait for a free process."""
        if kill_workers:
            # loky removes the waiting calls, not their numbers; its thread then looks for a call that is gone.
            with suppress(queue.Empty):
                while True:
                    self._work_ids.get(block=False)
        super().shutdown(wait, kill_workers)


def _asked_for(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else 0


@contextmanager
def _starting_processes() -> Iterator[None]:
    """Block the signals that the parent handles, and keep the working folder out of the path of modules.

    A process started now is not ended by the signals while it is starting, and runs no module of the working folder:
    workers, and the processes with which joblib and Python follow what the workers leave behind.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_BY_PARENT)
    safe_path = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        _set_safe_path(safe_path)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _set_safe_path(value: str | None) -> None:
    """Set the variable of the environment as the user has it: programs that a user's code starts see the same."""
    os.environ.pop(SAFE_PATH, None)
    if value is not None:
        os.environ[SAFE_PATH] = value


def _follow_parent(parent: int, safe_path: str | None) -> None:
    """Ignore the signals that the parent handles, and end when the parent has ended."""
    _set_safe_path(safe_path)
    for number in HANDLED_BY_PARENT:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_BY_PARENT)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@cache
def machine() -> str:
    """Eight hexadecimal digits that differ between machines, restarts and containers (where process ids differ)."""
    facts = [platform.node()]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:8]


def is_running(pid: int) -> bool:
    """Whether a process of this machine runs; one that has ended and waits for its parent does not."""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state not in (b"Z", b"X")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user, or no such number
        return True
    return True


def cores() -> int:
    """Number of cores that this process may use; joblib respects affinity, containers and parallel workers."""
    return int(joblib.cpu_count())


def startable(workers: int) -> int:
    """Return `workers`, or 1 where the system does not let the user start as many processes and threads.

    A pool whose threads cannot start waits for ever.
    """
    if workers <= 1:
        return workers
    end, started = threading.Event(), []
    try:
        for _ in range(THREADS_OF_POOL + THREADS_OF_WORKER * workers):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:  # can't start new thread: the limit of `ulimit -u`, or of a container
        return 1
    finally:
        end.set()
        for thread in started:
            thread.join()
    return workers


def ended_calls(
    executor: Executor,
    calls: Iterable[tuple[Key, tuple[Any, ...]]],
    most: int,
    show: Callable[[list[Key]], None] = lambda running: None,
) -> Generator[tuple[Key, Future[Any]]]:
    """Make calls in an executor; give each key and its future as soon as the call has ended.

    Parameters
    ----------
    executor : Executor
    calls : iterable of (key, (function, *arguments))
        They are submitted in this order.
    most : int
        Number of calls that are submitted and have not ended, at most.
    show : callable, optional
        Called with the keys of these calls whenever calls are submitted or have ended, until the last has ended.

    Yields
    ------
    (key, Future)
        In the order in which the calls end.
    """
    waiting, running = iter(calls), dict[Future[Any], Key]()
    while True:
        for key, call in islice(waiting, most - len(running)):
            running[executor.submit(*call)] = key
        if not running:
            return
        show(list(running.values()))
        # One at a time, so that the progress also counts calls that ended together.
        ended = next(iter(wait(running, return_when=FIRST_COMPLETED).done))
        yield running.pop(ended), ended


def in_processes(
    calls: Iterable[tuple[Key, tuple[Any, ...]]], workers: int, show: Callable[[list[Key]], None] = lambda running: None
) -> Generator[tuple[Key, Future[Any]]]:
    """As `ended_calls`, in fresh processes; those still running when the generator is closed are stopped."""
    pool, complete = WorkerPool(workers), False
    try:
        yield from ended_calls(pool, calls, workers, show)
        complete = True
    finally:
        pool.shutdown(kill_workers=not complete)


def map_in_processes(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int | None,
    show: Callable[[int, list[Item]], None] = lambda done, running: None,
) -> list[Result]:
    """Return `function` of each item, in the order of the items.

    Parameters
    ----------
    function : callable
    items : sequence
        With several processes the last one starts first: the long ones of snapdyn's lists are at the end.
    jobs : int or None
        Number of processes; None: one per core. With 1, or for a single item, everything runs in this process.
    show : callable, optional
        Called as show(done, running items) whenever items start or end.
    """
    workers = startable(min(cores() if jobs is None else jobs, len(items)))
    results: dict[int, Result] = {}
    if workers <= 1:
        for n, item in enumerate(items):
            show(n, [item])
            results[n] = function(item)
    else:
        calls = [(n, (function, item)) for n, item in reversed(list(enumerate(items)))]
        with closing(in_processes(calls, workers, lambda keys: show(len(results), [items[n] for n in keys]))) as ended:
            for n, future in ended:
                results[n] = future.result()
    show(len(results), [])
    return [results[n] for n in range(len(items))]


def in_threads(
    calls: Sequence[Callable[[], Any]],
    threads: int | None,
    stop: threading.Event,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """Make calls of compiled code, which releases the lock of the interpreter, in parallel.

    Parameters
    ----------
    calls : sequence of callable
    threads : int or None
        None: all cores.
    stop : threading.Event
        Set after Ctrl-C or an error; calls that watch it then end early.
    progress : callable, optional
        Called as progress(finished, total) in the calling thread after each call.

    Returns
    -------
    list
        Results in the order of the calls; after Ctrl-C, None for calls that did not start.

    Raises
    ------
    InputError
        `threads` is not a whole number of at least 1, or `progress` is no function.
    """
    threads = cores() if threads is None else whole("threads", threads, 1)
    optional_function("progress", progress, "(finished, total)")
    results: list[Any] = [None] * len(calls)
    waiting = iter(range(len(calls)))
    ended: queue.SimpleQueue[bool] = queue.SimpleQueue()  # True: a call; False: a thread

    def work() -> None:
        # Each thread takes the next call from the iterator: to submit calls one by one costs more than a short call.
        try:
            for i in waiting:
                results[i] = calls[i]()
                if progress:
                    ended.put(True)
        except BaseException:
            stop.set()
            raise
        finally:
            ended.put(False)

    with ThreadPoolExecutor(threads) as pool:
        workers = [pool.submit(work) for _ in range(min(threads, len(calls)))]
        running, count = len(workers), 0
        try:
            while running:
                if not ended.get():
                    running -= 1
                elif progress:
                    count += 1
                    progress(count, len(calls))
        except BaseException as error:
            stop.set()  # the calls return what they have computed
            if not isinstance(error, KeyboardInterrupt):
                raise
    for worker in workers:
        worker.result()
    return results
