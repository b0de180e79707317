"""Sweeps that are killed at random times, and cells that are damaged at random."""

import json
import multiprocessing
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from snapdyn.commands.main import main
from snapdyn.dynamics.files.storage import record_body, record_text
from tests.experiments.sweep.helpers import GOOD
from tests.experiments.sweep.processes import HANG, SlowSweep, wait_until
from tests.fuzz import sweep_process
from tests.fuzz.conftest import Attack
from tests.helpers import group_has_ended

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {
    signal.SIGKILL: {-9: "killed"},
    # A signal before the command has begun, or after its end, ends the process as it ends any other.
    signal.SIGTERM: {143: "terminated", -15: "ended outside the command"},
    signal.SIGINT: {130: "interrupted"},
}
# After so many kills, at most, the sweep runs to its end.
KILLS_IN_A_ROW = 6


def content(out: Path) -> dict[str, bytes]:
    """All files of a sweep; hidden ones are unfinished."""
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.mark.long
def test_killed_sweeps(attack: Attack, tmp_path: Path) -> None:
    """Assert that kills leave no process and no traceback, and that the next whole run gives the undisturbed files."""
    random = attack.draws(1)
    sweep = SlowSweep(tmp_path)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.sweep_process"])

    def started(out: str, jobs: int, seconds_per_cell: float) -> multiprocessing.context.ForkServerProcess:
        arguments = sweep.command(jobs, out)[3:]
        process = context.Process(target=sweep_process.run, args=(arguments, str(tmp_path), seconds_per_cell))
        process.start()
        return process

    def finished(out: str) -> dict[str, bytes]:
        process = started(out, 1, 0.0)
        process.join(HANG)
        assert process.exitcode == 0, (tmp_path / "stderr").read_text()
        assert (tmp_path / "stderr").read_text() == ""
        return content(tmp_path / out)

    whole = finished("alone")
    in_a_row = 0
    for trial in attack.trials(3, 60):
        sent = SIGNALS[random.integers(len(SIGNALS))]
        jobs, pause, to_group = 1 + (trial % 10 == 9), random.exponential(0.3), bool(random.integers(2))
        (tmp_path / "stderr").unlink()
        process = started("out", jobs, 0.02)
        assert process.pid is not None
        wait_until((tmp_path / "stderr").exists)
        # Workers take seconds to start.
        time.sleep(pause + 4.0 * (jobs > 1) * random.random())
        with suppress(ProcessLookupError):
            (os.killpg if to_group else os.kill)(process.pid, sent)
        process.join(HANG)
        err = (tmp_path / "stderr").read_text()
        how = (CODES[sent] | {0: "finished before the signal"}).get(process.exitcode)  # type: ignore[arg-type]
        attack.endings[how or f"exit code {process.exitcode}"] += 1
        assert how is not None, err
        assert group_has_ended(process.pid)
        assert "Traceback" not in err
        if sent != signal.SIGKILL:
            assert err.count("\n") <= 1, err
        in_a_row += 1
        if in_a_row == KILLS_IN_A_ROW or random.random() < 0.2:
            assert finished("out") == whole
            shutil.rmtree(tmp_path / "out")
            in_a_row = 0
    assert finished("out") == whole


FORGED = (
    "{}", "[]", "null", "1e400", '"text"', '{"entropy": null, "loss": 1}', '{"entropy": [1.0], "loss": {"SGD": 1}}',
    '{"entropy": "1.0", "loss": 1.0}', '{"entropy": ' + "9" * 5000 + "}", '{"entropy": ' + "9" * 400 + ', "loss": 1.0}',
    "[" * 200_000 + "]" * 200_000, '{"a":' * 100_000 + "1" + "}" * 100_000,
)  # fmt: skip


def damage(path: Path, random: np.random.Generator) -> str:
    """Damage a cell; in which way."""
    whole = path.read_bytes()
    ways = ("bits", "cut", "nested", "forged", "named pipe", "folder", "link", "another cell")
    way = ways[random.integers(len(ways))]
    if way == "bits":
        bits = bytearray(whole)
        for place in random.choice(len(bits), random.integers(1, 9), replace=False):
            bits[place] ^= 1 << random.integers(8)
        path.write_bytes(bits)
    elif way == "cut":
        path.write_bytes(whole[: random.integers(len(whole))])
    elif way == "nested":
        deep = random.integers(1_000, 200_000)
        text = "[" * deep + "]" * deep
        path.write_text(record_text("cell", text) if random.integers(2) else text)
    elif way == "forged":
        cell = record_body("cell", whole.decode())
        body = json.dumps(cell | {"values": "VALUES"}).replace('"VALUES"', FORGED[random.integers(len(FORGED))])
        path.write_text(record_text("cell", body))
    elif way == "another cell":
        body = json.dumps(record_body("cell", whole.decode()) | {"key": "0" * 32})
        path.write_text(record_text("cell", body))
    else:
        path.unlink()
        if way == "named pipe":
            os.mkfifo(path)
        elif way == "folder":
            path.mkdir()
            if random.integers(2):
                (path / "mine").touch()
        else:
            path.symlink_to(path if random.integers(2) else path.with_name("nowhere"))
    return way


@pytest.mark.timeout(20 * HANG)  # to open a named pipe waits for a writer
def test_damaged_cells(
    attack: Attack,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Assert that each damaged cell is named in one line and computed again, with the files of the undisturbed run."""
    random = attack.draws(2)
    (tmp_path / "grid.toml").write_text(GOOD)
    out = tmp_path / "out"
    arguments = ["sweep", str(tmp_path / "grid.toml"), "--out", str(out), "--jobs", "1"]
    assert main(arguments) == 0
    whole = content(out)
    cells = sorted((out / "cells").iterdir())
    for _ in attack.trials(20, 600):
        damaged = random.choice(len(cells), random.integers(1, len(cells)), replace=False)
        ways = [damage(cells[i], random) for i in damaged]
        capsys.readouterr()
        assert main(arguments) == 0, ways
        err = capsys.readouterr().err
        assert err.count("is damaged and is computed again") == err.count("\n") == len(damaged), (ways, err)
        for aside in (out / "cells").glob("*.aside*"):
            shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
        assert content(out) == whole, ways
        attack.endings.update(f"{way}: computed again" for way in ways)
