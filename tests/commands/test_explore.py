"""`snapdyn explore` without marimo; tests/explorer/test_notebook.py starts it."""

import sys
from pathlib import Path

import pytest

from snapdyn.commands.main import main
from tests.helpers import sentence


def test_without_marimo_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence and exit code 2 where the extra is missing."""
    monkeypatch.setitem(sys.modules, "marimo", None)
    assert main(["explore"]) == 2
    assert "pip install 'snapdyn[explore]'" in sentence(capsys)


def test_a_bad_file_is_refused_before_the_notebook_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert a sentence and exit code 2 for parameters of a theory, which are no classes, and for a missing file."""
    file = tmp_path / "a.toml"
    file.write_text("[parameters]\neta = 0.3\n")
    assert main(["explore", str(file)]) == 2
    assert "received parameters of a theory; give [classes]" in sentence(capsys)
    assert main(["explore", str(tmp_path / "b.toml")]) == 2
    assert "b.toml" in sentence(capsys)
