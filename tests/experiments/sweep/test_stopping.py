"""Sweeps that are stopped from outside, and several sweeps on one folder."""

from pathlib import Path

import pytest

from tests.experiments.sweep.processes import CELLS, HANG, SlowSweep, wait_until
from tests.helpers import group_has_ended


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
