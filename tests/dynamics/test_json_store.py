"""Small JSON files whose digest reveals damage."""

import json
import os
from pathlib import Path

import pytest

from snapdyn.dynamics.json_store import DAMAGED, hashed_name, read_record, record_body, record_text, write_record


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Assert that a record is JSON, and that its body comes back to the last bit."""
    body = {"number": 0.1 + 0.2, "text": "ln V → ∞"}
    write_record(tmp_path / "a.json", "cell", json.dumps(body))
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert record_body("cell", text) == json.loads(text)["cell"] == body


@pytest.mark.parametrize("place", range(len(record_text("cell", '{"number": 0.5}'))))
def test_one_changed_character_is_noticed(place: int) -> None:
    """Assert that no single character can change without an error."""
    text = record_text("cell", '{"number": 0.5}')
    changed = text[:place] + ("7" if text[place] != "7" else "8") + text[place + 1 :]
    with pytest.raises(DAMAGED):
        record_body("cell", changed)


def test_names_follow_the_facts() -> None:
    """Assert equal names for equal facts, and others for others."""
    assert hashed_name(["a", 1]) == hashed_name(["a", 1]) == hashed_name(("a", 1))
    assert hashed_name(["a", 1]) != hashed_name(["a", 2])
    assert len(hashed_name([])) == 32


DEEP = "[" * 200_000 + "]" * 200_000


def in_place(kind: str, path: Path) -> None:
    """Put something else in the place of a record."""
    if kind == "named pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop of links":
        path.symlink_to(path)
    elif kind == "deep nesting":
        path.write_text(DEEP)
    elif kind == "deep nesting with digest":
        path.write_text(record_text("cell", DEEP))
    elif kind == "not text":
        path.write_bytes(b"\xff\xfe")
    else:
        path.touch()


@pytest.mark.parametrize(
    "kind",
    ["named pipe", "folder", "loop of links", "deep nesting", "deep nesting with digest", "not text", "empty file"],
)
def test_what_is_no_record_is_damaged(kind: str, tmp_path: Path) -> None:
    """Assert one of the errors of a damaged record, at once, and that no file stays open."""
    path = tmp_path / "a.json"
    in_place(kind, path)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(DAMAGED):
        read_record(path, "cell")
    assert len(os.listdir("/dev/fd")) == before


def test_a_missing_record_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    """Assert FileNotFoundError without a file, and the body of a whole one."""
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "a.json", "cell")
    write_record(tmp_path / "a.json", "cell", "[1, 2]")
    assert read_record(tmp_path / "a.json", "cell") == [1, 2]
