"""Where the cells of a sweep are computed: in this process, in processes of this machine, or on a cluster."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeAlias

import joblib

from snapdyn.dynamics.processes import WorkerPool
from snapdyn.dynamics.threads import cores
from snapdyn.errors import InputError
from snapdyn.experiments.sweep.cells import Cell, Outcome

# Errors of a cluster by name, since dask is an extra and cannot be imported here.
LOST = {
    "KilledWorker": "workers of the cluster died several times on the same cells, perhaps because the memory was full",
    "FutureCancelledError": "the dask scheduler no longer answers",
    "CancelledError": "the dask scheduler no longer answers",
    "CommClosedError": "the dask scheduler no longer answers",
}

Call: TypeAlias = Callable[[list[Cell]], list[Outcome]]
# From portions of cells to their outcomes, in the order in which they are finished.
Backend: TypeAlias = Callable[[Call, Iterator[list[Cell]]], Generator[list[Outcome], None, None]]


class WorkersLost(Exception):
    """The workers died, so that the sweep cannot go on; the message is one sentence."""


def _in_this_process(call: Call, portions: Iterator[list[Cell]]) -> Generator[list[Outcome], None, None]:
    for portion in portions:
        yield call(portion)


@contextlib.contextmanager
def backend(cells: int, jobs: int | None, scheduler: str | None) -> Iterator[tuple[int, Backend]]:
    """Number of workers, and what runs portions of cells on them."""
    workers = min(cells, cores() if jobs is None else jobs)
    if not cells:
        yield 1, _in_this_process
    elif scheduler is not None:
        with cluster(scheduler) as workers:
            yield workers, _on_cluster
    elif jobs == 1 or cores() == 1:
        yield 1, _in_this_process
    else:
        with _processes(workers) as run:
            yield workers, run


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Backend]:
    """Run cells in processes of this machine; those left running at the end are stopped."""
    pool = WorkerPool(workers, max(1, cores() // workers))
    running: set[Future[list[Outcome]]] = set()

    def run(call: Call, portions: Iterator[list[Cell]]) -> Generator[list[Outcome], None, None]:
        while True:
            # One more than there are workers, so that none waits for this process; claimed cells do not pile up.
            for portion in itertools.islice(portions, workers + 1 - len(running)):
                running.add(pool.submit(call, portion))
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                outcomes = future.result()
                running.discard(future)
                yield outcomes

    try:
        yield run
    finally:
        pool.shutdown(kill_workers=bool(running))


def _on_cluster(call: Call, portions: Iterator[list[Cell]]) -> Generator[list[Outcome], None, None]:
    parallel = joblib.Parallel(batch_size=1, return_as="generator_unordered")
    finished = parallel(joblib.delayed(call)(portion) for portion in portions)
    try:
        yield from finished
    finally:
        finished.close()


@contextlib.contextmanager
def cluster(scheduler: str) -> Iterator[int]:
    """Let joblib use the workers of a dask scheduler; their number."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise InputError(
            f"expected dask for --scheduler {scheduler}, received none; install it with pip install 'snapdyn[cluster]'"
        ) from error
    try:
        # A client without an address raises a second error during cleanup, so the address is checked first.
        get_address_host_port(scheduler)
        client = Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"expected a dask scheduler at {scheduler!r}, received no answer ({error}); start one with "
            "`dask scheduler` and give the address that it prints"
        ) from error
    # A lost scheduler is reported in one sentence (LOST), not by the traceback of distributed.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with client:
        workers = sum(client.ncores().values())
        if not workers:
            try:
                client.wait_for_workers(1, timeout=10)
            except TimeoutError as error:
                raise InputError(
                    f"expected workers at the dask scheduler {scheduler!r}, received none within 10 s; start some with "
                    f"`dask worker {scheduler}`"
                ) from error
            workers = sum(client.ncores().values())
        with joblib.parallel_config(backend="dask", client=client):
            yield workers
