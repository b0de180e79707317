"""Files of a figure: pictures, data and provenance."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.core.errors import InputError, choice, list_of
from snapdyn.dynamics.files.netcdf import write_netcdf
from snapdyn.dynamics.files.storage import output_folder, provenance, replacing, write_text
from snapdyn.figures.style import Figure, Style, house_style

if TYPE_CHECKING:
    import xarray

    from snapdyn.validation.measured import Measured

FORMAT = "snapdyn figure data 1"
# Dates and, in the PNG, the version of matplotlib are left out, so that the same inputs give the same bytes.
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}},
    "pdf": {"metadata": {"CreationDate": None}},
    "svg": {"metadata": {"Date": None}},
}
DEFAULT_FORMATS = ("png", "pdf")
MOST_DOTS = 4e8  # of a picture: 1.6 GB while it is drawn


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


def formats_of(formats: Sequence[str]) -> tuple[str, ...]:
    """Return the formats, each once; InputError for an unknown one, and where there is none."""
    names = list_of("formats", [formats] if isinstance(formats, str) else formats, str)
    return tuple(dict.fromkeys(choice("a format", name, FORMATS) for name in names or [""]))


def file_names(name: str, formats: Sequence[str] = DEFAULT_FORMATS) -> dict[str, str]:
    """Names of the files of the figure `name`, by "data", format and "provenance"."""
    ends = {"data": "nc", **{kind: kind for kind in formats}, "provenance": "provenance.json"}
    return {kind: f"{name}.{end}" for kind, end in ends.items()}


def _require_drawable(figure: Figure) -> None:
    """Raise InputError where a bitmap of the figure has no dot, or more dots than can be drawn."""
    import matplotlib

    chosen = matplotlib.rcParams["savefig.dpi"]  # a number, or "figure"
    width, height = figure.get_size_inches() * (figure.dpi if chosen == "figure" else float(chosen))
    if not (min(width, height) >= 1 and width * height <= MOST_DOTS):
        raise InputError(
            f"expected a picture of at least one dot a side and at most {MOST_DOTS:g} dots in all, received "
            f"{width:.0f} x {height:.0f}; change the width, or savefig.dpi of the style"
        )


def write_figure(
    folder: Path,
    name: str,
    dataset: xarray.Dataset,
    draw: Callable[[xarray.Dataset], Figure],
    facts: dict[str, Any],
    started: float,
    style: Style | None = None,
    formats: Sequence[str] = DEFAULT_FORMATS,
    with_data: bool = True,
) -> dict[str, Path]:
    """Draw a figure, and write its data, its pictures and its provenance.

    Parameters
    ----------
    folder : Path
        Created if it is missing.
    name : str
        The files are NAME.nc, NAME.png, NAME.pdf and NAME.provenance.json.
    dataset : xarray.Dataset
        The data; its attributes are the parameters in the provenance.
    draw : callable
        ``draw(dataset)`` gives a matplotlib Figure.
    facts : dict
        Entries of the provenance.
    started : float
        time.perf_counter() at the start of the computation, for the wall time in the provenance.
    style : str, path or mapping, optional
        As in `house_style`.
    formats : sequence of str
        Some of "png", "pdf", "svg".
    with_data : bool
        Whether NAME.nc is written.

    Returns
    -------
    dict
        Paths by "data", format and "provenance".

    Raises
    ------
    InputError
        An unknown style; a resolution too high for the size of the figure; LaTeX refuses a text; the folder cannot be
        written to.
    """
    import matplotlib
    import xarray

    files = {kind: folder / file for kind, file in file_names(name, formats).items() if with_data or kind != "data"}
    output_folder(folder, *(path.name for path in files.values()))
    # fontTools logs remarks on the dates of the fonts that it embeds.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    with house_style(style):
        if with_data:
            # Variables before coordinates: a dataset that was read back is then written with the same bytes.
            ordered = xarray.Dataset(dict(dataset.data_vars), dict(dataset.coords), dataset.attrs)
            write_netcdf(ordered, files["data"], FORMAT)
        figure = draw(dataset)
        _require_drawable(figure)
        for kind in formats:
            with replacing(files[kind]) as temporary:
                try:
                    figure.savefig(temporary, format=kind, **FORMATS[kind])
                except (FileNotFoundError, RuntimeError) as error:
                    if not matplotlib.rcParams["text.usetex"]:
                        raise
                    raise InputError(  # a program of LaTeX is missing, or LaTeX refuses a text
                        f"expected LaTeX to set the texts of {files[kind].name}, received an error: {error}; "
                        "check the installation of LaTeX, or draw in another style"
                    ) from error
            figure.set_layout_engine("none")  # all pictures have the layout of the first
    record = provenance(**facts, parameters=dataset.attrs, wall_time=time.perf_counter() - started)
    text = json.dumps(record, indent=2, ensure_ascii=False, default=str)
    write_text(files["provenance"], f"{text}\n")
    return files
