"""Pictures of claims and validity maps, as SVG text for an HTML page."""

from __future__ import annotations

import html
import io
import re
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.core.errors import instance
from snapdyn.figures.heat_maps import TALL, draw_map, drawable, in_lines
from snapdyn.figures.panels import label_above, legend_above, readable_axis
from snapdyn.figures.style import Axes, Figure, house_style, new_figure
from snapdyn.validation.pictures import Picture

if TYPE_CHECKING:
    from snapdyn.validation.pictures import Line, Map

WIDTH, PLOT_HEIGHT = 5.2, 2.7  # inches, without the legend
# Larger than in print: on a telephone the picture shrinks to about two thirds.
TEXT_SIZES = {
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
}


def inline_svg(figure: Figure, description: str) -> str:
    """Return a figure as one <svg> element without size, for an HTML page that may hold many of them.

    Parameters
    ----------
    figure : matplotlib Figure
    description : str
        Text for screen readers.

    Returns
    -------
    str
        The element fills the width it is given. The same figure gives the same text.
    """
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = written.getvalue()
    description = html.escape(description)
    view_box = re.search(r'viewBox="[^"]*"', text)
    assert view_box is not None
    # Left out: the file's header with its fixed size; style rules, which would hold for the whole page; names
    # of groups ("axes_1"), which would repeat from picture to picture and to which nothing refers.
    body = text[text.index("</defs>") + len("</defs>") :]
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r"; font-family: [^;\"]*|\n *", "", body)  # the page has its own font
    # Places in tenths of a point; texts, which stand between tags, keep their numbers.
    body = re.sub(r"<[^>]*>", lambda tag: re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}", tag[0]), body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {view_box[0]} '
        f'role="img" aria-label="{description}" style="stroke-linejoin: round; stroke-linecap: butt">{body}'
    )


# A simulation with more points than this has markers on so many of them.
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
    instance("picture", picture, Picture, "build one with sd.Picture(...)")
    with house_style(TEXT_SIZES):
        figure = new_figure(WIDTH, PLOT_HEIGHT)
        draw_picture(figure.subplots(), picture)
        legend_above(figure, loc="outside lower center", most_columns=2, grow=True)
        labels = ", ".join(line.label for line in picture.lines)
        return inline_svg(figure, f"{picture.ylabel} against {picture.xlabel}: {labels}")


def draw_picture(axes: Axes, picture: Picture) -> None:
    """Draw a claim's picture as `claim_svg` says, without its legend."""
    axes.set(xlabel=in_lines(picture.xlabel), ylabel=in_lines(picture.ylabel, TALL), xscale=picture.xscale)
    _set_yscale(axes, picture)
    axes.grid(True)
    bound_dashes = cycle(("--", "-.", (0, (1, 1))))
    for line in picture.lines:
        dashes = {"linestyle": next(bound_dashes)} if line.kind == "bound" else {}
        _plot(axes, line, picture, dashes)
    readable_axis(axes.xaxis, axes.get_xlim())
    readable_axis(axes.yaxis, axes.get_ylim())
    for row, (label, x) in enumerate(picture.verticals):
        axes.axvline(x, color="0.3", linewidth=0.8, linestyle="-.")
        # Above the axes, clear of the lines; alternate rows keep neighbours apart.
        label_above(axes, x, drawable(label), xytext=(0, 2 + 11 * (row % 2)), textcoords="offset points")


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
    x, y = line.x, line.y
    drawable = np.isfinite(y) & ((y > 0) | (picture.yscale != "log")) & ((x > 0) | (picture.xscale != "log"))
    style = LINE_STYLES[line.kind] | dashes
    if "marker" in style and x.size > MOST_MARKERS:
        style["markevery"] = 1 / MOST_MARKERS  # evenly along the line
    axes.plot(x, np.where(drawable, y, np.nan), label=in_lines(line.label), **style)


def map_svg(map: Map) -> str:
    """Draw a validity map as `draw_map` does.

    Parameters
    ----------
    map : Map

    Returns
    -------
    str
        One <svg> element without size: it fills the width it is given. The same map gives the same text.
    """
    with house_style(TEXT_SIZES | {"axes.titlesize": 9.5}):
        figure = new_figure(WIDTH, PLOT_HEIGHT + 0.3)
        handles = draw_map(figure.subplots(), map)
        legend_above(figure, handles, loc="outside lower center", most_columns=1, grow=True)
        return inline_svg(figure, f"{map.title}: {map.quantity} over {map.xlabel} and {map.ylabel}")
