"""Small JSON files whose digest reveals damage."""

import json
from pathlib import Path

import pytest

from snapdyn.dynamics.json_store import DAMAGED, hashed_name, record_body, record_text, write_record


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
