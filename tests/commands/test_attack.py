"""`snapdyn attack`: its table, what it stores, and bad input."""

from pathlib import Path

import pytest

from tests.helpers import Command

FALSE_CLAIM = """
import numpy as np

import snapdyn as sd


def largest_overlap(instance):
    return sd.Measured((instance.gram - np.eye(instance.num_classes)).max(), at_most=0.9)


sd.register(
    sd.Claim(
        "false", "own", "False", "No overlap exceeds 0.9.",
        properties=(sd.Property("largest overlap", "linear algebra", largest_overlap, sd.Family("any", "any")),),
    )
)
"""


@pytest.fixture(autouse=True)
def time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give processes of a busy machine all the time that they need, so that no search is cut."""
    monkeypatch.setattr("snapdyn.commands.attack.STARTING", 600.0)


def test_the_search_ends_with_its_time(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that slow measurements are cut, that this is said, and that it is no counterexample."""
    monkeypatch.setattr("snapdyn.commands.attack.STARTING", 0.0)
    slow = FALSE_CLAIM.replace("    return", "    time.sleep(60)\n    return").replace("at_most=0.9", "at_most=1.1")
    (tmp_path / "mine.py").write_text("import time\n" + slow)
    said = command("attack", "false", "--minutes", "1e-3", "--jobs", 1, "--load", tmp_path / "mine.py").err
    assert "1 of 1 searches were cut" in said


@pytest.mark.parametrize("arguments", [["nothing"], ["lemma13", "--minutes", "-1"], ["lemma13", "--jobs", "0"]])
def test_bad_input_is_one_sentence(arguments: list[str], command: Command) -> None:
    """Assert exit code 2; an unknown claim may be one of a file that was not loaded."""
    said = command("attack", *arguments, code=2).err
    assert "expected" in said
    assert ("did you forget --load FILE.py?" in said) == (arguments == ["nothing"])
