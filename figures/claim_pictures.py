"""The picture and the maps of a claim as SVG text, to stand inside an HTML page."""

from __future__ import annotations

import html
import io
import re
import textwrap
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.figures.style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from snapdyn.validation.results import Line, Map, Picture

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
MAP_STYLE = {"axes.spines.top": True, "axes.spines.right": True, "axes.titlesize": 9.5}
MOST_POINTS = 200
# Steps of the colour scale of a map: each is an element of the SVG.
COLOURS = 32
# A logarithmic colour scale reaches no further below its largest value.
MOST_DECADES = 8
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
        text = _svg_text(figure)
    labels = ", ".join(line.label for line in picture.lines)
    return _inline(text, f"{picture.ylabel} against {picture.xlabel}: {labels}")


def map_svg(map: Map) -> str:
    """Draw a map of where a statement holds, as `draw_map` does.

    Returns
    -------
    str
        One <svg> element without size: it fills the width it is given. The same map gives the same text.
    """
    from matplotlib.figure import Figure

    rows = 1 + sum(_wrapped(line.label, WIDE).count("\n") + 1 for line in map.boundaries)
    with house_style(TEXT_SIZES | MAP_STYLE):
        figure = Figure(figsize=(WIDTH, PLOT_HEIGHT + 0.3 + LEGEND_ROW * rows))
        handles, texts = draw_map(figure.subplots(), map)
        if handles:
            figure.legend(handles, texts, loc="outside lower center")
        text = _svg_text(figure)
    return _inline(text, f"{map.title}: {map.quantity} over {map.xlabel} and {map.ylabel}")


def draw_map(axes: Axes, map: Map) -> tuple[list[Any], list[str]]:
    """Draw a map of where a statement holds on `axes`, with its colour bar; return what its legend must say.

    Cells around the grid's points, coloured by the measured violation (dark: small), grey where there is none; a
    dashed line where it crosses the threshold, unless the whole map is on one side; printed conditions dotted,
    fitted or corrected ones solid.
    """
    import matplotlib
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.patheffects import Stroke, withStroke

    texts = [line.label for line in map.boundaries]
    values, norm = _colour_scale(map)
    x_edges, y_edges = cell_edges(map.x, map.xscale), cell_edges(map.y, map.yscale)
    axes.set(
        title=_wrapped(map.title, WIDE),
        xlabel=_wrapped(map.xlabel, WIDE),
        ylabel=_wrapped(map.ylabel, TALL),
        xscale=map.xscale,
        yscale=map.yscale,
        xlim=x_edges[[0, -1]],
        ylim=y_edges[[0, -1]],
        facecolor="0.8",
    )
    readable_ticks(axes, (x_edges, y_edges))
    colours = matplotlib.colormaps["cividis"].resampled(COLOURS)
    # Without borders of the cells' own colour, hairlines of the background show between them.
    mesh = axes.pcolormesh(
        x_edges, y_edges, np.ma.masked_invalid(values), cmap=colours, norm=norm, edgecolors="face", linewidth=0.3
    )
    figure = axes.get_figure()
    assert figure is not None
    bar = figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label(_wrapped(map.quantity, TALL))
    bar.ax.minorticks_off()
    outline = [Stroke(linewidth=3.2, foreground="black"), withStroke(linewidth=3.2, foreground="black")]
    handles: list[Any] = []
    for boundary, colour in zip(map.boundaries, cycle(("#D55E00", "#E69F00", "#CC79A7"))):
        style: dict[str, Any] = {
            "color": colour,
            "linewidth": 1.8,
            "linestyle": ":" if boundary.kind == "printed" else "-",
        }
        white = [withStroke(linewidth=3.4, foreground="white")]
        axes.plot(boundary.x, boundary.y, path_effects=white, **style)
        handles.append(Line2D([], [], **style))
    threshold_lines = _threshold_lines(map, values)
    # Last, so that it shows on a condition that it follows.
    style = {"color": "white", "linewidth": 1.4, "linestyle": "--", "path_effects": outline}
    for line in threshold_lines:
        axes.plot(*line.T, **style)
    if threshold_lines:
        handles.append(Line2D([], [], **style))
        texts.append(f"measured: {map.threshold:g}")
    if np.isnan(values).any():
        handles.append(Patch(facecolor="0.8"))
        texts.append("no such instance")
    return handles, [_wrapped(text, WIDE) for text in texts]


def _colour_scale(map: Map) -> tuple[Floats, Any]:
    """Values to colour and their norm; on a logarithmic scale zeros take its lowest colour."""
    from matplotlib.colors import LogNorm, Normalize

    values = np.asarray(map.violation, dtype=float)
    values = np.where(np.isfinite(values), values, np.nan)
    seen = values[np.isfinite(values)]
    if map.scale == "linear":
        return values, Normalize(min(0.0, seen.min(initial=0.0)), max(seen.max(initial=0.0), map.threshold, 1e-300))
    high = max(seen.max(initial=0.0), map.threshold)
    positive = seen[seen > 0]
    low = max(min(positive.min(initial=high), map.threshold), high * 10.0**-MOST_DECADES)
    low = min(low, high / 10)
    return np.where(np.isnan(values), np.nan, np.maximum(values, low)), LogNorm(low, high)


def _threshold_lines(map: Map, values: Floats) -> list[Floats]:
    """Lines (points, 2) where the violation crosses the threshold, straight on the map's own scales."""
    from contourpy import contour_generator

    if min(values.shape) < 2 or (map.scale == "log" and map.threshold <= 0):
        return []
    x, y = (np.log(p) if scale == "log" else p for p, scale in ((map.x, map.xscale), (map.y, map.yscale)))
    levels, level = (np.log(values), np.log(map.threshold)) if map.scale == "log" else (values, map.threshold)
    lines = []
    for found in contour_generator(x, y, np.ma.masked_invalid(levels)).lines(level):
        line = np.array(found)
        for column, scale in enumerate((map.xscale, map.yscale)):
            if scale == "log":
                line[:, column] = np.exp(line[:, column])
        lines.append(line)
    return lines


def readable_ticks(axes: Axes, edges: tuple[Sequence[float] | Floats, Sequence[float] | Floats]) -> None:
    """As `readable_axis`, on both axes."""
    for axis, edge in zip((axes.xaxis, axes.yaxis), edges, strict=True):
        readable_axis(axis, edge)


def readable_axis(axis: Axis, edge: Sequence[float] | Floats) -> None:
    """Name 1, 2, 5 on a logarithmic axis of less than three decades, powers of ten on a longer one."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if axis.get_scale() != "log":
        return
    if edge[-1] < 1e3 * edge[0]:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def cell_edges(points: Floats, scale: str) -> Floats:
    """Edges of the cells around grid points, halfway on the axis."""
    place = np.log(points) if scale == "log" else np.asarray(points, dtype=float)
    if place.size == 1:
        edges = np.array([place[0] - 0.5, place[0] + 0.5])
    else:
        middle = (place[1:] + place[:-1]) / 2
        edges = np.concatenate([[2 * place[0] - middle[0]], middle, [2 * place[-1] - middle[-1]]])
    return np.exp(edges) if scale == "log" else edges


def _svg_text(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return text.getvalue()


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


def _inline(text: str, description: str) -> str:
    """Turn a stand-alone SVG file into an element for an HTML page that may hold many of them."""
    description = html.escape(description)
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
