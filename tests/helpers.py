"""Files that tests of several rooms read."""

import os
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FABLE = ROOT / "tests" / "data" / "fable.txt"


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What a refused command has said on standard error: one line, and nothing on standard output."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("snapdyn: ")
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def group_has_ended(group: int) -> bool:
    """Whether all processes of a group end within some seconds; joblib's own helper process takes a moment."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
