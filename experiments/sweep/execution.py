"""Running the cells of a sweep: on the cores of this machine or of a cluster, each finished cell kept at once.

Sweeps that run at once on one folder do not communicate. Each sweep visits the missing cells in a random order of its
own, and takes over the cells that another sweep has stored by then. If two sweeps compute the same cell, both write the
same file.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray

from snapdyn.core.errors import InputError, whole
from snapdyn.core.parallel import WorkerPool, cores, ended_calls, startable
from snapdyn.core.registry import plugin_versions
from snapdyn.dynamics import SYSTEMS
from snapdyn.dynamics.files.netcdf import write_netcdf
from snapdyn.dynamics.files.storage import (
    DAMAGED,
    hashed_name,
    output_folder,
    read_record,
    source_hash,
    write_record,
)
from snapdyn.dynamics.files.user_files import load_file, loaded_files
from snapdyn.dynamics.observables import OBSERVABLES, TRANSFORMER, Observable
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_run
from snapdyn.experiments.sweep.cells import FORMAT, Cell, Outcome, Sweep, dataset_of, load_plugins, outcome_of
from snapdyn.experiments.sweep.columns import Values, chosen, declared_values


def run_cell(
    kind: str,
    observables: Sequence[str],
    folder: Path,
    files: Sequence[str],
    code: str,
    cell: Cell,
) -> Outcome:
    """Run a cell in a worker. An error in a cell is its outcome.

    Parameters
    ----------
    kind : str
        What a cell runs.
    observables : sequence of str
    folder : Path
        Folder of the sweep file.
    files : sequence of str
        The user's Python files that the sweep has loaded; the worker loads them too.
    code : str
        `code_hash` of the sweep.
    cell : Cell

    Returns
    -------
    Outcome

    Raises
    ------
    InputError
        The worker runs another version of the code than the sweep.
    """
    for file in files:
        if Path(file) not in loaded_files():
            load_file(file)
    if code_hash() != code:
        raise InputError(
            "expected workers with the code of this sweep, received one with another version of snapdyn or of your "
            "files; install the same everywhere, and restart the workers"
        )
    load_plugins(cell.sections.get("system", {}).get("kind"), observables)
    return outcome_of(kind, observables, folder, cell)


# What a cell can run: all rooms below the figures, and the checks of input.
SOURCES = ("core", "analytic", "dynamics", "validation", "experiments")


def code_hash() -> str:
    """Hash of the code that computes a cell, of the user's loaded files, and of the versions of plugins."""
    return " ".join([source_hash(*SOURCES), *sorted(loaded_files().values()), *plugin_versions()])


def _has_loaded_code() -> bool:
    """Whether cells may run code of a user: of a loaded file, or of a plugin that the sweep names."""
    return bool(loaded_files()) or any(registry.keys() - registry.own for registry in (SYSTEMS, OBSERVABLES))


class Cells:
    """Finished cells in the folder OUT/cells, and trained transformers in OUT/runs.

    Sweeps that run at once may share the folder: a file appears whole or not at all, and files of the same name hold
    the same numbers.

    Parameters
    ----------
    out : str or os.PathLike
        Folder of the sweep's results.
    observables : sequence of Observable
        What a cell holds.
    warn : callable (sentence)
        Called for each damaged file.
    with_runs : bool
        Whether a cell is finished only with its trained transformer.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        observables: Sequence[Observable],
        warn: Callable[[str], None],
        with_runs: bool = False,
    ) -> None:
        self.folder = output_folder(Path(out) / "cells")
        self.runs = Path(out) / "runs"
        self._observables = observables
        self._warn = warn
        self._with_runs = with_runs
        self._damaged: set[str] = set()

    def get(self, key: str) -> Values | None:
        """Values of a finished cell whose code is the same, else None; a damaged file is reported once."""
        file = self.path(key)
        if key in self._damaged or not os.path.lexists(file):
            return None
        try:
            cell = read_record(file, "cell")
            if cell["key"] != key:
                raise ValueError("it holds another cell")
            values = declared_values(self._observables, cell["values"])
        except DAMAGED as error:
            self._damaged.add(key)
            self._warn(f"the cell {str(file)!r} is damaged and is computed again ({error})")
            return None
        if self._with_runs:
            try:
                load_transformer_run(self.run_file(key))
            except InputError as error:
                self._damaged.add(key)
                self._warn(f"the run of a finished cell is missing or damaged, and is trained again: {error}")
                return None
        return values

    def add(self, key: str, parameters: Mapping[str, Any], values: Values, run: TransformerRun | None) -> None:
        """Store a finished cell. The swept parameters in its file are for human readers only."""
        if run is not None:
            output_folder(self.runs)
            run.save(self.run_file(key))
        body = json.dumps({"key": key, "parameters": dict(parameters), "values": values})
        write_record(self.path(key), "cell", body)

    def path(self, key: str) -> Path:
        """File of a cell."""
        return self.folder / f"{key}.json"

    def run_file(self, key: str) -> Path:
        """File of the trained transformer of a cell."""
        return self.runs / f"{key}.nc"


CELL_FORMAT = 1
# Errors of lost workers, by the name of their class or of a base class: dask is an extra and cannot be imported here.
LOST = {
    "BrokenProcessPool": "a worker process died, perhaps because the memory was too small for so many --jobs",
    "KilledWorker": "workers of the cluster died several times on the same cells, perhaps because the memory was full",
    "CancelledError": "the dask scheduler no longer answers",
    "CommClosedError": "the dask scheduler no longer answers",
}


@dataclass
class SweepResult:
    """Result of a sweep.

    Attributes
    ----------
    path : Path or None
        File of the dataset; None if the sweep was stopped before it had a cell.
    dataset : xarray.Dataset
    taken_over : int
        Cells that another run has finished, before this one or meanwhile; cells with the same settings count once.
    computed : int
        Cells that this run has run, the failed ones included.
    failures : dict of int to str
        Reason by number of the cell, in the order of the design.
    failed : int
        Failed cells; cells with the same settings count once.
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


class WorkersLost(Exception):
    """The workers died, so that the sweep cannot go on; the message is one sentence."""


def run_sweep(
    sweep: Sweep,
    out: Path,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[float, float, str], None] | None = None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> SweepResult:
    """Run the cells that OUT/cells does not hold yet, in a random order, and write OUT/NAME.nc.

    Parameters
    ----------
    sweep : Sweep
    out : path
    jobs : int, optional
        Processes on this machine; default all cores.
    scheduler : str, optional
        Address of a dask scheduler whose workers run the cells instead.
    progress : callable (done, total, label), optional
        Called after each cell.
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
        all fail with bad input.
    """
    started = time.perf_counter()
    if jobs is not None:
        whole("--jobs", jobs, 1)
    if jobs is not None and scheduler is not None:
        raise InputError("expected --jobs or --scheduler, received both; the scheduler knows how many workers it has")
    code = code_hash()
    cells = list(sweep.cells())
    keys = [hashed_name((CELL_FORMAT, code, sweep.kind, sorted(sweep.observables), cell.identity)) for cell in cells]
    # Cells with the same settings have the same key and share one result: the first of them is run.
    different = dict(zip(reversed(keys), reversed(cells), strict=True))
    folder = output_folder(out, f"{sweep.name}.nc")
    store = Cells(folder, chosen(sweep.kind, sweep.observables), warn, with_runs=sweep.kind == TRANSFORMER)
    files = list(map(str, loaded_files()))
    loaded_code = _has_loaded_code()
    results: dict[str, Outcome] = {}
    taken_over: set[str] = set()

    def take_over(key: str) -> bool:
        """Whether another run has stored this cell, and no code of a user may have changed; then record its values."""
        values = None if loaded_code else store.get(key)
        if values is not None:
            results[key] = Outcome(different[key].number, values)
            taken_over.add(key)
        return values is not None

    if loaded_code and (stored := sum(store.path(key).exists() for key in different)):
        warn(
            f"{stored} of {len(different)} cells are there from an earlier run, and are computed again: they depend on "
            "code that was loaded, which may have changed"
        )
    waiting = [key for key in different if not take_over(key)]
    random.shuffle(waiting)
    total, stopped = len(waiting), ""
    call = functools.partial(run_cell, sweep.kind, sweep.observables, sweep.folder.resolve(), files, code)
    try:
        with _workers(total, jobs, scheduler) as (workers, executor):
            left = (different[key] for key in waiting if not take_over(key))
            for outcome in _finished(executor, call, left, workers):
                key = keys[outcome.number]
                results[key] = outcome
                if outcome.values is not None:
                    store.add(key, different[key].parameters, outcome.values, outcome.run)
                if progress:
                    progress(total - len(different) + len(results), total, "")
    except KeyboardInterrupt:
        stopped = "interrupted"
    except WorkersLost as error:
        stopped = str(error)
    failed = {key: outcome for key, outcome in results.items() if outcome.values is None}
    failures = {number: failed[key].reason for number, key in enumerate(keys) if key in failed}
    if not stopped and len(failed) == len(different) and all(outcome.bad_input for outcome in failed.values()):
        raise InputError(
            f"expected a cell that can be run, received an error from all {len(failed)} cells: {failures[0]}"
        )
    values = [results[key].values if key in results else None for key in keys]
    dataset = dataset_of(sweep, values, failures)
    path = folder / f"{sweep.name}.nc" if results else None
    if path is not None:
        write_netcdf(dataset, path, FORMAT)
    return SweepResult(
        path=path,
        dataset=dataset,
        taken_over=len(taken_over),
        computed=len(results) - len(taken_over),
        failures=failures,
        failed=len(failed),
        missing=values.count(None) - len(failures),
        seconds=time.perf_counter() - started,
        stopped=stopped,
    )


def _finished(
    executor: Executor | None, call: Callable[[Cell], Outcome], cells: Iterable[Cell], workers: int
) -> Iterator[Outcome]:
    """Run the waiting cells; yield each outcome when it is there."""
    if executor is None:
        yield from map(call, cells)
        return
    # One cell more for each worker, so that no worker waits for this process.
    for _, future in ended_calls(executor, ((cell, (call, cell)) for cell in cells), 2 * workers):
        yield future.result()


@contextlib.contextmanager
def _workers(cells: int, jobs: int | None, scheduler: str | None) -> Iterator[tuple[int, Executor | None]]:
    """Yield the number of workers for `cells` cells, and the executor for them, or None if this process runs the cells.

    Raises
    ------
    WorkersLost
        Workers died in the `with` block.
    """
    try:
        workers = min(cells, jobs or cores())
        if not cells or (scheduler is None and (jobs == 1 or cores() == 1 or startable(workers) < workers)):
            yield 1, None
        elif scheduler is not None:
            with _cluster(scheduler) as cluster:
                yield cluster
        else:
            pool = WorkerPool(workers, max(1, cores() // workers))
            try:
                yield workers, pool
            except BaseException:
                pool.shutdown(kill_workers=True)
                raise
            pool.shutdown()
    except Exception as error:
        lost = [LOST[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in LOST]
        if not lost:
            raise
        raise WorkersLost(f"{lost[0]}; finished cells are kept: run the command again to go on") from error


@contextlib.contextmanager
def _cluster(scheduler: str) -> Iterator[tuple[int, Executor]]:
    """Yield the number of workers of a dask scheduler, and the executor that runs calls on them."""
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
        if not client.ncores():
            try:
                client.wait_for_workers(1, timeout=10)
            except TimeoutError as error:
                raise InputError(
                    f"expected workers at the dask scheduler {scheduler!r}, received none within 10 s; start some with "
                    f"`dask worker {scheduler}`"
                ) from error
        yield sum(client.ncores().values()), client.get_executor(pure=False)
