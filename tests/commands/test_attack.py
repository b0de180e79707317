"""`snapdyn attack`: its table, what it stores, and bad input."""

import json
import math
from pathlib import Path

import pytest

import snapdyn as sd
from snapdyn.commands.main import main
from snapdyn.validation.engine import examine

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


def test_the_search_ends_with_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that slow measurements are cut, that this is said, and that it is no counterexample."""
    monkeypatch.setattr("snapdyn.commands.attack.STARTING", 0.0)
    slow = FALSE_CLAIM.replace("    return", "    time.sleep(60)\n    return").replace("at_most=0.9", "at_most=1.1")
    (tmp_path / "mine.py").write_text("import time\n" + slow)
    assert main(["attack", "false", "--minutes", "1e-3", "--jobs", "1", "--load", str(tmp_path / "mine.py")]) == 0
    assert "1 of 1 searches were cut" in capsys.readouterr().err


def test_a_search_is_cut_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that draws, the directed search and the simplification end at their time, and keep what they found."""
    clock = [0.0]
    monkeypatch.setattr("time.time", lambda: clock[0])

    def measure(parameters: dict[str, float]) -> sd.Measured:
        clock[0] += 1.0
        return sd.Measured(parameters["x"] - 2.0, at_most=0.0)

    prop = sd.Property("x", "arithmetic", measure, sd.Box(x=(0.0, 1.0), y=(0.0, 1.0)), evaluations=(20, 20))
    whole = examine(prop, 2000, 1)
    assert not whole.cut
    for share in (0.3, 0.9):  # among the draws, and in the directed search
        clock[0], until = 0.0, share * whole.tried
        found = examine(prop, 2000, 1, until)
        assert found.cut
        assert found.tried == math.floor(until) + 1
        assert found.worst is not None


@pytest.mark.parametrize("arguments", [["nothing"], ["lemma13", "--minutes", "-1"], ["lemma13", "--jobs", "0"]])
def test_bad_input_is_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 2; an unknown claim may be one of a file that was not loaded."""
    assert main(["attack", *arguments]) == 2
    said = capsys.readouterr().err
    assert "expected" in said
    assert ("did you forget --load FILE.py?" in said) == (arguments == ["nothing"])
