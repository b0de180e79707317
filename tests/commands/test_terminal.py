"""What commands print: tables, lines of progress, and where their output goes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

from snapdyn.commands import terminal
from tests.experiments.sweep.helpers import GOOD
from tests.helpers import FABLE


@pytest.mark.parametrize(("total", "shown"), [(1.0, "cells 50% b"), (8.0, "cells 4/8 b")])
def test_a_log_gets_lines(
    total: float, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert a line with percent or counts where stderr is no terminal, and none before a minute is over."""
    with terminal.progress_bar("cells") as update:
        update(0.0, total, "a")
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.0)
        update(0.5 * total, total, "b")
    assert capsys.readouterr().err == f"snapdyn: {shown}\n"


def run(*arguments: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    """The command in a process of its own, whose standard output may be anything."""
    return subprocess.run([sys.executable, "-m", "snapdyn", *arguments], check=False, **options)  # type: ignore


def test_a_full_device_is_one_sentence() -> None:
    """Assert exit code 2 and one line where standard output takes nothing, whether a command or the help fills it."""
    if not Path("/dev/full").exists():
        pytest.skip("no device that is full on this system")
    for arguments in (["--help"], ["equations"]):
        with open("/dev/full", "wb") as full:
            ended = run(*arguments, stdout=full, stderr=subprocess.PIPE)
        assert ended.returncode == 2
        assert ended.stderr.startswith(b"snapdyn: expected standard output to be writable, received: No space left")
        assert ended.stderr.count(b"\n") == 1


def test_a_reader_that_has_ended_is_no_error(tmp_path: Path) -> None:
    """Assert exit code 0 and silence where nobody reads standard output, as after `| head -1`, and whole files."""
    for arguments in (["--help"], ["examples", str(tmp_path)]):
        reader, writer = os.pipe()
        os.close(reader)
        ended = run(*arguments, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (ended.returncode, ended.stderr) == (0, b"")
    assert (tmp_path / "theories").is_dir()


def test_plain_text_in_a_pipe() -> None:
    """Assert no escape codes and no progress bar; signs that standard output cannot encode are escaped."""
    surroundings = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    ended = run("text", str(FABLE), "--min-count", "1", capture_output=True, env=surroundings)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert rb"query \u2192 next word" in ended.stdout
    assert b"\x1b" not in ended.stdout


@pytest.mark.parametrize("threads", ["x", "0", "-3"])
def test_a_wrong_number_of_threads_is_one_sentence(threads: str) -> None:
    """Assert one sentence that names the variable, which numba does not."""
    ended = run("text", str(FABLE), capture_output=True, env=os.environ | {"NUMBA_NUM_THREADS": threads})
    assert ended.returncode == 2
    assert re.fullmatch(rb"snapdyn: expected the environment variable NUMBA_NUM_THREADS .*\n", ended.stderr)


def test_an_error_that_cannot_be_said_keeps_its_code() -> None:
    """Assert exit code 2 for a wrong command where standard error takes nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    assert run("valdate", stderr=writer).returncode == 2
    os.close(writer)


ODD_NAME = "a\u202ecba\nb\x1b[31m \u2066"


def test_names_of_files_are_shown_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that line ends and signs that reverse text are escaped where names of files are printed.

    In a table brackets are text, columns are aligned, and long cells keep their words.
    """
    terminal.show_table(["id", "source"], [["a", "[own]"], ["bcd", "word " * 60]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].index("source") == lines[1].index("[own]") == lines[2].index("word")
    assert "\n".join(lines).count("word") == 60
    terminal.show_saved(Path(ODD_NAME), tmp_path / "a.nc")
    terminal.say(f"received {ODD_NAME}")
    terminal.show(ODD_NAME)
    captured = capsys.readouterr()
    escaped = r"a\u202ecba\nb\x1b[31m \u2066"
    assert captured.out == f"saved      {escaped}, {tmp_path / 'a.nc'}\n" + escaped.replace(r"\n", "\n") + "\n"
    assert captured.err == f"snapdyn: received {escaped.replace(chr(92) + 'n', ' ')}\n"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_a_sweep_with_workers_runs_with_closed_streams(closed: tuple[int, ...], tmp_path: Path) -> None:
    """Assert that workers start, and that all cells are stored."""
    file = tmp_path / "grid.toml"
    file.write_text(GOOD, encoding="utf-8")
    command = [sys.executable, "-m", "snapdyn", "sweep", str(file), "--jobs", "2", "--out", str(tmp_path / "out")]
    streams = " ".join(f"{number}>&-" for number in closed)
    ended = subprocess.run(["bash", "-c", f'"$@" {streams}', "bash", *command], check=False, timeout=280)
    assert ended.returncode == 0
    with xarray.open_dataset(tmp_path / "out" / "grid.nc", engine="h5netcdf") as data:
        assert np.isfinite(data.entropy).all()


def test_a_table_with_a_width_breaks_its_last_column(capsys: pytest.CaptureFixture[str]) -> None:
    """Assert lines within the width, the other columns once, and every word also where long names leave no room."""
    words = "one two three four five six seven eight"
    for name in ("a", "x" * 60):
        terminal.show_table(("name", "words"), [(name, words)], width=40)
        lines = capsys.readouterr().out.splitlines()
        assert " ".join(lines).split().count(name) == 1
        assert set(words.split()) <= set(" ".join(lines).split())
        assert len(name) > 40 or max(map(len, lines)) <= 40
