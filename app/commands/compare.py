"""`snapdyn compare`: the theory's curves over SGD."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from snapdyn.commands.options import Load, Register
from snapdyn.commands.terminal import DONE, show, show_saved, show_table


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to compare; see examples/compare_*.toml.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the files; default: the folder of FILE.toml.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="TRACE",
            help="Training recorded elsewhere (npz, nc, csv, jsonl); the section trace gives its clock.",
        ),
    ] = None,
    load: Load = None,
    register: Register = None,
) -> int:
    """Draw the theory's curves over the median and the 10-90 % band of SGD, or over a trace, with residuals below.

    The key curves of FILE.toml names the theories: mean_field, finite_length (sequences of seq_len tokens), descent
    (the updates without noise), modified_decoder (Eq. (10)), closed_form. The data is saved beside the picture. With
    --trace, FILE.toml has a section named trace in place of sgd.

    Example: snapdyn compare examples/compare_syn_small.toml --out pictures

    Example: snapdyn compare examples/trace_torch.toml --trace examples/trace_torch.npz
    """
    import numpy as np

    from snapdyn.dynamics.files.storage import output_folder
    from snapdyn.experiments.run_files import read_comparison
    from snapdyn.figures.output import file_names, write_figure
    from snapdyn.figures.residuals import draw

    started = time.perf_counter()
    comparison = read_comparison(file, trace)
    folder = output_folder(out or file.parent, *file_names(file.stem).values())
    dataset = comparison.compute()
    if trace is not None:
        settings = json.loads(dataset.attrs["settings"])
        show(f"clock      {settings['clock']}")
        show(f"length     {settings['length']}")
    facts = {"file": file.name} if trace is None else {"file": file.name, "trace": trace.name}
    files = write_figure(folder, file.stem, dataset, draw, facts, started)
    gap = abs(dataset.theory - dataset.sgd.median("seed")).transpose("observable", "curve", "step")
    rows = []
    for observable, gaps in zip(dataset.observable.values, gap.values, strict=True):
        for curve, values in zip(dataset.curve.values, gaps, strict=True):
            at = int(np.nanargmax(values))
            rows.append((str(observable), str(curve), f"{values[at]:.3g}", f"{float(dataset.step[at]):g}"))
    if rows:
        show_table(("observable", "curve", "largest |curve - median|", "at step"), rows)
    show_saved(files["png"])
    return DONE
