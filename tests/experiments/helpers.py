"""Run files that tests change."""

from pathlib import Path

import pytest

from snapdyn.commands.main import main

TABLE = """
[classes]
kind = "table"
P = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
query = [3, 3]
next_token = [4, 5]
prior = [1.0, 1.0]
vocab_size = 6

[system]
kind = "MeanField"
eta_Y = 1.0
eta_Z = 0.5

[run]
times = [0.5, 1.0]
method = "auto"
rtol = 1e-6
"""
REDUCED = """
[system]
kind = "SingleCommonToken"
num_classes = 5
vocab_size = 100
eta_Y = 1.0
eta_Z = 0.01
rho0 = 5.0
[run]
first = 0.1
last = 10.0
count = 3
"""


def refusal(text: str, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Run a file that must be refused; return the one sentence."""
    file = folder / "run.toml"
    file.write_text(text)
    result = folder / "run.nc"
    result.write_text("an earlier result")
    assert main(["simulate", str(file), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("snapdyn: expected ")
    assert "received" in captured.err
    assert captured.err.count("\n") == 1
    assert result.read_text() == "an earlier result"
    assert file.read_text() == text
    return captured.err


P_LINE = "P = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]"
