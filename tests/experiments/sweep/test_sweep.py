"""`snapdyn sweep`: designs, cells kept and taken over, failures, one dataset; bad files are refused."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import snapdyn
from snapdyn.commands.main import main
from snapdyn.dynamics.storage import source_hash
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_runs
from snapdyn.experiments.sweep import execution as sweep_run
from snapdyn.experiments.sweep.cells import Cell, run_cells
from snapdyn.experiments.sweep.files import read_sweep
from snapdyn.experiments.sweep.store import SOURCES, code_hash
from snapdyn.validation.rungs import ladder
from tests.helpers import EXAMPLES, FABLE

FILES = sorted(EXAMPLES.glob("sweep_*.toml"))
GRID = """
[classes]
kind = "single_common_token"
num_classes = 3
num_distinct = 2
common_probability = 0.3
vocab_size = 20

[system]
kind = "MeanField"
eta_Y = 1.0

[run]
first = 1.0
last = 100.0
count = 5

[sweep]
design = "grid"
observables = ["entropy", "class_entropy", "transition_time", "loss_series"]
"system.eta_Z" = [0.1, 0.5]
classes.num_classes = [2, 3, 25]
"""
GOOD = re.sub(r"observables = .*", 'observables = ["entropy", "loss"]', GRID.replace(", 25]", "]"))


def swept(text: str, folder: Path, *options: str, name: str = "grid") -> int:
    """Run a sweep file in this process; its exit code."""
    file = folder / f"{name}.toml"
    file.write_text(text)
    return main(["sweep", str(file), "--out", str(folder / "out"), "--jobs", "1", *options])


def dataset(folder: Path, name: str = "grid") -> xarray.Dataset:
    with xarray.open_dataset(folder / "out" / f"{name}.nc") as opened:
        return opened.load()


def kept(folder: Path) -> dict[str, float]:
    """Time of the last change of every file in OUT/cells."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out" / "cells").iterdir()}


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


def test_another_code_computes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that cells of another version of the code are not taken over, and workers of another one refused."""
    assert swept(GOOD, tmp_path) == 0
    for module in ("execution", "cells"):
        monkeypatch.setattr(f"snapdyn.experiments.sweep.{module}.code_hash", lambda: "another")
    assert swept(GOOD, tmp_path) == 0
    assert len(kept(tmp_path)) == 8
    with pytest.raises(snapdyn.InputError, match="workers with the code of this sweep"):
        run_cells("ode", ("loss",), ".", ".", "a third", [Cell(0, "", {})])


def cut(text: str) -> str:
    return text[: len(text) // 2]


def altered(text: str) -> str:
    at = text.index('"entropy": ') + len('"entropy": ') + 4
    return text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :]


@pytest.mark.parametrize("damage", [cut, altered])
def test_a_damaged_cell_is_named_and_redone(
    damage: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that a file cut short, or with another digit, is named on stderr and computed again."""
    assert swept(GOOD, tmp_path) == 0
    first, before = dataset(tmp_path), kept(tmp_path)
    file = tmp_path / "out" / "cells" / sorted(before)[1]
    whole = file.read_text()
    file.write_text(damage(whole))
    assert swept(GOOD, tmp_path) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert file.name in captured.err
    assert "is damaged and is computed again" in captured.err
    assert "1 computed, 3 taken over" in captured.out
    assert file.read_text() == whole
    xarray.testing.assert_identical(dataset(tmp_path), first)


def test_ctrl_c_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert exit code 130, a dataset of what there is, and that the next run does the rest."""
    calls: list[int] = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_cells(*arguments)

    monkeypatch.setattr(sweep_run, "run_cells", interrupted)
    monkeypatch.setattr(sweep_run, "MOST_AT_ONCE", 1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "grid.png").touch()
    assert swept(GOOD + PHASE, tmp_path) == 130
    error = capsys.readouterr().err
    assert "snapdyn: interrupted" in error
    assert "grid.png is of an earlier run" in error
    assert (dataset(tmp_path).failure == "not run yet").sum() == 2
    assert dataset(tmp_path).attrs["finished"] == "2 of 4 cells"
    monkeypatch.undo()
    assert swept(GOOD + PHASE, tmp_path) == 0
    captured = capsys.readouterr()
    assert "2 computed, 2 taken over" in captured.out
    assert "earlier run" not in captured.err
    assert (tmp_path / "out" / "grid.png").stat().st_size > 0
    assert (dataset(tmp_path).failure == "").all()


def test_two_sweeps_on_one_folder(tmp_path: Path) -> None:
    """Assert that two runs at once leave whole files and the dataset of one run."""
    good = GOOD.replace("[0.1, 0.5]", "{ first = 0.1, last = 0.5, count = 9 }")
    (tmp_path / "grid.toml").write_text(good)
    results = []

    def run() -> None:
        results.append(sweep_run.run_sweep(read_sweep(tmp_path / "grid.toml"), tmp_path / "out", jobs=1))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    xarray.testing.assert_identical(results[0].dataset, results[1].dataset)
    assert len(kept(tmp_path)) == 18
    assert all(name.endswith(".json") for name in kept(tmp_path))
    again = sweep_run.run_sweep(read_sweep(tmp_path / "grid.toml"), tmp_path / "out", jobs=1)
    assert (again.taken_over, again.computed) == (18, 0)
    xarray.testing.assert_identical(again.dataset, dataset(tmp_path))


RANDOM = GOOD.replace('design = "grid"', 'design = "random"\ncount = 6').replace("[0.1, 0.5]", "SPREAD")
RANDOM = RANDOM.replace("[2, 3]", "{ low = 2, high = 4 }")
SPREAD = '{ low = 0.01, high = 1.0, distribution = "log-uniform" }'


def test_random_designs(tmp_path: Path) -> None:
    """Assert the ranges, whole numbers, that more cells keep the first, and that parameters do not disturb others."""
    file = tmp_path / "random.toml"

    def drawn(text: str) -> dict[str, list[Any]]:
        file.write_text(text.replace("SPREAD", SPREAD))
        return dict(read_sweep(file).design.parameters)

    six, many = drawn(RANDOM), drawn(RANDOM.replace("count = 6", "count = 4000"))
    assert {name: values[:6] for name, values in many.items()} == six
    assert drawn(RANDOM.replace("classes.num_classes", "classes.vocab_size"))["system.eta_Z"] == six["system.eta_Z"]
    assert drawn(RANDOM.replace("count = 6", "count = 6\nseed = 1"))["system.eta_Z"] != six["system.eta_Z"]
    rates, numbers = np.log10(many["system.eta_Z"]), many["classes.num_classes"]
    assert set(numbers) == {2, 3, 4}
    # Uniform on [-2, 0]: mean -1, standard error sqrt(1/3/4000); 5 of them.
    assert abs(rates.mean() + 1) < 5 * np.sqrt(1 / 3 / 4000)
    assert rates.min() >= -2
    assert rates.max() <= 0
    with pytest.raises(snapdyn.InputError, match=r"whole number from low to high for classes\.num_classes"):
        drawn(RANDOM.replace("low = 2, high = 4", "low = 2.2, high = 2.8"))
    assert swept(RANDOM.replace("SPREAD", SPREAD), tmp_path, name="random") == 0
    data = dataset(tmp_path, "random")
    assert data.entropy.dims == ("cell",)
    assert data.eta_Z.values.tolist() == six["system.eta_Z"]


def test_list_designs_and_names_that_are_not_unique(tmp_path: Path) -> None:
    """Assert that values go together, that equal settings run once, and that two seeds keep their dotted names."""
    text = """
[classes]
kind = "random_classes"
[sgd]
eta_Y = 0.5
eta_Z = 0.5
steps = 20
[sweep]
design = "list"
"sgd.seed" = [3, 4, 3]
"classes.seed" = [0, 1, 0]
"""
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    assert data["sgd.seed"].values.tolist() == [3, 4, 3]
    assert data["classes.seed"].values.tolist() == [0, 1, 0]
    assert len(kept(tmp_path)) == 2
    assert data.loss[0] == data.loss[2] != data.loss[1]
    run = snapdyn.sgd(snapdyn.random_classes(seed=1), 0.5, 0.5, 20, seed=4)
    assert float(data.entropy[1]) == pytest.approx(run.entropy()[-1].mean(), rel=1e-12)


def test_seeds_of_sgd_are_a_dimension(tmp_path: Path) -> None:
    """Assert the values of each seed, and the transition time of descent against that of the flow at small rates."""
    text = GRID.replace('[system]\nkind = "MeanField"\neta_Y = 1.0', "[sgd]\neta_Y = 0.05\nsteps = 1500\nseeds = 2")
    text = re.sub(r"\[run\][^[]*", "", text).replace("system.eta_Z", "sgd.eta_Z").replace("[2, 3, 25]", "[3]")
    text = text.replace("[0.1, 0.5]", "[0.005, 0.01]").replace('"class_entropy", ', "")
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    assert data.entropy.dims == ("eta_Z", "num_classes", "seed")
    assert data.seed.attrs["parameter"] == "sgd.seed"
    classes = snapdyn.single_common_token(3, 2, 0.3, 20)
    run = snapdyn.sgd(classes, 0.05, 0.01, 1500, seed=1)
    assert float(data.entropy[1, 0, 1]) == pytest.approx(run.entropy()[-1].mean(), rel=1e-12)
    # Batches of one: visits of the classes up to t* = 145, 48 each, scatter by their root.
    assert np.abs(data.transition_time / data.t_peak - 1).max() < 4 * np.sqrt(3 / data.t_peak.min())
    assert (data.transition_time / data.t_end < 0.6).all()
    assert swept(text.replace("steps = 1500", 'steps = 9\noptimizer = "adam"'), tmp_path, name="adam") == 0
    assert dataset(tmp_path, "adam").t_peak.isnull().all()


def test_transition_time_with_momentum_is_on_the_momentum_clock(tmp_path: Path) -> None:
    """Assert that with momentum 0.9 the transition is that of the flow on `momentum_clock`, ten times the step."""
    text = GRID.replace(
        '[system]\nkind = "MeanField"\neta_Y = 1.0', "[sgd]\neta_Y = 0.005\nsteps = 400\nmomentum = 0.9\nseeds = 2"
    )
    text = re.sub(r"\[run\][^[]*", "", text).replace("system.eta_Z", "sgd.eta_Z").replace("[2, 3, 25]", "[3]")
    text = text.replace("[0.1, 0.5]", "[0.0005]").replace('"class_entropy", ', "")
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    # Visits of the classes scatter as without momentum.
    assert np.abs(data.transition_time / data.t_peak - 1).max() < 4 * np.sqrt(3 / data.t_peak.min())


def test_seeds_of_classes_beside_those_of_sgd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert two dimensions of different names where both seeds vary, a cell, and the diagram over them."""
    text = """
[classes]
kind = "random_classes"
[sgd]
eta_Y = 0.1
eta_Z = 0.1
steps = 9
seeds = [5, 7]
[sweep]
design = "grid"
observables = ["entropy"]
classes.seed = [0, 1, 2]
"""
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    assert dict(data.sizes) == {"classes.seed": 3, "sgd.seed": 2}
    assert [data[name].attrs["parameter"] for name in data.dims] == list(data.dims)
    run = snapdyn.sgd(snapdyn.random_classes(seed=2), 0.1, 0.1, 9, seed=7)
    found = data.entropy.sel({"classes.seed": 2, "sgd.seed": 7})
    assert float(found) == pytest.approx(run.entropy()[-1].mean(), rel=1e-12)
    phase = '[phase]\nx = "classes.seed"\ny = "sgd.seed"\nvariable = "entropy"\n'
    assert swept(text + phase, tmp_path) == 0
    assert (tmp_path / "out" / "grid.png").is_file()
    assert swept((text + phase).replace('"grid"', '"list"'), tmp_path) == 2
    assert "received another design" in capsys.readouterr().err


def test_one_mistake_in_all_cells_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 2 and no list of cells where all fail alike, but for the value."""
    assert swept(GOOD.replace("[0.1, 0.5]", "[-1.0, -2.5e-3]"), tmp_path) == 2
    error = capsys.readouterr().err
    assert "received the same kind of error from all 4 cells: expected eta_Z to be a positive finite number" in error
    assert error.count("\n") == 1


def test_the_length_of_sequences_varies(tmp_path: Path) -> None:
    """Assert the loss of sequences of 9 and 99 contextual tokens against the library's."""
    text = GOOD.replace('"MeanField"', '"FiniteLengthMeanField"').replace("classes.num_classes = [2, 3]", "")
    assert swept(text + '"system.seq_len" = [9, 99]\n', tmp_path) == 0
    data = dataset(tmp_path)
    classes, times = snapdyn.single_common_token(3, 2, 0.3, 20), snapdyn.log_times(1, 100, 5)
    for seq_len in (9, 99):
        run = snapdyn.integrate(snapdyn.FiniteLengthMeanField(classes, 1.0, 0.5, seq_len), times)
        assert float(data.loss.sel(eta_Z=0.5, seq_len=seq_len)) == run.loss[-1]


def test_whole_numbers_may_be_written_as_others(tmp_path: Path) -> None:
    """Assert that 2.0 is taken as 2 where a key takes whole numbers."""
    assert swept(GOOD.replace("[2, 3]", "[2.0, 3e0]"), tmp_path) == 0
    assert dataset(tmp_path).num_classes.values.tolist() == [2, 3]


def test_a_log_shows_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert lines with the finished cells and the remaining time where stderr is no terminal."""
    monkeypatch.setattr("snapdyn.commands.terminal.SECONDS_BETWEEN_LINES", 0.0)
    assert swept(GOOD, tmp_path) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("snapdyn: cells 1/4 about ")
    assert lines[-1] == "snapdyn: cells 4/4 about 0 s left"


class FutureCancelledError(Exception):
    """As distributed's, told by its name."""


def test_a_lost_scheduler_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence, exit code 1 and the dataset so far where the scheduler vanishes after the first portion."""

    class Parallel:
        def __init__(self, **options: Any) -> None:
            pass

        def __call__(self, calls: Iterator[Any]) -> Iterator[Any]:
            function, arguments, options = next(calls)
            yield function(*arguments, **options)
            raise FutureCancelledError

    with monkeypatch.context() as patched:
        patched.setattr("snapdyn.experiments.sweep.execution.joblib.Parallel", Parallel)
        assert swept(GOOD, tmp_path) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("snapdyn: the dask scheduler no longer answers; finished cells are kept")
    assert "1 of 4 cells" in captured.out
    assert dataset(tmp_path).entropy.notnull().sum() == 1
    assert swept(GOOD, tmp_path) == 0
    assert "3 computed, 1 taken over" in capsys.readouterr().out


def test_series_whose_times_differ(tmp_path: Path) -> None:
    """Assert that each cell keeps its own times where the end of the run is swept, and the kind of system may be."""
    text = GOOD.replace('"entropy"', '"loss_series"').replace("classes.num_classes = [2, 3]", "run.last = [10.0, 50.0]")
    text = text.replace("[0.1, 0.5]", "[0.1]") + '"system.kind" = ["MeanField", "ModifiedDecoder"]\n'
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    assert data.times.dims == ("eta_Z", "last", "kind", "time")
    np.testing.assert_allclose(data.times.sel(last=50.0, kind="MeanField")[0], snapdyn.log_times(1, 50, 5))
    np.testing.assert_array_equal(data.loss_series.isel(time=-1), data.loss)
    assert data.loss.sel(kind="MeanField", last=50.0) != data.loss.sel(kind="ModifiedDecoder", last=50.0)


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


def test_the_reduced_system(tmp_path: Path) -> None:
    """Assert the growth exponent, the default where there are no classes, against the closed form."""
    text = """
[system]
kind = "SingleCommonToken"
num_classes = 5
vocab_size = 100
eta_Y = 1.0
rho0 = 5.0
[run]
times = [100.0]
[sweep]
design = "grid"
"system.eta_Z" = [0.01, 0.1]
"""
    assert swept(text, tmp_path) == 0
    exponents = [float(snapdyn.analytic.growth_exponent(100.0, 1.0, eta_Z, 100, 5, 5.0)) for eta_Z in (0.01, 0.1)]
    np.testing.assert_allclose(dataset(tmp_path).growth_exponent, exponents, rtol=1e-6)


def fake_training(
    paths: list[Path],
    *,
    learning_rate: float,
    num_layers: int = 1,
    seed: int = 0,
    shuffle: bool = False,
    iterations: int = 10,
    max_vocab: int | None = None,
    embedding: int = 200,
    clip: float | None = 0.5,
    checkpoint: Path | None = None,
    progress: object = None,
    **others: object,
) -> TransformerRun:
    """Stand in for `train_transformer`: the same signature in short, and a run at once."""
    assert all(path.is_file() or path.is_dir() for path in paths)
    if learning_rate > 5:
        raise snapdyn.InputError("expected a smaller learning_rate, received one at which training diverges")
    attention = np.array([[[np.nan, np.nan], [1.0, np.nan]]] * 2)
    entropy = np.array([3.0, 3.0 - 0.1 * learning_rate + 0.01 * seed])
    return TransformerRun(
        "text",
        num_layers,
        learning_rate,
        seed,
        np.array([0, iterations]),
        attention,
        entropy,
        ("a", "b"),
        loss=np.ones(2),
        change=np.ones(2),
    )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdyn.experiments.training_sections.train_transformer", fake_training)


@pytest.mark.usefixtures("fake")
def test_transformers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert the entropies, saved runs that figure 10 draws, a failing cell, and text that is part of the settings."""
    text = """
[transformer]
paths = "a.txt"
[sweep]
design = "grid"
observables = ["entropy", "entropy_series"]
"transformer.learning_rate" = [1, 2.0, 9.0]
"transformer.seed" = [0, 1]
"""
    (tmp_path / "a.txt").write_text("some words")
    assert swept(text, tmp_path) == 1
    data = dataset(tmp_path)
    np.testing.assert_allclose(data.entropy, [[2.9, 2.91], [2.8, 2.81], [np.nan, np.nan]])
    assert data.entropy_series.dims == ("learning_rate", "seed", "time")
    runs = load_transformer_runs(tmp_path / "out" / "runs")
    assert {(run.learning_rate, run.seed) for run in runs} == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert main(["figures", "10", "--runs", str(tmp_path / "out" / "runs"), "--out", str(tmp_path / "pictures")]) == 0
    assert (tmp_path / "pictures" / "figure_10.png").is_file()
    capsys.readouterr()
    next((tmp_path / "out" / "runs").iterdir()).unlink()
    assert swept(text.replace(", 9.0]", "]"), tmp_path) == 0
    assert "1 computed, 3 taken over" in capsys.readouterr().out
    (tmp_path / "a.txt").write_text("other words")
    assert swept(text.replace(", 9.0]", "]"), tmp_path) == 0
    assert "4 computed, 0 taken over" in capsys.readouterr().out


@pytest.mark.usefixtures("fake")
def test_simulate_trains_a_transformer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a run file with [transformer] gives a saved run, and that its keys are the function's."""
    file = tmp_path / "run.toml"
    (tmp_path / "a.txt").write_text("some words")
    file.write_text('[transformer]\npaths = ["a.txt"]\nlearning_rate = 2.0\nseed = 3\n')
    assert main(["simulate", str(file)]) == 0
    assert load_transformer_runs(tmp_path)[0].seed == 3
    for wrong, hint in (("sed = 3", "did you mean 'seed'"), ("seed = 3.5", "seed in [transformer]"),
                        ('checkpoint = "x"', "expected only known keys")):  # fmt: skip
        file.write_text(f'[transformer]\npaths = ["a.txt"]\nlearning_rate = 2.0\n{wrong}\n')
        assert main(["simulate", str(file)]) == 2
        assert hint in capsys.readouterr().err


def test_transformers_are_trained(tmp_path: Path) -> None:
    """Assert that a sweep over small transformers on a real text gives what the function itself gives."""
    pytest.importorskip("torch", reason="trains transformers, which need the extra text (torch)")
    text = FABLE
    options = {"iterations": 3, "window": 6, "embedding": 8, "batch_size": 2, "min_token_count": 1}
    section = "\n".join(f"{name} = {value}" for name, value in options.items())
    assert swept(f"""
[transformer]
paths = '{text}'
{section}
[sweep]
design = "grid"
"transformer.learning_rate" = [0.5, 1.0]
""", tmp_path) == 0  # fmt: skip
    run = snapdyn.train_transformer(text, learning_rate=1.0, **options)
    last = dataset(tmp_path).isel(learning_rate=1)
    assert (float(last.entropy), float(last.loss)) == (run.entropy[-1], run.loss[-1])


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("fake")
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


def test_examples_exist() -> None:
    """Assert that the examples were found."""
    assert len(FILES) == 7


PHASE = '[phase]\nx = "eta_Z"\ny = "num_classes"\nvariable = "entropy"\n'


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        ('design = "grid"', 'design = "gird"', "did you mean 'grid'"),
        ('design = "grid"', "", "design in [sweep]"),
        ('design = "grid"', 'design = "list"', "lists of one length"),
        ('design = "grid"', 'design = "random"', "count in [sweep] for a random design"),
        ('design = "grid"', 'design = "grid"\ncount = 3', "for no other, received 3"),
        ('"system.eta_Z" =', '"system.eta_z" =', "did you mean 'eta_Z'"),
        ('"system.eta_Z" =', '"sistem.eta_Z" =', "did you mean 'system'"),
        ('"system.eta_Z" =', "eta_Z =", "besides parameters such as"),
        ("[0.1, 0.5]", "[]", "as a list of numbers"),
        ("[0.1, 0.5]", "0.1", "as a list of numbers"),
        ("[0.1, 0.5]", "[[0.1], [0.5]]", "as a list of numbers"),
        ("[0.1, 0.5]", "[0.1, 0.1]", "different values of system.eta_Z"),
        ("[0.1, 0.5]", '[0.1, "a"]', "eta_Z in [system]"),
        ("[0.1, 0.5]", "{ first = 0.1, last = 1.0 }", "count in system.eta_Z"),
        (
            "[0.1, 0.5]",
            '{ first = 0.0, last = 1.0, count = 3, spacing = "log" }',
            "first of system.eta_Z to be a positive",
        ),
        ("[0.1, 0.5]", "{ first = 0.1, last = 1.0, count = 400_000 }", "at most 1000000 cells"),
        ("[0.1, 0.5]", "{ first = 0.1, last = 1.0, count = 4_000_000 }", "count in system.eta_Z"),
        ("[0.1, 0.5]", "{ low = 0.1, high = 1.0 }", "'low'"),
        ("system.eta_Z", "system.eta_X", "expected only known keys in [system] (to vary it in [sweep]"),
        ("[0.1, 0.5]", "[nan, 0.1]", "finite numbers for system.eta_Z"),
        ("[0.1, 0.5]", "{ first = 0.1, last = inf, count = 3 }", "last in system.eta_Z"),
        ("common_probability = 0.3", "common_probability = nan", "common_probability in [classes]"),
        ("vocab_size = 20", "vocab_size = 1", "received the same error from all 6 cells: expected vocab_size"),
        ("[2, 3, 25]", "[2.5, 3]", "num_classes in [classes]"),
        ('["entropy", ', '["entorpy", ', "did you mean 'entropy'"),
        ('["entropy", "class_entropy", "transition_time", "loss_series"]', "[]", "at least one observable"),
        ("[run]", "[sgd]\n[run]", "received system and sgd"),
        ("[sweep]", "[sweeps]", "did you mean 'sweep'"),
        ('[system]\nkind = "MeanField"\neta_Y = 1.0', "", "received none; it says what a cell runs"),
        ('kind = "MeanField"', 'kind = "MeanFeld"', "did you mean 'MeanField'"),
        ("[sweep]", PHASE.replace('"eta_Z"', '"eta_Y"') + "[sweep]", "did you mean 'eta_Z'"),
        ("[sweep]", PHASE.replace('"num_classes"', '"eta_Z"') + "[sweep]", "two different axes"),
        ("[sweep]", PHASE.replace("entropy", "entrop") + "[sweep]", "did you mean 'entropy'"),
        ("classes.num_classes = [2, 3, 25]", PHASE, "grid of at least two parameters"),
        ("[2, 3, 25]", "[2]\n" + PHASE, "two numbers on the axis num_classes of [phase], received one"),
        ("[sweep]", PHASE + '[sweep]\n"system.eta_Y" = [1.0, 2.0]', "received eta_Y with several values"),
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
    assert "expected an observable with one number per cell" in capsys.readouterr().err


def test_a_sweep_without_dask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence that says how to install dask, and one for two ways at once."""
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    (tmp_path / "grid.toml").write_text(GRID)
    arguments = ["sweep", str(tmp_path / "grid.toml"), "--out", str(tmp_path / "out"), "--scheduler", "tcp://a:1"]
    assert main(arguments) == 2
    assert "pip install 'snapdyn[cluster]'" in capsys.readouterr().err
    assert main([*arguments, "--jobs", "2"]) == 2
    assert "expected --jobs or --scheduler, received both" in capsys.readouterr().err


def test_the_code_hash_covers_what_a_cell_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a change in any module below the figures changes the hash, and a style sheet or a figure does not."""
    package = Path(snapdyn.__file__).parent
    read = Path.read_bytes
    before = source_hash.__wrapped__(*SOURCES)

    def edited(file: Path) -> str:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self == file))
            return str(source_hash.__wrapped__(*SOURCES))

    assert before == code_hash()
    modules = [
        file
        for room in ("analytic", "dynamics", "validation", "experiments")
        for file in (package / room).rglob("*.py")
    ]
    assert len(modules) > 100
    for file in [package / "errors.py", *random.Random(0).sample(modules, 12)]:
        assert edited(file) != before, file
    for name in ("figures/snapdyn.mplstyle", "figures/figure_3.py", "commands/sweep.py", "report/templates/report.css"):
        assert (package / name).exists()
        assert edited(package / name) == before
