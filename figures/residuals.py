"""Drawing of comparisons: theory over the median and the band of SGD seeds, with residuals below."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray

from snapdyn.dynamics.observables import curve_named
from snapdyn.figures.panels import fit_texts, fitting_columns, label_above, legend_above, letter_panels
from snapdyn.figures.style import DOUBLE_COLUMN, TIMES, Axes, Figure, line_width, new_figure, note_size, text_scale
from snapdyn.validation.comparison import CURVES, SYSTEM

STYLES = {
    "mean_field": "-",
    "finite_length": "-.",
    "descent": (0, (5, 1)),
    "modified_decoder": "--",
    "closed_form": ":",
    "mean_map": (0, (5, 1)),
    "flow": "-",
    SYSTEM: "-",
}
LOW, HIGH = 0.1, 0.9


def draw(dataset: xarray.Dataset, width: float | None = None) -> Figure:
    """Draw a panel per observable, and below it the residuals (curve - median of SGD).

    Parameters
    ----------
    dataset : xarray.Dataset
        From `snapdyn.validation.comparison.compute`.
    width : float, optional
        Inches; default 7, or 3.5 for one observable.

    Returns
    -------
    matplotlib Figure
    """
    count = dataset.sizes["observable"]
    width = (DOUBLE_COLUMN if count > 1 else DOUBLE_COLUMN / 2) if width is None else width
    columns = fitting_columns(width, min(count, 2), 2.6)
    rows = -(-count // columns)
    figure = new_figure(width, 0.45 + 2.9 * rows)
    panels = figure.subplots(2 * rows, columns, sharex=True, squeeze=False, height_ratios=[3, 1] * rows)
    mains, residuals = panels[::2].flat, panels[1::2].flat
    for position, axes in enumerate(zip(mains, residuals, strict=True)):
        if position < count:
            _draw_observable(*axes, dataset.isel(observable=position))
        else:
            for each in axes:
                each.set_axis_off()
    settings = json.loads(dataset.attrs["settings"])
    momentum = settings.get("momentum", 0.0)
    clock = "trace step" if settings.get("recorded") else f"{_recorder(settings)} step"
    changes = [f"momentum {momentum:g}"] * (momentum > 0) + ["a schedule"] * bool(settings.get("schedule"))
    if changes:
        at_clock = "; theory at its clock t" if dataset.sizes["curve"] else ""
        clock += f" ({' and '.join(changes)}{at_clock})"
    figure.supxlabel(clock, fontsize="medium")
    legend_above(figure)
    if count > 1:
        pad = 12 * text_scale() if json.loads(dataset.attrs["transition_times"]) else None
        letter_panels(panels[::2].flat[:count], pad)
    fit_texts(figure)
    return figure


def _recorder(settings: dict[str, Any]) -> str:
    """What recorded the values: "trace" for runs made elsewhere."""
    optimizer = settings.get("optimizer", "sgd")
    name = optimizer if isinstance(optimizer, str) else optimizer.get("name")
    return str(settings.get("recorded", {"sgd": "SGD", "adam": "Adam"}.get(name, "training")))


def curve_label(curve: str, seq_len: int | None) -> str:
    """Return the text for the legend; beside SGD of finite T, curves of infinite T are labelled as such."""
    if curve == "finite_length" or seq_len is None:
        return CURVES[curve].format(seq_len)
    if curve == "descent":
        return f"{CURVES[curve]}, T-1 = {seq_len}"
    return f"{CURVES[curve]}, T = ∞"


def draw_curves(axes: Axes, data: xarray.Dataset) -> None:
    """Draw the band and the median of SGD and the theory's curves of one observable."""
    steps, settings = data.step.values, json.loads(data.attrs["settings"])
    optimizer, seeds = _recorder(settings), data.sizes["seed"]
    _set_clock(axes, steps, settings)
    recorded_data = data.sgd.isel(step=np.flatnonzero(data.sgd.notnull().any("seed")))
    low, median, high = recorded_data.quantile([LOW, 0.5, HIGH], "seed").values
    at = recorded_data.step.values
    if seeds > 1:
        axes.fill_between(at, low, high, color="0.82", lw=0, label=f"{optimizer}, {seeds} seeds, 10-90 %")
    every = max(1, at.size // 25)
    recorded = f"{optimizer}, median" if seeds > 1 else optimizer
    axes.plot(at, median, color="0.35", marker="o", ms=2.2, lw=0, markevery=every, label=recorded)
    for number, curve in enumerate(data.curve.values):
        values = data.theory.sel(curve=curve).values
        label = settings["system"] if curve == SYSTEM else curve_label(curve, settings.get("seq_len"))
        axes.plot(steps, values, ls=STYLES[curve], color=f"C{number}", label=label)


def _set_clock(axes: Axes, steps: np.ndarray, settings: dict[str, Any]) -> None:
    """Scale the axis of steps: linear up to the first step, then logarithmic, with a tick every decade or two.

    The time of an own system is drawn as it is.
    """
    from matplotlib.ticker import FixedLocator, NullLocator

    if "system" in settings:
        axes.set_xlim(steps[0], steps[-1])
        return
    scale = max(1.0, float(steps[steps > 0].min()))
    axes.set_xscale("symlog", linthresh=scale, linscale=0.3)
    axes.set_xlim(0, steps[-1])
    powers = np.arange(np.ceil(np.log10(scale)), np.floor(np.log10(max(float(steps[-1]), scale))) + 1)
    axes.xaxis.set_major_locator(FixedLocator([0.0, *(10.0 ** powers[:: 1 + len(powers) // 6])]))
    axes.xaxis.set_minor_locator(NullLocator())


def label_of(data: xarray.Dataset) -> str:
    """Label of the observable of a comparison; that of a user's system is its name."""
    name = str(data.observable.values)
    if "system" in json.loads(data.attrs["settings"]):
        return name
    observable, indices = curve_named(name)
    return observable.axis_of(*indices)


def _draw_observable(main: Axes, residual: Axes, data: xarray.Dataset) -> None:
    draw_curves(main, data)
    steps = data.step.values
    _set_clock(residual, steps, json.loads(data.attrs["settings"]))
    recorded = data.isel(step=np.flatnonzero(data.sgd.notnull().any("seed")))  # of other steps there is no residual
    low, median, high = recorded.sgd.quantile([LOW, 0.5, HIGH], "seed").values
    residual.fill_between(recorded.step.values, low - median, high - median, color="0.82", lw=0)
    for number, curve in enumerate(data.curve.values):
        left = recorded.theory.sel(curve=curve).values - median
        residual.plot(recorded.step.values, left, ls=STYLES[curve], color=f"C{number}")
    transitions = json.loads(data.attrs["transition_times"])
    for kind, t in transitions.items():
        if t <= float(data.t[-1]):
            at = float(np.interp(t, data.t, steps))
            for axes in (main, residual):
                axes.axvline(at, color="0.5", lw=line_width(0.6), ls=(0, (1, 2)))
            side = "right" if kind == "peak" else "left"  # t* comes a little before t0'
            label_above(main, at, TIMES[kind], side, fontsize=note_size())
    main.set_title(label_of(data), pad=12 if transitions else 4)
    residual.axhline(0, color="0.6", lw=line_width(0.5))
    subtracted = "median" if data.sizes["seed"] > 1 else _recorder(json.loads(data.attrs["settings"]))
    residual.set_ylabel(f"minus {subtracted}", fontsize=note_size())
