"""`snapdyn explore` without marimo; tests/explorer/test_notebook.py starts it."""

import sys

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
