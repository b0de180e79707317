"""Running the cells of a sweep: on the cores of this machine or of a cluster, each finished cell kept at once."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import xarray

from snapdyn.dynamics.storage import output_folder
from snapdyn.dynamics.threads import cores
from snapdyn.dynamics.user_files import loaded_files
from snapdyn.errors import InputError, whole
from snapdyn.experiments.sweep.cells import Cell, Outcome, run_cells
from snapdyn.experiments.sweep.dataset import assemble, write
from snapdyn.experiments.sweep.files import Sweep
from snapdyn.experiments.sweep.observables import TRANSFORMER
from snapdyn.experiments.sweep.store import Cells, Values, code_hash

# Small cells go to the workers many at a time, as many as take about this long: to send one costs a millisecond or
# more, and what runs when the sweep is stopped is lost.
SECONDS_AT_ONCE = 0.3
MOST_AT_ONCE = 1000
# Reasons that differ only in numbers are one.
NUMBER = re.compile(r"-?\d[\d.]*(e[-+]?\d+)?")

# What went wrong on the cluster, by the name of the error: dask, which has them, is an extra.
LOST = {
    "KilledWorker": "the cluster's workers died again and again on one portion of cells, of too little memory perhaps",
    "FutureCancelledError": "the dask scheduler no longer answers",
    "CancelledError": "the dask scheduler no longer answers",
    "CommClosedError": "the dask scheduler no longer answers",
}


@dataclass
class SweepResult:
    """What a sweep has: the dataset and its file, how many cells were computed now, how the sweep ended."""

    path: Path
    dataset: xarray.Dataset
    taken_over: int
    computed: int
    failures: dict[int, str]  # reason by number of the cell, in the order of the design
    failed: int  # different settings among them
    missing: int
    seconds: float
    stopped: str = ""  # "interrupted", or why no worker goes on


@dataclass
class _Work:
    """Cells that wait, handed out in portions that grow or shrink to SECONDS_AT_ONCE."""

    cells: deque[Cell]
    workers: int
    seconds_per_cell: float | None = None

    def __iter__(self) -> Iterator[list[Cell]]:
        while self.cells:
            yield [self.cells.popleft() for _ in range(self._portion())]

    def _portion(self) -> int:
        if self.seconds_per_cell is None:
            return 1
        fair = -(-len(self.cells) // (2 * self.workers))  # so that all workers end at about the same time
        return max(1, min(MOST_AT_ONCE, fair, int(SECONDS_AT_ONCE / max(self.seconds_per_cell, 1e-6))))

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Take the time of the latest cells for that of the next ones."""
        self.seconds_per_cell = sum(outcome.seconds for outcome in outcomes) / len(outcomes)


@dataclass
class _Found:
    """Values and reasons by cell; cells with the same settings share them."""

    values: list[Values | None]
    reasons: dict[int, str] = field(default_factory=dict)


def run_sweep(
    sweep: Sweep,
    out: Path,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[float, float, str], None] | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> SweepResult:
    """Run the cells that OUT/cells does not hold yet, and write OUT/NAME.nc.

    Parameters
    ----------
    sweep : Sweep
    out : path
    jobs : int, optional
        Processes on this machine; default all cores.
    scheduler : str, optional
        Address of a dask scheduler whose workers run the cells instead.
    progress : callable (done, total, label), optional
        After each portion of cells; the label estimates the remaining time.
    tell : callable (sentence)
        For damaged cells.

    Returns
    -------
    SweepResult
        After Ctrl-C, or when the workers are lost, with what is finished; the others are NaN.

    Raises
    ------
    InputError
        Values of the wrong type, a folder that cannot be written to, a scheduler that does not answer, the same
        failure of all cells.
    """
    started = time.perf_counter()
    if jobs is not None:
        whole("--jobs", jobs, 1)
    if jobs is not None and scheduler is not None:
        raise InputError("expected --jobs or --scheduler, received both; the scheduler knows how many workers it has")
    code = code_hash()
    cells = list(sweep.cells(code))
    folder = output_folder(out)
    store = Cells(folder, tell)
    if sweep.kind == TRANSFORMER:
        output_folder(folder / "checkpoints")
    # The same settings are run once, and stand wherever the design has them.
    places: dict[str, list[int]] = {}
    for cell, _ in cells:
        places.setdefault(cell.key, []).append(cell.number)
    found = _Found([None] * len(cells))
    waiting: deque[Cell] = deque()
    for key, numbers in places.items():
        values = store.get(key, with_run=sweep.kind == TRANSFORMER)
        if values is None:
            waiting.append(cells[numbers[0]][0])
        for number in numbers:
            found.values[number] = values
    total, taken_over = len(waiting), len(places) - len(waiting)
    done, failed, bad_input, stopped = 0, 0, 0, ""
    began = time.perf_counter()
    try:
        with contextlib.closing(_outcomes(sweep, folder, code, waiting, jobs, scheduler)) as portions:
            for portion in portions:
                for outcome in portion:
                    cell, parameters = cells[outcome.number]
                    failed += outcome.values is None
                    bad_input += outcome.bad_input
                    if outcome.values is not None:
                        store.put(cell.key, parameters, outcome.values, outcome.run)
                    for number in places[cell.key]:
                        found.values[number] = outcome.values
                        if outcome.values is None:
                            found.reasons[number] = outcome.reason
                done += len(portion)
                if progress:
                    progress(done, total, _remaining(time.perf_counter() - began, done, total))
    except KeyboardInterrupt:
        stopped = "interrupted"
    except WorkersLost as error:
        stopped = str(error)
    if (
        not stopped
        and bad_input == total == len(places)
        and len({NUMBER.sub("#", r) for r in found.reasons.values()}) == 1
    ):
        alike = "the same" if len(set(found.reasons.values())) == 1 else "the like"
        raise InputError(f"expected a cell that can be run, received {alike} of all {total}: {found.reasons[0]}")
    path = folder / f"{sweep.name}.nc"
    dataset = assemble(sweep, found.values, found.reasons)
    write(dataset, path)
    missing = sum(values is None for values in found.values) - len(found.reasons)
    return SweepResult(
        path=path,
        dataset=dataset,
        taken_over=taken_over,
        computed=done,
        failures=dict(sorted(found.reasons.items())),
        failed=failed,
        missing=missing,
        seconds=time.perf_counter() - started,
        stopped=stopped,
    )


class WorkersLost(Exception):
    """Workers died, so that nothing goes on; one sentence."""


def _remaining(seconds: float, done: int, total: int) -> str:
    left = seconds / done * (total - done)
    for unit, size in (("h", 3600), ("min", 60)):
        if left >= 2 * size:
            return f"about {left / size:.0f} {unit} left"
    return f"about {left:.0f} s left"


def _outcomes(
    sweep: Sweep, out: Path, code: str, waiting: deque[Cell], jobs: int | None, scheduler: str | None
) -> Generator[list[Outcome], None, None]:
    """Portions of outcomes in the order in which they are finished."""
    if not waiting:
        return
    arguments = (
        sweep.kind,
        sweep.observables,
        str(sweep.folder.resolve()),
        str(out.resolve()),
        list(map(str, loaded_files())),
        code,
    )
    with _backend(jobs, scheduler) as (workers, options):
        work = _Work(waiting, workers)
        parallel = joblib.Parallel(**options, batch_size=1, return_as="generator_unordered")
        portions = parallel(joblib.delayed(run_cells)(*arguments, cells) for cells in work)
        try:
            for portion in portions:
                work.learn(portion)
                yield portion
        except BrokenProcessPool as error:
            raise WorkersLost(
                "a worker process died, of too little memory perhaps; finished cells are kept: run the command again "
                "to go on, with fewer --jobs"
            ) from error
        except Exception as error:  # raised again but for those that are known by name only
            if type(error).__name__ not in LOST:
                raise
            raise WorkersLost(
                f"{LOST[type(error).__name__]}; finished cells are kept: run the command again to go on"
            ) from error
        finally:
            portions.close()


@contextlib.contextmanager
def _backend(jobs: int | None, scheduler: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number of workers, and the arguments of `joblib.Parallel` for them."""
    if scheduler is None:
        workers = cores() if jobs is None else jobs
        yield workers, {"n_jobs": workers}
        return
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise InputError(
            f"expected dask for --scheduler {scheduler}, received none; install it with pip install 'snapdyn[cluster]'"
        ) from error
    try:
        # A client that is given no address fails again, and aloud, when it is cleared away.
        get_address_host_port(scheduler)
        client = Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"expected a dask scheduler at {scheduler!r}, received no answer ({error}); start one with "
            "`dask scheduler` and give the address that it prints"
        ) from error
    # A lost scheduler is told in one sentence (LOST), not in distributed's traceback.
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
            yield workers, {}


def run_in_process(sweep: Sweep) -> xarray.Dataset:
    """Run all cells of a sweep in this process, without a folder of finished cells.

    Parameters
    ----------
    sweep : Sweep
        Of systems, of SGD or of the ladder: transformers need a folder.

    Returns
    -------
    xarray.Dataset
        As `run_sweep` writes it. A cell whose settings contradict each other is NaN, with its reason in `failure`.

    Raises
    ------
    RuntimeError
        A cell failed for another reason.
    """
    code = code_hash()
    cells = [cell for cell, _ in sweep.cells(code)]
    outcomes = run_cells(sweep.kind, sweep.observables, str(sweep.folder), "", (), code, cells)
    for outcome in outcomes:
        if outcome.values is None and not outcome.bad_input:
            raise RuntimeError(f"cell {outcome.number} of the sweep {sweep.name}: {outcome.reason}")
    reasons = {outcome.number: outcome.reason for outcome in outcomes if outcome.values is None}
    return assemble(sweep, [outcome.values for outcome in outcomes], reasons)
