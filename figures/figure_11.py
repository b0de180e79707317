"""Figure 11: recall of distinct tokens against a threshold on attention, by the ratio of the rates."""

from __future__ import annotations

import numpy as np
import xarray

from snapdyn.figures.declaration import BatchSize, Momentum, Seeds, statement
from snapdyn.figures.layout import fitting_columns, folded_grid, legend_above, letter_panels
from snapdyn.figures.shared_runs import SEEDS, final_states, in_errors
from snapdyn.figures.style import DOUBLE_COLUMN, Axes, Figure, curve_style, new_figure

TITLE = "Recall of distinct tokens by the ratio of the rates"
CAPTION = (
    "Share of a query's distinct tokens (those of its classes) whose softmax(z_m) over all V ids exceeds a threshold "
    "near 1/V, mean over queries, after the runs of Figure 6. Rows: numbers of queries and next tokens; columns: "
    "eta_Z; curves: eta_Y/eta_Z. A larger ratio gives a steeper curve: the attention weights of the distinct tokens "
    "lie closer together. Bands: standard errors of the mean over seeds."
)

NAMES = {"ratio": "\\eta_Y/\\eta_Z", "eta_Z": "\\eta_Z"}


def compute(level: str, seeds: Seeds = None, momentum: Momentum = 0.9, batch_size: BatchSize = 128) -> xarray.Dataset:
    """Measure the recall at the end of the runs of Figure 6.

    Parameters
    ----------
    level : "quick" or "full"
        10 or 100 seeds.
    seeds, momentum, batch_size
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        recall (num_queries, eta_Z, ratio, seed, point) at threshold (num_queries, point): share of a query's distinct
        tokens with softmax(z_m)_l over all V ids above the threshold, mean over queries.
    """
    return final_states(seeds or SEEDS[level], momentum, batch_size)[["recall", "threshold"]]


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a row per number of queries, a column per eta_Z, a curve per ratio."""
    return draw_recall(dataset, "eta_Z", "ratio", width)


def draw_recall(dataset: xarray.Dataset, columns: str, curves: str, width: float) -> Figure:
    """Draw mean over seeds and its standard error, a panel for each pair of num_queries and `columns`.

    In a narrow figure two of the columns of panels are below the other two.
    """
    count = dataset.sizes[columns]
    shown = count if fitting_columns(width, count, 1.25) == count else 2
    blocks, queries = -(-count // shown), dataset.sizes["num_queries"]
    figure = new_figure(width, 0.7 + (1.45, 0.95)[blocks - 1] * queries * blocks)
    grid = folded_grid(figure, queries, count, shown, sharey=True)
    for number, value in enumerate(dataset[columns].values):
        for axes, Q in zip(grid[:, number], dataset.num_queries.values, strict=True):
            _draw_panel(axes, dataset.sel({"num_queries": Q, columns: value}), curves)
            if number % shown == 0:
                axes.set_ylabel(f"recall, {Q} {'query' if Q == 1 else 'queries'}")
        grid[0, number].set_title(f"${NAMES[columns]}$ = {value:g}")
        grid[-1, number].set_xlabel("threshold / $10^{-3}$")
    letter_panels(grid[0])
    legend_above(figure, title=f"mean of {dataset.sizes['seed']} seeds, band: standard error")
    return figure


def _draw_panel(axes: Axes, panel: xarray.Dataset, curves: str) -> None:
    from matplotlib.ticker import MaxNLocator

    threshold = 1e3 * panel.threshold  # so that the labels of ticks are short
    for number, value in enumerate(panel[curves].values):
        recall = panel.recall.sel({curves: value})
        # The bands of single runs would merge; the standard error says how well the mean is known.
        mean, error = recall.mean("seed"), recall.std("seed", ddof=1) / np.sqrt(panel.sizes["seed"])
        label = f"${NAMES[curves]}$ = {value:g}"
        axes.plot(threshold, mean, label=label, **curve_style(number))
        axes.fill_between(threshold, mean - error, mean + error, color=f"C{number}", alpha=0.2, linewidth=0)
    axes.set(xlim=(threshold[0], threshold[-1]), ylim=(0.1, 1))
    axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))
    axes.xaxis.set_major_formatter("{x:g}")


def _steeper(dataset: xarray.Dataset) -> xarray.DataArray:
    """Fall of recall from the lowest to the highest threshold, at ratio 10 minus that at ratio 1, by panel and seed."""
    fall = dataset.recall.isel(point=0) - dataset.recall.isel(point=-1)
    return fall.sel(ratio=10.0) - fall.sel(ratio=1.0)


def _mean(dataset: xarray.Dataset) -> xarray.DataArray:
    return _steeper(dataset).mean(["num_queries", "eta_Z"])


PROPERTIES = (
    statement(
        "recall from a threshold to the next, largest change",
        "SGD",
        lambda dataset: dataset.recall.diff("point").max(),
        at_most=0.0,
    ),
    statement(
        "fall along the axis, ratio 10 minus ratio 1, mean over seeds, smallest of the panels",
        "SGD",
        lambda dataset: _steeper(dataset).mean("seed").min(),
        at_least=0.0,
    ),
    statement(
        "fall along the axis, ratio 10 minus ratio 1, mean over the panels, in standard errors",
        "SGD",
        lambda dataset: in_errors(_mean(dataset)),
        at_least=3.0,
        wrong={"larger ratio, flatter curve, in standard errors": lambda dataset: in_errors(-_mean(dataset))},
    ),
)
