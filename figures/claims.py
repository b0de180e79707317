"""The picture of a claim as SVG text, to stand inside an HTML page."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from snapdyn.figures.style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from snapdyn.validation.results import Line, Picture

    Floats = NDArray[np.float64]

WIDTH, PLOT_HEIGHT, LEGEND_ROW = 5.2, 2.7, 0.17  # inches
MOST_POINTS = 200
# Simulations with fewer points than this show each of them; longer ones every so many.
MOST_MARKERS = 25
LINE_STYLES: dict[str, dict[str, Any]] = {
    "theory": {"linestyle": "-"},
    "simulation": {"linestyle": "--", "linewidth": 0.8, "marker": "o", "markerfacecolor": "white"},
    "printed": {"linestyle": ":", "linewidth": 1.6},
    "control": {"linestyle": "-", "linewidth": 0.8, "color": "0.65"},
    "bound": {"linestyle": "--", "color": "0.45"},
}


def claim_svg(picture: Picture) -> str:
    """Draw a claim's picture.

    Theory is a solid line, simulation circles on a dashed line, the printed statement dotted, a control thin
    and grey, a bound grey and dashed.

    Parameters
    ----------
    picture : Picture
        Values that have no place on its axes (not finite, or not positive on a logarithmic axis) leave a gap.

    Returns
    -------
    str
        One <svg> element without size: it fills the width it is given. The same picture gives the same text.
    """
    from matplotlib.figure import Figure

    columns = 2 if max((len(line.label) for line in picture.lines), default=0) <= 32 else 1
    legend_rows = -(-len(picture.lines) // columns)
    with house_style():
        figure = Figure(figsize=(WIDTH, PLOT_HEIGHT + LEGEND_ROW * legend_rows))
        axes = figure.subplots()
        axes.set(xlabel=picture.xlabel, ylabel=picture.ylabel, xscale=picture.xscale)
        _set_yscale(axes, picture)
        axes.grid(True)
        for line in picture.lines:
            _plot(axes, line, picture)
        for row, (label, x) in enumerate(picture.verticals):
            axes.axvline(x, color="0.3", linewidth=0.8, linestyle="-.")
            # Above the axes, clear of the lines; alternate rows keep neighbours apart.
            offset = (0, 2 + 9 * (row % 2))
            axes.annotate(
                label, (x, 1), xycoords=("data", "axes fraction"), xytext=offset, textcoords="offset points",
                ha="center", fontsize=7,
            )  # fmt: skip
        if picture.lines:
            figure.legend(loc="outside lower center", ncols=columns)
        text = io.StringIO()
        figure.savefig(
            text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    return _inline(text.getvalue(), picture)


def _set_yscale(axes: Axes, picture: Picture) -> None:
    if picture.yscale == "symlog":
        sizes = np.abs(np.concatenate([line.y for line in picture.lines] or [np.empty(0)]))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        # Linear below the smallest value, but over no more than six decades of the picture.
        threshold = max(sizes.min(), 1e-6 * sizes.max()) if sizes.size else 1.0
        axes.set_yscale("symlog", linthresh=threshold)
    else:
        axes.set_yscale(picture.yscale)


def _plot(axes: Axes, line: Line, picture: Picture) -> None:
    x, y = _thinned(line.x, line.y, picture.xscale == "log")
    drawable = np.isfinite(y) & ((y > 0) | (picture.yscale != "log"))
    style = dict(LINE_STYLES[line.kind])
    if "marker" in style:
        style["markevery"] = max(1, x.size // MOST_MARKERS)
    axes.plot(x, np.where(drawable, y, np.nan), label=line.label, **style)


def _thinned(x: Floats, y: Floats, logarithmic: bool) -> tuple[Floats, Floats]:
    """Return at most MOST_POINTS points, evenly along the axis when x increases, else evenly in order."""
    if logarithmic:
        x, y = x[x > 0], y[x > 0]
    if x.size <= MOST_POINTS:
        return x, y
    place: Floats = np.log(x) if logarithmic else x
    if np.all(np.diff(place) > 0):
        kept = np.searchsorted(place, np.linspace(place[0], place[-1], MOST_POINTS))
    else:
        kept = np.linspace(0, x.size - 1, MOST_POINTS).astype(int)
    kept = np.unique(kept)
    return x[kept], y[kept]


def _inline(text: str, picture: Picture) -> str:
    """Turn a stand-alone SVG file into an element for an HTML page that may hold many of them."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Names of groups ("axes_1") would repeat from picture to picture, and nothing refers to them.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    description = (
        f"{picture.ylabel} against {picture.xlabel}: {', '.join(line.label for line in picture.lines)}"
    )
    label = html.escape(description, quote=True)
    return re.sub(
        r'<svg (.*?)width="[^"]*"(.*?)height="[^"]*"',
        rf'<svg role="img" aria-label="{label}" \1\2',
        text,
        count=1,
    )
