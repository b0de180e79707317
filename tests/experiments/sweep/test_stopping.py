"""Sweeps that are stopped from outside, and several sweeps on one folder."""

import os
import signal
from pathlib import Path

import pytest
import xarray

from tests.experiments.sweep.processes import CELLS, HANG, SlowSweep, wait_until
from tests.helpers import group_has_ended


@pytest.mark.long
def test_a_sweep_that_is_told_to_stop(tmp_path: Path) -> None:
    """Assert exit code, one line on stderr, matching counts, a dataset of what is stored, and that no process lives."""
    sweep = SlowSweep(tmp_path)
    with sweep.start(2, 0.2) as run:
        wait_until(lambda: len(sweep.stored()) >= 3)
        os.kill(run.pid, signal.SIGTERM)
        out, err = run.communicate(timeout=HANG)
    assert run.returncode == 143
    assert group_has_ended(run.pid)
    assert err.startswith("snapdyn: terminated;")
    assert err.count("\n") == 1
    stored = len(sweep.stored())
    assert 3 <= stored < CELLS
    assert f"{stored} of {CELLS} cells: {stored} computed, 0 taken over, 0 failed, {CELLS - stored} not run" in out
    with xarray.open_dataset(tmp_path / "out" / "slow.nc") as dataset:
        assert int(dataset.loss.notnull().sum()) == stored
    assert sweep.hidden() == []


@pytest.mark.long
def test_a_killed_and_a_stuck_sweep_hold_up_no_other(tmp_path: Path) -> None:
    """Assert that workers of a killed sweep end and close the pipe, and that nothing is left of one that is stuck.

    The next run resumes, computes the cell in which the other one is stuck, and leaves no unfinished file.
    """
    sweep = SlowSweep(tmp_path)
    with sweep.start(2, 0.5) as run, sweep.start(1, HANG) as stuck:
        wait_until(lambda: len(sweep.stored()) >= 2)
        run.kill()
        run.communicate(timeout=30)  # a pipe held by a worker would stay open
        assert group_has_ended(run.pid)
        stored = len(sweep.stored())
        assert stored < CELLS
        assert f"{CELLS - stored} computed, {stored} taken over" in sweep.run().stdout
        assert stuck.poll() is None
        stuck.kill()
        stuck.communicate()
    assert len(sweep.stored()) == CELLS
    assert sweep.hidden() == []
