"""Figure 11: recall of distinct tokens against a threshold on attention, by the ratio of the rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray

from snapdyn.figures.figure_4 import in_errors
from snapdyn.figures.style import DOUBLE_COLUMN, new_figure
from snapdyn.figures.syn_medium import SEEDS, final_states
from snapdyn.validation.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Recall of distinct tokens by the ratio of the rates"
CAPTION = (
    "Share of a query's distinct tokens (those of its classes) whose softmax(z_m) over all V ids exceeds a threshold "
    "near 1/V, mean over queries, after the runs of Figure 6. Rows: numbers of queries and next tokens; columns: "
    "eta_Z; curves: eta_Y/eta_Z. A larger ratio gives a steeper curve: the attention weights of the distinct tokens "
    "lie closer together."
)

STYLES = ("-", "--", "-.", ":")
NAMES = {"ratio": "\\eta_Y/\\eta_Z", "eta_Z": "\\eta_Z"}


def compute(level: str) -> xarray.Dataset:
    """Measure the recall at the end of the runs of Figure 6.

    Parameters
    ----------
    level : "quick" or "full"
        10 or 100 seeds.

    Returns
    -------
    xarray.Dataset
        recall (num_queries, eta_Z, ratio, seed, point) at threshold (num_queries, point): share of a query's distinct
        tokens with softmax(z_m)_l over all V ids above the threshold, mean over queries.
    """
    return final_states(SEEDS[level])[["recall", "threshold"]]


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw a row per number of queries, a column per eta_Z, a curve per ratio."""
    return draw_recall(dataset, columns="eta_Z", curves="ratio")


def draw_recall(dataset: xarray.Dataset, columns: str, curves: str) -> Figure:
    """Draw mean and standard deviation over seeds, panels over num_queries and `columns`."""
    settings = dataset.num_queries.values, dataset[columns].values
    figure = new_figure(DOUBLE_COLUMN, 6.6)
    panels = figure.subplots(len(settings[0]), len(settings[1]), sharex="row", sharey=True)
    for row, Q in zip(panels, settings[0], strict=True):
        threshold = dataset.threshold.sel(num_queries=Q)
        for axes, column in zip(row, settings[1], strict=True):
            panel = dataset.recall.sel({"num_queries": Q, columns: column})
            for number, value in enumerate(dataset[curves].values):
                recall = panel.sel({curves: value})
                mean, spread = recall.mean("seed"), recall.std("seed", ddof=1)
                label = f"${NAMES[curves]}$ = {value:g}"
                axes.plot(threshold, mean, STYLES[number], color=f"C{number}", label=label)
                axes.fill_between(threshold, mean - spread, mean + spread, color=f"C{number}", alpha=0.12, linewidth=0)
            axes.set(xlim=(threshold[0], threshold[-1]), ylim=(0.1, 1))
            axes.locator_params(axis="x", nbins=3)
        row[0].set_ylabel(f"recall, {Q}/{2 * Q}")
    for axes, column in zip(panels[0], settings[1], strict=True):
        axes.set_title(f"${NAMES[columns]}$ = {column:g}")
    for axes in panels[-1]:
        axes.set_xlabel("threshold")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    title = f"mean of {dataset.sizes['seed']} seeds, band $\\pm$ std; rows: #last/next tokens"
    figure.legend(handles, labels, loc="outside upper center", ncols=4, title=title)
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check that a larger ratio gives a steeper curve: more tokens barely above 1/V, fewer far above."""
    recall = dataset.recall
    steeper = steepness(recall.sel(ratio=10.0)) - steepness(recall.sel(ratio=1.0))
    mean = steeper.mean(["num_queries", "eta_Z"])
    return [
        Check("recall from a threshold to the next, largest change", "SGD", float(recall.diff("point").max()), 0.0),
        Check(
            "fall along the axis, ratio 10 less ratio 1, mean over seeds, smallest of the panels",
            "SGD",
            float(steeper.mean("seed").min()),
            0.0,
            ">=",
        ),
        Check("the same, mean over the panels, in standard errors", "SGD", in_errors(mean), 3.0, ">="),
        Check(
            "wrong theory: the larger ratio is the flatter, in standard errors",
            "SGD",
            in_errors(-mean),
            3.0,
            ">=",
            role="control",
        ),
    ]


def steepness(recall: xarray.DataArray) -> xarray.DataArray:
    """Return the fall of the recall from the lowest to the highest threshold."""
    return recall.isel(point=0) - recall.isel(point=-1)
