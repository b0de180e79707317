"""Finished claims kept on disk, so that an interrupted run resumes.

Each finished claim of the package is one JSON file in the user's cache folder, named by the hash of what determines it:
claim, level, seed, code of the package, versions of its libraries. A run that completes removes its files. Claims of a
user's file, a plugin or a notebook are not kept: nothing tells whether their code has changed.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.dynamics.files.storage import (
    DAMAGED,
    hashed_name,
    library_versions,
    output_folder,
    read_record,
    source_hash,
    write_record,
)
from snapdyn.dynamics.kernels.compilation import cache_folder
from snapdyn.validation.measured import SEED, Evidence, Measured
from snapdyn.validation.pictures import Line, Map, Picture
from snapdyn.validation.register import Claim
from snapdyn.validation.results import ClaimResult

# What a claim's numbers come from; figures and the face only show them.
ROOMS = ("analytic", "core", "dynamics", "validation")
# Files of runs that nobody resumed (the code has changed since, say) are removed after this many days.
DAYS_KEPT = 30
MEMBER = "result"


class FinishedClaims:
    """Results of finished claims in the cache folder; `notes` collects messages for the user.

    Without a writable folder nothing is kept, and a note says so. Two runs at once may share the folder: files
    appear whole or not at all, and the same file holds the same numbers whoever wrote it.
    """

    def __init__(self, report_note: Callable[[str], None] | None = None, seed: int = SEED) -> None:
        self.notes: list[str] = []
        self._report_note = report_note
        self._seed = seed
        self._written: set[Path] = set()
        self._folder: Path | None = None
        try:
            self._folder = output_folder(cache_folder() / "claims")
        except InputError:
            self._leave_out(f"{str(cache_folder() / 'claims')!r} cannot be written to")
        except RuntimeError:
            self._leave_out("there is no home folder for them")

    def note(self, sentence: str) -> None:
        """Keep a sentence for `notes`, and report it at once to the caller that asked for that."""
        self.notes.append(sentence)
        if self._report_note:
            self._report_note(sentence)

    def resumed(self, entries: Iterable[Claim], level: str) -> dict[str, ClaimResult]:
        """Results, by id, of the claims that an interrupted run finished. A note names each damaged file."""
        found = {entry.id: self._read(entry, level) for entry in entries}
        results = {id_: result for id_, result in found.items() if result is not None}
        if results:
            self.note(f"resumed: {len(results)} of {len(found)} claims from an interrupted run")
        return results

    def _read(self, entry: Claim, level: str) -> ClaimResult | None:
        file = self._file(entry, level)
        if file is None:
            return None
        try:
            result = decoded(read_record(file, MEMBER), entry)
        except FileNotFoundError:
            return None
        except DAMAGED as error:
            self._written.add(file)
            self.note(f"the stored result of {entry.id} is damaged and is computed again ({str(file)!r}: {error})")
            return None
        self._written.add(file)
        return result

    def add(self, result: ClaimResult) -> None:
        """Keep a finished claim. Faulty evidence is not kept, so that it is gathered again."""
        file = self._file(result.claim, result.evidence.level)
        if file is None or result.fault:
            return
        self._written.add(file)
        try:
            write_record(file, MEMBER, encoded(result))
        except (InputError, OSError) as error:
            self._leave_out(str(error))

    def clear(self) -> None:
        """Remove the files of this run, which is complete, and those too old to be resumed."""
        if self._folder is None:
            return
        old = time.time() - DAYS_KEPT * 86400
        with suppress(OSError):
            self._written |= {file for file in self._folder.glob("*.json") if file.stat().st_mtime < old}
        for file in self._written:
            with suppress(OSError):
                file.unlink()

    def _file(self, entry: Claim, level: str) -> Path | None:
        of_package = entry.chapter and not entry.file
        if self._folder is None or not of_package:
            return None
        facts = (entry.id, level, self._seed, source_hash(*ROOMS), sorted(library_versions().items()))
        return self._folder / f"{hashed_name(facts)}.json"

    def _leave_out(self, why: str) -> None:
        self._folder = None
        self.note(
            f"an interruption of this run would lose its finished claims: {why}; set SNAPDYN_CACHE to another folder"
        )


@contextmanager
def finished_claims(report_note: Callable[[str], None] | None = None, seed: int = SEED) -> Iterator[FinishedClaims]:
    """Open the finished claims of interrupted runs; what this run adds is removed when the block completes."""
    finished = FinishedClaims(report_note, seed)
    yield finished
    finished.clear()


def encoded(result: ClaimResult) -> str:
    """JSON text of a result with everything that was measured; floats are exact."""
    evidence = dataclasses.asdict(result.evidence)
    facts = {"id": result.id, "verdict": result.verdict, "fault": result.fault, "seconds": result.seconds}
    return json.dumps(facts | {"evidence": evidence}, default=_plain)


def decoded(facts: dict[str, Any], entry: Claim) -> ClaimResult:
    """Result of a claim from the JSON value that `encoded` wrote; ValueError, KeyError or TypeError for another one."""
    if facts["id"] != entry.id:
        raise ValueError(f"it holds claim {facts['id']!r}")
    found = facts["evidence"]
    found["checks"] = [Measured(**check) for check in found["checks"]]
    if found["map"] is not None:
        found["map"] = Map(**found["map"] | {"boundaries": _lines(found["map"]["boundaries"])})
    if found["picture"] is not None:
        verticals = tuple((label, x) for label, x in found["picture"]["verticals"])
        lines = _lines(found["picture"]["lines"])
        found["picture"] = Picture(**found["picture"] | {"lines": lines, "verticals": verticals})
    return ClaimResult(entry, Evidence(**found), facts["verdict"], facts["fault"], facts["seconds"])


def _lines(lines: list[dict[str, Any]]) -> tuple[Line, ...]:
    return tuple(Line(**line) for line in lines)


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as Python's numbers and lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"expected numbers, text and arrays in a claim's result, received {type(value).__name__}")
