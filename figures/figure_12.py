"""Figure 12: recall of distinct tokens against a threshold on attention, by the learning rate of attention."""

from __future__ import annotations

import xarray

from snapdyn.figures.declaration import statement
from snapdyn.figures.figure_11 import compute, draw_recall
from snapdyn.figures.shared_runs import in_errors
from snapdyn.figures.style import DOUBLE_COLUMN, Figure

__all__ = ["PROPERTIES", "compute", "draw"]

TITLE = "Recall of distinct tokens by the rate of attention"
CAPTION = (
    "As Figure 11 with columns and curves exchanged: columns eta_Y/eta_Z, curves eta_Z. The larger eta_Z, the fewer "
    "distinct tokens exceed the lowest threshold: attention concentrates on some of them."
)


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
