"""`snapdyn attack`: its table, what it stores, and bad input."""

import json
from pathlib import Path

import pytest

from snapdyn.commands.main import main

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


def test_what_falls_is_shown_and_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 1 and the stored instance of a false claim; what stands is counted, too."""
    (tmp_path / "mine.py").write_text(FALSE_CLAIM)
    arguments = ["--minutes", "0.01", "--jobs", "1", "--seed", "4", "--load", str(tmp_path / "mine.py")]
    assert main(["attack", "false", "lemma13", *arguments, "--store", str(tmp_path / "found")]) == 1
    shown = capsys.readouterr()
    assert "lemma13" in shown.out
    assert "1 fall" in shown.out
    assert '"P": [[' in shown.out
    assert "add the mechanism to this file" in shown.err
    stored = json.loads((tmp_path / "found" / "false-0-seed-4.json").read_text())
    assert stored["statement"] == "largest overlap"
    assert stored["violation"] > 0


@pytest.mark.parametrize("arguments", [["nothing"], ["lemma13", "--minutes", "-1"], ["lemma13", "--jobs", "0"]])
def test_bad_input_is_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 2; an unknown claim may be one of a file that was not loaded."""
    assert main(["attack", *arguments]) == 2
    said = capsys.readouterr().err
    assert "expected" in said
    assert ("did you forget --load FILE.py?" in said) == (arguments == ["nothing"])
