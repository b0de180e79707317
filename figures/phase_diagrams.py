"""Phase diagrams: a result of a sweep over two of its parameters, with the theory's lines on it."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.layout import cell_edges, fit_texts, heat_map, legend_above, level_lines
from snapdyn.figures.style import SINGLE_COLUMN, TIMES, line_width, new_figure, note_size, power_of_ten
from snapdyn.validation.observables import OBSERVABLES, PHASES
from snapdyn.validation.phase_theory import Theory, lines_of, theory_of

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
    field = _field(dataset, x, y, variable).sortby([x, y])
    dataset = dataset.sortby([x, y])  # cells have edges between neighbours
    scales = _scale(dataset[x].values), _scale(dataset[y].values)
    edges = _edges(dataset[x], scales[0]), _edges(dataset[y], scales[1])
    values, of_phases = field.values, variable == "phase"
    norm, cmap = _colours(variable, values)
    heat_map(axes, edges, scales, values, norm, cmap, "" if of_phases else _label(dataset, variable))
    axes.set(xlabel=LABELS.get(x, x), ylabel=LABELS.get(y, y))
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
    if not np.isfinite(values).all():
        text = "not by the end of the run" if np.isinf(values).any() else "no value"
        handles.append(Patch(facecolor="0.8", label=text))
    return handles


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
    if variable == "phase":
        return BoundaryNorm(np.arange(len(PHASES) + 1) - 0.5, len(PHASES)), ListedColormap(PHASE_COLOURS)
    seen = values[np.isfinite(values)]
    if variable in LOGARITHMIC and (seen > 0).any():
        low = seen[seen > 0].min()
        return LogNorm(low, max(seen.max(), 1.01 * low)), "cividis"
    low, high = (seen.min(), seen.max()) if seen.size else (0.0, 1.0)
    return Normalize(low, high if high > low else low + 1), "cividis"


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
