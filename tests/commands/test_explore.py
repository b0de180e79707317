"""`snapdyn explore` without marimo; tests/explorer/test_notebook.py starts it."""

import sys
from pathlib import Path

import pytest

from tests.helpers import Command


def test_without_marimo_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Assert one sentence and exit code 2 where the extra is missing."""
    monkeypatch.setitem(sys.modules, "marimo", None)
    assert "pip install 'snapdyn[explore]'" in command("explore", code=2).err


def test_a_bad_file_is_refused_before_the_notebook_starts(tmp_path: Path, command: Command) -> None:
    """Assert a sentence and exit code 2 for parameters of a theory, which are no classes, and for a missing file."""
    file = tmp_path / "a.toml"
    file.write_text("[parameters]\neta = 0.3\n")
    assert "received parameters of a theory; give [classes]" in command("explore", file, code=2).err
    assert "b.toml" in command("explore", tmp_path / "b.toml", code=2).err
