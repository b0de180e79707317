"""The picture of a claim as SVG text, to stand inside an HTML page."""

from __future__ import annotations

import html
import io
import re
import textwrap
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.figures.style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from snapdyn.validation.results import Line, Picture

    Floats = NDArray[np.float64]

WIDTH, PLOT_HEIGHT, LEGEND_ROW = 5.2, 2.7, 0.19  # inches
# Larger than in print: on a telephone the picture shrinks to about two thirds.
TEXT_SIZES = {
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
}
# Characters that fit: along the height, along the width, and in one of two legend columns.
TALL, WIDE, HALF = 30, 60, 26
MOST_POINTS = 200
# Simulations with fewer points than this show each of them; longer ones every so many.
MOST_MARKERS = 25
LINE_STYLES: dict[str, dict[str, Any]] = {
    "theory": {"linestyle": "-"},
    "simulation": {"linestyle": "--", "linewidth": 0.8, "marker": "o", "markerfacecolor": "white"},
    "printed": {"linestyle": ":", "linewidth": 1.6},
    "control": {"linestyle": "-", "linewidth": 0.8, "color": "0.65"},
    "bound": {"color": "0.45"},
}


def claim_svg(picture: Picture) -> str:
    """Draw a claim's picture.

    Theory is a solid line, simulation circles on a dashed line, the printed statement dotted, a control thin
    and grey, a bound grey and dashed (the dashes differ from bound to bound).

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

    columns = 2 if max((len(line.label) for line in picture.lines), default=0) <= HALF else 1
    legend_rows = -(-sum(_wrapped(line.label, WIDE).count("\n") + 1 for line in picture.lines) // columns)
    with house_style(TEXT_SIZES):
        figure = Figure(figsize=(WIDTH, PLOT_HEIGHT + LEGEND_ROW * legend_rows))
        axes = figure.subplots()
        axes.set(
            xlabel=_wrapped(picture.xlabel, WIDE),
            ylabel=_wrapped(picture.ylabel, TALL),
            xscale=picture.xscale,
        )
        _set_yscale(axes, picture)
        axes.grid(True)
        bound_dashes = cycle(("--", "-.", (0, (1, 1))))
        for line in picture.lines:
            dashes = {"linestyle": next(bound_dashes)} if line.kind == "bound" else {}
            _plot(axes, line, picture, dashes)
        for row, (label, x) in enumerate(picture.verticals):
            axes.axvline(x, color="0.3", linewidth=0.8, linestyle="-.")
            # Above the axes, clear of the lines; alternate rows keep neighbours apart.
            offset = (0, 2 + 11 * (row % 2))
            axes.annotate(
                label,
                (x, 1),
                xycoords=("data", "axes fraction"),
                xytext=offset,
                textcoords="offset points",
                ha="center",
            )
        if picture.lines:
            figure.legend(loc="outside lower center", ncols=columns)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inline(text.getvalue(), picture)


def _wrapped(text: str, width: int) -> str:
    """Break a text into lines of at most `width` characters; formulas and "K = 10" stay whole."""
    return text if "$" in text else textwrap.fill(text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), width)


def _set_yscale(axes: Axes, picture: Picture) -> None:
    if picture.yscale == "symlog":
        sizes = np.abs(np.concatenate([line.y for line in picture.lines] or [np.empty(0)]))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        # Linear below the smallest value, but over no more than six decades of the picture.
        threshold = max(sizes.min(), 1e-6 * sizes.max()) if sizes.size else 1.0
        axes.set_yscale("symlog", linthresh=threshold)
        axes.locator_params(axis="y", numticks=8)
    else:
        axes.set_yscale(picture.yscale)


def _plot(axes: Axes, line: Line, picture: Picture, dashes: dict[str, Any]) -> None:
    x, y = _thinned(line.x, line.y, picture.xscale == "log")
    drawable = np.isfinite(y) & ((y > 0) | (picture.yscale != "log"))
    style = LINE_STYLES[line.kind] | dashes
    if "marker" in style:
        style["markevery"] = max(1, x.size // MOST_MARKERS)
    axes.plot(x, np.where(drawable, y, np.nan), label=_wrapped(line.label, WIDE), **style)


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
    labels = ", ".join(line.label for line in picture.lines)
    description = html.escape(f"{picture.ylabel} against {picture.xlabel}: {labels}")
    view_box = re.search(r'viewBox="[^"]*"', text)
    assert view_box is not None
    # Left out: the file's header with its fixed size; style rules, which would hold for the whole page; names
    # of groups ("axes_1"), which would repeat from picture to picture and to which nothing refers.
    body = text[text.index("</defs>") + len("</defs>") :]
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {view_box[0]} '
        f'role="img" aria-label="{description}" style="stroke-linejoin: round; stroke-linecap: butt">{body}'
    )
