"""Running the cells of a sweep: their order, interruptions, two sweeps at once, lost workers, progress."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import xarray

from snapdyn.commands.main import main
from snapdyn.experiments.sweep import execution
from snapdyn.experiments.sweep.execution import run_cell
from snapdyn.experiments.sweep.files import read_sweep
from tests.experiments.sweep.helpers import GOOD, GRID, PHASE, dataset, kept, most_duplicates, swept


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the cells that are computed, one by one, in the order in which they are; each takes 5 ms or more."""
    numbers: list[int] = []

    def watched(*arguments: Any) -> Any:
        numbers.append(arguments[-1].number)
        time.sleep(0.005)
        return run_cell(*arguments)

    monkeypatch.setattr(execution, "run_cell", watched)
    return numbers


def test_ctrl_c_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert exit code 130, a dataset of what there is, and that the next run does the rest."""
    calls: list[int] = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_cell(*arguments)

    monkeypatch.setattr(execution, "run_cell", interrupted)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "grid.png").touch()
    assert swept(GOOD + PHASE, tmp_path) == 130
    error = capsys.readouterr().err
    assert "snapdyn: interrupted" in error
    assert "grid.png' is of an earlier run" in error
    assert (dataset(tmp_path).failure == "not run yet").sum() == 2
    assert dataset(tmp_path).attrs["finished"] == "2 of 4 cells"
    monkeypatch.undo()
    assert swept(GOOD + PHASE, tmp_path) == 0
    captured = capsys.readouterr()
    assert "2 computed, 2 taken over" in captured.out
    assert "earlier run" not in captured.err
    assert (tmp_path / "out" / "grid.png").stat().st_size > 0
    assert (dataset(tmp_path).failure == "").all()


def test_two_sweeps_on_one_folder(tmp_path: Path, visited: list[int]) -> None:
    """Assert that two runs at once compute little more than the cells, and leave whole files and the dataset of one."""
    cells = 100
    good = GOOD.replace("[0.1, 0.5]", f"{{ first = 0.1, last = 0.5, count = {cells} }}").replace("[2, 3]", "[2]")
    (tmp_path / "grid.toml").write_text(good)
    results = []

    def run() -> None:
        results.append(execution.run_sweep(read_sweep(tmp_path / "grid.toml"), tmp_path / "out", jobs=1))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {result.computed + result.taken_over for result in results} == {cells}
    assert set(visited) == set(range(cells))
    # 5.2 on average, 16 at most; without a look at the folder, or in the design's order, all cells are computed twice.
    assert len(visited) == results[0].computed + results[1].computed <= cells + most_duplicates(cells, 1)
    xarray.testing.assert_identical(results[0].dataset, results[1].dataset)
    assert len(kept(tmp_path)) == cells
    assert all(name.endswith(".json") for name in kept(tmp_path))
    again = execution.run_sweep(read_sweep(tmp_path / "grid.toml"), tmp_path / "out", jobs=1)
    assert (again.taken_over, again.computed) == (cells, 0)
    xarray.testing.assert_identical(again.dataset, dataset(tmp_path))


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
