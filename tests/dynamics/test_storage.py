"""Files appear whole or not at all; targets are checked before a computation starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from snapdyn.dynamics.processes import machine
from snapdyn.dynamics.storage import check_target, output_folder, provenance, replacing, write_text
from snapdyn.errors import InputError


def test_a_stopped_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Assert that an interrupt inside the block keeps the old content and removes the temporary file."""
    file = tmp_path / "a.txt"
    write_text(file, "old")
    with pytest.raises(KeyboardInterrupt), replacing(file) as temporary:  # noqa: PT012
        temporary.write_text("new")
        raise KeyboardInterrupt
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_target_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """Assert one sentence for a folder that does not exist, and for a target that is a folder."""
    with pytest.raises(InputError, match="to exist"), replacing(tmp_path / "none" / "a.txt"):
        pass
    with pytest.raises(InputError, match="received the folder"):
        check_target(tmp_path)


def test_folders_are_made_or_refused(tmp_path: Path) -> None:
    """Assert that missing folders are made, and that a file in the way is one sentence."""
    assert output_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another folder"):
        output_folder(tmp_path / "file" / "b")


def test_provenance_names_versions() -> None:
    """Assert that code and libraries are named beside what the caller adds."""
    facts = provenance(seed=3)
    assert facts["seed"] == 3
    assert {"numpy", "scipy", "numba"} <= set(facts["versions"])
    assert facts["snapdyn"]


def test_unfinished_files_of_ended_processes_are_removed(tmp_path: Path) -> None:
    """Assert that they are, also those of another machine after a day, and that files of running processes stay."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    other = "00000000" if machine() != "00000000" else "11111111"
    gone = [f".a.nc.{machine()}-{ended.pid}-1.part", f".b.nc.{other}-{os.getpid()}-1.part"]
    kept = [f".a.nc.{machine()}-{os.getpid()}-1.part", f".a.nc.{other}-{ended.pid}-1.part", "a.part", ".mine.part"]
    for name in (*gone, *kept):
        (tmp_path / name).touch()
    os.utime(tmp_path / gone[1], (0, 0))
    assert output_folder(tmp_path) == tmp_path
    assert {path.name for path in tmp_path.iterdir()} == set(kept)


def test_the_temporary_file_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    """Assert that what SIGKILL leaves of a write is gone after the next command looks at the folder."""
    code = f"""
import os, signal
from pathlib import Path
from snapdyn.dynamics.storage import replacing
with replacing(Path({str(tmp_path)!r}) / "a.txt") as temporary:
    temporary.write_text("new")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    output_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
