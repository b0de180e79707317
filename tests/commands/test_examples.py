"""`snapdyn examples`: the example files, copied for the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapdyn.commands.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"


def copies(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_copies_are_the_examples(tmp_path: Path) -> None:
    """Assert that every example is copied, to the byte, and that a second run changes nothing."""
    for _ in range(2):
        assert main(["examples", str(tmp_path / "mine")]) == 0
        originals = {name: data for name, data in copies(EXAMPLES).items() if "__pycache__" not in name}
        assert copies(tmp_path / "mine") == originals


def test_a_changed_copy_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that nothing is written where a copy has been changed, and that the message names it."""
    (tmp_path / "syn_small.toml").write_text("# mine")
    assert main(["examples", str(tmp_path)]) == 2
    assert copies(tmp_path) == {"syn_small.toml": b"# mine"}
    assert "syn_small.toml differs; choose another folder" in capsys.readouterr().err
