"""Cells of a sweep: run what their sections say, measure the observables, keep what is finished on disk."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.core.registry import plugin_versions
from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.dynamics.files.dependencies import agrees, are_current, dependencies, watching
from snapdyn.dynamics.files.storage import DAMAGED, output_folder, read_record, source_hash, write_record
from snapdyn.dynamics.files.user_files import load_file, loaded_files
from snapdyn.dynamics.observables import LADDER, ODE, TRANSFORMER, Observable
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_run
from snapdyn.experiments import run_sections
from snapdyn.experiments.run_sections import RunFailed, finished, run_for
from snapdyn.experiments.sweep.columns import Values, chosen, declared_values
from snapdyn.experiments.sweep.files import Cell, load_plugins, models

RECORDED_STEPS = 200  # of SGD, log-spaced, if the file has no record


@dataclass(frozen=True)
class Outcome:
    """A cell's values, or the reason why it has none; and what they depend on (`dependencies`), None if unknown."""

    key: str
    seconds: float
    values: Values | None = None
    reason: str = ""
    bad_input: bool = False  # whether the reason is bad input
    run: TransformerRun | None = None
    depends_on: dict[str, str] | None = field(default_factory=dict)


def run_cells(
    kind: str,
    observables: Sequence[str],
    folder: str,
    files: Sequence[str],
    code: str,
    known: Mapping[str, str] | None,
    cells: Sequence[Cell],
) -> list[Outcome]:
    """Run some cells, one after the other, in a worker. A failing cell does not stop the others.

    Parameters
    ----------
    kind : str
        What a cell runs.
    observables : sequence of str
    folder : str
        Folder of the sweep file.
    files : sequence of str
        The user's Python files that the sweep has loaded; the worker loads them too.
    code : str
        `code_hash` of the sweep.
    known : dict of str to str, or None
        `dependencies` of the sweep.
    cells : sequence of Cell

    Returns
    -------
    list of Outcome

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
            "expected workers with the code of this sweep, received one with another version of snapdyn; install the "
            "same version everywhere"
        )
    if not agrees(known or {}):
        raise InputError(
            "expected workers with the code of this sweep, received one that has imported your modules before they "
            "changed; restart the workers"
        )
    if not files:
        return _outcomes(kind, observables, folder, cells)
    with watching():
        outcomes = _outcomes(kind, observables, folder, cells)
    depends_on = dependencies()
    return [replace(outcome, depends_on=depends_on) for outcome in outcomes]


def _outcomes(kind: str, observables: Sequence[str], folder: str, cells: Sequence[Cell]) -> list[Outcome]:
    for kind_of_system in {json.loads(cell.sections.get("system", "{}")).get("kind") for cell in cells}:
        load_plugins(kind_of_system, observables)
    wanted, outcomes = chosen(kind, observables), []
    for cell in cells:
        started = time.perf_counter()
        try:
            values, run = measured(kind, cell.sections, wanted, folder)
            outcome = Outcome(cell.key, time.perf_counter() - started, values, run=run)
        except Exception as error:  # an error in one cell is the result of that cell
            reason = str(error) if isinstance(error, (InputError, RunFailed)) else f"{type(error).__name__}: {error}"
            seconds, bad_input = time.perf_counter() - started, isinstance(error, InputError)
            outcome = Outcome(cell.key, seconds, reason=" ".join(reason.split()), bad_input=bad_input)
        outcomes.append(outcome)
    return outcomes


def measured(
    kind: str, sections: dict[str, str], observables: Sequence[Observable], folder: str
) -> tuple[Values, TransformerRun | None]:
    """Run a cell, the sections of a `Cell`; return its values, and the run if it is a transformer's.

    Raises
    ------
    InputError
        The cell cannot be built, or an observable has another value than it declares.
    RunFailed
        The run did not reach its end.
    """
    found = _run(kind, sections, observables, folder)
    plain = {each.name: _plain(each.values(found)) for each in observables}
    try:
        values = declared_values(observables, plain)
    except ValueError as error:
        raise InputError(f"{error}; correct the observable") from error
    return values, found if kind == TRANSFORMER else None


@lru_cache(maxsize=64)
def _section(kind: str, name: str, text: str) -> Any:
    """The section of a cell, whose values `Sweep.cells` has checked."""
    values, model = json.loads(text), models(kind)[name]
    return (model[values["kind"]] if isinstance(model, Mapping) else model).model_construct(**values)


@lru_cache(maxsize=8)
def _classes(kind: str, text: str, folder: str) -> SequenceClasses:
    classes: SequenceClasses = _section(kind, "classes", text).build(Path(folder))
    return classes


def _run(kind: str, sections: dict[str, str], observables: Sequence[Observable], folder: str) -> Any:
    """Run a cell; the result is what its observables measure."""
    if kind == TRANSFORMER:
        return _section(kind, "transformer", sections["transformer"]).train(Path(folder))
    classes = _classes(kind, sections["classes"], folder) if "classes" in sections else None
    if kind == ODE:
        system, run = (_section(kind, name, sections[name]) for name in ("system", "run"))
        return run_for(observables, system, run, classes)
    assert classes is not None  # the file has them, or is refused
    if kind == LADDER:
        return _section(kind, "ladder", sections["ladder"]).compute(classes)
    sgd_section: run_sections.SGDSection = _section(kind, "sgd", sections["sgd"])
    settings, record = sgd_section.settings(), sgd_section.record
    transition = any(each.needs_transition for each in observables)
    if transition and settings["residual"]:
        raise InputError(
            "expected no residual with the observable transition_time of SGD, received residual = true; leave one out"
        )
    if record is None:
        record = np.union1d([0], np.geomspace(1, sgd_section.steps, RECORDED_STEPS).round().astype(int)).tolist()
    (seed,) = sgd_section.seed_list()
    settings |= {"seed": seed, "record": record, "save_decoder": transition}
    return finished(sgd(classes, sgd_section.eta_Y, sgd_section.eta_Z, sgd_section.steps, **settings))


def _plain(value: Any) -> Any:
    """Return a number or array of numpy as numbers of Python, for JSON."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


# What a cell can run: all rooms below the figures, and the checks of input.
SOURCES = ("core", "analytic", "dynamics", "validation", "experiments")


def code_hash() -> str:
    """Hash of the code that computes a cell, of the user's loaded files, and of the versions of plugins."""
    return " ".join([source_hash(*SOURCES), *sorted(loaded_files().values()), *plugin_versions()])


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
        file = self.folder / f"{key}.json"
        if key in self._damaged or not os.path.lexists(file):
            return None
        try:
            cell = read_record(file, "cell")
            if cell["key"] != key:
                raise ValueError("it holds another cell")
            if not are_current(cell["depends_on"]):
                return None
            values = declared_values(self._observables, cell["values"])
        except DAMAGED as error:
            self._damaged.add(key)
            self._warn(f"the cell {str(file)!r} is damaged and is computed again ({error}){_set_aside(file)}")
            return None
        if self._with_runs:
            try:
                load_transformer_run(self.run_file(key))
            except InputError as error:
                self._damaged.add(key)
                self._warn(f"the run of a finished cell is missing or damaged, and is trained again: {error}")
                return None
        return values

    def add(
        self,
        key: str,
        parameters: Mapping[str, Any],
        values: Values,
        run: TransformerRun | None,
        depends_on: Mapping[str, str],
    ) -> None:
        """Store a finished cell and what it depends on. The swept parameters in its file are for human readers only."""
        if run is not None:
            output_folder(self.runs)
            run.save(self.run_file(key))
        body = json.dumps({"key": key, "parameters": dict(parameters), "values": values, "depends_on": depends_on})
        write_record(self.folder / f"{key}.json", "cell", body)

    def run_file(self, key: str) -> Path:
        """File of the trained transformer of a cell."""
        return self.runs / f"{key}.nc"


def _set_aside(path: Path) -> str:
    """Rename what is in the place of a file but is not a file, such as a folder; return the end of a sentence on it."""
    if path.is_file() or not os.path.lexists(path):
        return ""
    names = (path.with_name(f"{path.name}.aside{i}") for i in itertools.count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    path.rename(aside)
    return f"; what stood there is now {aside.name!r}"
