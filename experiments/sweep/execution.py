"""Running the cells of a sweep: on the cores of this machine or of a cluster, each finished cell kept at once."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import xarray

from snapdyn.dynamics.storage import output_folder
from snapdyn.dynamics.user_files import loaded_files
from snapdyn.errors import InputError, whole
from snapdyn.experiments.sweep.backends import LOST, Backend, WorkersLost, backend
from snapdyn.experiments.sweep.cells import Cell, Outcome, run_cells
from snapdyn.experiments.sweep.claims import Claims
from snapdyn.experiments.sweep.dataset import assemble, write
from snapdyn.experiments.sweep.files import Sweep
from snapdyn.experiments.sweep.observables import TRANSFORMER
from snapdyn.experiments.sweep.store import Cells, Values, code_hash

# A portion of cells takes a worker about this long: sending a portion costs a millisecond or more, and cells that are
# running when the sweep is stopped are lost.
SECONDS_AT_ONCE = 0.3
MOST_AT_ONCE = 1000
# Between two looks at the cells that other sweeps compute.
SECONDS_BETWEEN_LOOKS = 0.3
# Two reasons for failure that differ only in their numbers are of the same kind.
NUMBER = re.compile(r"-?\d[\d.]*(e[-+]?\d+)?")


@dataclass
class SweepResult:
    """Result of a sweep.

    Attributes
    ----------
    path : Path or None
        File of the dataset; None if the sweep was stopped before it had a cell.
    dataset : xarray.Dataset
    taken_over : int
        Cells (of different settings) that another run has finished, before this one or meanwhile.
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

    path: Path | None
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
    """Waiting cells in portions that take a worker about SECONDS_AT_ONCE each; a cell is claimed when it is sent.

    Cells that another run has claimed or has finished meanwhile go into `elsewhere`.
    """

    cells: deque[Cell]
    elsewhere: dict[str, Cell]
    claims: Claims
    store: Cells
    workers: int = 1
    seconds_per_cell: float | None = None

    def __iter__(self) -> Iterator[list[Cell]]:
        while self.cells:
            portion: list[Cell] = []
            size = self._portion()
            while self.cells and len(portion) < size:
                cell = self.cells.popleft()
                if not self.claims.take(cell.key):
                    self.elsewhere[cell.key] = cell
                elif self.store.is_new(cell.key):
                    self.claims.release(cell.key)
                    self.elsewhere[cell.key] = cell
                else:
                    portion.append(cell)
            if portion:
                yield portion

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
    """Values and reasons for failure by number of the cell; cells with the same settings share them.

    Outcomes stand in `received` until they are recorded: an interruption loses and counts none twice.
    """

    values: list[Values | None]
    numbers: dict[str, list[int]]
    received: deque[Outcome] = field(default_factory=deque)
    reasons: dict[int, str] = field(default_factory=dict)
    taken_over: set[str] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    bad_input: set[str] = field(default_factory=set)

    def take_over(self, key: str, values: Values) -> None:
        """Record a cell of another run."""
        for number in self.numbers[key]:
            self.values[number] = values
        self.taken_over.add(key)

    def record(self, key: str, outcome: Outcome) -> None:
        """Record a cell of this run."""
        for number in self.numbers[key]:
            self.values[number] = outcome.values
            if outcome.values is None:
                self.reasons[number] = outcome.reason
        if outcome.values is None:
            self.failed.add(key)
        if outcome.bad_input:
            self.bad_input.add(key)
        self.computed.add(key)


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
    folder = output_folder(out, f"{sweep.name}.nc")
    store = Cells(folder, sweep.variables, warn, with_runs=sweep.kind == TRANSFORMER)
    if sweep.kind == TRANSFORMER:
        output_folder(folder / "checkpoints")
    # Cells with the same settings are run once.
    numbers: dict[str, list[int]] = {}
    for cell, _ in cells:
        numbers.setdefault(cell.key, []).append(cell.number)
    results = _CellResults([None] * len(cells), numbers)
    waiting: deque[Cell] = deque()
    for key, (first, *_) in numbers.items():
        values = store.get(key)
        if values is None:
            waiting.append(cells[first][0])
        else:
            results.take_over(key, values)
    total, stopped = len(waiting), ""
    began = time.perf_counter()

    def show(label: str = "") -> None:
        done = total - (len(numbers) - len(results.computed) - len(results.taken_over))
        if progress:
            progress(done, total, label or _remaining(time.perf_counter() - began, done, total))

    def record_received(claims: Claims) -> None:
        while results.received:
            outcome = results.received[0]
            cell, parameters = cells[outcome.number]
            if outcome.values is not None:
                store.add(cell.key, parameters, outcome.values, outcome.run)
            results.record(cell.key, outcome)
            claims.release(cell.key)
            results.received.popleft()

    with Claims(store.folder) as claims:
        portions = _Portions(waiting, {}, claims, store)
        try:
            with backend(len(waiting), jobs, scheduler) as (portions.workers, run):
                while waiting:
                    for outcomes in _outcomes(run, portions, sweep, folder, code):
                        results.received.extend(outcomes)
                        record_received(claims)
                        show()
                    _wait_for_others(portions, results, show)
        except KeyboardInterrupt:
            stopped = "interrupted"
        except WorkersLost as error:
            stopped = str(error)
        record_received(claims)
    if (
        not stopped
        and len(results.bad_input) == len(numbers)
        and len({NUMBER.sub("#", r) for r in results.reasons.values()}) == 1
    ):
        kind = "error" if len(set(results.reasons.values())) == 1 else "kind of error"
        raise InputError(
            f"expected a cell that can be run, received the same {kind} from all {total} cells: {results.reasons[0]}"
        )
    try:
        path, dataset = _write_dataset(sweep, results, folder)
    except KeyboardInterrupt:
        stopped = "interrupted"
        path, dataset = _write_dataset(sweep, results, folder)
    missing = sum(values is None for values in results.values) - len(results.reasons)
    return SweepResult(
        path=path,
        dataset=dataset,
        taken_over=len(results.taken_over),
        computed=len(results.computed),
        failures=dict(sorted(results.reasons.items())),
        failed=len(results.failed),
        missing=missing,
        seconds=time.perf_counter() - started,
        stopped=stopped,
    )


def _write_dataset(sweep: Sweep, results: _CellResults, folder: Path) -> tuple[Path | None, xarray.Dataset]:
    dataset = assemble(sweep, results.values, results.reasons)
    if not results.computed and not results.taken_over:
        return None, dataset
    path = folder / f"{sweep.name}.nc"
    write(dataset, path)
    return path, dataset


def _wait_for_others(portions: _Portions, results: _CellResults, show: Callable[[str], None]) -> None:
    """Take over the cells that other runs finish, until none is left or some are free to be computed here."""
    elsewhere = portions.elsewhere
    while elsewhere:
        names = portions.store.names()
        for key in [key for key in elsewhere if f"{key}.json" in names]:
            cell, values = elsewhere.pop(key), portions.store.get(key)
            if values is None:
                portions.cells.append(cell)
            else:
                results.take_over(key, values)
        for key in portions.claims.free(elsewhere, names):
            portions.cells.append(elsewhere.pop(key))
        if portions.cells or not elsewhere:
            return
        show(f"waiting for {len(elsewhere)} that another sweep computes")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _remaining(seconds: float, done: int, total: int) -> str:
    left = seconds / done * (total - done)
    for unit, size in (("h", 3600), ("min", 60)):
        if left >= 2 * size:
            return f"about {left / size:.0f} {unit} left"
    return f"about {left:.0f} s left"


def _outcomes(
    run: Backend, portions: _Portions, sweep: Sweep, out: Path, code: str
) -> Generator[list[Outcome], None, None]:
    """Run the waiting cells; portions of outcomes in the order in which they are finished."""
    call = functools.partial(
        run_cells,
        sweep.kind,
        sweep.observables,
        str(sweep.folder.resolve()),
        str(out.resolve()),
        list(map(str, loaded_files())),
        code,
    )
    try:
        with contextlib.closing(run(call, iter(portions))) as finished:
            for outcomes in finished:
                portions.update_estimate(outcomes)
                yield outcomes
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
