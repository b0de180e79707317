"""Heat maps with boundaries: validity maps, and diagrams of sweeps with the lines of the theory."""

from __future__ import annotations

import json
import textwrap
from functools import cache
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray

from snapdyn.core.errors import InputError, choice
from snapdyn.core.prose import as_mathtext
from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.panels import fit_texts, legend_above, readable_axis
from snapdyn.figures.phase_theory import lines_of, own_lines, parameters_of, theory_on
from snapdyn.figures.style import SINGLE_COLUMN, TIMES, Axes, Figure, line_width, new_figure, note_size
from snapdyn.validation.phases import OBSERVABLES, PHASES

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

    from snapdyn.validation.pictures import Map

MESH = 200  # points along each axis at which the theory's lines are computed
LABELS = {
    "eta_Y": r"$\eta_Y$",
    "eta_Z": r"$\eta_Z$",
    "num_classes": "$K$",
    "vocab_size": "$V$",
    "common_probability": "probability of the common token",
    "num_distinct": "distinct tokens per class",
    "num_queries": "$Q$",
    "momentum": r"momentum $\mu$",
    "batch_size": "batch",
    "seq_len": "$T-1$",
    "last": "last $t$ (batch-size-1 steps)",
}
WIDTH = 1.3 * SINGLE_COLUMN
LOGARITHMIC = ("transition_time", "t_peak", "t_start", "t_end", "largest_gap", "late_speed")
SHARES = {"common_probability", "momentum"}  # parameters from 0 to 1
PHASE_COLOURS = ("#E8E8E8", "#56B4E9", "#0072B2", "#D55E00")
TIME_STYLES: dict[str, Literal["-", "--", ":"]] = {"peak": "-", "start": "--", "end": ":"}
LINE_COLOURS = ("#D55E00", "#E69F00", "#CC79A7", "#009E73")
TALL, WIDE = 30, 60  # characters that fit along the height, and along the width
# Steps of the colour scale: each is an element of the SVG.
COLOURS = 32
# A logarithmic colour scale ends this many decades below its largest value.
MOST_DECADES = 8


def in_lines(text: str, width: int = WIDE) -> str:
    """Return a text with its mathematics as mathtext, in lines of at most `width` characters; K = 10 stays whole."""
    return drawable(textwrap.fill(text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), width))


@cache
def drawable(text: str) -> str:
    """Return a text with its mathematics as mathtext; mathtext that matplotlib does not know is shown as written."""
    from matplotlib.mathtext import MathTextParser

    text = as_mathtext(text)
    try:
        for line in text.splitlines():
            MathTextParser("path").parse(line)
    except ValueError:
        return text.replace("$", r"\$")
    return text


def cell_edges(points: Floats, scale: str) -> Floats:
    """Return the edges of the cells around grid points, halfway between neighbours on the axis ("log" or "linear")."""
    place = np.log(points) if scale == "log" else np.asarray(points, dtype=float)
    if place.size == 1:
        edges = np.array([place[0] - 0.5, place[0] + 0.5])
    else:
        middle = (place[1:] + place[:-1]) / 2
        edges = np.concatenate([[2 * place[0] - middle[0]], middle, [2 * place[-1] - middle[-1]]])
    return np.exp(edges) if scale == "log" else edges


def heat_map(
    axes: Axes,
    edges: tuple[Floats, Floats],
    scales: tuple[str, str],
    values: Floats,
    norm: Any,
    cmap: Any,
    labels: tuple[str, str, str],
    missing: str,
) -> list[Any]:
    """Draw cells between edges (x, y) in the colours of their values (y, x), labelled (x, y, values).

    Without a label of values there is no colour bar. Cells without a value are grey: their handle for a legend, with
    the text `missing`, is returned.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Patch

    x, y = edges
    axes.spines[["top", "right"]].set_visible(True)
    axes.set(xscale=scales[0], yscale=scales[1], xlim=x[[0, -1]], ylim=y[[0, -1]], facecolor="0.8")
    axes.set(xlabel=labels[0], ylabel=labels[1])
    for axis, edge in zip((axes.xaxis, axes.yaxis), edges, strict=True):
        readable_axis(axis, edge)
    # Borders in the colour of each cell: without them, hairlines of the background show between cells. One bitmap,
    # since thousands of cells would make a page slow.
    mesh = axes.pcolormesh(
        x, y, np.ma.masked_invalid(values), cmap=cmap, norm=norm, edgecolors="face", linewidth=0.3, rasterized=True
    )
    figure = axes.get_figure()
    if labels[2] and figure is not None:
        bar = figure.colorbar(mesh, ax=axes, pad=0.02)
        bar.set_label(labels[2])
        bar.ax.minorticks_off()
        if isinstance(norm, LogNorm):
            readable_axis(bar.ax.yaxis, np.array([norm.vmin, norm.vmax], dtype=float))
    return [] if np.isfinite(values).all() else [Patch(facecolor="0.8", label=missing)]


def level_lines(
    axes: Axes, x: Any, y: Any, values: Floats, levels: Any, label: str, width: float, edge: str, **style: Any
) -> Line2D:
    """Draw lines of equal values with an edge, straight between grid points; return their handle for a legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    style = {"color": "black", "linestyle": "-"} | style
    # In the coordinates of logarithmic axes, where lines between points are straight.
    places = (axis.get_transform().transform_non_affine(p) for axis, p in ((axes.xaxis, x), (axes.yaxis, y)))
    drawn = axes.contour(
        *places,
        np.ma.masked_invalid(values),
        levels=levels,
        colors=[style["color"]],
        linestyles=style["linestyle"],
        transform=axes.transLimits + axes.transAxes,
    )
    effects = [withStroke(linewidth=line_width(width + 1.7), foreground=edge)]
    drawn.set(linewidths=line_width(width), path_effects=effects)
    return Line2D([], [], linewidth=line_width(width), label=label, path_effects=effects, **style)


def draw_map(axes: Axes, map: Map) -> list[Any]:
    """Draw a validity map with its colour bar; return the handles of its legend.

    The cells around the grid points are coloured by the measured violation (dark: small; grey: no instance). A dashed
    line marks where the violation crosses the threshold. Printed conditions are dotted, fitted or corrected ones solid.
    """
    import matplotlib
    from matplotlib.patheffects import withStroke

    # A linear scale begins at 0 or below.
    values, norm = _colour_scale(map.violation, map.scale, map.threshold, *[0.0] * (map.scale == "linear"))
    edges = cell_edges(map.x, map.xscale), cell_edges(map.y, map.yscale)
    colours = matplotlib.colormaps["cividis"].resampled(COLOURS)
    labels = in_lines(map.xlabel), in_lines(map.ylabel, TALL), in_lines(map.quantity, TALL)
    grey = heat_map(axes, edges, (map.xscale, map.yscale), values, norm, colours, labels, "no such instance")
    axes.set_title(in_lines(map.title))
    handles: list[Any] = []
    for boundary, colour in zip(map.boundaries, cycle(LINE_COLOURS)):
        handles += axes.plot(
            boundary.x,
            boundary.y,
            ":" if boundary.kind == "printed" else "-",
            color=colour,
            linewidth=1.8,
            label=in_lines(boundary.label),
            path_effects=[withStroke(linewidth=3.4, foreground="white")],
        )
    # Last, so that the measured line stays visible where a condition lies under it.
    levels, level = (np.log(values), np.log(map.threshold or 1)) if map.scale == "log" else (values, map.threshold)
    if min(values.shape) > 1 and np.nanmin(levels, initial=np.inf) < level < np.nanmax(levels, initial=-np.inf):
        text = f"measured: {map.threshold:g}"
        style = {"color": "white", "linestyle": "--"}
        handles.append(level_lines(axes, map.x, map.y, levels, [level], text, 1.4, "black", **style))
    return handles + grey


def _colour_scale(values: Floats, scale: str, *shown: float) -> tuple[Floats, Any]:
    """Return the values to colour and their norm, which includes the values `shown`.

    Values that are not finite are NaN. On a logarithmic scale small values and zeros take the lowest colour.
    """
    from matplotlib.colors import LogNorm, Normalize

    values = np.where(np.isfinite(values), values, np.nan)
    seen = np.append(values[np.isfinite(values)], shown)
    if scale == "log" and (seen > 0).any():
        high = seen.max()
        low = min(max(seen[seen > 0].min(), high * 10.0**-MOST_DECADES), high / 10)
        return np.where(np.isnan(values), np.nan, np.maximum(values, low)), LogNorm(low, high)
    low, high = (seen.min(), seen.max()) if seen.size else (0.0, 1.0)
    return values, Normalize(low, high if high > low else low + 1)


def draw(dataset: xarray.Dataset, x: str, y: str, variable: str, width: float = WIDTH) -> Figure:
    """Draw the diagram of one variable of a sweep.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `snapdyn sweep` with a grid design over x and y, and with one value on each other axis. It may have a
        dimension seed, over which the mean is taken.
    x : str
        Dimension on the horizontal axis.
    y : str
        Dimension on the vertical axis.
    variable : str
        Variable to colour.
    width : float
        Inches.

    Returns
    -------
    matplotlib Figure
        Titled by the variable; the settings stand below in small letters.
    """
    figure = new_figure(width, min(WIDTH, 1.2 * width))
    parts: Any = figure.subfigures(2, 1, height_ratios=[10, 1])
    main, below = parts
    axes = main.subplots()
    field = diagram(dataset, x, y, variable)
    handles = draw_diagram(axes, field)
    axes.set_title(_label(field), loc="left")
    if handles:
        legend_above(main, handles, loc="outside lower center", most_columns=2)
    below.text(
        0.5, 0.5, settings_text(field), ha="center", va="center", fontsize=note_size(0.85), color="0.35", wrap=True
    )
    fit_texts(figure)
    return figure


def diagram(dataset: xarray.Dataset, x: str, y: str, variable: str) -> xarray.DataArray:
    """Return a variable of a sweep over (y, x), with what was run in its attributes.

    It is the mean over seeds, or the median of phases. Cells have edges between neighbours, so the axes are sorted.
    Raises InputError where it cannot be drawn: an unknown variable or axis, texts, or further dimensions.
    """
    field = dataset[choice("variable", variable, [str(name) for name in dataset.data_vars])]
    if "seed" in field.dims and "seed" not in (x, y):
        field = field.median("seed") if variable == "phase" else field.mean("seed")
    dims = [str(name) for name in field.dims if field.sizes[name] != 1]
    choice("x", x, dims)
    choice("y", y, dims)
    if x == y:
        raise InputError(f"expected two axes of the diagram, received {x} twice; choose two of {', '.join(dims)}")
    for each in (field, field[x], field[y]):
        if each.dtype.kind not in "iuf":
            raise InputError(f"expected numbers in a diagram, received texts as {each.name}; choose another one")
    if others := [name for name in dims if name not in (x, y)]:
        raise InputError(
            f"expected the dimensions {x} and {y} only, received also {', '.join(others)}; give one value of each, or "
            "choose one with dataset.sel(...)"
        )
    field = field.squeeze([name for name in field.dims if name not in (x, y)]).transpose(y, x).sortby([x, y])
    known = {"settings": dataset.attrs["settings"], "observable": variable}
    return field.assign_attrs(dataset[variable].attrs | known)


def _label(field: xarray.DataArray) -> str:
    """Label of a diagram's variable: that of the observable, else its long name."""
    variable = field.attrs["observable"]
    if variable in OBSERVABLES:
        return OBSERVABLES[variable].axis
    return str(field.attrs.get("long_name", variable))


def settings_text(field: xarray.DataArray) -> str:
    """Return the settings that all cells of a diagram share, as one line."""
    sections: dict[str, dict[str, Any]] = json.loads(field.attrs["settings"])
    values = {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}
    values |= {name: place.values.item() for name, place in parameters_of(field).items() if place.size == 1}
    shown = (
        (dotted.partition(".")[2], value)
        for dotted, value in values.items()
        if dotted not in [name for name, place in parameters_of(field).items() if place.size > 1]
        and not isinstance(value, (list, dict))
    )
    texts = (f"{LABELS.get(key, key)} = " + str(value).replace("$", r"\$") for key, value in shown)
    return ", ".join(texts)


def draw_diagram(axes: Axes, field: xarray.DataArray) -> list[Any]:
    """Draw a `diagram` with its colour bar and the lines of the theory; return the handles of its legend."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch
    from matplotlib.ticker import LogLocator

    y, x = (field[name] for name in field.dims)
    variable = field.attrs["observable"]
    scales = _scale(x.values), _scale(y.values)
    edges = _edges(x, scales[0]), _edges(y, scales[1])
    values, norm = _colour_scale(field.values, "log" if variable in LOGARITHMIC else "linear")
    right, up = (LABELS.get(_key(place), str(place.name)) for place in (x, y))
    missing = "not by the end of the run" if np.isinf(field.values).any() else "no value"
    handles: list[Any] = []
    if variable == "phase":
        seen = [number for number in range(len(PHASES)) if (np.rint(values) == number).any()]
        handles = [Patch(facecolor=PHASE_COLOURS[number], label=PHASES[number]) for number in seen]
        norm, cmap = BoundaryNorm(np.arange(len(PHASES) + 1) - 0.5, len(PHASES)), ListedColormap(PHASE_COLOURS)
        grey = heat_map(axes, edges, scales, values, norm, cmap, (right, up, ""), missing)
    else:
        grey = heat_map(axes, edges, scales, values, norm, "cividis", (right, up, _label(field)), missing)
    spaced = ((np.geomspace if scale == "log" else np.linspace) for scale in scales)
    X, Y = np.meshgrid(*(points(ends[0], ends[-1], MESH) for points, ends in zip(spaced, edges, strict=True)))
    theory = theory_on(field, X, Y)
    lines = lines_of(variable, theory) | own_lines(field, X, Y)
    for (label, line), colour in zip(lines.items(), cycle(LINE_COLOURS), strict=False):
        level = np.broadcast_to(line, X.shape)
        known = level[np.isfinite(level)]
        if known.size and known.min() < 0 < known.max():
            handles.append(level_lines(axes, X, Y, level, [0.0], label, 1.6, "white", color=colour))
    if variable == "transition_time" and min(values.shape) > 1:
        levels = LogLocator().tick_values(norm.vmin, norm.vmax)
        handles.append(level_lines(axes, x, y, np.log(values), np.log(levels), "measured", 2.0, "0.3", color="white"))
        for kind, linestyle in TIME_STYLES.items():
            time = np.broadcast_to(np.where(theory.V >= theory.K, theory.time(kind), np.nan), X.shape)
            if np.isfinite(time).any():
                handles.append(level_lines(axes, X, Y, time, levels, TIMES[kind], 0.8, "none", linestyle=linestyle))
    return handles + grey


def _key(place: xarray.DataArray) -> str:
    """Last part of the name of the parameter along an axis."""
    return str(place.attrs.get("parameter", place.name)).rpartition(".")[2]


def _edges(place: xarray.DataArray, scale: str) -> Floats:
    edges = cell_edges(place.values.astype(float), scale)
    return np.clip(edges, 0.0, 1.0) if _key(place) in SHARES else edges  # no cell reaches beyond


def _scale(values: Floats) -> str:
    """Return "log" where the values are spaced more evenly on a logarithmic axis, else "linear"."""
    if values.size < 3 or values.min() <= 0:
        return "linear"
    spread = [np.std(np.diff(place)) / np.mean(np.diff(place)) for place in (np.log(values), values)]
    return "log" if spread[0] < spread[1] else "linear"
