"""Sweeps that are stopped from outside, and several sweeps on one folder."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
import xarray

from tests.experiments.sweep.helpers import most_duplicates
from tests.experiments.sweep.processes import CELLS, HANG, SlowSweep, wait_until
from tests.helpers import group_has_ended


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code", "to_group", "jobs"),
    [(signal.SIGINT, 130, True, 2), (signal.SIGTERM, 143, False, 2), (signal.SIGTERM, 143, False, 1)],
    ids=["Ctrl-C", "SIGTERM of the parent", "SIGTERM without workers"],
)
def test_a_sweep_that_is_told_to_stop(
    sent: signal.Signals, code: int, to_group: bool, jobs: int, tmp_path: Path
) -> None:
    """Assert exit code, one line on stderr, matching counts, a dataset of what is stored, and that no process lives."""
    sweep = SlowSweep(tmp_path)
    with sweep.start(jobs, 0.2) as run:
        wait_until(lambda: len(sweep.stored()) >= 3)
        (os.killpg if to_group else os.kill)(run.pid, sent)
        out, err = run.communicate(timeout=HANG)
    assert run.returncode == code
    assert group_has_ended(run.pid)
    assert err.startswith("snapdyn: terminated;" if sent == signal.SIGTERM else "snapdyn: interrupted;")
    assert err.count("\n") == 1
    stored = len(sweep.stored())
    assert 3 <= stored < CELLS
    counts = f"{stored} of {CELLS} cells: {stored} computed, 0 taken over, 0 failed, {CELLS - stored} not run"
    assert counts in out
    with xarray.open_dataset(tmp_path / "out" / "slow.nc") as dataset:
        assert int(dataset.loss.notnull().sum()) == stored
    assert sweep.hidden() == []


@pytest.mark.slow
def test_workers_of_a_killed_sweep(tmp_path: Path) -> None:
    """Assert that they end and close the pipe, and that the next run resumes and leaves no unfinished file."""
    sweep = SlowSweep(tmp_path)
    with sweep.start(2, 0.5) as run:
        wait_until(lambda: len(sweep.stored()) >= 2)
        run.kill()
        run.communicate(timeout=30)  # a pipe held by a worker would stay open
    assert group_has_ended(run.pid)
    stored = len(sweep.stored())
    assert stored < CELLS
    assert f"{CELLS - stored} computed, {stored} taken over" in sweep.run().stdout
    assert sweep.hidden() == []


@pytest.mark.slow
def test_three_sweeps_share_a_folder(tmp_path: Path) -> None:
    """Assert that few cells are computed twice, and that every run ends with all cells, as one run alone."""
    sweep = SlowSweep(tmp_path)
    runs = [sweep.start(jobs, 0.3) for jobs in (1, 1, 2)]
    for run in runs:
        out, err = run.communicate(timeout=HANG)
        assert run.returncode == 0
        assert err == ""
        computed, taken_over = map(int, re.search(r"(\d+) computed, (\d+) taken over", out).groups())  # type: ignore[union-attr]
        assert computed + taken_over == CELLS
    assert CELLS <= sweep.computed() <= CELLS + most_duplicates(CELLS, 3)
    assert sweep.hidden() == []
    sweep.run(out="alone")
    assert (tmp_path / "out" / "slow.nc").read_bytes() == (tmp_path / "alone" / "slow.nc").read_bytes()
    assert {file.name: file.read_bytes() for file in sweep.stored()} == {
        file.name: file.read_bytes() for file in (tmp_path / "alone" / "cells").iterdir()
    }


@pytest.mark.slow
def test_a_stuck_sweep_holds_up_no_other(tmp_path: Path) -> None:
    """Assert that a sweep computes the cell in which another one is stuck, and that nothing is left of that one."""
    sweep = SlowSweep(tmp_path)
    with sweep.start(1, HANG) as stuck:
        wait_until(sweep.cells.is_dir)
        assert f"{CELLS} computed, 0 taken over" in sweep.run().stdout
        assert stuck.poll() is None
        stuck.kill()
        stuck.communicate()
    assert len(sweep.stored()) == CELLS
    assert sweep.hidden() == []
