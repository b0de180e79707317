"""Finished cells of a sweep on disk: one small file per cell, named by a hash of everything that determines it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from snapdyn.dynamics.observables import Observable
from snapdyn.dynamics.parallel import machine
from snapdyn.dynamics.registry import plugin_versions
from snapdyn.dynamics.storage import DAMAGED, hashed_name, output_folder, read_record, source_hash, write_record
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_run
from snapdyn.dynamics.user_files import loaded_files
from snapdyn.errors import InputError
from snapdyn.validation.design import Values, declared_values

FORMAT = 1
# What a cell can run: all rooms below the figures, and the checks of input.
SOURCES = ("analytic", "dynamics", "validation", "experiments", "errors")


def code_hash() -> str:
    """Hash of the code that the numbers of a cell come from, with loaded files of a user's and versions of plugins."""
    return " ".join([source_hash(*SOURCES), *sorted(loaded_files().values()), *plugin_versions()])


def cell_key(code: str, kind: str, observables: tuple[str, ...], sections: Mapping[str, str]) -> str:
    """Name of a cell: the hash of code, kind, observables and settings (canonical JSON by section)."""
    facts = (FORMAT, code, kind, sorted(observables), sorted(sections.items()))
    return hashed_name(facts)


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
        self._checkpoints = Path(out) / "checkpoints"
        self._observables = observables
        self._warn = warn
        self._with_runs = with_runs
        self._damaged: set[str] = set()
        if with_runs:
            output_folder(self._checkpoints)

    def get(self, key: str) -> Values | None:
        """Values of a finished cell, else None; a damaged file is named once and counts as not finished."""
        file = self.folder / f"{key}.json"
        if key in self._damaged or not os.path.lexists(file):
            return None
        try:
            cell = read_record(file, "cell")
            if cell["key"] != key:
                raise ValueError("it holds another cell")
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

    def add(self, key: str, parameters: Mapping[str, Any], values: Values, run: TransformerRun | None) -> None:
        """Store a finished cell. The swept parameters in its file are for human readers only."""
        if run is not None:
            output_folder(self.runs)
            run.save(self.run_file(key))
        body = json.dumps({"key": key, "parameters": dict(parameters), "values": values})
        write_record(self.folder / f"{key}.json", "cell", body)
        if run is not None:
            self.remove_checkpoints({key})

    def remove_checkpoints(self, keys: Container[str]) -> None:
        """Remove the checkpoints of finished cells; a process that still trains one of them writes its own anew."""
        for file in self._checkpoints.glob("*"):
            if file.name.partition(".")[0] in keys:
                file.unlink(missing_ok=True)

    def run_file(self, key: str) -> Path:
        """File of the trained transformer of a cell."""
        return self.runs / f"{key}.nc"


def checkpoint_file(out: Path, key: str) -> Path | None:
    """File for the checkpoints of a cell that this process trains; None where it does not see the folder of the sweep.

    The newest checkpoint of another process is renamed to this file, so that the training goes on from there. If the
    other process still runs, its next checkpoint appears under its own name again.
    """
    folder = out / "checkpoints"
    if not folder.is_dir():
        return None
    own = folder / f"{key}.{machine()}-{os.getpid()}"
    with suppress(FileNotFoundError):  # none, or renamed by another process at this moment
        max(folder.glob(f"{key}.*"), key=lambda file: file.stat().st_mtime, default=own).replace(own)
    return own


def _set_aside(path: Path) -> str:
    """Rename what stands in the place of a file and is none, such as a folder; the end of a sentence that says so."""
    if path.is_file() or not os.path.lexists(path):
        return ""
    names = (path.with_name(f"{path.name}.aside{i}") for i in itertools.count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    path.rename(aside)
    return f"; what stood there is now {aside.name!r}"
