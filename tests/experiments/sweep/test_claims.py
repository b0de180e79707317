"""Claims of sweeps on cells: exclusive, released, and expired with their run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from snapdyn.dynamics.processes import machine
from snapdyn.experiments.sweep import claims
from snapdyn.experiments.sweep.claims import Claims

KEYS = [f"{number:032x}" for number in range(200)]
OTHER = "00000000" if machine() != "00000000" else "11111111"


def claimed_by(run: str, key: str, folder: Path) -> None:
    """A claim of a run that this process knows nothing of."""
    (folder / run).touch()
    (folder / f".{key}.claim").symlink_to(run)


def test_a_cell_has_one_claim(tmp_path: Path) -> None:
    """Assert that of threads that claim the same cells each cell has one owner, and that nothing is left."""
    taken: list[str] = []
    start = threading.Barrier(4)

    def work() -> None:
        with Claims(tmp_path) as own:
            start.wait()
            taken.extend(key for key in KEYS if own.take(key))
            start.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == KEYS
    assert list(tmp_path.iterdir()) == []


def test_a_released_cell_is_free(tmp_path: Path) -> None:
    """Assert that a claim holds until it is released, and at most as long as its run."""
    with Claims(tmp_path) as first, Claims(tmp_path) as second:
        assert first.take(KEYS[0])
        assert first.take(KEYS[0])
        assert not second.take(KEYS[0])
        assert second.free(KEYS[:2], os.listdir(tmp_path)) == [KEYS[1]]
        first.release(KEYS[0])
        assert second.take(KEYS[0])
        assert not first.take(KEYS[0])
        first.release(KEYS[0])  # not its own
        assert not first.take(KEYS[0])
    assert list(tmp_path.iterdir()) == []


def test_a_claim_of_a_killed_process_has_expired(tmp_path: Path) -> None:
    """Assert that it is taken at once, also where the process had the pid of this one, and that its files go."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    claimed_by(f".run-{machine()}-{ended.pid}-00000000", KEYS[0], tmp_path)
    claimed_by(f".run-{machine()}-{os.getpid()}-00000000", KEYS[1], tmp_path)
    with Claims(tmp_path) as own:
        assert len(os.listdir(tmp_path)) == 1
        claimed_by(f".run-{machine()}-{ended.pid}-00000000", KEYS[0], tmp_path)
        assert own.free(KEYS[:1], os.listdir(tmp_path)) == KEYS[:1]
        assert own.take(KEYS[0])
    assert list(tmp_path.iterdir()) == []


def test_a_claim_of_another_machine_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that it holds while its run renews a file's time, however wrong its clock, and for EXPIRY after that."""
    now = [1000.0]
    monkeypatch.setattr(claims.time, "monotonic", lambda: now[0])
    run = f".run-{OTHER}-1-00000000"
    claimed_by(run, KEYS[0], tmp_path)
    with Claims(tmp_path) as own:
        for renewed in (time.time() + 1e6, time.time() - claims.OLD / 2, time.time()):
            os.utime(tmp_path / run, (renewed, renewed))
            assert not own.take(KEYS[0])
            now[0] += claims.EXPIRY - 1
            assert not own.take(KEYS[0])
            now[0] += 2
        assert own.take(KEYS[0])
        os.utime(tmp_path / run, (0, 0))
        (tmp_path / f".{KEYS[1]}.claim").symlink_to(run)
        assert own.take(KEYS[1])


def test_a_run_renews_its_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the time of the file of a run changes while it runs."""
    monkeypatch.setattr(claims, "RENEWAL", 0.01)
    with Claims(tmp_path):
        (file,) = tmp_path.iterdir()
        os.utime(file, (0, 0))
        deadline = time.monotonic() + 60
        while file.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert list(tmp_path.iterdir()) == []


def test_without_links_all_cells_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a file system without symbolic links, or a folder in place of a claim, stops no sweep."""
    (tmp_path / f".{KEYS[0]}.claim").mkdir()
    with Claims(tmp_path) as own:
        assert own.take(KEYS[0])
        with monkeypatch.context() as patched:

            def no_links(*arguments: object) -> None:
                raise OSError(95, "Operation not supported")

            patched.setattr(claims.os, "symlink", no_links)
            assert own.take(KEYS[1])
        own.release(KEYS[1])
