"""Write figures of the register into files: pictures, data and provenance."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.core.errors import InputError, choice, file_path, optional_function
from snapdyn.dynamics.files.storage import output_folder
from snapdyn.dynamics.training.transformer.runs import load_transformer_runs
from snapdyn.experiments.toml_files import Section
from snapdyn.figures.declaration import listed, value_text
from snapdyn.figures.files import DEFAULT_FORMATS, file_names, formats_of, write_figure
from snapdyn.figures.register import FIGURES, FigureEntry, chosen_figures, compute
from snapdyn.figures.style import Style, figure_width
from snapdyn.validation.evidence import LEVELS

LONGEST_NAME = 80  # characters of a file name, beyond which parameters are shortened to a digest

if TYPE_CHECKING:
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
    checks : tuple of Measured
        Checks of the figure's claims on its data, with controls. Where parameters differ from the defaults, only the
        checks that hold for all parameters are made.
    not_applicable : tuple of str
        Names of the checks that hold for the defaults only and were left out.
    """

    id: str
    title: str
    caption: str
    pictures: Mapping[str, Path]
    data: Path
    provenance: Path
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
    runs: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    width: float | None = None,
    style: Style | None = None,
    formats: Sequence[str] = DEFAULT_FORMATS,
) -> list[DrawnFigure]:
    """Compute, draw and check figures of the register, and write them into files.

    Parameters
    ----------
    ids : iterable of str, optional
        Ids of the figures, in any order; default: all figures of snapdyn, or those of another register in use. A single
        id may be given as a string.
    out : path
        Folder for the files, created when missing: figure_ID.png, .pdf, .nc (the data) and .provenance.json.
        Parameters that differ from the defaults are part of the name: figure_3_eta_Z=0.2.png.
    level : "quick" or "full"
        "full" computes the curves at more points.
    progress : callable, optional
        Called as progress(done, total, id) before each figure, and at the end with done = total and an empty id.
    runs : path, optional
        Folder of saved transformer runs for Figures 7 and 10; default: the short ones that come with snapdyn.
    parameters : mapping, optional
        Parameters by id of the figure: ``{"3": {"eta_Z": 0.2}}``.
    width : float, optional
        As in `draw`.
    style : str, path or mapping, optional
        As in `draw`.
    formats : sequence of str
        Some of "png", "pdf", "svg".

    Returns
    -------
    list of DrawnFigure
        In the order of the register. The same inputs give the same bytes, except for the wall time in the
        provenance.

    Raises
    ------
    InputError
        A figure, a parameter, the level, the style or a format is unknown (the message lists the known names); the
        folder cannot be written to.

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
    formats = formats_of(formats)
    transformers = None if runs is None else load_transformer_runs(file_path("runs", runs))
    chosen = chosen_figures(ids)
    values = _values(chosen, parameters or {})
    different = {id_: section.model_dump(exclude_defaults=True) for id_, section in values.items()}
    names = {entry.id: file_name(entry, different[entry.id]) for entry in chosen}
    files = [file for name in names.values() for file in file_names(name, formats).values()]
    folder = output_folder(file_path("out", out), *files)
    drawn = []
    for done, entry in enumerate(chosen):
        if progress:
            progress(done, len(chosen), entry.id)
        started, id_ = time.perf_counter(), entry.id
        dataset = compute(id_, level, runs=transformers if entry.from_runs else None, **dict(values[id_]))
        checks, caption = tuple(entry.numbers(dataset)), entry.caption
        facts: dict[str, Any] = {"level": level}
        left_out: tuple[str, ...] = ()
        if different[id_]:
            left_out = tuple(check.name for check in checks if check.name not in entry.general)
            checks = tuple(check for check in checks if check.name in entry.general)
            caption += (
                f" Drawn here with {listed(different[id_])}: the numbers above are those of the default parameters."
            )
            facts |= {"changed_parameters": different[id_], "claims_of_the_defaults_only": list(left_out)}
        facts |= {"figure": id_, "title": entry.title, "caption": caption}
        draw = partial(entry.figure, width=figure_width(width, style, entry.width))
        pictures = write_figure(folder, names[id_], dataset, draw, facts, started, style, formats)
        data, record = pictures.pop("data"), pictures.pop("provenance")
        drawn.append(DrawnFigure(id_, entry.title, caption, pictures, data, record, checks, left_out))
    if progress:
        progress(len(chosen), len(chosen), "")
    return drawn


def _values(chosen: Sequence[FigureEntry], parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Section]:
    """Return the parameters of each chosen figure, all checked before anything is computed."""
    ids = [entry.id for entry in chosen]
    for id_ in parameters:
        choice("the figure of parameters", id_, FIGURES)
        if id_ not in ids:
            raise InputError(
                f"expected parameters of the chosen figures ({', '.join(ids)}), received those of {id_}; choose it too"
            )
    return {entry.id: entry.read_parameters(parameters.get(entry.id, {})) for entry in chosen}


def file_name(entry: FigureEntry, different: Mapping[str, Any]) -> str:
    """Return the name of a figure's files without ending: figure_3, or figure_3_eta_Z=0.2,num_classes=6."""
    settings = ",".join(f"{key}={value_text(value)}" for key, value in different.items())
    if len(settings) > LONGEST_NAME or any(sign in settings for sign in '/\\:*?"<>| '):
        settings = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return f"{entry.name}_{settings}" if settings else entry.name
