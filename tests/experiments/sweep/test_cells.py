"""What a cell of a sweep runs, its numbers against single runs, and the cells that are kept."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

import snapdyn
from snapdyn.dynamics.files.storage import source_hash
from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.experiments.sweep.cells import Cell
from snapdyn.experiments.sweep.execution import SOURCES, run_cell
from snapdyn.validation import ladder
from tests.experiments.sweep.helpers import GOOD, GRID, dataset, kept, swept


def test_grid_is_what_single_runs_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert values against runs made one by one, NaN and the reason of the cells that cannot be, and exit code 1."""
    assert swept(GRID, tmp_path) == 1
    data = dataset(tmp_path)
    assert dict(data.sizes) == {"eta_Z": 2, "num_classes": 3, "class": 3, "time": 5}
    assert data.num_classes.attrs["parameter"] == "classes.num_classes"
    for eta_Z in (0.1, 0.5):
        for K in (2, 3):
            classes = snapdyn.single_common_token(K, 2, 0.3, 20)
            run = snapdyn.integrate(snapdyn.MeanField(classes, 1.0, eta_Z), snapdyn.log_times(1, 100, 5))
            cell = data.sel(eta_Z=eta_Z, num_classes=K)
            # Only the places of the steps differ, where the event is looked for.
            np.testing.assert_allclose(cell.entropy, run.entropy()[-1].mean(), rtol=1e-6)
            np.testing.assert_allclose(cell.class_entropy[:K], run.entropy()[-1], rtol=1e-6)
            np.testing.assert_allclose(cell.loss_series, run.loss, rtol=1e-5)
            assert np.isnan(cell.class_entropy[K:]).all()
            t_star = float(snapdyn.analytic.transition_time(K, 20, 1.0, kind="peak"))
            assert cell.t_peak == t_star
            assert float(cell.transition_time) == pytest.approx(t_star, rel=K / 20)
            assert cell.failure.item() == ""
    assert data.entropy.sel(num_classes=25).isnull().all()
    assert "expected vocab_size" in data.failure.sel(num_classes=25, eta_Z=0.1).item()
    captured = capsys.readouterr()
    assert "4 computed, 0 taken over, 2 failed, 0 not run" in captured.out
    assert re.search(r"cell eta_Z = 0.1, num_classes = 25 failed: expected vocab_size", captured.err)
    assert json.loads(data.attrs["provenance"])["snapdyn"]


def test_ladders(tmp_path: Path) -> None:
    """Assert the gaps of a cell against the ladder's own, and the rung that breaks."""
    text = """
[classes]
kind = "single_common_token"
num_classes = 3
num_distinct = 2
common_probability = 0.1
[ladder]
eta_Y = 0.5
eta_Z = 0.1
times = [1.0, 10.0]
seeds = 0
[sweep]
design = "grid"
observables = ["largest_gap", "gap", "first_break"]
"classes.vocab_size" = [20, 200]
"""
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    direct = ladder(snapdyn.single_common_token(3, 2, 0.1, 200), 0.5, 0.1, [1.0, 10.0], seeds=0)
    largest = direct.gaps.gap.max(("observable", "t"))
    cell = data.sel(vocab_size=200)
    np.testing.assert_array_equal(cell.gap.sel(rung=largest.rung.values), largest.values)
    assert cell.largest_gap == largest.max()
    first_break = direct.first_break()
    assert first_break is not None
    assert cell.first_break.item() == first_break.rung


@pytest.mark.parametrize(
    ("value", "says"),
    [([1.0], "expected mine to be one number, received [1.0]"), (10**400, "expected mine to be one number, received")],
    ids=["a list", "a number beyond float64"],
)
def test_an_observable_of_another_shape(
    value: object, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that an own observable whose value is not what it declares is refused in one sentence."""
    OBSERVABLES.add(snapdyn.Observable("mine", "mine", "1", lambda run: value, dims=()))
    assert swept(GOOD.replace('["entropy", "loss"]', '["mine"]'), tmp_path) == 2
    error = capsys.readouterr().err
    assert f"received an error from all 4 cells: {says}" in error
    assert error.count("\n") == 1


def test_a_rerun_does_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that cells are taken over, that a wider grid runs the new ones only, and that observables count."""
    assert swept(GOOD, tmp_path) == 0
    first, before = dataset(tmp_path), kept(tmp_path)
    assert len(before) == 4
    assert swept(GOOD, tmp_path) == 0
    assert kept(tmp_path) == before
    xarray.testing.assert_identical(dataset(tmp_path), first)
    assert swept(GOOD.replace("[0.1, 0.5]", "[0.1, 0.2, 0.5]"), tmp_path) == 0
    assert {name: time for name, time in kept(tmp_path).items() if name in before} == before
    assert len(kept(tmp_path)) == 6
    assert "2 computed, 4 taken over" in capsys.readouterr().out
    assert swept(GOOD.replace('"entropy", ', ""), tmp_path) == 0
    assert len(kept(tmp_path)) == 10


def test_damaged_cells_are_named_and_computed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert a line for each, and the undisturbed files: a cell cut short, another one's."""
    assert swept(GOOD, tmp_path) == 0
    cells = sorted((tmp_path / "out" / "cells").iterdir())
    whole = {path: path.read_bytes() for path in (*cells, tmp_path / "out" / "grid.nc")}
    cells[0].write_bytes(whole[cells[0]][:-20])
    cells[1].write_bytes(whole[cells[0]])
    assert swept(GOOD, tmp_path) == 0
    assert capsys.readouterr().err.count("is damaged and is computed again") == 2
    assert {path: path.read_bytes() for path in whole} == whole


def test_another_code_computes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that cells of another version of the code are not taken over, and workers of another one refused."""
    assert swept(GOOD, tmp_path) == 0
    monkeypatch.setattr("snapdyn.experiments.sweep.execution.code_hash", lambda: "another")
    assert swept(GOOD, tmp_path) == 0
    assert len(kept(tmp_path)) == 8
    with pytest.raises(snapdyn.InputError, match="workers with the code of this sweep"):
        run_cell("ode", ("loss",), Path(), (), "a third", Cell(0, {}, {}, ""))


OWN = """
import numpy
import snapdyn as sd
from law import power

@sd.register
class Own(sd.System):
    def __init__(self, k: float) -> None:
        self.parameters = {"k": k}

    def initial_state(self):
        return numpy.array([1.0])

    def write_rate(self, state, out):
        out[0] = -self.parameters["k"] * state[0] ** power

sd.register(sd.Observable("last", "x at the end", "", lambda run: run.state[-1, 0], dims=()))
"""
OF_OWN = """
[system]
kind = "Own"
[run]
times = [1.0]
[sweep]
design = "grid"
observables = ["last"]
"system.k" = [1.0, 2.0]
"""


@pytest.mark.slow
def test_cells_of_loaded_code_are_computed_again(tmp_path: Path) -> None:
    """Assert the numbers of a module as it is now, with one and two processes, and a note about the earlier cells."""
    for name, text in {"own.py": OWN, "law.py": "power = 1", "own.toml": OF_OWN}.items():
        (tmp_path / name).write_text(text)

    def run(jobs: str) -> tuple[str, list[float]]:
        command = ["snapdyn", "sweep", "own.toml", "--load", "own.py", "--out", "out", "--jobs", jobs]
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
        )
        assert "2 computed, 0 taken over" in done.stdout
        return done.stderr, dataset(tmp_path, "own").last.values.tolist()

    note = "2 of 2 cells are there from an earlier run, and are computed again"
    at_first = pytest.approx([math.exp(-1), math.exp(-2)], rel=1e-6)
    assert run("1") == ("", at_first)
    error, values = run("1")
    assert note in error
    assert values == at_first
    (tmp_path / "law.py").write_text("power = 2")  # x' = -k x^2 from 1: 1/(1 + k t)
    error, values = run("2")
    assert note in error
    assert values == pytest.approx([1 / 2, 1 / 3], rel=1e-6)


def test_cells_of_a_plugin_are_computed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that an observable that is not snapdyn's own is enough: whoever registered it may have changed it."""
    OBSERVABLES.add(snapdyn.Observable("mine", "mine", "1", lambda run: 1.0, dims=()))
    own = GOOD.replace('["entropy", "loss"]', '["mine"]')
    for _ in range(2):
        assert swept(own, tmp_path) == 0
    captured = capsys.readouterr()
    assert captured.out.count("4 computed, 0 taken over") == 2
    assert captured.err.count("4 of 4 cells are there from an earlier run, and are computed again") == 1


def test_the_code_hash_reads_every_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the hash depends on every module that a cell can run, and on none that only shows something."""
    package = Path(snapdyn.__file__).parent
    seen: list[Path] = []
    read = Path.read_bytes

    def watched(self: Path) -> bytes:
        seen.append(self)
        return read(self) + b"#"

    before = source_hash(*SOURCES)
    monkeypatch.setattr(Path, "read_bytes", watched)
    assert source_hash.__wrapped__(*SOURCES) != before
    rooms = ("core", "analytic", "dynamics", "validation", "experiments")
    modules = {file for room in rooms for file in (package / room).rglob("*.py")}
    assert len(modules) > 100
    assert modules <= set(seen)
    assert not {package / "figures" / "snapdyn.mplstyle", package / "commands" / "sweep.py"} & set(seen)
