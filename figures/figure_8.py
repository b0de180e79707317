"""Figure 8: growth h* of the decoder in whole SGD steps against its continuous form h (Lemmas 5-7)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.analytic import discrete_h, h
from snapdyn.core.errors import InputError
from snapdyn.figures.declaration import Different, Rate, Two, Whole, statement
from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.style import CIRCLES, DOUBLE_COLUMN, Figure, curve_style, line_width

TITLE = "Growth of the decoder: whole steps against the continuous form"
CAPTION = (
    "Growth of the decoder after s visits of a class: h* in whole SGD steps (circles at every fifth step, Eq. 33) and "
    "its continuous form h (lines, Eq. 45). At whole visits h <= h* <= h + 2 eta_Y/V (Lemma 7); the gap is largest in "
    "the transition, 9 to 11 % of that bound."
)

POINTS_PER_VISIT = {"quick": 4, "full": 20}

Rates = Annotated[Different[Rate], Field(description="rates of the decoder, as many in both panels, per step")]
AtLeastTwo = Annotated[Whole, Field(ge=2)]
LastVisit = Annotated[AtLeastTwo, Field(le=10**6)]


def compute(
    level: str,
    vocab_size: Annotated[Two[AtLeastTwo], Field(description="vocabularies V of panels a, b")] = (50, 1000),
    eta_Y_a: Rates = (0.1, 0.2, 0.5, 1.0, 2.0),
    eta_Y_b: Rates = (0.2, 0.5, 1.0, 2.0, 4.0),
    last_visit: Annotated[Two[LastVisit], Field(description="ends of the axes, visits")] = (80, 70),
) -> xarray.Dataset:
    """Evaluate h* at whole visits and h between them, for both panels.

    Parameters
    ----------
    level : "quick" or "full"
        4 or 20 points per visit on the curve h.
    vocab_size, eta_Y_a, eta_Y_b, last_visit
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        h_star (panel, curve, step) and h (panel, curve, visit), dimensionless; eta_Y (panel, curve). Both
        panels reach the last visit of the longer one; last_visit (panel) is where the paper's axis ends.
    """
    if len(eta_Y_a) != len(eta_Y_b):
        raise InputError(
            f"expected as many rates in eta_Y_a as in eta_Y_b, received {len(eta_Y_a)} and {len(eta_Y_b)}; give both"
        )
    last = max(last_visit)
    visit = np.linspace(0, last, last * POINTS_PER_VISIT[level] + 1)
    panels = list(zip(vocab_size, (eta_Y_a, eta_Y_b), strict=True))
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
            "last_visit": ("panel", np.array(last_visit)),
        },
        {
            "vocab_size": ("panel", np.array(vocab_size)),
            "eta_Y": (("panel", "curve"), np.array([eta_Y_a, eta_Y_b])),
            "step": ("step", np.arange(last + 1), clock),
            "visit": ("visit", visit, clock),
        },
        {"points_per_visit": POINTS_PER_VISIT[level]},
    )


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw h* as circles at whole visits and h as a curve, one panel per V, one colour per eta_Y."""
    labels: Any = {"xlabel": "visits $s$ of the class (steps)", "ylabel": "growth $h$, $h^*$ of the decoder"}
    figure, panels = panel_grid(width, 2, least=2.4, height=2.2, rest=0.6, **labels)
    rates = sorted(set(dataset.eta_Y.values.flat))
    for axes, panel in zip(panels.flat, dataset.panel.values, strict=True):
        data = dataset.isel(panel=panel)
        for curve, rate in enumerate(data.eta_Y.values):
            number = rates.index(rate)
            style = curve_style(number) | {"linewidth": line_width(1), "label": f"$\\eta_Y$ = {rate:g}"}
            axes.plot(data.visit, data.h.isel(curve=curve), **style)
            axes.plot(data.step, data.h_star.isel(curve=curve), color=f"C{number}", markevery=5, **CIRCLES)
        axes.set_xlim(0, data.last_visit)
        axes.set_ylim(0, None)
        axes.set_title(f"$V$ = {int(data.vocab_size)}")
    letter_panels(panels.flat)
    last = panels.flat[-1]  # after the rates of all panels
    last.plot([], [], color="black", label="$h$, continuous (45)")
    last.plot([], [], color="black", label="$h^*$, every 5th step (33)", **CIRCLES)
    legend_above(figure)
    return figure


def _share(dataset: xarray.Dataset) -> xarray.DataArray:
    """Gap h* - h at whole visits over its bound 2 eta_Y/V."""
    gap = dataset.h_star - dataset.h.sel(visit=dataset.step.values).drop_vars("visit").rename(visit="step")
    return gap / (2 * dataset.eta_Y / dataset.vocab_size)


def _residual(dataset: xarray.Dataset) -> xarray.DataArray:
    """Largest difference between the increase of h* in a visit and one step of the recursion."""
    V = dataset.vocab_size
    rest = np.exp(-V * dataset.h_star.isel(step=slice(None, -1)))
    step = dataset.eta_Y * rest / (1 + (V - 1) * rest)
    return np.abs(dataset.h_star.diff("step", label="lower") - step).max()


PROPERTIES = (
    statement("smallest (h* - h) V/(2 eta_Y)", "closed form", lambda dataset: _share(dataset).min(), at_least=-1e-12),
    statement(
        "largest (h* - h) V/(2 eta_Y)",
        "closed form",
        lambda dataset: _share(dataset).max(),
        at_most=1.0,
        wrong={
            "h = h*, largest gap over 1e-3 of the bound": lambda dataset: 1e3 * _share(dataset).max(),
            "a bound of 0.1 eta_Y/V, largest gap over it": lambda dataset: 20 * _share(dataset).max(),
        },
    ),
    statement("h* against one step of (33) from the step before", "closed form", _residual, at_most=1e-14),
)
GENERAL = tuple(prop.name for prop in PROPERTIES)
