"""Write figures of the register into files: pictures, data and provenance."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.files.netcdf import read_dataset
from snapdyn.dynamics.files.storage import output_folder
from snapdyn.dynamics.training.transformer.runs import load_transformer_runs
from snapdyn.errors import InputError, choice, chosen_ids, file_path, optional_function
from snapdyn.experiments.toml_files import Section
from snapdyn.figures.declaration import listed, value_text
from snapdyn.figures.files import DEFAULT_FORMATS, FORMAT, Look, file_names, write_figure
from snapdyn.figures.register import FIGURES, FigureEntry, compute, drawing_of
from snapdyn.figures.style import Style, figure_width
from snapdyn.validation.evidence import LEVELS

LONGEST_NAME = 80  # characters of a file name, beyond which parameters are shortened to a digest

if TYPE_CHECKING:
    import xarray

    from snapdyn.validation.measured import Measured


@dataclass(frozen=True)
class DrawnFigure:
    """A figure in files.

    Attributes
    ----------
    id : str
        Id of the figure in the register.
    title : str
        Title of the figure.
    caption : str
        Caption of the figure; it names parameters that differ from the defaults.
    pictures : mapping of str to Path
        The pictures by format: "png", "pdf", "svg".
    data : Path
        The data (.nc).
    provenance : Path
        Parameters, seeds and versions (.provenance.json).
    extras : tuple of Path
        Further files of the figure.
    checks : tuple of Measured
        Checks of the figure's claims on its data, with controls. Where parameters differ from the defaults, only those
        that hold for all parameters.
    not_applicable : tuple of str
        Names of the checks that speak of the defaults only and were left out.
    """

    id: str
    title: str
    caption: str
    pictures: Mapping[str, Path]
    data: Path
    provenance: Path
    extras: tuple[Path, ...]
    checks: tuple[Measured, ...]
    not_applicable: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name for readers: "Figure 3", or "Growth" for a figure that is not in the paper."""
        return f"Figure {self.id}" if self.id.isdigit() else self.id.capitalize()

    @property
    def png(self) -> Path:
        """The picture as PNG."""
        return self.pictures["png"]

    @property
    def pdf(self) -> Path:
        """The picture as PDF."""
        return self.pictures["pdf"]

    @property
    def as_claimed(self) -> bool:
        """Whether the data pass every claim that applies and reject every wrong theory."""
        return all(check.as_expected for check in self.checks)


def write(
    ids: Iterable[str] | None = None,
    out: str | os.PathLike[str] = "figures",
    level: str = "quick",
    progress: Callable[[int, int, str], None] | None = None,
    source: str | os.PathLike[str] | None = None,
    runs: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    width: float | None = None,
    style: Style | None = None,
    tex: bool = False,
    formats: Sequence[str] = DEFAULT_FORMATS,
    dpi: float | None = None,
) -> list[DrawnFigure]:
    """Compute, draw and check figures of the register, and write them into files.

    Parameters
    ----------
    ids : iterable of str, optional
        Ids of the figures, in any order; default all. A single id may be given as a string.
    out : path
        Folder for the files, created when missing: figure_ID.png, .pdf, .nc (the data) and .provenance.json.
        Parameters that differ from the defaults are part of the name: figure_3_eta_Z=0.2.png.
    level : "quick" or "full"
        "full" computes the curves at more points.
    progress : callable, optional
        Called as progress(done, total, id) before each figure, and at the end with done = total and an empty id.
    source : path, optional
        Data of an earlier run, which are drawn without being computed again: the .nc file of a figure, or a folder of
        them (then the default is every figure in the folder).
    runs : path, optional
        Folder of saved transformer runs for Figures 7 and 10; default the short ones that snapdyn has.
    parameters : mapping, optional
        Parameters by id of the figure: ``{"3": {"eta_Z": 0.2}}``. With `source` the data have theirs.
    width : float, optional
        As in `draw`.
    style : str, path or mapping, optional
        As in `draw`.
    tex : bool
        As in `draw`.
    formats : sequence of str
        Some of "png", "pdf", "svg".
    dpi : float, optional
        Dots per inch of bitmaps; default 200.

    Returns
    -------
    list of DrawnFigure
        In the order of the register. The same inputs give the same bytes, except for the wall time in the
        provenance.

    Raises
    ------
    InputError
        A figure, a parameter, the level, the style or a format is unknown (the message lists the known names); the
        folder cannot be written to; the data are missing, damaged, without a digest, or not the data of a
        figure.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import snapdyn as sd
    >>> with TemporaryDirectory() as folder:
    ...     (figure,) = sd.figures.write("8", out=folder, parameters={"8": {"vocab_size": [50, 200]}})
    ...     figure.label, figure.png.name, figure.as_claimed
    ('Figure 8', 'figure_8_vocab_size=50,200.png', True)
    """
    choice("level", level, LEVELS)
    optional_function("progress", progress)
    figure_width(width, style, 1.0)
    look = Look(style, tex, formats, dpi)
    saved = None if source is None else saved_data(file_path("source", source))
    transformers = None if runs is None else load_transformer_runs(file_path("runs", runs))
    FIGURES.load_named([ids] if isinstance(ids, str) else ids if isinstance(ids, list | tuple) else [])
    chosen = [FIGURES[id_] for id_ in chosen_ids("figure", saved or FIGURES if ids is None else ids, FIGURES)]
    values = _values(chosen, parameters or {}, saved is not None)
    for entry in chosen:
        if saved is not None and entry.id not in saved:
            raise InputError(
                f"expected data of figure {entry.id} in {str(source)!r}, received those of {', '.join(saved)}; "
                "draw it without --from"
            )
    computed = chosen if saved is None else []  # saved data are drawn at once
    names = [file_name(entry, values[entry.id].model_dump(exclude_defaults=True)) for entry in computed]
    files = [file for name in names for file in file_names(name, look.formats).values()]
    folder = output_folder(file_path("out", out), *files)
    drawn = []
    for done, entry in enumerate(chosen):
        if progress:
            progress(done, len(chosen), entry.id)
        started = time.perf_counter()
        if saved is None:
            dataset = compute(entry.id, level, runs=transformers if entry.from_runs else None, **dict(values[entry.id]))
            drawn.append(_write_dataset(entry, folder, dataset, width, look, {}, started))
            continue
        for path, dataset in saved[entry.id]:
            facts = {"drawn_from": path.name}
            with drawing_of(entry, f"{str(path)!r},", "compute it again without --from"):  # or of an older version
                drawn.append(_write_dataset(entry, folder, dataset, width, look, facts, started))
    if progress:
        progress(len(chosen), len(chosen), "")
    return drawn


def _values(
    chosen: Sequence[FigureEntry], parameters: Mapping[str, Mapping[str, Any]], computed: bool
) -> dict[str, Section]:
    """Return the parameters of each chosen figure, all checked before anything is computed."""
    ids = [entry.id for entry in chosen]
    for id_ in parameters:
        choice("the figure of parameters", id_, FIGURES)
        if id_ not in ids:
            raise InputError(
                f"expected parameters of the chosen figures ({', '.join(ids)}), received those of {id_}; choose it too"
            )
    if computed and any(parameters.values()):
        raise InputError(
            "expected no parameters with saved data, which have theirs, received some; draw without --from"
        )
    return {entry.id: entry.read_parameters(parameters.get(entry.id, {})) for entry in chosen}


def _write_dataset(
    entry: FigureEntry,
    folder: Path,
    dataset: xarray.Dataset,
    width: float | None,
    look: Look,
    facts: dict[str, Any],
    started: float,
) -> DrawnFigure:
    different = changed_parameters(entry, dataset)
    name, caption = file_name(entry, different), entry.caption
    checks = tuple(entry.numbers(dataset))
    left_out: tuple[str, ...] = ()
    if different:
        left_out = tuple(check.name for check in checks if check.name not in entry.general)
        checks = tuple(check for check in checks if check.name in entry.general)
        caption += f" Drawn here with {listed(different)}: the numbers above are those of the default parameters."
    facts = {"figure": entry.id, "title": entry.title, "caption": caption, "level": dataset.attrs["level"], **facts}
    facts |= {"changed_parameters": different, "claims_of_the_defaults_only": list(left_out)} if different else {}
    inches = figure_width(width, look.style, entry.width)
    files = write_figure(folder, name, dataset, lambda data: entry.figure(data, inches), facts, started, look)
    extras: list[Path] = []
    if entry.write_extras:
        with look.drawing():
            extras = entry.write_extras(dataset, folder, name)
    data, record = files.pop("data"), files.pop("provenance")
    return DrawnFigure(entry.id, entry.title, caption, files, data, record, tuple(extras), checks, left_out)


def file_name(entry: FigureEntry, different: Mapping[str, Any]) -> str:
    """Return the name of a figure's files without ending: figure_3, or figure_3_eta_Z=0.2,num_classes=6."""
    settings = ",".join(f"{key}={value_text(value)}" for key, value in different.items())
    if len(settings) > LONGEST_NAME or any(sign in settings for sign in '/\\:*?"<>| '):
        settings = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return f"{entry.name}_{settings}" if settings else entry.name


def saved_data(source: Path) -> dict[str, list[tuple[Path, xarray.Dataset]]]:
    """Return files of figures and their data by id: one file, or those of a folder, in the order of the register."""
    if not source.exists():
        raise InputError(
            f"expected a figure's .nc file or a folder of them, received {str(source)!r}, which is missing"
        )
    paths = sorted(source.glob("figure_*.nc")) if source.is_dir() else [source]
    contents = [(path, read_data(path)) for path in paths]
    if not contents:
        raise InputError(
            f"expected figure_ID.nc files in {str(source)!r}, received none; give the folder that has them"
        )
    found = {id_: [entry for entry in contents if entry[1].attrs["figure"] == id_] for id_ in FIGURES}
    return {id_: entries for id_, entries in found.items() if entries}


def read_data(path: Path) -> xarray.Dataset:
    """Read the data of a figure.

    Parameters
    ----------
    path : Path

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest, or holds something else.
    """
    dataset = read_dataset(path, "figure data", FORMAT, "compute it again without --from")
    if dataset.attrs.get("figure") not in FIGURES or dataset.attrs.get("level") not in LEVELS:
        raise InputError(
            f"expected the data of a figure (.nc with its id and level), received {str(path)!r}; "
            "compute it again without --from"
        )
    return dataset


def changed_parameters(entry: FigureEntry, dataset: xarray.Dataset) -> dict[str, Any]:
    """Return the parameters of the data that differ from the figure's defaults."""
    try:
        values = json.loads(dataset.attrs.get("figure_parameters", "{}"))
        return entry.read_parameters(values).model_dump(exclude_defaults=True)
    except (TypeError, ValueError) as error:  # an InputError is a ValueError
        raise InputError(
            f"expected the parameters of figure {entry.id} in its data, received others ({error}); compute it again "
            "without --from"
        ) from error
