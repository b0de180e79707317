"""`snapdyn sweep` on several processes: those of this machine, and a local dask cluster that loses a worker."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import xarray

from snapdyn.commands.main import main
from snapdyn.experiments.sweep import execution
from snapdyn.experiments.sweep.execution import Cells
from snapdyn.experiments.sweep.files import read_sweep

SWEEP = """
[classes]
kind = "single_common_token"
num_distinct = 3
common_probability = 0.2
vocab_size = 50

[system]
kind = "MeanField"
eta_Y = 1.0

[run]
first = 1.0
last = 1e4
count = 10

[sweep]
design = "grid"
observables = ["entropy", "class_entropy"]
"classes.num_classes" = [2, 3, 60]
"system.eta_Z" = { first = 0.01, last = 1.0, count = 30, spacing = "log" }
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "sweep.toml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def alone(file: Path) -> execution.SweepResult:
    """The sweep in this process."""
    return execution.run_sweep(read_sweep(file), file.parent / "alone", jobs=1)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each cell is stored."""
    counts: Counter[str] = Counter()
    add = Cells.add

    def counting(self: Cells, key: str, *rest: Any) -> None:
        counts[key] += 1
        add(self, key, *rest)

    monkeypatch.setattr(Cells, "add", counting)
    return counts


@pytest.mark.long
def test_a_cluster_that_loses_a_worker(
    file: Path, alone: execution.SweepResult, tmp_path: Path, written: Counter[str]
) -> None:
    """Assert that nothing is lost and nothing twice: every cell is stored once, the dataset is that of one process."""
    distributed = pytest.importorskip("distributed")
    lost: list[int] = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        processes = client.run(os.getpid)

        def kill_one(done: float, total: float, label: str) -> None:
            busy = [address for address, tasks in client.processing().items() if tasks]
            if not lost and done < total and busy:
                lost.append(processes[busy[0]])
                os.kill(processes[busy[0]], signal.SIGKILL)

        result = execution.run_sweep(
            read_sweep(file), tmp_path / "cluster", scheduler=cluster.scheduler_address, progress=kill_one
        )
    assert lost
    assert result.stopped == ""
    assert (result.computed, result.missing, result.failed) == (90, 0, 30)
    assert set(written.values()) == {1}
    assert len(written) == 60
    assert result.failures == alone.failures
    xarray.testing.assert_identical(result.dataset, alone.dataset)
    assert sorted(path.name for path in (tmp_path / "cluster" / "cells").iterdir()) == sorted(
        path.name for path in (file.parent / "alone" / "cells").iterdir()
    )


@pytest.mark.slow
def test_no_scheduler(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert one sentence where nobody answers."""
    pytest.importorskip("distributed")
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--scheduler", "nonsense://a"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("snapdyn: expected a dask scheduler at 'nonsense://a', received no answer")
    assert error.count("\n") == 1
