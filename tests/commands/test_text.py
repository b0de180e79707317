"""`snapdyn text`."""

import csv
from pathlib import Path

import numpy as np
import pytest

from snapdyn import TextClasses, from_text, load, sgd
from snapdyn.commands.summaries import as_text
from snapdyn.dynamics.classes.table import Floats
from tests.helpers import FABLE, Command

PROFILES = np.exp(0.3 * np.random.default_rng(1).standard_normal((3, 80))) / (np.arange(80) + 5.0)
PROFILES /= PROFILES.sum(axis=1, keepdims=True)
SMALL = ["--min-count", "2", "--min-token-count", "2"]


@pytest.mark.slow
def test_files_and_tables(tmp_path: Path, command: Command) -> None:
    """Assert the summary with the text's own words, files that agree with each other, and the same bytes again."""
    for folder in (tmp_path, tmp_path / "again"):
        shown = command("text", FABLE, *SMALL, "--out", folder).out
    again = {path.name: path.read_bytes() for path in folder.iterdir()}
    for part in ("164 words in 2 documents", "the → fox", "Assumption 2, weak correlation", "common, also within"):
        assert part in shown
    rows = [line for line in shown.splitlines() if "  " in line and not line.startswith("saved ")]  # of tables
    assert max(map(len, rows)) <= 100
    assert again.keys() == {"classes.nc", "trajectory.nc", "words.csv"}
    assert {name: (tmp_path / name).read_bytes() for name in again} == again
    assert load(tmp_path / "trajectory.nc").require_classes() == TextClasses.load(tmp_path / "classes.nc")
    assert "windows have 8 words and are shorter than L* = 1/|P|^2 - 1 = 8.61 words" in shown
    assert "below L*, the signs of their changes are in general not those of training" in shown


def test_words_are_those_of_training_on_the_windows(tmp_path: Path, command: Command) -> None:
    """Assert that the changes of attention in the table correlate with training on the windows, not those of classes.

    The 8 words before each query are drawn from one of three profiles with L* near 40. SGD trains on the same windows,
    with batches of 16, to the same time; four seeds are averaged. The weights are the shares of the words.
    """
    rng, text = np.random.default_rng(0), []
    for i in range(600):
        text += [f"w{l}" for l in rng.choice(80, 8, p=PROFILES[i % 3])] + ["q", f"next{i % 3}"]
    (tmp_path / "a.txt").write_text(" ".join(text))
    command("text", tmp_path / "a.txt", "--min-count", 100, "--min-token-count", 1, "--out", tmp_path)
    run, classes = load(tmp_path / "trajectory.nc"), TextClasses.load(tmp_path / "classes.nc")
    windows, steps = from_text(tmp_path / "a.txt", min_count=100, min_token_count=1, sequences=True), round(run.t[-1])
    trained = sgd(windows, 1.0, 0.1, steps, 16, record=[steps], seed=[0, 1, 2, 3])
    P = classes.P.toarray()
    weight = P * np.exp(np.mean([each.z[-1, 0] for each in trained], axis=0))
    of_training = weight / weight.sum(axis=1, keepdims=True) - P
    next_words = [classes.words[l] for l in classes.next_token]
    with (tmp_path / "words.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 20
    at = np.array([(next_words.index(row["next word"]), classes.words.index(row["word"])) for row in rows]).T
    table = np.array([float(row["at the end"]) - float(row["attention at the start"]) for row in rows])

    def correlation(change: Floats) -> float:
        return float(np.corrcoef(change, of_training[*at])[0, 1])

    assert correlation(table) > 0.9
    assert correlation((run.attention[-1] - P)[*at]) < 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no/such/file.txt"], "missing"),
        ([str(FABLE)], "lower --min-count"),
        ([str(FABLE), "--max-vocab", "0"], "--max-vocab"),
        ([], "PATH"),
    ],
    ids=str,
)
def test_bad_input_is_one_sentence(arguments: list[str], says: str, command: Command) -> None:
    """Assert exit code 2, nothing on stdout and one sentence on stderr."""
    assert says in command("text", *arguments, code=2).err


@pytest.mark.parametrize(("word", "cell"), [("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"), ("-", "'-"), ("the", "the")])
def test_words_are_no_formulas(word: str, cell: str) -> None:
    assert as_text(word) == cell
