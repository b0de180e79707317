"""Sweeps that are stopped from outside, and several sweeps on one folder."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.experiments.sweep.helpers import GOOD
from tests.helpers import group_has_ended

# A sweep whose cells wait first: the workers receive the function of this program, not its name.
SLOW = """
import os, sys, time
from snapdyn.commands.main import main
from snapdyn.experiments.sweep import execution

run_cell = execution.run_cell

def slow(*arguments):
    time.sleep(float(os.environ.get("SECONDS_PER_CELL", "0")))
    return run_cell(*arguments)

execution.run_cell = slow
sys.exit(main(["sweep", "slow.toml", "--out", "out", "--jobs", sys.argv[1]]))
"""
SWEEP = GOOD.replace("[0.1, 0.5]", "{ first = 0.01, last = 1.0, count = 12 }")
CELLS = 24
# A machine may be slow; nothing waits this long unless it hangs.
HANG = 120
COMMAND = [sys.executable, "-c", SLOW]


def start(folder: Path, jobs: int, seconds_per_cell: float) -> subprocess.Popen[str]:
    """Start the sweep as the leader of a group of processes, with pipes."""
    surroundings = os.environ | {"SECONDS_PER_CELL": str(seconds_per_cell)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, str(jobs)], cwd=folder, env=surroundings, start_new_session=True, **pipes)


@pytest.mark.long
def test_a_killed_and_a_stuck_sweep_hold_up_no_other(tmp_path: Path) -> None:
    """Assert that workers of a killed sweep end and close the pipe, and that nothing is left of one that is stuck.

    The next run resumes, computes the cell in which the other one is stuck, and leaves no unfinished file.
    """
    (tmp_path / "slow.toml").write_text(SWEEP)

    def stored() -> int:
        return len(list((tmp_path / "out").glob("cells/[!.]*.json")))

    with start(tmp_path, 2, 0.5) as run, start(tmp_path, 1, HANG) as stuck:
        deadline = time.monotonic() + HANG
        while stored() < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        run.kill()
        run.communicate(timeout=30)  # a pipe held by a worker would stay open
        assert group_has_ended(run.pid)
        before = stored()
        assert before < CELLS
        ended = subprocess.run([*COMMAND, "1"], cwd=tmp_path, capture_output=True, text=True, timeout=HANG, check=True)
        assert f"{CELLS - before} computed, {before} taken over" in ended.stdout
        assert stuck.poll() is None
        stuck.kill()
        stuck.communicate()
    assert stored() == CELLS
    assert list((tmp_path / "out").rglob(".*")) == []
