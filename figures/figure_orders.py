"""Fitted orders: how the error of each approximation falls with its small parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.figures.axes import readable_axis
from snapdyn.figures.style import DOUBLE_COLUMN, new_figure
from snapdyn.validation.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from snapdyn.validation.rungs.orders import Fit

TITLE = "Fitted orders of the approximations"
CAPTION = (
    "Gaps between neighbouring rungs against their small parameter (circles, with standard errors where they are "
    "random), and the order that theory gives (line through the smallest gap). Titles: the fitted order, corrected "
    "for the contribution of the next term, which is fitted to the same data."
)


def compute(level: str) -> xarray.Dataset:
    """Measure every gap whose order is fitted.

    Parameters
    ----------
    level : "quick" or "full"
        "full" takes four times as many seeds.

    Returns
    -------
    xarray.Dataset
        parameter, gap, error (fit, point), NaN beyond the points of a fit (error: also where nothing is random);
        wrong_gap (fit, point), control (fit): a wrong theory's gaps, and its name; expected, next_order (fit); slope,
        standard_error, shift (fit): the fitted slope and what the next term adds to it.
    """
    from snapdyn.validation.claims.approximations.orders import (
        measured_fits,  # loads all claims, and sympy with them
    )

    fits = measured_fits(level)
    points = max(fit.parameter.size for fit in fits)

    def padded(values: np.ndarray | None) -> np.ndarray:
        row = np.full(points, np.nan)
        if values is not None:
            row[: values.size] = values
        return row

    return xarray.Dataset(
        {
            "parameter": (("fit", "point"), np.array([padded(fit.parameter) for fit in fits])),
            "gap": (("fit", "point"), np.array([padded(fit.gap) for fit in fits])),
            "error": (("fit", "point"), np.array([padded(fit.error) for fit in fits])),
            "expected": ("fit", [fit.expected for fit in fits]),
            "wrong_gap": (("fit", "point"), np.array([padded(fit.wrong_gap) for fit in fits])),
            "control": ("fit", [fit.control for fit in fits]),
            "next_order": ("fit", [np.nan if fit.next_order is None else fit.next_order for fit in fits]),
            "slope": ("fit", [fit.order.slope for fit in fits]),
            "standard_error": ("fit", [fit.order.standard_error for fit in fits]),
            "shift": ("fit", [fit.order.next_order_shift for fit in fits]),
        },
        {"fit": [fit.name for fit in fits], "rung": ("fit", [fit.rung for fit in fits])},
    )


def fits_of(dataset: xarray.Dataset) -> list[Fit]:
    """Return the fits as they were measured, from the data."""
    from snapdyn.validation.rungs.orders import Fit

    fits = []
    for name in dataset.fit.values:
        row = dataset.sel(fit=name)
        known = np.isfinite(row.parameter.values)
        error = row.error.values[known]
        next_order = float(row.next_order)
        fits.append(
            Fit(
                str(name),
                str(row.rung.values),
                row.parameter.values[known],
                row.gap.values[known],
                None if np.isnan(error).all() else error,
                float(row.expected),
                None if np.isnan(next_order) else next_order,
                str(row.control.values),
                row.wrong_gap.values[known],
            )
        )
    return fits


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw a small panel per fit: measured gaps as circles, the expected order as a line through the smallest gap."""
    columns = 4
    rows = -(-dataset.sizes["fit"] // columns)
    figure = new_figure(DOUBLE_COLUMN, 1.9 * rows)
    for axes, fit in zip(figure.subplots(rows, columns).flat, fits_of(dataset), strict=False):
        axes.errorbar(
            fit.parameter, fit.gap, fit.error, fmt="o", color="C0", markerfacecolor="white", elinewidth=0.8, capsize=1.5
        )
        at = int(np.argmin(fit.gap))
        line = fit.gap[at] * (fit.parameter / fit.parameter[at]) ** fit.expected
        axes.plot(fit.parameter, line, color="C1", label=f"order {fit.expected:g}")
        what, parameter = fit.name.split(", in ")
        axes.set(
            xscale="log", yscale="log", xlabel=parameter.replace("lambda_1", "$\\lambda_1$").replace("eta", "$\\eta$")
        )
        axes.set_title(f"{what}\nfitted {fit.order.corrected:.3f} $\\pm$ {fit.order.standard_error:.1g}", fontsize=7)
        axes.tick_params(labelsize=6)
        axes.minorticks_off()
        readable_axis(axes.yaxis, axes.get_ylim())
        axes.legend(handlelength=1.2)
    for axes in figure.axes[::columns]:
        axes.set_ylabel("gap")
    for axes in figure.axes[dataset.sizes["fit"] :]:
        axes.axis("off")
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check every order against the expected one within its derived margin; the control is a wrong theory."""
    return [check for fit in fits_of(dataset) for check in fit.checks()]
