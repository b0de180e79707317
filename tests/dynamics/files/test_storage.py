"""Files appear whole or not at all; targets are checked before a computation starts; records reveal damage."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from snapdyn.core.errors import InputError
from snapdyn.core.parallel import machine
from snapdyn.dynamics.files.storage import (
    DAMAGED,
    hashed_name,
    output_folder,
    read_record,
    record_body,
    record_text,
    replacing,
    write_record,
    write_text,
)


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
    """Assert one sentence for a folder that does not exist."""
    with pytest.raises(InputError, match="to exist"), replacing(tmp_path / "none" / "a.txt"):
        pass


def special(kind: str, path: Path) -> None:
    """Put something at `path` that is no regular file."""
    if kind == "folder":
        path.mkdir()
    elif kind == "named pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/null")
    else:
        path.symlink_to({"link to nothing": "nowhere", "loop of links": path.name}[kind])


@pytest.mark.parametrize("kind", ["folder", "named pipe", "socket", "device", "link to nothing", "loop of links"])
def test_what_is_no_regular_file_is_not_replaced(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence before anything is written, from a check of names and from a write, and that it stays."""
    monkeypatch.chdir(tmp_path)  # the address of a socket has at most 107 bytes
    path = Path("a.txt")
    special(kind, path)
    before = path.lstat()
    named = "link" if "link" in kind else kind
    with pytest.raises(InputError, match=f"received the {named} 'a.txt'"):
        output_folder(".", "b.txt", "a.txt")
    with pytest.raises(InputError, match=f"received the {named} 'a.txt'"), replacing(path):
        pytest.fail("the block was entered")
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert list(Path().iterdir()) == [path]


def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    """Assert that text goes to the file that a chain of links leads to, in a folder of its own."""
    (tmp_path / "there").mkdir()
    file, link, first = tmp_path / "there" / "a.txt", tmp_path / "link", tmp_path / "first"
    link.symlink_to(Path("there") / "a.txt")
    first.symlink_to("link")
    file.write_text("old")
    with replacing(first) as temporary:
        assert temporary.parent == file.parent
        temporary.write_text("new")
    assert file.read_text() == "new"
    assert link.is_symlink()
    assert first.is_symlink()
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(not Path("/proc/version").is_file(), reason="no folder on this system that takes no file from root")
def test_the_folder_behind_a_link_is_checked_as_well(tmp_path: Path) -> None:
    """Assert one sentence before anything is computed where the file behind a link lies in a folder that takes none."""
    (tmp_path / "a.txt").symlink_to("/proc/version")
    with pytest.raises(InputError, match="expected a folder that can be written to, received '/proc'"):
        output_folder(tmp_path, "a.txt")


def test_folders_are_made_or_refused(tmp_path: Path) -> None:
    """Assert that missing folders are made, and that a file in the way is one sentence."""
    assert output_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another folder"):
        output_folder(tmp_path / "file" / "b")


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


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Assert that a record is JSON, that its body comes back to the last bit, and FileNotFoundError without a file."""
    body = {"number": 0.1 + 0.2, "text": "ln V → ∞"}
    write_record(tmp_path / "a.json", "cell", json.dumps(body))
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert read_record(tmp_path / "a.json", "cell") == json.loads(text)["cell"] == body
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "b.json", "cell")


def test_one_changed_character_is_noticed() -> None:
    """Assert that no single character can change without an error."""
    text = record_text("cell", '{"number": 0.5}')
    for place, character in enumerate(text):
        changed = text[:place] + ("7" if character != "7" else "8") + text[place + 1 :]
        with pytest.raises(DAMAGED):
            record_body("cell", changed)


def test_names_follow_the_facts() -> None:
    """Assert equal names for equal facts, and others for others."""
    assert hashed_name(["a", 1]) == hashed_name(["a", 1]) == hashed_name(("a", 1))
    assert hashed_name(["a", 1]) != hashed_name(["a", 2])
    assert len(hashed_name([])) == 32


def in_place(kind: str, path: Path) -> None:
    """Put something else in the place of a record."""
    if kind == "named pipe":
        os.mkfifo(path)
    elif kind == "loop of links":
        path.symlink_to(path)
    elif kind == "deep nesting with digest":
        path.write_text(record_text("cell", "[" * 200_000 + "]" * 200_000))
    else:
        path.write_bytes({"not text": b"\xff\xfe", "empty file": b"", "deep nesting": b"[" * 200_000}[kind])


@pytest.mark.parametrize(
    "kind", ["named pipe", "loop of links", "deep nesting", "deep nesting with digest", "not text", "empty file"]
)
def test_what_is_no_record_is_damaged(kind: str, tmp_path: Path) -> None:
    """Assert one of the errors of a damaged record, at once, and that no file stays open."""
    path = tmp_path / "a.json"
    in_place(kind, path)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(DAMAGED):
        read_record(path, "cell")
    assert len(os.listdir("/dev/fd")) == before
