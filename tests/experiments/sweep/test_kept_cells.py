"""Finished cells on disk: taken over, damaged, computed again with other code; checkpoints of those in training."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray

import snapdyn
from snapdyn.dynamics.json_store import record_body, record_text
from snapdyn.dynamics.storage import source_hash
from snapdyn.experiments.sweep import cells
from snapdyn.experiments.sweep.cells import SOURCES, Cell, checkpoint_file, code_hash, run_cells
from tests.experiments.sweep.helpers import GOOD, dataset, fake_training, kept, swept


def test_a_rerun_does_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that cells are taken over, that a wider grid runs the new ones only, and that observables count."""
    assert swept(GOOD, tmp_path) == 0
    first, before = dataset(tmp_path), kept(tmp_path)
    assert len(before) == 4
    assert swept(GOOD, tmp_path) == 0
    assert kept(tmp_path) == before
    xarray.testing.assert_identical(dataset(tmp_path), first)
    assert swept(GOOD.replace("[0.1, 0.5]", "[0.1, 0.2, 0.5]"), tmp_path) == 0
    assert {name: time for name, time in kept(tmp_path).items() if name in before} == before
    assert len(kept(tmp_path)) == 6
    assert "2 computed, 4 taken over" in capsys.readouterr().out
    assert swept(GOOD.replace('"entropy", ', ""), tmp_path) == 0
    assert len(kept(tmp_path)) == 10


def test_another_code_computes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that cells of another version of the code are not taken over, and workers of another one refused."""
    assert swept(GOOD, tmp_path) == 0
    for module in ("execution", "cells"):
        monkeypatch.setattr(f"snapdyn.experiments.sweep.{module}.code_hash", lambda: "another")
    assert swept(GOOD, tmp_path) == 0
    assert len(kept(tmp_path)) == 8
    with pytest.raises(snapdyn.InputError, match="workers with the code of this sweep"):
        run_cells("ode", ("loss",), ".", ".", (), "a third", [Cell(0, "", {})])


def cut(text: str) -> str:
    return text[: len(text) // 2]


def altered(text: str) -> str:
    at = text.index('"entropy": ') + len('"entropy": ') + 4
    return text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :]


@pytest.mark.parametrize("damage", [cut, altered])
def test_a_damaged_cell_is_named_and_redone(
    damage: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that a file cut short, or with another digit, is named on stderr and computed again."""
    assert swept(GOOD, tmp_path) == 0
    first, before = dataset(tmp_path), kept(tmp_path)
    file = tmp_path / "out" / "cells" / sorted(before)[1]
    whole = file.read_text()
    file.write_text(damage(whole))
    assert swept(GOOD, tmp_path) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert file.name in captured.err
    assert "is damaged and is computed again" in captured.err
    assert "1 computed, 3 taken over" in captured.out
    assert file.read_text() == whole
    xarray.testing.assert_identical(dataset(tmp_path), first)


def forged(text: str, values: str) -> str:
    """The cell with other values and the digest of them."""
    cell = record_body("cell", text)
    body = json.dumps(cell | {"values": "VALUES"}).replace('"VALUES"', values)
    return record_text("cell", body)


def assert_redone(file: Path, whole: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Assert that the next run computes this one cell again to the same text, with one note, and return the note."""
    capsys.readouterr()
    assert swept(GOOD, tmp_path) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "is damaged and is computed again" in captured.err
    assert "1 computed, 3 taken over" in captured.out
    assert file.read_text() == whole
    return captured.err


@pytest.mark.parametrize(
    "values",
    [
        "{}", "[]", "3", "null", '"entropy loss"', '{"entropy": 1.0}', '{"entropy": null, "loss": 1.0}',
        '{"entropy": [1.0], "loss": 1.0}', '{"entropy": "1.0", "loss": 1.0}', '{"entropy": {}, "loss": 1.0}',
        '{"entropy": ' + "9" * 400 + ', "loss": 1.0}', "[" * 200_000 + "]" * 200_000,
    ],
    ids=range(12),
)  # fmt: skip
def test_a_forged_cell_is_redone(values: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that values of another kind are named in one line and computed again, in spite of a valid digest."""
    assert swept(GOOD, tmp_path) == 0
    file = tmp_path / "out" / "cells" / sorted(kept(tmp_path))[1]
    whole = file.read_text()
    file.write_text(forged(whole, values))
    assert_redone(file, whole, tmp_path, capsys)


@pytest.mark.parametrize("kind", ["named pipe", "link to nothing", "empty folder", "folder"])
def test_what_is_no_file_is_redone(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert one note and a new cell, once: a pipe does not block, and what stood there is kept under another name."""
    assert swept(GOOD, tmp_path) == 0
    file = tmp_path / "out" / "cells" / sorted(kept(tmp_path))[1]
    whole = file.read_text()
    file.unlink()
    if kind == "named pipe":
        os.mkfifo(file)
    elif kind == "link to nothing":
        file.symlink_to("nowhere")
    else:
        file.mkdir()
    if kind == "folder":
        (file / "mine").touch()
    note = assert_redone(file, whole, tmp_path, capsys)
    aside = file.with_name(f"{file.name}.aside1")
    assert f"what stood there is now '{aside.name}'" in note
    assert os.path.lexists(aside)
    assert (aside / "mine").exists() == (kind == "folder")
    assert swept(GOOD, tmp_path) == 0
    assert capsys.readouterr().err == ""


TRAINED = """
[transformer]
paths = "a.txt"
iterations = 10
[sweep]
design = "grid"
observables = ["entropy", "loss"]
"transformer.learning_rate" = [1.0, 2.0]
"""


def test_a_killed_training_continues_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the next sweep trains from the checkpoint of the killed one to the same bytes, and removes it.

    The checkpoint of this stand-in for a training holds the number of iterations.
    """
    trained: list[tuple[int, int]] = []
    kill_at = 7

    def training(paths: list[Path], *, checkpoint: Path, iterations: int, **settings: Any) -> object:
        first = int(checkpoint.read_text()) if checkpoint.exists() else 0
        for iteration in range(first, iterations):
            trained.append((first, iteration))
            if iteration == kill_at:
                raise KeyboardInterrupt
            checkpoint.write_text(str(iteration + 1))
        return fake_training(paths, iterations=iterations, **settings)

    (tmp_path / "a.txt").write_text("some words")
    monkeypatch.setattr("snapdyn.experiments.training_sections.train_transformer", training)
    assert swept(TRAINED, tmp_path) == 130
    checkpoints = tmp_path / "out" / "checkpoints"
    (left,) = checkpoints.iterdir()
    monkeypatch.setattr(cells, "machine", lambda: "another")
    trained.clear()
    kill_at = -1
    assert swept(TRAINED, tmp_path) == 0
    # In a random order: 3 iterations of the killed cell, 10 of the other.
    assert sorted(trained) == [(0, i) for i in range(10)] + [(7, i) for i in range(7, 10)]
    assert list(checkpoints.iterdir()) == []
    left.write_text("10")  # by a process that still trained the cell, and was killed after that
    trained.clear()
    assert swept(TRAINED, tmp_path) == 0
    assert trained == []
    assert list(checkpoints.iterdir()) == []
    whole = {path.name: path.read_bytes() for path in (tmp_path / "out" / "cells").iterdir()}
    (tmp_path / "out").rename(tmp_path / "continued")
    assert swept(TRAINED, tmp_path) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "cells").iterdir()} == whole


def test_checkpoints_of_processes(tmp_path: Path) -> None:
    """Assert that a process takes over the newest checkpoint of its cell, that others stay, and that none is needed."""
    assert checkpoint_file(tmp_path, "cell") is None
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    own = checkpoint_file(tmp_path, "cell")
    assert own is not None
    assert list(folder.iterdir()) == []
    for age, name in enumerate(("cell.00000000-1", "cell.00000000-2", "other.00000000-1", ".cell.00000000-1.part")):
        (folder / name).write_text(name)
        os.utime(folder / name, (1000 - age, 1000 - age))
    assert checkpoint_file(tmp_path, "cell") == own
    assert own.read_text() == "cell.00000000-1"
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [".cell.00000000-1.part", own.name, "cell.00000000-2", "other.00000000-1"]
    )
    assert checkpoint_file(tmp_path, "cell") == own
    assert own.read_text() == "cell.00000000-1"


ROOMS = ("analytic", "dynamics", "validation", "experiments")


def edited_hash(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hash of the code of a cell if one byte were added to this file."""
    read = Path.read_bytes
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self == file))
        return str(source_hash.__wrapped__(*SOURCES))


@pytest.mark.parametrize("room", ROOMS)
def test_the_code_hash_covers_what_a_cell_can_run(room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a file of every folder below the figures, the first and the last in it, is part of the hash."""
    package = Path(snapdyn.__file__).parent
    before = code_hash()
    folders = [folder for folder in (package / room, *(package / room).rglob("*")) if any(folder.glob("*.py"))]
    assert folders
    for folder in folders:
        files = sorted(folder.glob("*.py"))
        for file in {files[0], files[-1]}:
            assert edited_hash(file, monkeypatch) != before, file


def test_the_code_hash_reads_every_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that no module of these rooms is left out, by the files that are read for the hash."""
    package = Path(snapdyn.__file__).parent
    seen: list[Path] = []
    read = Path.read_bytes

    def watched(self: Path) -> bytes:
        seen.append(self)
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", watched)
    source_hash.__wrapped__(*SOURCES)
    modules = {file for room in ROOMS for file in (package / room).rglob("*.py")} | {package / "errors.py"}
    assert len(modules) > 100
    assert modules <= set(seen)


def test_the_code_hash_ignores_what_is_only_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a style sheet, a figure, a command and the page's style do not change the hash."""
    package = Path(snapdyn.__file__).parent
    before = code_hash()
    for name in ("figures/snapdyn.mplstyle", "figures/figure_3.py", "commands/sweep.py", "report/templates/report.css"):
        assert (package / name).exists()
        assert edited_hash(package / name, monkeypatch) == before
