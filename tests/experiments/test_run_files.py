"""Run files and `snapdyn simulate`: what is read, what is refused, what is saved."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import snapdyn
from snapdyn.commands.main import main
from snapdyn.experiments.class_sections import CLASSES
from snapdyn.experiments.run_files import read_simulation
from snapdyn.experiments.run_sections import RUN
from snapdyn.experiments.system_sections import system_models
from tests.helpers import EXAMPLES, FABLE

FILES = sorted(path for path in EXAMPLES.glob("*.toml") if not path.stem.startswith(("compare_", "sweep_")))

TABLE = """
[classes]
kind = "table"
P = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
query = [3, 3]
next_token = [4, 5]
weights = [1.0, 1.0]
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


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        # the table of probabilities
        (P_LINE, "P = [0.5, 0.5]", "list"),
        (P_LINE, "P = []", "shape"),
        (P_LINE, "P = [[0.5, 0.5], [1.0]]", "rows of 1 and of 2 numbers"),
        (P_LINE, "P = [[1.5, -0.5, 0.0], [0.5, 0.0, 0.5]]", "non-negative"),
        (P_LINE, "P = [[nan, 0.5, 0.0], [0.5, 0.0, 0.5]]", "finite"),
        (P_LINE, "P = [[0.0, 0.0, 0.0], [0.5, 0.0, 0.5]]", "sum to 1, received 0 in row 0"),
        (P_LINE, "P = [[0.5, 0.4, 0.0], [0.5, 0.0, 0.5]]", "sum to 1, received 0.9 in row 0"),
        (P_LINE, 'P = [[0.5, "x", 0.0], [0.5, 0.0, 0.5]]', "P[0][1]"),
        (P_LINE, "", "P or file in [classes], received neither"),
        (P_LINE, P_LINE + '\nfile = "P.csv"', "received both"),
        (P_LINE, 'file = "P.csv"', "P.csv"),
        (P_LINE, 'file = "P.txt"', ".csv or .npz"),
        # ids and sizes
        ("query = [3, 3]", "query = [3, 6]", "query ids below vocab_size = 6, received 6"),
        ("query = [3, 3]", "query = [3, -1]", "at least 0, received -1"),
        ("query = [3, 3]", "query = [3]", "one id per class"),
        ("query = [3, 3]", "query = [3, 3.5]", "query[1]"),
        ("query = [3, 3]", "", "query in [classes]"),
        ("next_token = [4, 5]", "next_token = [4, 60]", "next_token ids below vocab_size = 6, received 60"),
        ("vocab_size = 6", "vocab_size = 1", "vocab_size"),
        ("vocab_size = 6", "vocab_size = 4", "vocab_size = 4"),
        ("weights = [1.0, 1.0]", "weights = [1.0, 0.0]", "positive"),
        # rates
        ("eta_Y = 1.0", "eta_Y = 0.0", "eta_Y to be a positive finite number, received 0.0"),
        ("eta_Y = 1.0", "eta_Y = -1.0", "eta_Y"),
        ("eta_Y = 1.0", "eta_Y = inf", "eta_Y"),
        ("eta_Y = 1.0", "eta_Y = nan", "eta_Y"),
        ("eta_Z = 0.5", "eta_Z = 0", "eta_Z"),
        ("eta_Z = 0.5", 'eta_Z = "0.5"', "eta_Z in [system]"),
        ("eta_Z = 0.5", "eta_Z = 0.5\nz_initial = [[1.0]]", "shape (Q, M) = (1, 3)"),
        ("eta_Z = 0.5", "eta_Z = 0.5\nz_initial = [[1.0], [1.0, 2.0]]", "z_initial"),
        # times and solver
        ("times = [0.5, 1.0]", "times = [1.0, 0.5]", "strictly increasing"),
        ("times = [0.5, 1.0]", "times = [-0.5, 1.0]", "at least 0"),
        ("times = [0.5, 1.0]", "times = []", "at least one time"),
        ("times = [0.5, 1.0]", "", "first and last, or times"),
        ("times = [0.5, 1.0]", "times = [0.5, 1.0]\nlast = 3.0", "keep one way"),
        ("times = [0.5, 1.0]", "first = 10.0\nlast = 1.0", "last time after the first"),
        ("times = [0.5, 1.0]", "first = 1.0\nlast = 10.0\ncount = 1", "count"),
        ('method = "auto"', 'method = "DOP85"', "did you mean 'DOP853'"),
        ("rtol = 1e-6", "rtol = 0.0", "rtol"),
        # typing errors
        ("eta_Y = 1.0", "eta_y = 1.0", "did you mean 'eta_Y'"),
        ("eta_Y = 1.0", "", "eta_Y in [system]"),
        ('kind = "MeanField"', 'kind = "MeanFeld"', "did you mean 'MeanField'"),
        ('kind = "MeanField"', "", "add kind = one of MeanField"),
        ("[run]", "[runs]", "did you mean 'run'"),
        ("[run]", "", "[run]"),
        ("[system]", "[[system]]", "to be a section"),
        ("eta_Y = 1.0", "eta_Y = ", "line 12"),
    ],
)  # fmt: skip
def test_faulty_file(right: str, wrong: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that one fault in a run file gives one sentence that names it, exit code 2, and no change on disk."""
    assert right in TABLE
    assert hint in refusal(TABLE.replace(right, wrong), tmp_path, capsys)


def test_not_a_text_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a binary file is refused as such."""
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe\x00")
    assert main(["simulate", str(tmp_path / "run.toml")]) == 2
    assert "UTF-8" in capsys.readouterr().err


def test_missing_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a system of classes without classes is refused."""
    text = TABLE[TABLE.index("[system]") :]
    assert "expected a section [classes]" in refusal(text, tmp_path, capsys)


def test_classes_nobody_uses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that classes given to the reduced system are refused rather than ignored."""
    text = '[classes]\nkind = "syn_small"\n' + REDUCED
    assert "expected no [classes]" in refusal(text, tmp_path, capsys)


@pytest.mark.parametrize("target", ["run.toml", "taken/run.nc", "."])
def test_target_that_cannot_be_written(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that neither the run file, nor a path through a file, nor a folder is taken for the result."""
    (tmp_path / "taken").write_text("mine")
    refusal(TABLE, tmp_path, capsys, "--out", str(tmp_path / target))
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("name", ["cut.npz", "empty.csv", "words.csv", "two.npz"])
def test_table_file_that_is_damaged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a table file that is cut short, empty, not of numbers, or ambiguous is refused."""
    np.savez(tmp_path / "two.npz", P=np.eye(2), Q=np.eye(2))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:100])
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "words.csv").write_text("a,b\nc,d\n")
    assert refusal(TABLE.replace(P_LINE, f'file = "{name}"'), tmp_path, capsys).startswith("snapdyn: expected ")


def test_table_files_equal_the_inline_table(tmp_path: Path) -> None:
    """Assert that P inline, as CSV, as a numpy array and as a sparse matrix give equal classes."""
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    np.savetxt(tmp_path / "P.csv", P, delimiter=",")
    np.savez(tmp_path / "dense.npz", P=P)
    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_array(P))
    file = tmp_path / "run.toml"
    file.write_text(TABLE)
    inline = read_simulation(file).build().classes
    for name in ("P.csv", "dense.npz", "sparse.npz"):
        file.write_text(TABLE.replace(P_LINE, f'file = "{name}"'))
        assert read_simulation(file).build().classes == inline


BUILDERS: dict[str, Callable[..., object]] = {
    "syn_small": snapdyn.syn_small,
    "syn_medium": snapdyn.syn_medium,
    "single_common_token": snapdyn.single_common_token,
    "random_classes": snapdyn.random_classes,
    "MeanField": snapdyn.MeanField,
    "FiniteLengthMeanField": snapdyn.FiniteLengthMeanField,
    "FrozenDecoder": snapdyn.FrozenDecoder,
    "ModifiedDecoder": snapdyn.ModifiedDecoder,
    "SingleCommonToken": snapdyn.SingleCommonToken,
}


@pytest.mark.parametrize("kind", BUILDERS)
def test_keys_are_the_parameters(kind: str) -> None:
    """Assert that a section has exactly the parameters, and the defaults, of what it builds."""
    parameters = dict(inspect.signature(BUILDERS[kind]).parameters)
    parameters.pop("classes", None)
    fields = dict((CLASSES | system_models())[kind].model_fields)
    fields.pop("kind")
    assert fields.keys() == parameters.keys()
    for name, field in fields.items():
        default = parameters[name].default
        assert field.is_required() if default is inspect.Parameter.empty else field.default == default


def test_run_has_the_defaults_of_integrate() -> None:
    """Assert that [run] leaves the solver as `integrate` has it."""
    parameters = inspect.signature(snapdyn.integrate).parameters
    for name in ("method", "rtol", "atol", "save_decoder"):
        assert RUN.model_fields[name].default == parameters[name].default


def test_result_is_that_of_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the saved trajectory equals the same run through the library, and what is printed about it."""
    file = tmp_path / "run.toml"
    file.write_text(TABLE)
    assert main(["simulate", str(file)]) == 0
    saved = snapdyn.load(tmp_path / "run.nc")
    classes = snapdyn.SequenceClasses([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [3, 3], [4, 5], vocab_size=6)
    own = snapdyn.integrate(snapdyn.MeanField(classes, 1.0, 0.5), [0.5, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(saved.z_support, own.z_support)
    out = capsys.readouterr().out
    for part in ("MeanField", "DOP853", "evaluations", "row sum of Z", "nats", str(tmp_path / "run.nc")):
        assert part in out


TEXT_SYSTEM = """
[system]
kind = "MeanField"
eta_Y = 1.0
eta_Z = 0.1
[run]
times = [1.0]
"""


def test_classes_of_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that texts with options, and the saved classes, give what the library makes of them."""
    text = FABLE
    classes = snapdyn.from_text(text, min_count=1, min_token_count=1, window=4)
    classes.save(tmp_path / "classes.nc")
    expected = snapdyn.integrate(snapdyn.MeanField(classes, 1.0, 0.1), [1.0]).z
    file = tmp_path / "run.toml"
    for section in (f"paths = ['{text}']\nmin_count = 1\nmin_token_count = 1\nwindow = 4", "file = 'classes.nc'"):
        file.write_text(f"[classes]\nkind = 'text'\n{section}\n{TEXT_SYSTEM}")
        assert main(["simulate", str(file)]) == 0
        np.testing.assert_array_equal(snapdyn.load(tmp_path / "run.nc").z, expected)
    capsys.readouterr()
    options = set(inspect.signature(snapdyn.from_text).parameters) - {"progress", "read_ahead"}
    assert CLASSES["text"].model_fields.keys() == options | {"kind", "file"}
    for section, hint in (
        ("", "received neither"),
        ("file = 'classes.nc'\npaths = ['a.txt']", "received both"),
        ("file = 'classes.nc'\nwindow = 4", "received window"),
        ("paths = ['missing.txt']", "missing.txt"),
    ):
        sentence = refusal(f"[classes]\nkind = 'text'\n{section}\n{TEXT_SYSTEM}", tmp_path, capsys)
        assert hint in sentence


def test_reduced_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the system without classes runs, and that [output] is relative to the run file."""
    file = tmp_path / "run.toml"
    file.write_text(REDUCED + '[output]\nfile = "results/B.nc"\n')
    assert main(["simulate", str(file)]) == 0
    assert snapdyn.load(tmp_path / "results" / "B.nc").t.tolist() == [0.1, 1.0, 10.0]
    assert "\nB " in capsys.readouterr().out


def test_failed_integration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that a failed integration gives exit code 1 and its message, and saves what there is."""
    derivative = snapdyn.MeanField.derivative

    def breaking(self: snapdyn.MeanField, t: float, state: np.ndarray) -> np.ndarray:
        return derivative(self, t, state) * (np.nan if t > 0.7 else 1.0)

    monkeypatch.setattr(snapdyn.MeanField, "derivative", breaking)
    file = tmp_path / "run.toml"
    # scipy's route, which asks the system for its derivative; the compiled one has it inside.
    table = TABLE.replace("times = [0.5, 1.0]", "times = [0.01, 50.0]").replace('"auto"', '"DOP853"')
    file.write_text(table)
    assert main(["simulate", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("snapdyn: failed at t = ")
    assert captured.err.count("\n") == 1
    assert snapdyn.load(tmp_path / "run.nc").status == "failed"


def test_interrupted_integration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that Ctrl-C gives exit code 130 and one sentence, and saves what there is."""
    derivative = snapdyn.MeanField.derivative

    def stopping(self: snapdyn.MeanField, t: float, state: np.ndarray) -> np.ndarray:
        if t > 5.0:
            raise KeyboardInterrupt
        return derivative(self, t, state)

    monkeypatch.setattr(snapdyn.MeanField, "derivative", stopping)
    file = tmp_path / "run.toml"
    # scipy's route, which asks the system for its derivative; the compiled one has it inside.
    table = TABLE.replace("times = [0.5, 1.0]", "times = [0.01, 50.0]").replace('"auto"', '"DOP853"')
    file.write_text(table)
    assert main(["simulate", str(file)]) == 130
    assert capsys.readouterr().err.startswith("snapdyn: interrupted")
    assert snapdyn.load(tmp_path / "run.nc").t.tolist() == [0.01]


def test_result_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a trajectory file cut short is refused in one sentence."""
    file = tmp_path / "run.toml"
    file.write_text(REDUCED)
    assert main(["simulate", str(file)]) == 0
    whole = (tmp_path / "run.nc").read_bytes()
    (tmp_path / "run.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(snapdyn.InputError, match=r"expected a whole trajectory file .* damaged"):
        snapdyn.load(tmp_path / "run.nc")


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    """Assert that each example runs to its end and keeps its invariants to rounding."""
    target = tmp_path / "result.nc"
    assert main(["simulate", str(example), "--out", str(target)]) == 0
    trajectory = snapdyn.load(target)
    assert trajectory.status == "finished"
    # Rounding of some thousand steps, each with entries of order 1.
    assert all(violation.max() < 1e-11 for violation in trajectory.invariants.values())


def test_examples_exist() -> None:
    """Assert that the examples were found."""
    assert len(FILES) >= 4


def test_plain_text_in_a_pipe(tmp_path: Path) -> None:
    """Assert that a piped summary has no escape codes and no progress bar, and that no line is cut."""
    file = tmp_path / "run.toml"
    file.write_text(TABLE)
    done = subprocess.run(
        [sys.executable, "-m", "snapdyn", "simulate", str(file)], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert "most attended at the end" in done.stdout
