"""`snapdyn sweep`: a grid, list or random design of settings, as one labelled dataset and a phase diagram."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from snapdyn.commands.options import Jobs, Load, Register
from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, progress_bar, say, show, show_saved


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run; see examples/sweep_*.toml.")],
    jobs: Jobs = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the workers of this dask scheduler instead.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for cells, dataset and diagram.")] = Path("out"),
    load: Load = None,
    register: Register = None,
) -> int:
    """Run a grid, list or random design of settings and write one dataset, and a diagram where the file asks for one.

    Finished cells are kept in DIR/cells: the same command again runs what is missing, and with code of your own all
    cells. Exit code 1: some cells failed.

    Example: snapdyn sweep examples/sweep_rates.toml --out rates

    Example: snapdyn sweep examples/sweep_rates.toml --scheduler tcp://10.0.0.1:8786
    """
    from snapdyn.commands.summaries import draw_diagram, show_sweep
    from snapdyn.experiments.sweep.cells import dataset_of
    from snapdyn.experiments.sweep.execution import run_sweep
    from snapdyn.experiments.sweep.files import read_sweep
    from snapdyn.figures.heat_maps import WIDTH, diagram
    from snapdyn.figures.style import figure_width

    described = read_sweep(file)
    phase = described.phase
    if phase is not None:
        without_values = dataset_of(described, [None] * math.prod(described.design.shape), {})
        diagram(without_values, phase.x, phase.y, phase.variable)
        figure_width(phase.width, phase.style, WIDTH)  # refuses a wrong one now, and not after the run
    with progress_bar("cells") as update:
        result = run_sweep(described, out, jobs, scheduler, update, say)
    show_sweep(result)
    if result.path is None:
        show("saved      nothing, since no cell is finished")
    else:
        saved = [result.path]
        if phase is not None and result.stopped == "":
            saved += draw_diagram(out, described.name, result.dataset, phase)
        elif phase is not None and (picture := result.path.with_suffix(".png")).exists():
            say(f"{str(picture)!r} is of an earlier run; the same command draws it anew when all cells are there")
        show_saved(*saved)
    if result.stopped == "interrupted":
        return INTERRUPTED
    if result.stopped:
        say(result.stopped)
        return DIFFERS
    return DIFFERS if result.failures else DONE
