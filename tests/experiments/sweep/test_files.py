"""Sweep files: the examples run, bad files are refused."""

import re
from pathlib import Path

import pytest

from tests.experiments.sweep.helpers import GOOD, GRID, PHASE, dataset, swept
from tests.helpers import EXAMPLES

FILES = sorted(EXAMPLES.glob("sweep_*.toml"))


def test_whole_numbers_may_be_written_as_others(tmp_path: Path) -> None:
    """Assert that 2.0 is taken as 2 where a key takes whole numbers."""
    assert swept(GOOD.replace("[2, 3]", "[2.0, 3e0]"), tmp_path) == 0
    assert dataset(tmp_path).num_classes.values.tolist() == [2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("example", FILES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("instant_training")
def test_examples(example: Path, tmp_path: Path) -> None:
    """Assert that each example runs with two values of each parameter, and draws its diagram."""
    text = re.sub(r"count = \d+(, spacing = \"log\")? \}", r"count = 2\1 }", example.read_text())
    text = re.sub(r"= \[(\d[^,]*), .*, ([^,]*)\]", r"= [\1, \2]", text)
    (tmp_path / "wikitext-2").mkdir()
    assert swept(text, tmp_path, name=example.stem) == 0
    data = dataset(tmp_path, example.stem)
    assert {size for name, size in data.sizes.items() if name != "time"} == {2}
    assert (data.failure == "").all()
    endings = {path.suffix for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert endings == ({".nc", ".png", ".pdf", ".json"} if "[phase]" in text else {".nc"})


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        ('design = "grid"', 'design = "list"', "lists of one length"),
        ('design = "grid"', 'design = "random"', "expected count in [sweep]"),
        ('design = "grid"', 'design = "grid"\ncount = 3', "received 'count'"),
        ('"system.eta_Z" =', "eta_Z =", "besides parameters such as"),
        ("[0.1, 0.5]", "[0.1, 0.1]", "the values of system.eta_Z without repetition"),
        ("[0.1, 0.5]", '[0.1, "a"]', "eta_Z in [system]"),
        (
            "[0.1, 0.5]",
            '{ first = 0.0, last = 1.0, count = 3, spacing = "log" }',
            "first of system.eta_Z to be a positive",
        ),
        (
            "[0.1, 0.5]",
            "{ first = 0.1, last = 1.0, count = 400_000 }",
            "the number of cells to be a whole number in 0..1000000",
        ),
        ("vocab_size = 20", "vocab_size = 1", "error from all 6 cells: expected vocab_size"),
        ("[run]", "[sgd]\n[run]", "received system and sgd"),
        ('[system]\nkind = "MeanField"\neta_Y = 1.0', "", "received none; this section says what a cell runs"),
        ("[sweep]", PHASE.replace('"num_classes"', '"eta_Z"') + "[sweep]", "received eta_Z twice"),
        ("classes.num_classes = [2, 3, 25]", PHASE, "expected y to be one of eta_Z"),
        ("[sweep]", PHASE + 'style = "neurip"\n[sweep]', "neurips"),
        ("[2, 3, 25]", "[2]\n" + PHASE, "expected y to be one of eta_Z"),
        ("[sweep]", PHASE + '[sweep]\n"system.eta_Y" = [1.0, 2.0]', "received also eta_Y"),
    ],
)
def test_bad_files_are_refused(
    right: str, wrong: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert exit code 2 and one sentence on stderr, and that no cell is run."""
    assert right in GRID
    assert swept(GRID.replace(right, wrong), tmp_path) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("snapdyn: expected ")
    assert captured.err.count("\n") == 1
    assert hint in captured.err
    assert not list(tmp_path.glob("out/cells/*"))


def test_a_diagram_needs_one_number_per_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert one sentence where no observable has that."""
    assert swept(GOOD.replace('["entropy", "loss"]', '["class_entropy"]') + PHASE, tmp_path) == 2
    assert "expected variable to be one of class_entropy" in capsys.readouterr().err
