"""Files of a figure: pictures, data and provenance."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.files.netcdf import write_netcdf
from snapdyn.dynamics.files.storage import output_folder, provenance, replacing, write_text
from snapdyn.errors import InputError, list_of, positive, shown, unknown_name
from snapdyn.figures.style import Style, house_style

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

FORMAT = "snapdyn figure data 1"
# Without dates and, in the PNG, the version of matplotlib, the same inputs give the same bytes.
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}},
    "pdf": {"metadata": {"CreationDate": None}},
    "svg": {"metadata": {"Date": None}},
}
DEFAULT_FORMATS = ("png", "pdf")
LOWEST_DPI, HIGHEST_DPI = 10.0, 2400.0
MOST_DOTS = 4e8  # of a picture: 1.6 GB while it is drawn
MOST_DOTS_OF_A_SIDE = 2**16 - 1  # matplotlib draws no more


@dataclass(frozen=True)
class Look:
    """How pictures are drawn and saved, checked at once.

    Attributes
    ----------
    style, tex
        As in `house_style`.
    formats : tuple of str
        Some of "png", "pdf", "svg", each once.
    dpi : float or None
        Dots per inch of PNG and of bitmaps inside the others, 10 to 2400; default that of the style (200).

    Raises
    ------
    InputError
        An unknown format, or a resolution out of bounds.
    """

    style: Style | None = None
    tex: bool = False
    formats: Sequence[str] = DEFAULT_FORMATS
    dpi: float | None = None

    def __post_init__(self) -> None:
        names = list_of("formats", [self.formats] if isinstance(self.formats, str) else self.formats, str)
        for name in names:
            if not name.strip():
                raise InputError(
                    f"expected formats such as png,svg, received an empty one in {shown(self.formats)}; remove it"
                )
            if name not in FORMATS:
                raise unknown_name("a format", name, FORMATS)
        if not names:
            raise InputError(f"expected at least one format, received none; give some of {', '.join(FORMATS)}")
        object.__setattr__(self, "formats", tuple(dict.fromkeys(names)))
        if self.dpi is not None and not LOWEST_DPI <= positive("dpi", self.dpi) <= HIGHEST_DPI:
            raise InputError(
                f"expected dpi between {LOWEST_DPI:g} and {HIGHEST_DPI:g}, received {self.dpi:g}; give such a "
                "resolution"
            )

    def drawing(self) -> AbstractContextManager[None]:
        """The style, as a context."""
        return house_style(self.style, self.tex)


DEFAULT_LOOK = Look()


def file_names(name: str, formats: Sequence[str] = DEFAULT_FORMATS) -> dict[str, str]:
    """Names of the files of the figure `name`, by "data", format and "provenance"."""
    ends = {"data": "nc", **{kind: kind for kind in formats}, "provenance": "provenance.json"}
    return {kind: f"{name}.{end}" for kind, end in ends.items()}


def _require_drawable(figure: Figure, dpi: float | None) -> None:
    """Raise InputError where a bitmap of the figure has no dot, or more dots than can be drawn."""
    import matplotlib

    if dpi is None:
        chosen = matplotlib.rcParams["savefig.dpi"]  # a number, or "figure"
        dpi = figure.dpi if chosen == "figure" else float(chosen)
    width, height = figure.get_size_inches() * dpi
    if min(width, height) < 1 or max(width, height) > MOST_DOTS_OF_A_SIDE or width * height > MOST_DOTS:
        raise InputError(
            f"expected a picture of 1 to {MOST_DOTS_OF_A_SIDE} dots a side and at most {MOST_DOTS:g} dots in all, "
            f"received {width:.0f} x {height:.0f}; change dpi or width"
        )


def write_figure(
    folder: Path,
    name: str,
    dataset: xarray.Dataset,
    draw_dataset: Callable[[xarray.Dataset], Figure],
    facts: dict[str, Any],
    started: float,
    look: Look = DEFAULT_LOOK,
) -> dict[str, Path]:
    """Write the data of a figure as NAME.nc, and what `write_pictures` writes.

    Parameters
    ----------
    dataset : xarray.Dataset
        The data; its attributes are the parameters in the provenance.
    draw_dataset : callable
        ``draw_dataset(dataset)`` gives a matplotlib Figure.
    folder, name, facts, started, look
        As for `write_pictures`.

    Returns
    -------
    dict
        Paths by "data", "provenance" and format.

    Raises
    ------
    InputError
        As for `write_pictures`.
    """
    import xarray

    names = file_names(name, look.formats)
    output_folder(folder, *names.values())
    # Variables before coordinates: a dataset that was read back is then written with the same bytes.
    ordered = xarray.Dataset(dict(dataset.data_vars), dict(dataset.coords), dataset.attrs)
    with look.drawing():
        data = write_netcdf(ordered, folder / names["data"], FORMAT)
    facts = {**facts, "parameters": dataset.attrs}
    return {"data": data, **write_pictures(folder, name, lambda: draw_dataset(dataset), facts, started, look)}


def write_pictures(
    folder: Path,
    name: str,
    draw: Callable[[], Figure],
    facts: dict[str, Any],
    started: float,
    look: Look = DEFAULT_LOOK,
) -> dict[str, Path]:
    """Draw a figure, and write its pictures and its provenance.

    Parameters
    ----------
    folder : Path
        An existing folder.
    name : str
        The files are NAME.png, NAME.pdf and NAME.provenance.json.
    draw : callable
        ``draw()`` gives a matplotlib Figure.
    facts : dict
        Entries of the provenance.
    started : float
        time.perf_counter() at the start of the computation, for the wall time in the provenance.
    look : Look
        Style, formats and resolution.

    Returns
    -------
    dict
        Paths by format and "provenance".

    Raises
    ------
    InputError
        An unknown style; a resolution too high for the size of the figure; LaTeX refuses a text; the folder cannot be
        written to.
    """
    files = {kind: folder / file for kind, file in file_names(name, look.formats).items() if kind != "data"}
    # fontTools logs remarks on the dates of the fonts that it embeds.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    resolution: dict[str, Any] = {} if look.dpi is None else {"dpi": look.dpi}
    with look.drawing():
        figure = draw()
        _require_drawable(figure, look.dpi)
        for kind in look.formats:
            with replacing(files[kind]) as temporary:
                try:
                    figure.savefig(temporary, format=kind, **resolution, **FORMATS[kind])
                except (FileNotFoundError, RuntimeError) as error:
                    if look.tex:  # a program of LaTeX is missing, or LaTeX refuses a text
                        raise InputError(
                            f"expected LaTeX to set the texts of {files[kind].name}, received an error: {error}; "
                            "check the installation of LaTeX, or draw without tex"
                        ) from error
                    raise
            figure.set_layout_engine("none")  # all pictures have the layout of the first
    record = provenance(**facts, wall_time=time.perf_counter() - started)
    text = json.dumps(record, indent=2, ensure_ascii=False, default=str)
    write_text(files["provenance"], f"{text}\n")
    return files
