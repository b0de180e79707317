"""`snapdyn text`."""

import csv
from pathlib import Path

import pytest
import xarray

from snapdyn import load
from snapdyn.commands.main import main
from tests.helpers import FABLE, sentence

SMALL = ["--min-count", "2", "--min-token-count", "2"]


@pytest.mark.slow
def test_files_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert the summary with the text's own words, files that agree with each other, and the same bytes again."""
    for folder in (tmp_path, tmp_path / "again"):
        assert main(["text", str(FABLE), *SMALL, "--out", str(folder)]) == 0
    shown = capsys.readouterr().out
    again = {path.name: path.read_bytes() for path in folder.iterdir()}
    for part in ("164 words in 2 documents", "the → fox", "Assumption 2, weak correlation", "common, also within"):
        assert part in shown
    assert again.keys() == {"classes.nc", "trajectory.nc", "words.csv"}
    assert {name: (tmp_path / name).read_bytes() for name in again} == again
    run = load(tmp_path / "trajectory.nc")
    saved = xarray.load_dataset(tmp_path / "classes.nc", engine="h5netcdf")
    words = saved.word.values.tolist()
    classes, attention = run.require_classes(), run.attention[-1]
    by_name = {(words[classes.query[n]], words[classes.next_token[n]]): n for n in range(classes.num_classes)}
    with (tmp_path / "words.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["query"], row["next word"]) for row in rows} == by_name.keys()
    for row in rows:
        n = by_name[row["query"], row["next word"]]
        assert float(row["at the end"]) == pytest.approx(attention[n, words.index(row["word"])], rel=1e-5)


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
def test_bad_input_is_one_sentence(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 2, nothing on stdout and one sentence on stderr."""
    assert main(["text", *arguments]) == 2
    assert says in sentence(capsys)
