"""Overhead of a sweep: settings, hashes, one file per cell, the dataset, and sending cells to processes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snapdyn
from snapdyn.experiments.sweep.cells import Sweep
from snapdyn.experiments.sweep.execution import run_sweep
from snapdyn.experiments.sweep.files import read_sweep

CELLS = 1000
SWEEP = f"""
[classes]
kind = "single_common_token"
num_classes = 2
num_distinct = 3
common_probability = 0.3
vocab_size = 100
[system]
kind = "MeanField"
[run]
first = 1.0
last = 100.0
count = 10
[sweep]
design = "random"
count = {CELLS}
observables = ["entropy", "loss"]
"system.eta_Y" = {{ low = 0.1, high = 10.0, distribution = "log-uniform" }}
"system.eta_Z" = {{ low = 0.01, high = 1.0, distribution = "log-uniform" }}
"""


def least(call: Callable[[], Any], clock: Callable[[], float], rounds: int = 3) -> float:
    """Seconds of the fastest round, after one round that compiles and fills the caches."""
    call()
    seconds = []
    for _ in range(rounds):
        started = clock()
        call()
        seconds.append(clock() - started)
    return min(seconds)


def work(sweep: Sweep) -> None:
    """The cells alone: systems, trajectories, observables."""
    parameters = sweep.design.parameters
    classes = snapdyn.single_common_token(2, 3, 0.3, 100)
    times = snapdyn.log_times(1, 100, 10)
    for eta_Y, eta_Z in zip(parameters["system.eta_Y"], parameters["system.eta_Z"], strict=True):
        run = snapdyn.integrate(snapdyn.MeanField(classes, float(eta_Y), float(eta_Z)), times)
        _ = run.entropy()[-1].mean(), run.loss[-1]


@pytest.mark.benchmark(group="sweep")
@pytest.mark.parametrize("jobs", [1, 2])
def test_overhead(benchmark: Any, jobs: int, tmp_path: Path) -> None:
    """Seconds of a sweep of small cells; the overhead in ms per cell is printed.

    With one process the overhead is measured in processor time, because other load on the machine changes it less. With
    two processes it is the wall time minus half of the time of the work.
    """
    (tmp_path / "sweep.toml").write_text(SWEEP)
    sweep = read_sweep(tmp_path / "sweep.toml")
    clock = time.process_time if jobs == 1 else time.perf_counter

    def swept() -> None:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        result = run_sweep(sweep, tmp_path / "out", jobs=jobs)
        assert (result.computed, result.failed) == (CELLS, 0)

    alone, whole = least(lambda: work(sweep), clock), least(swept, clock)
    overhead = 1000 * (whole - alone / jobs) / CELLS
    benchmark.extra_info["overhead_ms_per_cell"] = overhead
    print(f"\n{jobs} process(es): work {1000 * alone / CELLS:.2f} ms per cell, {overhead:.2f} ms beyond it")
    benchmark.pedantic(swept, rounds=1)
