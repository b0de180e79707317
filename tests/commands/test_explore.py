"""`snapdyn explore`: what it starts, and what it says without marimo."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from snapdyn.commands.main import main
from tests.helpers import sentence


class Server:
    """In place of the process of marimo: keeps what it was called with, and ends with a code."""

    called: list[Any]
    code = 0

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        assert cwd == Path(command[6]).parent
        Server.called = [command, env]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self) -> int:
        return self.code


def test_without_marimo_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence and exit code 2 where the extra is missing."""
    monkeypatch.setitem(sys.modules, "marimo", None)
    assert main(["explore"]) == 2
    assert "pip install 'snapdyn[explore]'" in sentence(capsys)


@pytest.mark.parametrize("code", [0, 1])
def test_starts_marimo(code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the notebook of the package runs, with a token, on the port that was asked for, without a browser.

    An end by a fault is exit code 1, with a sentence.
    """
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(subprocess, "Popen", Server)
    monkeypatch.setattr(Server, "code", code)
    assert main(["explore", "--port", "2718", "--no-browser"]) == code
    assert capsys.readouterr().err == ("snapdyn: marimo ended with exit code 1\n" if code else "")
    command, env = Server.called
    assert command[:6] == [sys.executable, "-P", "-m", "marimo", "-y", "run"]
    assert Path(command[6]).name == "notebook.py"
    assert command[7:] == ["--token", "--port", "2718", "--headless"]
    assert env["PYTHONHASHSEED"] == "random"
    assert env["MARIMO_SKIP_UPDATE_CHECK"] == "1"
