"""`snapdyn sweep` in a process that is forked from one with everything imported, so that a kill costs no start-up."""

from __future__ import annotations

import os
import signal
import sys

from snapdyn.commands.main import main
from snapdyn.commands.summaries import sweep as summaries
from snapdyn.experiments.sweep import execution

__all__ = ["execution", "run", "summaries"]


def run(arguments: list[str], folder: str, seconds_per_cell: float) -> None:
    """Run the command in a group of processes of its own; what it prints is in `out` and `err` of the folder."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    os.environ["SECONDS_PER_CELL"] = str(seconds_per_cell)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", closefd=False)
    try:
        code = main(arguments)
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
