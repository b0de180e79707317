"""Validity maps: where a statement holds, over two quantities."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.figures.axes import cell_edges, readable_ticks
from snapdyn.figures.style import house_style, new_figure
from snapdyn.figures.svg import LEGEND_ROW, PLOT_HEIGHT, TALL, TEXT_SIZES, WIDE, WIDTH, inline_svg, legend_rows, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from snapdyn.validation.pictures import Map

MAP_STYLE = {"axes.spines.top": True, "axes.spines.right": True, "axes.titlesize": 9.5}
# Steps of the colour scale: each is an element of the SVG.
COLOURS = 32
# A logarithmic colour scale ends this many decades below its largest value.
MOST_DECADES = 8


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
    rows = 1 + legend_rows([line.label for line in map.boundaries])
    with house_style(TEXT_SIZES | MAP_STYLE):
        figure = new_figure(WIDTH, PLOT_HEIGHT + 0.3 + LEGEND_ROW * rows)
        handles, texts = draw_map(figure.subplots(), map)
        if handles:
            figure.legend(handles, texts, loc="outside lower center")
        return inline_svg(figure, f"{map.title}: {map.quantity} over {map.xlabel} and {map.ylabel}")


def draw_map(axes: Axes, map: Map) -> tuple[list[Any], list[str]]:
    """Draw a validity map with its colour bar.

    The cells around the grid points are coloured by the measured violation (dark: small; grey: no instance). A dashed
    line marks the threshold where the violation crosses it. Printed conditions are dotted, fitted or corrected ones
    solid.

    Parameters
    ----------
    axes : matplotlib Axes
    map : Map

    Returns
    -------
    handles : list
        Of the legend.
    texts : list of str
        Their labels.
    """
    import matplotlib
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.patheffects import Stroke, withStroke

    texts = [line.label for line in map.boundaries]
    values, norm = _colour_scale(map)
    x_edges, y_edges = cell_edges(map.x, map.xscale), cell_edges(map.y, map.yscale)
    axes.set(
        title=wrapped(map.title, WIDE),
        xlabel=wrapped(map.xlabel, WIDE),
        ylabel=wrapped(map.ylabel, TALL),
        xscale=map.xscale,
        yscale=map.yscale,
        xlim=x_edges[[0, -1]],
        ylim=y_edges[[0, -1]],
        facecolor="0.8",
    )
    readable_ticks(axes, (x_edges, y_edges))
    colours = matplotlib.colormaps["cividis"].resampled(COLOURS)
    # Borders in the colour of each cell: without them, hairlines of the background show between cells.
    mesh = axes.pcolormesh(
        x_edges, y_edges, np.ma.masked_invalid(values), cmap=colours, norm=norm, edgecolors="face", linewidth=0.3
    )
    figure = axes.get_figure()
    assert figure is not None
    bar = figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label(wrapped(map.quantity, TALL))
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
    crossings = threshold_lines(map, values)
    # Last, so that the measured line stays visible where a condition lies under it.
    style = {"color": "white", "linewidth": 1.4, "linestyle": "--", "path_effects": outline}
    for line in crossings:
        axes.plot(*line.T, **style)
    if crossings:
        handles.append(Line2D([], [], **style))
        texts.append(f"measured: {map.threshold:g}")
    if np.isnan(values).any():
        handles.append(Patch(facecolor="0.8"))
        texts.append("no such instance")
    return handles, [wrapped(text, WIDE) for text in texts]


def _colour_scale(map: Map) -> tuple[Floats, Any]:
    """Return the values to colour and their norm; on a logarithmic scale zeros take the lowest colour."""
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


def threshold_lines(map: Map, values: Floats) -> list[Floats]:
    """Return the lines (points, 2) where the violation crosses the threshold, straight on the axes of the map."""
    from contourpy import contour_generator

    if min(values.shape) < 2 or (map.scale == "log" and map.threshold <= 0):
        return []
    x, y = (np.log(p) if scale == "log" else p for p, scale in ((map.x, map.xscale), (map.y, map.yscale)))
    levels, level = (np.log(values), np.log(map.threshold)) if map.scale == "log" else (values, map.threshold)
    lines = []
    for contour in contour_generator(x, y, np.ma.masked_invalid(levels)).lines(level):
        line = np.array(contour)
        for column, scale in enumerate((map.xscale, map.yscale)):
            if scale == "log":
                line[:, column] = np.exp(line[:, column])
        lines.append(line)
    return lines
