"""Draw figures of the register into files: picture, data and provenance."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.errors import unknown_name
from snapdyn.dynamics.storage import output_folder, provenance, replacing
from snapdyn.figures.register import FIGURES, FigureEntry
from snapdyn.figures.style import house_style
from snapdyn.validation.run import LEVELS, chosen_ids

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class DrawnFigure:
    """A figure and the files written for it."""

    id: str
    title: str
    caption: str
    png: Path
    pdf: Path
    data: Path
    provenance: Path


def draw(
    ids: Iterable[str] | None = None,
    out: str | os.PathLike[str] = "figures",
    level: str = "quick",
    progress: Callable[[int, int, str], None] | None = None,
) -> list[DrawnFigure]:
    """Compute and draw figures of the register.

    Parameters
    ----------
    ids : iterable of ids, optional
        Figures to draw, in any order; default all. A single id may be given as a string.
    out : path
        Folder for the files, created when missing: figure_ID.png, .pdf, .nc (the data) and .provenance.json.
    level : "quick" or "full"
        "full" computes the curves at more points.
    progress : callable (done, total, id), optional
        Called before each figure, and at the end with done = total and an empty id.

    Returns
    -------
    list of DrawnFigure
        In the order of the register. The same inputs give the same bytes, except for the wall time in the
        provenance.

    Raises
    ------
    InputError
        Unknown figure or level, with the nearest known name; a folder that cannot be written to.
    """
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)
    chosen = [FIGURES[id_] for id_ in chosen_ids("figure", ids, FIGURES)]
    folder = output_folder(out)
    drawn = []
    for done, entry in enumerate(chosen):
        if progress:
            progress(done, len(chosen), entry.id)
        drawn.append(_draw_entry(entry, folder, level))
    if progress:
        progress(len(chosen), len(chosen), "")
    return drawn


def _draw_entry(entry: FigureEntry, folder: Path, level: str) -> DrawnFigure:
    started = time.perf_counter()
    module = import_module(f"snapdyn.figures.{entry.name}")
    dataset = module.compute(level)
    facts = {"figure": entry.id, "title": entry.title, "caption": entry.caption, "level": level}
    files = write_figure(folder, entry.name, dataset, module.draw, facts, started)
    return DrawnFigure(entry.id, entry.title, entry.caption, **files)


def write_figure(
    folder: Path,
    name: str,
    dataset: xarray.Dataset,
    draw_dataset: Callable[[xarray.Dataset], Figure],
    facts: dict[str, Any],
    started: float,
) -> dict[str, Path]:
    """Write NAME.nc, .png, .pdf and .provenance.json (`facts`, the dataset's attributes, time since `started`).

    Returns
    -------
    dict
        Paths by "data", "png", "pdf", "provenance".
    """
    ends = {"data": "nc", "png": "png", "pdf": "pdf", "provenance": "provenance.json"}
    files = {kind: folder / f"{name}.{end}" for kind, end in ends.items()}
    with replacing(files["data"]) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")
    # fontTools remarks on the fonts' own dates when it embeds them.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    # Dates and, in the PNG, the library's version are left out: same inputs, same bytes.
    with house_style():
        figure = draw_dataset(dataset)
        with replacing(files["png"]) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
        with replacing(files["pdf"]) as temporary:
            figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
    record = provenance(**facts, parameters=dataset.attrs, wall_time=time.perf_counter() - started)
    with replacing(files["provenance"]) as temporary:
        temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    return files
