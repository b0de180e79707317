"""Figure 8: growth h* of the decoder in whole SGD steps against its continuous form h (Lemmas 5-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.analytic import discrete_h, h
from snapdyn.figures.style import DOUBLE_COLUMN, new_figure
from snapdyn.validation.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Growth of the decoder: whole steps against the continuous form"
CAPTION = (
    "Growth of the decoder after s visits of a class: h* in whole SGD steps (dashed, Eq. 33) and its continuous form "
    "h (lines, Eq. 45). At whole visits h <= h* <= h + 2 eta_Y/V (Lemma 7); the gap is largest in the transition, 9 "
    "to 11 % of that bound."
)

VOCAB_SIZES = (50, 1000)
RATES = ((0.1, 0.2, 0.5, 1.0, 2.0), (0.2, 0.5, 1.0, 2.0, 4.0))
LAST_VISIT = (80, 70)
POINTS_PER_VISIT = {"quick": 4, "full": 20}


def compute(level: str) -> xarray.Dataset:
    """Evaluate h* at whole visits and h between them, for both panels.

    Parameters
    ----------
    level : "quick" or "full"
        4 or 20 points per visit on the curve h.

    Returns
    -------
    xarray.Dataset
        h_star (panel, curve, step) and h (panel, curve, visit), dimensionless; eta_Y (panel, curve). Both
        panels reach the last visit of the longer one; last_visit (panel) is where the paper's axis ends.
    """
    last = max(LAST_VISIT)
    visit = np.linspace(0, last, last * POINTS_PER_VISIT[level] + 1)
    panels = list(zip(VOCAB_SIZES, RATES, strict=True))
    clock = {"units": "visits of the class (batch-size-1 steps, K = 1)"}
    return xarray.Dataset(
        {
            "h_star": (
                ("panel", "curve", "step"),
                np.array([[discrete_h(last, rate, V) for rate in rates] for V, rates in panels]),
            ),
            "h": (
                ("panel", "curve", "visit"),
                np.array([[h(visit, rate, V) for rate in rates] for V, rates in panels]),
            ),
            "last_visit": ("panel", np.array(LAST_VISIT)),
        },
        {
            "vocab_size": ("panel", np.array(VOCAB_SIZES)),
            "eta_Y": (("panel", "curve"), np.array(RATES)),
            "step": ("step", np.arange(last + 1), clock),
            "visit": ("visit", visit, clock),
        },
        {"points_per_visit": POINTS_PER_VISIT[level]},
    )


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw h* as steps and h as a curve, one panel per V."""
    figure = new_figure(DOUBLE_COLUMN, 2.7)
    for axes, panel in zip(figure.subplots(1, 2), dataset.panel.values, strict=True):
        data = dataset.isel(panel=panel)
        # Largest rate first, so that the legend lists the curves from top to bottom.
        for curve in reversed(dataset.curve.values):
            (line,) = axes.plot(
                data.visit, data.h.isel(curve=curve), label=f"{data.eta_Y.values[curve]:g}", linewidth=0.9
            )
            axes.step(
                data.step,
                data.h_star.isel(curve=curve),
                where="post",
                color=line.get_color(),
                linewidth=0.7,
                linestyle=(0, (3, 1)),
            )
        axes.set_xlim(0, data.last_visit)
        axes.set_ylim(0, None)
        axes.set_xlabel("visits $s$ of the class (steps)")
        axes.set_title(f"$V$ = {int(data.vocab_size)}")
        axes.legend(title="$\\eta_Y$", loc="lower right")
    figure.axes[0].set_ylabel("$h$ (lines) and $h^*$ (dashed steps)")
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check Lemma 7 at whole visits, 0 <= h* - h <= 2 eta_Y/V, and the recursion (33) itself."""
    gap = dataset.h_star - dataset.h.sel(visit=dataset.step.values).drop_vars("visit").rename(visit="step")
    share = gap / (2 * dataset.eta_Y / dataset.vocab_size)
    V = dataset.vocab_size
    before = dataset.h_star.isel(step=slice(None, -1))
    step = dataset.eta_Y / (V - 1 + np.exp(V * before))
    residual = np.abs(dataset.h_star.diff("step", label="lower") - step).max()
    return [
        Check("smallest (h* - h) V/(2 eta_Y)", "closed form", float(share.min()), -1e-12, ">="),
        Check("largest (h* - h) V/(2 eta_Y)", "closed form", float(share.max()), 1.0),
        Check("h* against one step of (33) from the step before", "closed form", float(residual), 1e-14),
        Check(
            "wrong theory: h = h*, a gap of less than 1e-3 of the bound everywhere",
            "closed form",
            float(share.max()),
            1e-3,
            role="control",
        ),
        Check(
            "wrong theory: a bound of 0.1 eta_Y/V, largest gap over it",
            "closed form",
            float(20 * share.max()),
            1.0,
            role="control",
        ),
    ]
