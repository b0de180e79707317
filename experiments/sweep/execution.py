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

# A portion of cells takes a worker about this long: sending a portion costs a millisecond or more, and cells that are
# running when the sweep is stopped are lost.
SECONDS_AT_ONCE = 0.3
MOST_AT_ONCE = 1000
# Two reasons for failure that differ only in their numbers are of the same kind.
NUMBER = re.compile(r"-?\d[\d.]*(e[-+]?\d+)?")

# Errors of a cluster by name, since dask is an extra and cannot be imported here.
LOST = {
    "KilledWorker": "workers of the cluster died several times on the same cells, perhaps because the memory was full",
    "FutureCancelledError": "the dask scheduler no longer answers",
    "CancelledError": "the dask scheduler no longer answers",
    "CommClosedError": "the dask scheduler no longer answers",
}


@dataclass
class SweepResult:
    """Result of a sweep.

    Attributes
    ----------
    path : Path
        File of the dataset.
    dataset : xarray.Dataset
    taken_over : int
        Cells (of different settings) that an earlier run had finished.
    computed : int
        Cells that this run has run, the failed ones included.
    failures : dict of int to str
        Reason by number of the cell, in the order of the design.
    failed : int
        Failed cells of different settings.
    missing : int
        Cells that have not run.
    seconds : float
        Duration of this run.
    stopped : str
        "" for a complete sweep, "interrupted", or why the workers were lost.
    """

    path: Path
    dataset: xarray.Dataset
    taken_over: int
    computed: int
    failures: dict[int, str]
    failed: int
    missing: int
    seconds: float
    stopped: str = ""


@dataclass
class _Portions:
    """Waiting cells in portions that take a worker about SECONDS_AT_ONCE each."""

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

    def update_estimate(self, outcomes: Sequence[Outcome]) -> None:
        """Expect the next cells to take as long as the latest ones."""
        self.seconds_per_cell = sum(outcome.seconds for outcome in outcomes) / len(outcomes)


@dataclass
class _CellResults:
    """Values and reasons for failure by number of the cell; cells with the same settings share them."""

    values: list[Values | None]
    reasons: dict[int, str] = field(default_factory=dict)


def run_sweep(
    sweep: Sweep,
    out: Path,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[float, float, str], None] | None = None,
    warn: Callable[[str], None] = lambda sentence: None,
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
    warn : callable (sentence), optional
        Called for each damaged cell.

    Returns
    -------
    SweepResult
        After Ctrl-C, or when the workers are lost, it holds the finished cells; the other cells are NaN.

    Raises
    ------
    InputError
        Values of the wrong type, a folder that cannot be written to, a scheduler that does not answer, or cells that
        all fail with the same kind of bad input.
    """
    started = time.perf_counter()
    if jobs is not None:
        whole("--jobs", jobs, 1)
    if jobs is not None and scheduler is not None:
        raise InputError("expected --jobs or --scheduler, received both; the scheduler knows how many workers it has")
    code = code_hash()
    cells = list(sweep.cells(code))
    folder = output_folder(out)
    store = Cells(folder, warn)
    if sweep.kind == TRANSFORMER:
        output_folder(folder / "checkpoints")
    # Cells with the same settings are run once.
    places: dict[str, list[int]] = {}
    for cell, _ in cells:
        places.setdefault(cell.key, []).append(cell.number)
    results = _CellResults([None] * len(cells))
    waiting: deque[Cell] = deque()
    for key, numbers in places.items():
        values = store.get(key, with_run=sweep.kind == TRANSFORMER)
        if values is None:
            waiting.append(cells[numbers[0]][0])
        for number in numbers:
            results.values[number] = values
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
                        store.add(cell.key, parameters, outcome.values, outcome.run)
                    for number in places[cell.key]:
                        results.values[number] = outcome.values
                        if outcome.values is None:
                            results.reasons[number] = outcome.reason
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
        and len({NUMBER.sub("#", r) for r in results.reasons.values()}) == 1
    ):
        kind = "error" if len(set(results.reasons.values())) == 1 else "kind of error"
        raise InputError(
            f"expected a cell that can be run, received the same {kind} from all {total} cells: {results.reasons[0]}"
        )
    path = folder / f"{sweep.name}.nc"
    dataset = assemble(sweep, results.values, results.reasons)
    write(dataset, path)
    missing = sum(values is None for values in results.values) - len(results.reasons)
    return SweepResult(
        path=path,
        dataset=dataset,
        taken_over=taken_over,
        computed=done,
        failures=dict(sorted(results.reasons.items())),
        failed=failed,
        missing=missing,
        seconds=time.perf_counter() - started,
        stopped=stopped,
    )


class WorkersLost(Exception):
    """The workers died, so that the sweep cannot go on; the message is one sentence."""


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
        waiting_portions = _Portions(waiting, workers)
        parallel = joblib.Parallel(**options, batch_size=1, return_as="generator_unordered")
        portions = parallel(joblib.delayed(run_cells)(*arguments, cells) for cells in waiting_portions)
        try:
            for portion in portions:
                waiting_portions.update_estimate(portion)
                yield portion
        except BrokenProcessPool as error:
            raise WorkersLost(
                "a worker process died, perhaps because the memory was full; finished cells are kept: run the command "
                "again to go on, with fewer --jobs"
            ) from error
        except Exception as error:  # errors of dask are recognised by name; all others are raised again
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
