"""Fitted orders: how the error of each approximation falls with its small parameter."""

from __future__ import annotations

import re
from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.style import CIRCLES, DOUBLE_COLUMN, Axes, Figure, note_size, power_of_ten
from snapdyn.validation.measured import Measured
from snapdyn.validation.properties import Property
from snapdyn.validation.statistics import DECISIVE, Fit

TITLE = "Fitted orders of the approximations"
CAPTION = (
    "Gaps between neighbouring rungs against their small parameter (circles, with standard errors where they are "
    "random), and the order that theory gives (line through the smallest gap). Written: the fitted order, corrected "
    "for the contribution of the next term, which is fitted to the same data."
)


def compute(
    level: str,
    seeds: Annotated[
        float | None,
        Field(ge=0.2, le=1000, description="factor on the number of seeds of level quick; 1 or 4 by the level"),
    ] = None,
) -> xarray.Dataset:
    """Measure every gap whose order is fitted.

    Parameters
    ----------
    level : "quick" or "full"
        "full" takes four times as many seeds.
    seeds : float, optional
        Factor on the numbers of seeds at level quick, which are 50 to 200, depending on the fit.

    Returns
    -------
    xarray.Dataset
        parameter, gap, error (fit, point), NaN beyond the points of a fit (error: also where nothing is random);
        wrong_gap (fit, point), control (fit): a wrong theory's gaps, and its name; expected, next_order (fit); slope,
        standard_error, shift (fit): the fitted slope and what the next term adds to it.
    """
    from snapdyn.validation.claims.approximations.orders import measured_fits

    fits = measured_fits(level, seeds)
    points = max(fit.parameter.size for fit in fits)

    def padded(name: str) -> np.ndarray:
        rows = np.full((len(fits), points), np.nan)
        for row, fit in zip(rows, fits, strict=True):
            if (values := getattr(fit, name)) is not None:
                row[: values.size] = values
        return rows

    return xarray.Dataset(
        {
            **{name: (("fit", "point"), padded(name)) for name in ("parameter", "gap", "error", "wrong_gap")},
            "expected": ("fit", [fit.expected for fit in fits]),
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


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a small panel per fit: measured gaps as circles, the expected order as a line through the smallest gap."""
    count = dataset.sizes["fit"]
    figure, panels = panel_grid(width, count, least=1.6, height=2.0, rest=0.4, ylabel="gap")
    for axes, fit in zip(panels.flat, fits_of(dataset), strict=False):
        _draw_fit(axes, fit)
    letter_panels(panels.flat[:count])
    legend_above(figure)
    return figure


def _draw_fit(axes: Axes, fit: Fit) -> None:
    axes.errorbar(
        fit.parameter, fit.gap, fit.error, color="C0", label="measured gap", elinewidth=0.8, capsize=1.5, **CIRCLES
    )
    at = int(np.argmin(fit.gap))
    line = fit.gap[at] * (fit.parameter / fit.parameter[at]) ** fit.expected
    axes.plot(fit.parameter, line, color="C1", label="expected order, through the smallest gap")
    what, parameter = fit.name.split(", in ")
    what, parameter = (re.sub(r"\b(lambda_1|eta|beta)\b", r"$\\\1$", text) for text in (what, parameter))
    axes.set(xscale="log", yscale="log", xlabel=parameter)
    error = fit.order.standard_error
    # An error below the last digit shown is not shown.
    uncertainty = f" $\\pm$ {error:.1g}" if error >= 5e-4 else ""
    orders = f"{fit.order.corrected:.3f}{uncertainty}\nexpected {fit.expected:g}".replace("-", "\N{MINUS SIGN}")
    axes.set_title(what)
    axes.minorticks_off()
    shown = fit.parameter[[0, -1]]
    axes.set_xticks(shown, [power_of_ten(value, 2) for value in shown])
    ends = [fit.gap.min(), fit.gap.max()]
    axes.set_yticks(ends, [power_of_ten(value, 2) for value in ends])
    axes.margins(x=0.12)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.4)  # room for the orders above the data
    axes.text(0.03, 1.0, orders, va="top", fontsize=note_size(0.93), transform=axes.transAxes)


def _worst_order(dataset: xarray.Dataset) -> Measured:
    """Largest |corrected slope - expected order| over its derived margin."""
    off = {fit.name: abs(fit.order.corrected - fit.expected) / fit.order.margin() for fit in fits_of(dataset)}
    worst = max(off, key=off.__getitem__)
    return Measured(off[worst], at_most=1.0, where=worst)


def _widest_margin(dataset: xarray.Dataset) -> Measured:
    return Measured(max(fit.order.margin() for fit in fits_of(dataset)), at_most=DECISIVE)


def _wrong_theories(dataset: xarray.Dataset) -> Measured:
    """Smallest |slope - expected order| over the margin, for the gaps of the wrong theories."""
    off = (abs(fit.wrong_order - fit.expected) / fit.order.margin() for fit in fits_of(dataset))
    return Measured(min(off), at_most=1.0)


PROPERTIES = (
    Property(
        "|corrected slope - expected order| over its margin, largest of the fits",
        "SGD to closed form",
        _worst_order,
        controls={"gaps of wrong theories: this number, smallest of the fits": _wrong_theories},
    ),
    Property("margin of a slope, largest of the fits", "SGD to closed form", _widest_margin),
)
