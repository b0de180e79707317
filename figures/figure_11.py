"""Figure 11: recall of distinct tokens against a threshold on attention, by the ratio of the rates."""

from __future__ import annotations

import xarray

from snapdyn.figures.declaration import BatchSize, Momentum, Seeds, statement
from snapdyn.figures.shared_runs import SEEDS, draw_recall, final_states, in_errors
from snapdyn.figures.style import DOUBLE_COLUMN, Figure

TITLE = "Recall of distinct tokens by the ratio of the rates"
CAPTION = (
    "Share of a query's distinct tokens (those of its classes) whose softmax(z_m) over all V ids exceeds a threshold "
    "near 1/V, mean over queries, after the runs of Figure 6. Rows: numbers of queries and next tokens; columns: "
    "eta_Z; curves: eta_Y/eta_Z. A larger ratio gives a steeper curve: the attention weights of the distinct tokens "
    "lie closer together. Bands: standard errors of the mean over seeds."
)


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
