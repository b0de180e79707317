"""`snapdyn sweep` in a process that is forked from one with everything imported, so that a kill costs no start-up."""

import os
import signal
import sys

from snapdyn.commands import summaries
from snapdyn.commands.main import main
from snapdyn.dynamics.files.storage import code_version
from snapdyn.experiments.sweep import execution

__all__ = ["execution", "run", "summaries"]

# Once for all runs: a commit that is made during the attack would change the datasets.
code_version()


def run(arguments: list[str], folder: str, seconds_per_cell: float) -> None:
    """Run the command in a group of processes of its own; what it prints is in `stdout` and `stderr` of the folder."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    os.environ["SECONDS_PER_CELL"] = str(seconds_per_cell)
    with open("stdout", "w") as out, open("stderr", "w") as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout, sys.stderr = out, err
        try:
            code = main(arguments)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            code = 130
        out.flush()
        err.flush()
        os._exit(code)
