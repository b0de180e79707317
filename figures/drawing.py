"""Draw figures of the register into files: picture, data and provenance."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.netcdf import read_dataset, write_netcdf
from snapdyn.dynamics.storage import output_folder, provenance, replacing
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_runs
from snapdyn.errors import InputError, choice, file_path, optional_function
from snapdyn.figures.register import FIGURES, FigureEntry
from snapdyn.figures.style import house_style
from snapdyn.validation.evidence import LEVELS
from snapdyn.validation.run import chosen_ids

FORMAT = "snapdyn figure data 1"
# What drawing and checking raise on a dataset that lacks variables, or has others or other values.
DATA_OF_ANOTHER_KIND = (KeyError, ValueError, IndexError, TypeError, AttributeError, ArithmeticError, RuntimeError)

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from snapdyn.validation.checks import Check


@dataclass(frozen=True)
class DrawnFigure:
    """A drawn figure.

    Attributes
    ----------
    id : str
        Id of the figure in the register.
    title : str
        Title of the figure.
    caption : str
        Caption of the figure.
    png : Path
        The picture as PNG.
    pdf : Path
        The picture as PDF.
    data : Path
        The data (.nc).
    provenance : Path
        Parameters, seeds and versions (.provenance.json).
    extras : tuple of Path
        Further files of the figure.
    checks : tuple of Check
        Checks of the figure's claims on its data, with controls.
    """

    id: str
    title: str
    caption: str
    png: Path
    pdf: Path
    data: Path
    provenance: Path
    extras: tuple[Path, ...]
    checks: tuple[Check, ...]

    @property
    def label(self) -> str:
        """Name for readers: "Figure 3", or "Growth" for a figure that is not in the paper."""
        return f"Figure {self.id}" if self.id.isdigit() else self.id.capitalize()

    @property
    def as_claimed(self) -> bool:
        """Whether the data pass every claim of the figure and reject every wrong theory."""
        return all(check.as_expected for check in self.checks)


def draw(
    ids: Iterable[str] | None = None,
    out: str | os.PathLike[str] = "figures",
    level: str = "quick",
    progress: Callable[[int, int, str], None] | None = None,
    source: str | os.PathLike[str] | None = None,
    runs: str | os.PathLike[str] | None = None,
    unverified: bool = False,
) -> list[DrawnFigure]:
    """Compute, draw and check figures of the register.

    Parameters
    ----------
    ids : iterable of str, optional
        Ids of the figures, in any order; default all. A single id may be given as a string.
    out : path
        Folder for the files, created when missing: figure_ID.png, .pdf, .nc (the data) and .provenance.json.
    level : "quick" or "full"
        "full" computes the curves at more points.
    progress : callable, optional
        Called as progress(done, total, id) before each figure, and at the end with done = total and an empty id.
    source : path, optional
        Data of an earlier run, which are drawn without being computed again: the .nc file of a figure, or a folder of
        them (then the default is every figure in the folder).
    runs : path, optional
        Folder of saved transformer runs for Figures 7 and 10; without it these figures are left out.
    unverified : bool
        Also read files of `source` and `runs` without a digest, as `snapdyn.load` does.

    Returns
    -------
    list of DrawnFigure
        In the order of the register. The same inputs give the same bytes, except for the wall time in the
        provenance.

    Raises
    ------
    InputError
        The figure or the level is unknown (the message lists the known names); the folder cannot be written to; the
        data are missing, damaged, without a digest (unless `unverified`), or not the data of a figure.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     (figure,) = draw("8", out=folder)
    ...     figure.label, figure.png.name, figure.data.name, figure.as_claimed
    ('Figure 8', 'figure_8.png', 'figure_8.nc', True)
    """
    choice("level", level, LEVELS)
    optional_function("progress", progress)
    saved = None if source is None else saved_data(file_path("source", source), unverified)
    transformers = None if runs is None else load_transformer_runs(file_path("runs", runs), unverified)
    if ids is None:
        ids = saved or [id_ for id_, entry in FIGURES.items() if transformers or not entry.from_runs]
    FIGURES.load_named([ids] if isinstance(ids, str) else ids if isinstance(ids, list | tuple) else [])
    chosen = [FIGURES[id_] for id_ in chosen_ids("figure", ids, FIGURES)]
    for entry in chosen:
        if saved is not None and entry.id not in saved:
            raise InputError(
                f"expected data of figure {entry.id} in {str(source)!r}, received those of {', '.join(saved)}; "
                "draw it without --from"
            )
        if saved is None and entry.from_runs and transformers is None:
            raise InputError(
                f"expected a folder of saved transformer runs for figure {entry.id}, received none; give it with --runs"
            )
    folder = output_folder(file_path("out", out))
    drawn = []
    for done, entry in enumerate(chosen):
        if progress:
            progress(done, len(chosen), entry.id)
        drawn.append(_draw_entry(entry, folder, level, None if saved is None else saved[entry.id], transformers))
    if progress:
        progress(len(chosen), len(chosen), "")
    return drawn


def _draw_entry(
    entry: FigureEntry,
    folder: Path,
    level: str,
    saved: tuple[Path, xarray.Dataset] | None,
    runs: Sequence[TransformerRun] | None,
) -> DrawnFigure:
    started = time.perf_counter()
    facts = {"figure": entry.id, "title": entry.title, "caption": entry.caption}
    if saved is None:
        dataset = entry.compute(level, runs) if entry.from_runs else entry.compute(level)
        return _draw_dataset(entry, folder, dataset.assign_attrs(figure=entry.id, level=level), facts, started)
    path, dataset = saved
    try:
        return _draw_dataset(entry, folder, dataset, {**facts, "drawn_from": path.name}, started)
    except InputError:
        raise
    except DATA_OF_ANOTHER_KIND as error:  # read without a digest, or written by another version
        raise InputError(
            f"expected the data of figure {entry.id}, received {str(path)!r}, from which it cannot be drawn "
            f"({type(error).__name__}: {error}); compute it again without --from"
        ) from error


def _draw_dataset(
    entry: FigureEntry, folder: Path, dataset: xarray.Dataset, facts: dict[str, Any], started: float
) -> DrawnFigure:
    facts["level"] = dataset.attrs["level"]
    files = write_figure(folder, entry.name, dataset, entry.draw, facts, started)
    extras: list[Path] = []
    if entry.write_extras:
        with house_style():
            extras = entry.write_extras(dataset, folder, entry.name, entry.title, entry.caption)
    checks = tuple(entry.check(dataset))
    return DrawnFigure(entry.id, entry.title, entry.caption, **files, extras=tuple(extras), checks=checks)


def saved_data(source: Path, unverified: bool = False) -> dict[str, tuple[Path, xarray.Dataset]]:
    """Return files of figures and their data by id: one file, or those of a folder, in the order of the register."""
    if not source.exists():
        raise InputError(
            f"expected a figure's .nc file or a folder of them, received {str(source)!r}, which is missing"
        )
    paths = sorted(source.glob("figure_*.nc")) if source.is_dir() else [source]
    contents = [(path, read_data(path, unverified)) for path in paths]
    by_id = {str(dataset.attrs["figure"]): (path, dataset) for path, dataset in contents}
    if not by_id:
        raise InputError(
            f"expected figure_ID.nc files in {str(source)!r}, received none; give the folder that has them"
        )
    return {id_: by_id[id_] for id_ in FIGURES if id_ in by_id}


def read_data(path: Path, unverified: bool = False) -> xarray.Dataset:
    """Read the data of a figure.

    Parameters
    ----------
    path : Path
    unverified : bool
        Also read a file without a digest, as `snapdyn.load` does.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest (unless `unverified`), or holds something else.
    """
    advice, unchecked = "compute it again without --from", "unverified=True (--unverified)"
    dataset = read_dataset(path, "figure data", FORMAT, advice, unverified, unchecked)
    if dataset.attrs.get("figure") not in FIGURES or dataset.attrs.get("level") not in LEVELS:
        raise InputError(
            f"expected the data of a figure (.nc with its id and level), received {str(path)!r}; "
            "compute it again without --from"
        )
    return dataset


def write_figure(
    folder: Path,
    name: str,
    dataset: xarray.Dataset,
    draw_dataset: Callable[[xarray.Dataset], Figure],
    facts: dict[str, Any],
    started: float,
) -> dict[str, Path]:
    """Write the data, the picture and the provenance of a figure.

    Parameters
    ----------
    folder : Path
        An existing folder.
    name : str
        The files are NAME.nc, NAME.png, NAME.pdf and NAME.provenance.json.
    dataset : xarray.Dataset
        The data; its attributes are the parameters in the provenance.
    draw_dataset : callable
        ``draw_dataset(dataset)`` gives a matplotlib Figure.
    facts : dict
        Further entries of the provenance.
    started : float
        time.perf_counter() at the start of the computation, for the wall time in the provenance.

    Returns
    -------
    dict
        Paths by "data", "png", "pdf", "provenance".
    """
    ends = {"data": "nc", "png": "png", "pdf": "pdf", "provenance": "provenance.json"}
    files = {kind: folder / f"{name}.{end}" for kind, end in ends.items()}
    import xarray

    # Variables before coordinates: a dataset that was read back is then written with the same bytes.
    ordered = xarray.Dataset(dict(dataset.data_vars), dict(dataset.coords), dataset.attrs)
    write_netcdf(ordered, files["data"], FORMAT)
    # fontTools logs remarks on the dates of the fonts that it embeds.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    # Without dates and, in the PNG, the version of matplotlib, the same inputs give the same bytes.
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
