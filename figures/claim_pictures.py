"""The picture of a claim as SVG text, for an HTML page."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.figures.axes import readable_ticks
from snapdyn.figures.style import house_style, new_figure
from snapdyn.figures.svg import (
    HALF,
    LEGEND_ROW,
    PLOT_HEIGHT,
    TALL,
    TEXT_SIZES,
    WIDE,
    WIDTH,
    inline_svg,
    legend_rows,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from snapdyn.validation.pictures import Line, Picture

MOST_POINTS = 200
# A simulation with more points than this has markers on every second, third, ... point only.
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
        Values that cannot be drawn (not finite, or not positive on a logarithmic axis) leave a gap.

    Returns
    -------
    str
        One <svg> element without size: it fills the available width. The same picture gives the same text.

    Examples
    --------
    >>> from snapdyn import Picture
    >>> from snapdyn.figures import claim_svg
    >>> picture = Picture("t (batch-size-1 steps)", "z", (Picture.line("theory", [1, 10], [0.0, 0.5]),))
    >>> claim_svg(picture)[:4]
    '<svg'
    """
    columns = 2 if max((len(line.label) for line in picture.lines), default=0) <= HALF else 1
    rows = -(-legend_rows([line.label for line in picture.lines]) // columns)
    with house_style(TEXT_SIZES):
        figure = new_figure(WIDTH, PLOT_HEIGHT + LEGEND_ROW * rows)
        axes = figure.subplots()
        axes.set(
            xlabel=wrapped(picture.xlabel, WIDE),
            ylabel=wrapped(picture.ylabel, TALL),
            xscale=picture.xscale,
        )
        _set_yscale(axes, picture)
        axes.grid(True)
        bound_dashes = cycle(("--", "-.", (0, (1, 1))))
        for line in picture.lines:
            dashes = {"linestyle": next(bound_dashes)} if line.kind == "bound" else {}
            _plot(axes, line, picture, dashes)
        readable_ticks(axes, (axes.get_xlim(), axes.get_ylim()))
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
        labels = ", ".join(line.label for line in picture.lines)
        return inline_svg(figure, f"{picture.ylabel} against {picture.xlabel}: {labels}")


def _set_yscale(axes: Axes, picture: Picture) -> None:
    if picture.yscale == "symlog":
        sizes = np.abs(np.concatenate([line.y for line in picture.lines] or [np.empty(0)]))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        # Linear below the smallest value, or below six decades under the largest.
        threshold = max(sizes.min(), 1e-6 * sizes.max()) if sizes.size else 1.0
        axes.set_yscale("symlog", linthresh=threshold)
        axes.locator_params(axis="y", numticks=8)
    else:
        axes.set_yscale(picture.yscale)


def _plot(axes: Axes, line: Line, picture: Picture, dashes: dict[str, Any]) -> None:
    x, y = thinned(line.x, line.y, picture.xscale == "log")
    drawable = np.isfinite(y) & ((y > 0) | (picture.yscale != "log"))
    style = LINE_STYLES[line.kind] | dashes
    if "marker" in style:
        style["markevery"] = max(1, x.size // MOST_MARKERS)
    axes.plot(x, np.where(drawable, y, np.nan), label=wrapped(line.label, WIDE), **style)


def thinned(x: Floats, y: Floats, logarithmic: bool) -> tuple[Floats, Floats]:
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
