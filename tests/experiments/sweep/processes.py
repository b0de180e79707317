"""A sweep in a process of its own, whose cells take as long as a test wants, to be stopped from outside."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

SLOW = """
import os, time
import snapdyn as sd

def measure(run):
    time.sleep(float(os.environ.get("SECONDS_PER_CELL", "0")))
    return run.loss

sd.register(sd.Observable("slow", "loss", "nats", measure))
"""
SWEEP = """
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
times = [1.0, 10.0]

[sweep]
design = "grid"
observables = ["loss", "slow"]
"system.eta_Z" = { first = 0.01, last = 1.0, count = 24, spacing = "log" }
"""
CELLS = 24
# A machine may be slow; nothing waits this long unless it hangs.
HANG = 120


class SlowSweep:
    """A sweep file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "out" / "cells"
        (folder / "slow.py").write_text(SLOW)
        (folder / "slow.toml").write_text(SWEEP)

    def command(self, jobs: int, out: str = "out") -> list[str]:
        arguments = ["sweep", "slow.toml", "--load", "slow.py", "--out", out, "--jobs", str(jobs)]
        return [sys.executable, "-m", "snapdyn", *arguments]

    def start(self, jobs: int, seconds_per_cell: float) -> subprocess.Popen[str]:
        """Start the sweep as the leader of a group of processes, with pipes."""
        return subprocess.Popen(
            self.command(jobs), cwd=self.folder, env=os.environ | {"SECONDS_PER_CELL": str(seconds_per_cell)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            # A shell's background job ignores Ctrl-C, and its children inherit that.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the sweep to its end, with quick cells."""
        return subprocess.run(
            self.command(1), cwd=self.folder, capture_output=True, text=True, timeout=HANG, check=True
        )

    def stored(self) -> list[Path]:
        """Files of finished cells."""
        return list(self.cells.glob("[!.]*.json")) if self.cells.is_dir() else []

    def hidden(self) -> list[str]:
        """Names of unfinished files."""
        return [path.name for path in (self.folder / "out").rglob(".*")]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most HANG seconds."""
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
