"""Run files: the examples run, faulty files are refused in one sentence."""

from pathlib import Path

import pytest

import snapdyn
import snapdyn as sd
from snapdyn.commands.main import main
from snapdyn.experiments.run_files import read_check
from tests.experiments.helpers import P_LINE, REDUCED, TABLE, refusal
from tests.helpers import EXAMPLES, ROOT

OTHERS = ("check_", "compare_", "sweep_", "trace_")  # files of other commands
FILES = sorted(path for path in EXAMPLES.glob("*.toml") if not path.stem.startswith(OTHERS))


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        # the table of probabilities
        (P_LINE, "P = [[0.5, 0.5], [1.0]]", "expected P to be an array of real numbers"),
        (P_LINE, "P = [[0.5, 0.4, 0.0], [0.5, 0.0, 0.5]]", "sum to 1, received 0.9 in row 0"),
        (P_LINE, "", "P or file in [classes], received neither"),
        (P_LINE, P_LINE + '\nfile = "P.csv"', "received both"),
        (P_LINE, 'file = "P.csv"', "P.csv"),
        # ids and sizes
        ("query = [3, 3]", "query = [3, 6]", "query ids below vocab_size = 6, received 6"),
        ("vocab_size = 6", "vocab_size = 4", "vocab_size = 4"),
        # rates
        ("eta_Z = 0.5", "eta_Z = 0.5\nz_initial = [[1.0]]", "attention logits of shape (1, 3)"),
        # times and solver
        ("times = [0.5, 1.0]", "", "first and last, or times"),
        ("times = [0.5, 1.0]", "times = [0.5, 1.0]\nlast = 3.0", "keep one way"),
        ("times = [0.5, 1.0]", "first = 10.0\nlast = 1.0", "last time after the first"),
        ('method = "auto"', 'method = "DOP85"', "did you mean 'DOP853'"),
        # typing errors
        ("eta_Y = 1.0", "eta_y = 1.0", "did you mean 'eta_Y'"),
        ('kind = "MeanField"', "", "add kind = one of MeanField"),
        ("[system]", "[[system]]", "to be a section"),
        ("eta_Y = 1.0", "eta_Y = ", "line 12"),
    ],
)  # fmt: skip
def test_faulty_file(right: str, wrong: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that one fault in a run file gives one sentence that names it, exit code 2, and no change on disk."""
    assert right in TABLE
    assert hint in refusal(TABLE.replace(right, wrong), tmp_path, capsys)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (TABLE[TABLE.index("[system]") :], "expected a section [classes]"),
        ('[classes]\nkind = "syn_small"\n' + REDUCED, "expected no [classes]"),
    ],
)
def test_classes_that_are_missing_or_that_nobody_uses(
    text: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that they are refused rather than ignored."""
    assert hint in refusal(text, tmp_path, capsys)


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    """Assert that each example runs to its end and keeps its invariants to rounding."""
    target = tmp_path / "result.nc"
    assert main(["simulate", str(example), "--out", str(target)]) == 0
    trajectory = snapdyn.load(target)
    assert trajectory.status == "finished"
    # Rounding of some thousand steps, each with entries of order 1.
    assert all(violation.max() < 1e-11 for violation in trajectory.invariants.values())


def written(folder: Path, text: str) -> Path:
    """File with the text."""
    file = folder / "check.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_of_its_own(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\neta_Z = 0.1\nt_end = 20.0\nonly = ["conservation"]\n',
    )
    report = read_check(file).run()
    assert [(result.id, result.status) for result in report.claims] == [("conservation", "holds")]
    assert report.settings["t_end"] == 20.0


def test_a_file_of_simulate_gives_rates_start_and_duration() -> None:
    section = read_check(ROOT / "examples" / "own_classes.toml").check
    assert (section.eta_Y, section.eta_Z, section.t_end) == (1.0, 0.1, 5000.0)
    assert section.start[0][0] == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[classes]\nkind = "syn_small"\n', r"\[check\]"),
        ('[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\neta_Z = 0.1\nrung = []\n', "rungs"),
        (
            '[system]\nkind = "SingleCommonToken"\nnum_classes = 5\nvocab_size = 100\neta_Y = 1.0\neta_Z = 1.0\n'
            "rho0 = 3.0\n[run]\nfirst = 1.0\nlast = 10.0\n",
            "without classes",
        ),
        (
            '[classes]\nkind = "syn_small"\n[system]\nkind = "FrozenDecoder"\neta_Y = 1.0\n'
            "[run]\nfirst = 1.0\nlast = 10.0\n",
            "FrozenDecoder",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(sd.InputError, match=message):
        read_check(written(tmp_path, text))
