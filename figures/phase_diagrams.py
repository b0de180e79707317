"""Phase diagrams: a result of a sweep over two of its parameters, with the theory's lines on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from snapdyn.dynamics.classes import Floats
from snapdyn.figures.layout import cell_edges, fit_texts, legend_above, readable_axis, readable_ticks
from snapdyn.figures.style import SINGLE_COLUMN, line_width, new_figure, note_size, power_of_ten
from snapdyn.validation.observables import OBSERVABLES, PHASES
from snapdyn.validation.phases.theory import Theory, lines_of, theory_of

MESH = 200  # points along each axis at which the theory's lines are computed
FINE = 16  # cells along each axis from which on lines of equal values are drawn
LABELS = {
    "eta_Y": r"$\eta_Y$",
    "eta_Z": r"$\eta_Z$",
    "num_classes": "$K$",
    "vocab_size": "$V$",
    "common_probability": "probability of the common token",
    "last": "last $t$ (batch-size-1 steps)",
}
LOGARITHMIC = ("transition_time", "t_peak", "t_start", "t_end", "largest_gap", "late_speed")
SHARES = {"common_probability", "momentum"}  # parameters from 0 to 1
PHASE_COLOURS = ("#E8E8E8", "#56B4E9", "#0072B2", "#D55E00")
TIME_LINES: tuple[tuple[str, str, Literal["-", "--", ":"]], ...] = (
    ("$t^*$", "peak", "-"),
    ("$t_0'$", "start", "--"),
    ("$t_0$", "end", ":"),
)
LINE_COLOURS = ("#D55E00", "#E69F00", "#CC79A7", "#009E73")


def draw(dataset: xarray.Dataset, x: str, y: str, variable: str, width: float = 1.3 * SINGLE_COLUMN) -> Figure:
    """Draw the diagram of one variable of a sweep.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `snapdyn sweep` with a grid design over x and y, of one value on each other axis. It may have a dimension
        seed, over which the mean is taken. `snapdyn.figures.plot` checks this for a user.
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
    figure = new_figure(width, 1.3 * SINGLE_COLUMN)
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
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in ((dotted.partition(".")[2], value) for dotted, value in values.items())
        if key not in ("kind", "first", "count") and not isinstance(value, (list, dict))
    ]
    return f"{name}: {', '.join(shown)}".replace("$", r"\$")


def draw_panel(axes: Axes, dataset: xarray.Dataset, x: str, y: str, variable: str) -> list[Any]:
    """Draw the diagram on `axes`, with its colour bar; return the handles of its legend."""
    field = _field(dataset, x, y, variable).sortby([x, y])
    dataset = dataset.sortby([x, y])  # cells have edges between neighbours
    scales = {name: _scale(dataset[name].values) for name in (x, y)}
    edges = {name: cell_edges(dataset[name].values.astype(float), scales[name]) for name in (x, y)}
    for name in (x, y):
        if str(dataset[name].attrs.get("parameter", name)).rpartition(".")[2] in SHARES:
            edges[name] = np.clip(edges[name], 0.0, 1.0)  # no cell reaches beyond
    axes.spines[["top", "right"]].set_visible(True)
    axes.set(
        xlabel=LABELS.get(x, x),
        ylabel=LABELS.get(y, y),
        xscale=scales[x],
        yscale=scales[y],
        xlim=edges[x][[0, -1]],
        ylim=edges[y][[0, -1]],
        facecolor="0.8",
    )
    readable_ticks(axes, (edges[x], edges[y]))
    values = field.values
    cmap, norm = _colours(variable, values)
    mesh = axes.pcolormesh(
        edges[x], edges[y], np.ma.masked_invalid(values), cmap=cmap, norm=norm, edgecolors="face", linewidth=0.3
    )
    figure = axes.get_figure()
    assert figure is not None
    if variable == "phase":
        seen = [number for number in range(len(PHASES)) if (np.rint(values) == number).any()]
        handles: list[Any] = [Patch(facecolor=PHASE_COLOURS[number], label=PHASES[number]) for number in seen]
    else:
        bar = figure.colorbar(mesh, ax=axes, pad=0.02)
        bar.set_label(_label(dataset, variable))
        bar.ax.minorticks_off()
        if isinstance(norm, LogNorm):
            readable_axis(bar.ax.yaxis, np.array([norm.vmin, norm.vmax], dtype=float))
        handles = []
        if variable != "transition_time" and min(values.shape) >= FINE and np.unique(values).size > values.shape[0]:
            _draw_levels(axes, dataset[x].values, dataset[y].values, values, norm)
    X, Y, theory = _mesh(dataset, edges, scales)
    lines = lines_of(variable, theory)
    handles += _draw_lines(axes, X, Y, lines)
    if variable == "transition_time":
        handles += _draw_times(axes, field, X, Y, theory)
    if not np.isfinite(values).all():
        text = "not by the end of the run" if np.isinf(values).any() else "no value"
        handles.append(Patch(facecolor="0.8", label=text))
    return handles


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
    if variable == "phase":
        return ListedColormap(PHASE_COLOURS), BoundaryNorm(np.arange(len(PHASES) + 1) - 0.5, len(PHASES))
    seen = values[np.isfinite(values)]
    if variable in LOGARITHMIC and (seen > 0).any():
        low = seen[seen > 0].min()
        return "cividis", LogNorm(low, max(seen.max(), 1.01 * low))
    if not seen.size:
        return "cividis", Normalize(0, 1)
    low, high = seen.min(), seen.max()
    return "cividis", Normalize(low, high if high > low else low + 1)


def _draw_levels(axes: Axes, x: Floats, y: Floats, values: Floats, norm: Normalize) -> None:
    """Draw lines of equal values and write up to five values on them: decades, or round numbers."""
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
    dataset: xarray.Dataset, edges: Mapping[str, Floats], scales: Mapping[str, str]
) -> tuple[Floats, Floats, Theory]:
    """Return a fine mesh over the diagram and the theory on it; other swept parameters have one value each."""
    (x, x_edges), (y, y_edges) = edges.items()
    X, Y = np.meshgrid(
        *(
            (np.geomspace if scales[name] == "log" else np.linspace)(ends[0], ends[-1], MESH)
            for name, ends in ((x, x_edges), (y, y_edges))
        )
    )
    changes = {
        coordinate.attrs["parameter"]: coordinate.values.flat[0]
        for name, coordinate in dataset.coords.items()
        if "parameter" in coordinate.attrs and name not in (x, y)
    }
    changes |= {dataset[x].attrs["parameter"]: X, dataset[y].attrs["parameter"]: Y}
    return X, Y, theory_of(json.loads(dataset.attrs["settings"]), changes)


def _draw_lines(axes: Axes, X: Floats, Y: Floats, lines: Mapping[str, Floats]) -> list[Any]:
    handles = []
    for (label, values), colour in zip(lines.items(), LINE_COLOURS, strict=False):
        level = np.ma.masked_invalid(np.broadcast_to(values, X.shape))
        if level.count() and level.min() < 0 < level.max():
            drawn = axes.contour(X, Y, level, levels=[0.0], colors=[colour], linewidths=line_width(1.6))
            drawn.set_path_effects([withStroke(linewidth=line_width(3.0), foreground="white")])
            handles.append(Line2D([], [], color=colour, linewidth=line_width(1.6), label=label))
    return handles


def _draw_times(axes: Axes, field: xarray.DataArray, X: Floats, Y: Floats, theory: Theory) -> list[Any]:
    """Draw lines of equal time at some five decades, V >= K: measured, and the theory's t*, t0' and t0."""
    y, x = map(str, field.dims)
    seen = field.values[np.isfinite(field.values)]
    if not seen.size:
        return []
    levels = 10.0 ** np.arange(np.ceil(np.log10(seen.min())), np.floor(np.log10(seen.max())) + 1)
    if not levels.size:
        return []
    often = 1 + levels.size // 5
    levels, spaced = levels[::often], "by decades" if often == 1 else f"every {often} decades"
    handles = []
    for label, kind, style in TIME_LINES:
        time = np.broadcast_to(np.where(theory.V >= theory.K, theory.time(kind), np.nan), X.shape)
        if np.isfinite(time).any():
            drawn = axes.contour(X, Y, np.ma.masked_invalid(time), levels=levels, colors="black", linestyles=style)
            drawn.set(
                linewidths=line_width(1.0), path_effects=[withStroke(linewidth=line_width(2.4), foreground="white")]
            )
            handles.append(Line2D([], [], color="black", linestyle=style, linewidth=line_width(1.0), label=label))
    if min(field.shape) > 1 and np.isfinite(field.values).sum() > 3:
        measured = np.ma.masked_invalid(field.values)
        drawn = axes.contour(field[x], field[y], measured, levels=levels, colors="#D55E00", linewidths=line_width(5.0))
        drawn.set(alpha=0.7, zorder=1.5)
        handles.append(
            Line2D([], [], color="#D55E00", linewidth=line_width(5.0), alpha=0.7, label=f"measured (lines {spaced})")
        )
    return handles
