"""Heat maps with boundaries: validity maps, and diagrams of sweeps with the lines of the theory."""

from __future__ import annotations

import json
import textwrap
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray

from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.panels import fit_texts, legend_above, readable_axis
from snapdyn.figures.phase_theory import Theory, lines_of, theory_of
from snapdyn.figures.style import SINGLE_COLUMN, TIMES, Axes, Figure, line_width, new_figure, note_size, power_of_ten
from snapdyn.validation.observables import OBSERVABLES, PHASES

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

    from snapdyn.validation.pictures import Map

MESH = 200  # points along each axis at which the theory's lines are computed
FINE = 16  # cells along each axis from which on lines of equal values are drawn
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
# Characters that fit along the height, and along the width.
TALL, WIDE = 30, 60
# Steps of the colour scale: each is an element of the SVG.
COLOURS = 32
# A logarithmic colour scale ends this many decades below its largest value.
MOST_DECADES = 8


def wrapped(text: str, width: int) -> str:
    """Break a text into lines of at most `width` characters; formulas and "K = 10" stay whole."""
    return text if "$" in text else textwrap.fill(text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), width)


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


def draw_map(axes: Axes, map: Map) -> tuple[list[Any], list[str]]:
    """Draw a validity map with its colour bar.

    The cells around the grid points are coloured by the measured violation (dark: small; grey: no instance). A dashed
    line marks where the violation crosses the threshold. Printed conditions are dotted, fitted or corrected ones solid.

    Parameters
    ----------
    axes : matplotlib Axes
    map : Map

    Returns
    -------
    handles : list
        Handles of the legend.
    texts : list of str
        Their labels.
    """
    import matplotlib
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    texts = [line.label for line in map.boundaries]
    values, norm = _colour_scale(map)
    edges = cell_edges(map.x, map.xscale), cell_edges(map.y, map.yscale)
    colours = matplotlib.colormaps["cividis"].resampled(COLOURS)
    labels = wrapped(map.xlabel, WIDE), wrapped(map.ylabel, TALL), wrapped(map.quantity, TALL)
    grey = heat_map(axes, edges, (map.xscale, map.yscale), values, norm, colours, labels, "no such instance")
    axes.set_title(wrapped(map.title, WIDE))
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
    # Last, so that the measured line stays visible where a condition lies under it.
    levels, level = (np.log(values), np.log(map.threshold or 1)) if map.scale == "log" else (values, map.threshold)
    if min(values.shape) > 1 and np.nanmin(levels, initial=np.inf) < level < np.nanmax(levels, initial=-np.inf):
        text = f"measured: {map.threshold:g}"
        style = {"color": "white", "linestyle": "--"}
        handles.append(level_lines(axes, map.x, map.y, levels, [level], text, 1.4, "black", **style))
        texts.append(text)
    texts += [str(handle.get_label()) for handle in grey]
    return handles + grey, [wrapped(text, WIDE) for text in texts]


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


def draw(dataset: xarray.Dataset, x: str, y: str, variable: str, width: float = WIDTH) -> Figure:
    """Draw the diagram of one variable of a sweep.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `snapdyn sweep` with a grid design over x and y, and with one value on each other axis. It may have a
        dimension seed, over which the mean is taken. `snapdyn.figures.plot` checks this for a user.
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
        Titled by the variable and the system; the settings stand below in small letters.
    """
    figure = new_figure(width, min(WIDTH, 1.2 * width))
    parts: Any = figure.subfigures(2, 1, height_ratios=[10, 1])
    main, below = parts
    axes = main.subplots()
    handles = draw_panel(axes, dataset, x, y, variable)
    system, _, settings = settings_text(dataset).partition(": ")
    axes.set_title(f"{_label(dataset, variable).partition(' (')[0]}, {system}", loc="left")
    if handles:
        legend_above(
            main, handles, [str(handle.get_label()) for handle in handles], "outside lower center", most_columns=2
        )
    below.text(0.5, 0.5, settings, ha="center", va="center", fontsize=note_size(0.85), color="0.35", wrap=True)
    fit_texts(figure)
    return figure


def _label(dataset: xarray.Dataset, variable: str) -> str:
    """Label of a variable: that of the observable, else its long name."""
    if variable in OBSERVABLES:
        return OBSERVABLES[variable].axis
    return str(dataset[variable].attrs.get("long_name", variable))


def settings_text(dataset: xarray.Dataset) -> str:
    """Return the title: the system, and the settings that all cells share."""
    sections: dict[str, dict[str, Any]] = json.loads(dataset.attrs["settings"])
    run = next((name for name in sections if name not in ("classes", "run")), "")
    of_classes = sections.get("classes", {}).get("kind")
    name = str(sections.get(run, {}).get("kind", run)) + (f" of {of_classes}" if of_classes else "")
    values = {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}
    for coordinate in dataset.coords.values():
        if "parameter" in coordinate.attrs:
            swept = coordinate.attrs["parameter"]
            values.pop(swept, None)
            if coordinate.size == 1:
                values[swept] = coordinate.values.item()
    shown = [
        f"{LABELS.get(key, key)} = " + (f"{value:g}" if isinstance(value, float) else str(value).replace("$", r"\$"))
        for key, value in ((dotted.partition(".")[2], value) for dotted, value in values.items())
        if key not in ("kind", "first", "count") and not isinstance(value, (list, dict))
    ]
    return name.replace("$", r"\$") + ": " + ", ".join(shown)


def draw_panel(axes: Axes, dataset: xarray.Dataset, x: str, y: str, variable: str) -> list[Any]:
    """Draw the diagram on `axes`, with its colour bar; return the handles of its legend."""
    from matplotlib.patches import Patch

    field = _field(dataset, x, y, variable).sortby([x, y])
    dataset = dataset.sortby([x, y])  # cells have edges between neighbours
    scales = _scale(dataset[x].values), _scale(dataset[y].values)
    edges = _edges(dataset[x], scales[0]), _edges(dataset[y], scales[1])
    values, of_phases = field.values, variable == "phase"
    norm, cmap = _colours(variable, values)
    labels = LABELS.get(x, x), LABELS.get(y, y), "" if of_phases else _label(dataset, variable)
    missing = "not by the end of the run" if np.isinf(values).any() else "no value"
    grey = heat_map(axes, edges, scales, values, norm, cmap, labels, missing)
    handles: list[Any] = []
    if of_phases:
        seen = [number for number in range(len(PHASES)) if (np.rint(values) == number).any()]
        handles = [Patch(facecolor=PHASE_COLOURS[number], label=PHASES[number]) for number in seen]
    elif variable != "transition_time" and min(values.shape) >= FINE and np.unique(values).size > values.shape[0]:
        _draw_levels(axes, dataset[x].values, dataset[y].values, values, norm)
    X, Y, theory = _mesh(dataset, (x, y), edges, scales)
    for (label, line), colour in zip(lines_of(variable, theory).items(), LINE_COLOURS, strict=False):
        level = np.broadcast_to(line, X.shape)
        known = level[np.isfinite(level)]
        if known.size and known.min() < 0 < known.max():
            handles.append(level_lines(axes, X, Y, level, [0.0], label, 1.6, "white", color=colour))
    if variable == "transition_time":
        handles += _draw_times(axes, field, X, Y, theory)
    return handles + grey


def _edges(coordinate: xarray.DataArray, scale: str) -> Floats:
    edges = cell_edges(coordinate.values.astype(float), scale)
    is_share = str(coordinate.attrs.get("parameter", coordinate.name)).rpartition(".")[2] in SHARES
    return np.clip(edges, 0.0, 1.0) if is_share else edges  # no cell reaches beyond


def _field(dataset: xarray.Dataset, x: str, y: str, variable: str) -> xarray.DataArray:
    """Return the variable over (y, x); the mean over seeds, or the median of phases."""
    field = dataset[variable]
    if "seed" in field.dims and "seed" not in (x, y):
        field = field.median("seed") if variable == "phase" else field.mean("seed")
    return field.squeeze([name for name in field.dims if name not in (x, y)]).transpose(y, x)


def _scale(values: Floats) -> str:
    """Return "log" where the values are spaced more evenly on a logarithmic axis, else "linear"."""
    if values.size < 3 or values.min() <= 0:
        return "linear"
    spread = [np.std(np.diff(place)) / np.mean(np.diff(place)) for place in (np.log(values), values)]
    return "log" if spread[0] < spread[1] else "linear"


def _colours(variable: str, values: Floats) -> tuple[Any, Any]:
    """Return the norm and the colours of a variable."""
    from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, Normalize

    if variable == "phase":
        return BoundaryNorm(np.arange(len(PHASES) + 1) - 0.5, len(PHASES)), ListedColormap(PHASE_COLOURS)
    seen = values[np.isfinite(values)]
    if variable in LOGARITHMIC and (seen > 0).any():
        low = seen[seen > 0].min()
        return LogNorm(low, max(seen.max(), 1.01 * low)), "cividis"
    low, high = (seen.min(), seen.max()) if seen.size else (0.0, 1.0)
    return Normalize(low, high if high > low else low + 1), "cividis"


def _draw_levels(axes: Axes, x: Floats, y: Floats, values: Floats, norm: Any) -> None:
    """Draw lines of equal values and write up to five values on them: decades, or round numbers."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    subs = (1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)
    ticks = LogLocator(subs=subs) if isinstance(norm, LogNorm) else MaxNLocator(5)
    levels = [each for each in ticks.tick_values(low, high) if low < each < high]
    if levels:
        lines = axes.contour(
            x, y, np.ma.masked_invalid(values), levels=levels, colors="white", linewidths=line_width(0.7)
        )
        named = levels[:: 1 + len(levels) // 5]
        axes.clabel(
            lines,
            named,
            fontsize=note_size(0.86),
            fmt=lambda level: power_of_ten(level) if level >= 1e3 else f"{level:g}",
        )


def _mesh(
    dataset: xarray.Dataset, names: tuple[str, str], edges: tuple[Floats, Floats], scales: tuple[str, str]
) -> tuple[Floats, Floats, Theory]:
    """Return a fine mesh over the diagram and the theory on it; other swept parameters have one value each."""
    spaced = ((np.geomspace if scale == "log" else np.linspace) for scale in scales)
    X, Y = np.meshgrid(*(points(ends[0], ends[-1], MESH) for points, ends in zip(spaced, edges, strict=True)))
    swept = {name: each for name, each in dataset.coords.items() if "parameter" in each.attrs}
    changes = {each.attrs["parameter"]: each.values.flat[0] for name, each in swept.items() if name not in names}
    changes |= {dataset[name].attrs["parameter"]: mesh for name, mesh in zip(names, (X, Y), strict=True)}
    return X, Y, theory_of(json.loads(dataset.attrs["settings"]), changes)


def _draw_times(axes: Axes, field: xarray.DataArray, X: Floats, Y: Floats, theory: Theory) -> list[Line2D]:
    """Draw lines of equal time at some five decades, V >= K: measured, and the theory's t*, t0' and t0."""
    from matplotlib.lines import Line2D

    y, x = map(str, field.dims)
    seen = field.values[np.isfinite(field.values)]
    levels = 10.0 ** np.arange(np.ceil(np.log10(seen.min())), np.floor(np.log10(seen.max())) + 1) if seen.size else seen
    if not levels.size:
        return []
    often = 1 + levels.size // 5
    levels, spaced = levels[::often], "by decades" if often == 1 else f"every {often} decades"
    handles = []
    for kind, linestyle in TIME_STYLES.items():
        time = np.broadcast_to(np.where(theory.V >= theory.K, theory.time(kind), np.nan), X.shape)
        if np.isfinite(time).any():
            handles.append(level_lines(axes, X, Y, time, levels, TIMES[kind], 1.0, "white", linestyle=linestyle))
    if min(field.shape) > 1 and seen.size > 3:
        measured, width, colour = np.ma.masked_invalid(field.values), line_width(5.0), LINE_COLOURS[0]
        axes.contour(field[x], field[y], measured, levels=levels, colors=colour, linewidths=width).set(
            alpha=0.7, zorder=1.5
        )
        label = f"measured (lines {spaced})"
        handles.append(Line2D([], [], color=colour, linewidth=width, alpha=0.7, label=label))
    return handles
