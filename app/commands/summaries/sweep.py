"""What `snapdyn sweep` prints and draws of a result."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from numpy.typing import NDArray

from snapdyn.commands.terminal import say, show, show_table
from snapdyn.figures.files import write_pictures
from snapdyn.figures.phase_diagrams import draw

if TYPE_CHECKING:
    from snapdyn.experiments.sweep.execution import SweepResult

LISTED_FAILURES = 10


def show_result(result: SweepResult) -> None:
    """Print the swept parameters, the range of each variable, the number of cells, and why the first of them failed."""
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
    show(
        f"cells      {dataset.attrs['finished']}: {computed} computed, {result.taken_over} taken over, "
        f"{result.failed} failed, {result.missing} not run; {result.seconds:.1f} s"
    )
    for number, (cell, reason) in enumerate(result.failures.items()):
        if number == LISTED_FAILURES:
            say(f"{len(result.failures) - LISTED_FAILURES} more cells failed; `failure` in the dataset has the reasons")
            break
        say(f"cell {_cell_name(result, cell)} failed: {reason}")


def _summary(values: NDArray[Any]) -> tuple[str, str, str]:
    """Smallest, median and largest number; of texts the most frequent, with its count, in the middle."""
    if values.dtype.kind != "f":
        counts = Counter(map(str, values[values != ""]))
        return "", ", ".join(f"{text}: {count}" for text, count in counts.most_common(3)), ""
    known = values[~np.isnan(values)]
    if not known.size:
        return "-", "-", "-"
    smallest, median, largest = np.quantile(known, [0, 0.5, 1], method="nearest")
    return f"{smallest:.4g}", f"{median:.4g}", f"{largest:.4g}"


def draw_diagram(folder: Path, name: str, dataset: xarray.Dataset, x: str, y: str, variable: str) -> str:
    """Draw the phase diagram beside the dataset; names of its files."""
    facts = {"sweep": name, "parameters": dataset.attrs}
    files = write_pictures(folder, name, lambda: draw(dataset, x, y, variable), facts, time.perf_counter())
    return f"{files['png']}, {files['pdf']}"


def _cell_name(result: SweepResult, number: int) -> str:
    index = np.unravel_index(number, result.dataset.failure.shape)
    there = result.dataset.failure[index]
    return ", ".join(
        f"{name} = {_shown(coordinate.item())}"
        for name, coordinate in there.coords.items()
        if "parameter" in coordinate.attrs
    )


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
