"""`snapdyn sweep`: a grid, list or random design of settings, as one labelled dataset and a phase diagram."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, progress_bar, say, show_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from snapdyn.experiments.sweep.execution import SweepResult

LISTED_FAILURES = 10


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run; see examples/sweep_*.toml.")],
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Processes; default all cores.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the workers of this dask scheduler instead.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for cells, dataset and diagram.")] = Path("out"),
) -> int:
    """Run a grid, list or random design of settings and write one dataset, and a diagram where the file asks for one.

    Finished cells are kept in DIR/cells: the same command again runs what is missing. Exit code 1: some cells failed.

    Example: snapdyn sweep examples/sweep_rates.toml --out rates

    Example: snapdyn sweep examples/sweep_rates.toml --scheduler tcp://10.0.0.1:8786
    """
    from snapdyn.experiments.sweep.execution import run_sweep
    from snapdyn.experiments.sweep.files import read_sweep

    described = read_sweep(file)
    with progress_bar("cells") as update:
        result = run_sweep(described, out, jobs, scheduler, update, say)
    _show(result)
    saved = [str(result.path)]
    if described.phase is not None and result.stopped == "":
        saved.append(_draw(result, described.phase.x, described.phase.y, described.phase.variable))
    elif described.phase is not None and (picture := result.path.with_suffix(".png")).exists():
        say(f"{picture} is of an earlier run; the same command draws it anew when all cells are there")
    print(f"saved      {', '.join(saved)}")
    for number, (cell, reason) in enumerate(result.failures.items()):
        if number == LISTED_FAILURES:
            say(f"{len(result.failures) - LISTED_FAILURES} more cells failed; `failure` in the dataset has the reasons")
            break
        say(f"cell {_cell_name(result, cell)} failed: {reason}")
    if result.stopped == "interrupted":
        return INTERRUPTED
    if result.stopped:
        say(result.stopped)
        return DIFFERS
    return DIFFERS if result.failures else DONE


def _cell_name(result: SweepResult, number: int) -> str:
    import numpy as np

    index = np.unravel_index(number, result.dataset.failure.shape)
    there = result.dataset.failure[index]
    return ", ".join(
        f"{name} = {_shown(coordinate.item())}"
        for name, coordinate in there.coords.items()
        if "parameter" in coordinate.attrs
    )


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _show(result: SweepResult) -> None:
    dataset = result.dataset
    rows = []
    for coordinate in dataset.coords.values():
        if "parameter" in coordinate.attrs:
            values = list(dict.fromkeys(coordinate.values.tolist()))
            ordered = f"{_shown(min(values))} to {_shown(max(values))}" if coordinate.dtype.kind in "iuf" else ""
            rows.append(
                (str(coordinate.attrs["parameter"]), str(len(values)), ordered or ", ".join(map(str, values[:8])))
            )
    show_table(("parameter", "values", ""), rows)
    of_variables = [
        (str(name), *_summary(variable.values), str(variable.attrs.get("units", "")))
        for name, variable in dataset.data_vars.items()
        if name not in ("failure", "times")
    ]
    show_table(("variable", "smallest", "median", "largest", ""), of_variables)
    computed = result.computed - result.failed
    print(
        f"cells      {dataset.attrs['finished']}: {computed} computed, {result.taken_over} taken over, "
        f"{result.failed} failed, {result.missing} not run; {result.seconds:.1f} s"
    )


def _summary(values: NDArray[Any]) -> tuple[str, str, str]:
    """Smallest, median and largest number; of texts the most frequent, with its count, in the middle."""
    import numpy as np

    if values.dtype.kind != "f":
        counts = Counter(map(str, values[values != ""]))
        return "", ", ".join(f"{text}: {count}" for text, count in counts.most_common(3)), ""
    known = values[~np.isnan(values)]
    if not known.size:
        return "-", "-", "-"
    smallest, median, largest = np.quantile(known, [0, 0.5, 1], method="nearest")
    return f"{smallest:.4g}", f"{median:.4g}", f"{largest:.4g}"


def _draw(result: SweepResult, x: str, y: str, variable: str) -> str:
    import time

    from snapdyn.figures.drawing import write_figure
    from snapdyn.figures.phase_diagrams import draw

    started = time.perf_counter()
    files = write_figure(
        result.path.parent,
        result.path.stem,
        result.dataset,
        lambda dataset: draw(dataset, x, y, variable),
        {"sweep": result.path.stem},
        started,
    )
    return f"{files['png']}, {files['pdf']}"
