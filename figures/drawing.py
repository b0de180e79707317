"""Draw figures of the register into files: picture, data and provenance."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from snapdyn.dynamics.errors import unknown_name
from snapdyn.dynamics.storage import output_folder, provenance, replacing
from snapdyn.figures.register import FIGURES, FigureEntry
from snapdyn.figures.style import house_style

LEVELS = ("quick", "full")


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
    wanted = list(FIGURES) if ids is None else [ids] if isinstance(ids, str) else list(ids)
    for id_ in wanted:
        if id_ not in FIGURES:
            raise unknown_name("figure", id_, FIGURES)
    folder = output_folder(out)
    chosen = [entry for id_, entry in FIGURES.items() if id_ in wanted]
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
    drawn = DrawnFigure(
        entry.id,
        entry.title,
        entry.caption,
        **{
            kind: folder / f"{entry.name}.{suffix}"
            for kind, suffix in (
                ("png", "png"),
                ("pdf", "pdf"),
                ("data", "nc"),
                ("provenance", "provenance.json"),
            )
        },
    )
    with replacing(drawn.data) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")
    # Dates and, in the PNG, the library's version are left out: same inputs, same bytes.
    with house_style():
        figure = module.draw(dataset)
        with replacing(drawn.png) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
        with replacing(drawn.pdf) as temporary:
            figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
    facts = provenance(
        figure=entry.id,
        title=entry.title,
        caption=entry.caption,
        parameters=dataset.attrs,
        level=level,
        wall_time=time.perf_counter() - started,
    )
    with replacing(drawn.provenance) as temporary:
        temporary.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return drawn
