"""Finished claims on disk: exact, resumed after an interruption, redone when damaged."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.validation import CLAIMS, ClaimResult, Line, Map, Picture, load_claims, validate
from snapdyn.validation.store import decoded, encoded
from tests.validation.helpers import check, result_of

# Smallest and largest floats, one without a short decimal form, both zeros, and what is not finite.
AWKWARD = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1 / 3, 0.0, -0.0, math.inf, -math.inf, math.nan]

# Three claims; each appends its name to LOG, and the one named in STOP presses Ctrl-C.
FILE = """
import os
from pathlib import Path
import snapdyn as sd

def make(name):
    @sd.claim(name, source="own", title=name, statement="s")
    def run(evidence):
        with open(os.environ["LOG"], "a") as log:
            log.write(name + " ")
        if os.environ.get("STOP") == name:
            raise KeyboardInterrupt
        evidence.holds("statement", "closed form", 1 / 3, at_most=1.0)
        evidence.control("wrong theory", "closed form", 2.0, at_most=1.0)
        evidence.conclusion = "Done."

for name in ("first", "second", "third"):
    make(name)
"""
IDS = ["first", "second", "third"]


def full_result(**changes: Any) -> ClaimResult:
    """A result with something in every field, and awkward numbers wherever there are numbers."""
    line = Line("a", np.arange(len(AWKWARD)), np.array(AWKWARD), "bound")
    grid = np.reshape([*AWKWARD[:5], math.nan], (3, 2))
    return result_of(
        "conditional",
        [check("c", "mean field", value, value, ">=", "outside") for value in AWKWARD],
        {
            "conclusion": "τ",
            "picture": Picture("x", "y", (line, line), "linear", "symlog", (("t*", 1 / 3), ("t0", 2.0))),
            "map": Map("t", "x", "y", "q", [1.0, 2.0], [1.0, 3.0, 4.0], grid, 1 / 3, (line,)),
            "numbers": {"a": 1 / 3},
            "counterexample": {"P": [0.1]},
            "tried": 10**12,
            "level": "full",
        },
        **({"seconds": 1 / 3} | changes),
    )


def bits(value: Any) -> Any:
    """The same object with floats as their hexadecimal text, so that == compares every bit, and NaN equals itself."""
    if dataclasses.is_dataclass(value):
        return {field.name: bits(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, [float(x).hex() for x in value.ravel()]
    if isinstance(value, list | tuple):
        return tuple(bits(x) for x in value)
    return float(value).hex() if isinstance(value, float) else value


def test_a_stored_result_is_exact() -> None:
    """Assert that every field comes back with every bit: signs of zero, NaN, subnormal numbers, arrays, maps."""
    result = full_result()
    assert bits(decoded(json.loads(encoded(result)), result.claim)) == bits(result)


def load(file: Path, as_ours: bool = True) -> None:
    """Load the three claims of a file; with `as_ours`, they look like claims of the package."""
    load_claims(file)
    for id_ in IDS if as_ours else ():
        CLAIMS[id_] = dataclasses.replace(CLAIMS[id_], chapter="gradient", file="")


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with three claims that look like claims of the package; a cache folder and a log of this test."""
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    monkeypatch.setenv("SNAPDYN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    load(file)
    return file


def computed(file: Path) -> list[str]:
    """Claims computed since the last call."""
    log = file.with_name("log")
    names = log.read_text().split() if log.exists() else []
    log.write_text("")
    return names


def interrupt(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Run the three claims, with Ctrl-C in the last; return the files that were kept."""
    monkeypatch.setenv("STOP", "third")
    with pytest.raises(KeyboardInterrupt):
        validate(IDS, jobs=1)
    monkeypatch.delenv("STOP")
    assert computed(file) == IDS
    return sorted((file.parent / "cache" / "claims").iterdir())


def test_an_interrupted_run_resumes(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that finished claims are taken over, that it is said, and that a complete run leaves nothing."""
    fresh = validate(IDS, jobs=1)
    computed(loaded)
    assert fresh.notes == ()
    kept = interrupt(loaded, monkeypatch)
    assert len(kept) == 2
    resumed = validate(IDS, jobs=1)
    assert computed(loaded) == ["third"]
    assert resumed.notes == ("resumed: 2 of 3 claims from an interrupted run",)
    assert resumed.notes[0] in repr(resumed)
    assert resumed.claims == fresh.claims
    assert list(kept[0].parent.iterdir()) == []
    assert validate(IDS, jobs=1).notes == ()
    assert computed(loaded) == IDS


def test_another_level_or_seed_is_another_claim(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that neither another level nor another seed takes over a stored result."""
    interrupt(loaded, monkeypatch)
    for change in ({"level": "full"}, {"seed": 1}):
        assert validate(IDS, jobs=1, **change).notes == ()
        assert computed(loaded) == IDS


def test_claims_of_a_file_are_not_kept(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that claims of a user's file are checked again: a module that the file imports may have changed."""
    for id_ in IDS:
        del CLAIMS[id_]
    load(loaded, as_ours=False)
    assert interrupt(loaded, monkeypatch) == []
    assert validate(IDS, jobs=1).notes == ()
    assert computed(loaded) == IDS


def test_a_damaged_file_is_named_and_redone(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a damaged result, and that of another claim, is named with its file, and computed again."""
    kept = interrupt(loaded, monkeypatch)
    kept[0].write_bytes(kept[1].read_bytes())
    kept[1].write_bytes(kept[1].read_bytes()[:-20] + b"\xff")
    report = validate(IDS, jobs=1)
    assert computed(loaded) == IDS
    assert {note.split()[4] for note in report.notes} == {"first", "second"}
    assert all("damaged" in note and "mine" not in note and "claims" in note for note in report.notes)
    assert list(kept[0].parent.iterdir()) == []


def test_faulty_evidence_is_gathered_again(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a claim that raised an error is not kept: its trouble may have been the machine's."""
    loaded.write_text(
        FILE.replace('if os.environ.get("STOP")', 'if name == "first": 1 / 0\n        if os.environ.get("STOP")')
    )
    for id_ in IDS:
        del CLAIMS[id_]
    load(loaded)
    assert len(interrupt(loaded, monkeypatch)) == 1


def test_without_a_writable_folder_the_run_goes_on(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one note with what to do, and verdicts all the same."""
    monkeypatch.setenv("SNAPDYN_CACHE", str(loaded))  # a file
    report = validate(IDS, jobs=1)
    assert len(report.claims) == 3
    (note,) = report.notes
    assert "cannot be written to" in note
    assert "SNAPDYN_CACHE" in note
