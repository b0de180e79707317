"""Figure 12: recall of distinct tokens against a threshold on attention, by the learning rate of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray

from snapdyn.figures.figure_4 import in_errors
from snapdyn.figures.figure_11 import compute, draw_recall
from snapdyn.figures.style import DOUBLE_COLUMN
from snapdyn.validation.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check", "compute", "draw"]

TITLE = "Recall of distinct tokens by the rate of attention"
CAPTION = (
    "As Figure 11 with columns and curves exchanged: columns eta_Y/eta_Z, curves eta_Z. The larger eta_Z, the fewer "
    "distinct tokens exceed the lowest threshold: attention concentrates on some of them."
)


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a row per number of queries, a column per ratio of the rates, a curve per eta_Z."""
    return draw_recall(dataset, "ratio", "eta_Z", width)


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check that a larger eta_Z leaves fewer distinct tokens above the lowest threshold, in every panel."""
    lowest = dataset.recall.isel(point=0)
    fall = lowest.sel(eta_Z=0.5) - lowest.sel(eta_Z=3.0)
    return [
        Check(
            "fall of the recall at the lowest threshold, eta_Z = 0.5 to 3, in standard errors",
            "SGD",
            in_errors(fall),
            3.0,
            ">=",
        ),
        Check(
            "wrong theory: it rises with eta_Z, in standard errors", "SGD", in_errors(-fall), 3.0, ">=", role="control"
        ),
    ]
