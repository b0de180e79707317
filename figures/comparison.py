"""Drawing of comparisons: theory over the median and the band of SGD seeds, with residuals below."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from snapdyn.figures.axes import label_above
from snapdyn.figures.style import DOUBLE_COLUMN
from snapdyn.validation.comparison import CURVES, IndexedObservable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = {"mean_field": "-", "finite_length": "-.", "modified_decoder": "--", "closed_form": ":"}
LOW, HIGH = 0.1, 0.9


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw a panel per observable, and below it the residuals (curve - median of SGD).

    Parameters
    ----------
    dataset : xarray.Dataset
        From `snapdyn.validation.comparison.compute`.

    Returns
    -------
    matplotlib Figure
    """
    from matplotlib.figure import Figure

    count = dataset.sizes["observable"]
    columns = min(count, 2)
    rows = -(-count // columns)
    figure = Figure(figsize=(DOUBLE_COLUMN if columns == 2 else DOUBLE_COLUMN / 2, 0.45 + 2.9 * rows))
    panels = figure.subplots(2 * rows, columns, sharex=True, squeeze=False, height_ratios=[3, 1] * rows)
    for position in range(rows * columns):
        row, column = divmod(position, columns)
        main, residual = panels[2 * row, column], panels[2 * row + 1, column]
        if position < count:
            _draw_observable(main, residual, dataset.isel(observable=position))
        else:
            main.axis("off")
            residual.axis("off")
    settings = json.loads(dataset.attrs["settings"])
    momentum = settings.get("momentum", 0.0)
    clock = "trace step" if settings.get("recorded") else f"{_recorder(settings)} step"
    if momentum:
        at_clock = "; theory at its clock t" if dataset.sizes["curve"] else ""
        clock += f" (momentum {momentum:g}{at_clock})"
    for panel in panels[1 + 2 * ((count - 1 - np.arange(columns)) // columns), np.arange(columns)]:
        panel.set_xlabel(clock)
        panel.tick_params(labelbottom=True)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    # About 16 characters of the legend's size to an inch, and a handle takes 6.
    fitting = int(16 * figure.get_figwidth() / (max(map(len, labels)) + 6))
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), max(1, fitting)))
    return figure


def _recorder(settings: dict[str, Any]) -> str:
    """What recorded the values: "trace" for runs made elsewhere."""
    return str(settings.get("recorded", "Adam" if settings.get("optimizer") == "adam" else "SGD"))


def curve_label(curve: str, seq_len: int | None) -> str:
    """Return the text for the legend; beside SGD of finite T, curves of infinite T are labelled as such."""
    if curve == "finite_length" or seq_len is None:
        return CURVES[curve].format(seq_len)
    return f"{CURVES[curve]}, T = ∞"


def _draw_observable(main: Any, residual: Any, data: xarray.Dataset) -> None:
    steps, settings = data.step.values, json.loads(data.attrs["settings"])
    optimizer = _recorder(settings)
    low, median, high = data.sgd.quantile([LOW, 0.5, HIGH], "seed").values
    scale = max(1.0, float(steps[steps > 0].min()))
    for panel in (main, residual):
        panel.set_xscale("symlog", linthresh=scale, linscale=0.3)
        panel.set_xlim(0, steps[-1])
    seeds = data.sizes["seed"]
    if seeds > 1:
        main.fill_between(steps, low, high, color="0.82", lw=0, label=f"{optimizer}, {seeds} seeds, 10-90 %")
    main.plot(
        steps,
        median,
        color="0.35",
        marker="o",
        ms=2.2,
        lw=0,
        markevery=max(1, steps.size // 25),
        label=f"{optimizer}, median" if seeds > 1 else optimizer,
    )
    residual.fill_between(steps, low - median, high - median, color="0.82", lw=0)
    for number, curve in enumerate(data.curve.values):
        values, color = data.theory.sel(curve=curve).values, f"C{number}"
        main.plot(steps, values, STYLES[curve], color=color, label=curve_label(curve, settings.get("seq_len")))
        residual.plot(steps, values - median, STYLES[curve], color=color)
    names = {"start": "$t_0'$", "peak": "$t^*$", "end": "$t_0$"}
    transitions = json.loads(data.attrs["transition_times"])
    for kind, t in transitions.items():
        if t <= float(data.t[-1]):
            at = float(np.interp(t, data.t, steps))
            main.axvline(at, color="0.5", lw=0.6, ls=(0, (1, 2)))
            residual.axvline(at, color="0.5", lw=0.6, ls=(0, (1, 2)))
            side = "right" if kind == "peak" else "left"  # t* comes a little before t0'
            label_above(main, at, names[kind], side, fontsize=7)
    kind, *indices = str(data.observable.values).split()
    main.set_title(IndexedObservable(kind, tuple(map(int, indices))).label, pad=12 if transitions else 4)
    residual.axhline(0, color="0.6", lw=0.5)
    residual.set_ylabel("minus median" if seeds > 1 else f"minus {optimizer}", fontsize=7)
