"""`snapdyn compare`: the theory's curves over SGD."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapdyn.commands.terminal import DONE, show, show_table

if TYPE_CHECKING:
    pass


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to compare; see examples/compare_*.toml.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("out"),
) -> int:
    """Lay the theory's curves over SGD: median and 10-90 % band of the seeds, residuals below, data beside.

    Example: snapdyn compare examples/compare_syn_small.toml --out pictures
    """
    from snapdyn.dynamics.storage import output_folder
    from snapdyn.experiments.run_files import read_comparison
    from snapdyn.figures.comparison import draw
    from snapdyn.figures.drawing import write_figure

    started = time.perf_counter()
    comparison = read_comparison(file)
    folder = output_folder(out)
    dataset = comparison.compute()
    files = write_figure(folder, file.stem, dataset, draw, {"file": file.name}, started)
    gap = abs(dataset.theory - dataset.sgd.median("seed")).transpose("observable", "curve", "step")
    rows = []
    for observable, gaps in zip(dataset.observable.values, gap.values, strict=True):
        for curve, values in zip(dataset.curve.values, gaps, strict=True):
            at = int(values.argmax())
            rows.append((str(observable), str(curve), f"{values[at]:.3g}", str(int(dataset.step[at]))))
    if rows:
        show_table(("observable", "curve", "largest |curve - median|", "at step"), rows)
    show(f"saved      {files['png']}")
    return DONE
