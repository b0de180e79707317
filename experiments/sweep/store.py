"""Finished cells of a sweep on disk: one small file per cell, named by a hash of everything that determines it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from snapdyn.dynamics.json_store import DAMAGED, hashed_name, record_body, write_record
from snapdyn.dynamics.storage import output_folder, source_hash
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_run
from snapdyn.dynamics.user_files import loaded_files
from snapdyn.errors import InputError
from snapdyn.experiments.sweep.observables import Values

FORMAT = 1
# What a cell can run: all rooms below the figures, and the checks of input.
SOURCES = ("analytic", "dynamics", "validation", "experiments", "errors")


def code_hash() -> str:
    """Hash of the code that the numbers of a cell come from, with the files of the user's that were loaded."""
    return " ".join([source_hash(*SOURCES), *sorted(loaded_files().values())])


def cell_key(code: str, kind: str, observables: tuple[str, ...], sections: Mapping[str, str]) -> str:
    """Name of a cell: the hash of code, kind, observables and settings (canonical JSON by section)."""
    facts = (FORMAT, code, kind, sorted(observables), sorted(sections.items()))
    return hashed_name(facts)


class Cells:
    """Finished cells in the folder OUT/cells, and trained transformers in OUT/runs.

    Two sweeps at once may share the folder: a file appears whole or not at all, and files of the same name hold the
    same numbers.

    Parameters
    ----------
    out : str or os.PathLike
        Folder of the sweep's results.
    warn : callable (sentence)
        Called for each damaged file.
    """

    def __init__(self, out: str | os.PathLike[str], warn: Callable[[str], None]) -> None:
        self.folder = output_folder(Path(out) / "cells")
        self.runs = Path(out) / "runs"
        self._warn = warn
        # The folder is listed once, which is faster than looking for thousands of files that may not exist.
        self._names = {entry.name for entry in os.scandir(self.folder)}

    def get(self, key: str, with_run: bool) -> Values | None:
        """Values of a finished cell, or None if it is not finished; a damaged file counts as not finished."""
        if f"{key}.json" not in self._names:
            return None
        file = self.folder / f"{key}.json"
        try:
            values = _decoded(file.read_text(encoding="utf-8"), key)
        except DAMAGED as error:
            self._warn(f"the cell {str(file)!r} is damaged and is computed again ({error})")
            return None
        if with_run:
            try:
                load_transformer_run(self.run_file(key))
            except InputError as error:
                self._warn(f"the run of a finished cell is missing or damaged, and is trained again: {error}")
                return None
        return values

    def add(self, key: str, parameters: Mapping[str, Any], values: Values, run: TransformerRun | None) -> None:
        """Store a finished cell. The swept parameters in its file are for human readers only."""
        if run is not None:
            output_folder(self.runs)
            run.save(self.run_file(key))
            (self.folder.parent / "checkpoints" / key).unlink(missing_ok=True)
        body = json.dumps({"key": key, "parameters": dict(parameters), "values": values})
        write_record(self.folder / f"{key}.json", "cell", body)

    def run_file(self, key: str) -> Path:
        """File of the trained transformer of a cell."""
        return self.runs / f"{key}.nc"


def _decoded(text: str, key: str) -> Values:
    cell = record_body("cell", text)
    if cell["key"] != key:
        raise ValueError("it holds another cell")
    return dict(cell["values"])
