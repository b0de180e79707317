"""Figure 12: recall of distinct tokens against a threshold on attention, by the learning rate of attention."""

from __future__ import annotations

import xarray

from snapdyn.figures.declaration import BatchSize, Momentum, Seeds, statement
from snapdyn.figures.shared_runs import SEEDS, draw_recall, final_states, in_errors
from snapdyn.figures.style import DOUBLE_COLUMN, Figure

TITLE = "Recall of distinct tokens by the rate of attention"
CAPTION = (
    "As Figure 11 with columns and curves exchanged: columns eta_Y/eta_Z, curves eta_Z. The larger eta_Z, the fewer "
    "distinct tokens exceed the lowest threshold: attention concentrates on some of them."
)


def compute(level: str, seeds: Seeds = None, momentum: Momentum = 0.9, batch_size: BatchSize = 128) -> xarray.Dataset:
    """Measure the recall at the end of the runs of Figure 6, as Figure 11 does."""
    return final_states(seeds or SEEDS[level], momentum, batch_size)[["recall", "threshold"]]


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a row per number of queries, a column per ratio of the rates, a curve per eta_Z."""
    return draw_recall(dataset, "ratio", "eta_Z", width)


def _fall(dataset: xarray.Dataset) -> xarray.DataArray:
    """Fall of the recall at the lowest threshold from eta_Z = 0.5 to 3, by panel and seed."""
    lowest = dataset.recall.isel(point=0)
    return lowest.sel(eta_Z=0.5) - lowest.sel(eta_Z=3.0)


PROPERTIES = (
    statement(
        "fall of the recall at the lowest threshold, eta_Z = 0.5 to 3, in standard errors",
        "SGD",
        lambda dataset: in_errors(_fall(dataset)),
        at_least=3.0,
        wrong={"this recall rises with eta_Z, in standard errors": lambda dataset: in_errors(-_fall(dataset))},
    ),
)
