"""Figure 9: growth exponent B(t) at a fixed ratio of the learning rates (Theorem 4, Eq. 129)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.analytic import growth_exponent, transition_time
from snapdyn.core.errors import finite_array
from snapdyn.figures.declaration import Different, Rate, Start, Two, Whole, statement
from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.style import CLOCK, DOUBLE_COLUMN, TIME_LABEL, Figure, curve_style, thin_dotted

TITLE = "Growth exponent at a fixed ratio of the learning rates"
CAPTION = (
    "Growth exponent B(t), K = 1, C0 = 1: lines are the printed closed form, Eq. (129); dotted: t0; dots: B(t0), "
    "equal for all eta_Z at a fixed ratio. A larger eta_Z gives a larger B. The ratio nu is read as eta_Y/eta_Z: then "
    "every t0 lies inside the printed axis. With the other reading, eta_Z/eta_Y, the value nu = 10 would place them "
    "at t = 16 to 258 on an axis that ends at 5. With C0 = 1 the printed form starts at 0 and equals the form "
    "integrated from 0. The form consistent with Eqs. (98)-(100) has the factor K-1 and is 0 throughout: a single "
    "class shares no token with another class."
)

POINTS = {"quick": 251, "full": 2001}
RATES = (0.5, 1.0, 2.0, 4.0, 8.0)
VocabSize = Annotated[Whole, Field(ge=4)]
LastTime = Annotated[float, Field(gt=0)]


def compute(
    level: str,
    num_classes: Annotated[Whole, Field(ge=1, description="classes K")] = 1,
    eta_Z: Annotated[Different[Rate], Field(description="rates of attention, increasing, per step")] = RATES,
    ratio: Annotated[Two[Rate], Field(description="eta_Y/eta_Z of panels a, b")] = (10.0, 1.0),
    vocab_size: Annotated[Two[VocabSize], Field(description="vocabularies V of panels a, b")] = (100, 10_000),
    last_time: Annotated[Two[LastTime], Field(description="ends of the axes, batch-size-1 steps")] = (5.0, 50.0),
    rho0: Start = None,
) -> xarray.Dataset:
    """Evaluate B(t) in the printed and in the consistent form, and both at the end t0 of the transition.

    Parameters
    ----------
    level : "quick" or "full"
        251 or 2001 times per panel.
    num_classes, eta_Z, ratio, vocab_size, last_time, rho0
        See the annotations of these arguments. With rho0 = K^(1/4), C0 = rho0^4/K is 1.

    Returns
    -------
    xarray.Dataset
        B (form, panel, eta_Z, point), dimensionless, at time (panel, point); t0 and B_t0 (panel, eta_Z), B_t0
        in the printed form; t0_inverse_ratio (panel, eta_Z): t0 if nu meant eta_Z/eta_Y. Times in
        batch-size-1 steps.
    """
    finite_array("eta_Z", eta_Z, increasing=True)
    rho0 = rho0 or num_classes**0.25
    time = np.linspace(0, np.array(last_time), POINTS[level], axis=1)
    rates, nu, V = np.array(eta_Z), np.array(ratio)[:, None], np.array(vocab_size)[:, None]

    def B(t: np.ndarray, form: str) -> np.ndarray:
        """Return B at t (panel, eta_Z or 1, any number of times)."""
        slow = rates[:, None]
        return growth_exponent(t, nu[..., None] * slow, slow, V[..., None], num_classes, rho0, form)

    t0 = transition_time(num_classes, V, nu * rates, kind="end")
    forms = ["printed", "consistent"]
    return xarray.Dataset(
        {
            "B": (("form", "panel", "eta_Z", "point"), np.stack([B(time[:, None], form) for form in forms])),
            "t0": (("panel", "eta_Z"), t0, CLOCK),
            "B_t0": (("panel", "eta_Z"), B(t0[..., None], "printed")[..., 0]),
            "t0_inverse_ratio": (
                ("panel", "eta_Z"),
                transition_time(num_classes, V, rates / nu, kind="end"),
                CLOCK,
            ),
        },
        {
            "form": forms,
            "eta_Z": rates,
            "nu": ("panel", np.array(ratio)),
            "vocab_size": ("panel", np.array(vocab_size)),
            "time": (("panel", "point"), time, CLOCK),
        },
        {"rho0": rho0, "C0": rho0**4 / num_classes, "nu": "eta_Y/eta_Z"},
    )


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw B(t) with t0 dotted and a dot at B(t0), one panel per nu and V."""
    labels: Any = {"xlabel": TIME_LABEL, "ylabel": "growth exponent $B(t)$"}
    figure, panels = panel_grid(width, 2, least=2.4, height=2.2, rest=0.7, **labels)
    for axes, panel in zip(panels.flat, dataset.panel.values, strict=True):
        data = dataset.isel(panel=panel)
        for number, eta_Z in enumerate(data.eta_Z.values):
            curve, color = data.sel(eta_Z=eta_Z), f"C{number}"
            axes.plot(curve.time, curve.B.sel(form="printed"), label=f"$\\eta_Z$ = {eta_Z:g}", **curve_style(number))
            axes.axvline(curve.t0.item(), color=color, **thin_dotted())
            axes.plot(curve.t0, curve.B_t0, "o", color=color, markeredgecolor="black", zorder=3)
        axes.plot([], [], color="black", label="$t_0$, end of the transition", **thin_dotted())
        axes.plot([], [], "o", color="0.5", markeredgecolor="black", label="$B(t_0)$")
        # One line for one class, of which it is 0 for all rates.
        for consistent in data.B.sel(form="consistent")[: None if dataset.attrs["num_classes"] > 1 else 1]:
            axes.plot(
                data.time, consistent, color="0.55", linewidth=2.4, alpha=0.7, zorder=1.5, label="consistent form"
            )
        axes.set_xlim(0, data.time.values[-1])
        axes.set_title(f"$\\eta_Y/\\eta_Z$ = {data.nu.item():g}, $V$ = {data.vocab_size.item()}")
    letter_panels(panels.flat)
    settings = f"$K$ = {dataset.attrs['num_classes']}, $C_0$ = {dataset.attrs['C0']:.3g}; lines: printed closed form"
    legend_above(figure, title=settings, most_columns=4)
    return figure


def _least_step(dataset: xarray.Dataset) -> Any:
    printed = dataset.B.sel(form="printed").isel(point=slice(1, None))
    return printed.diff("eta_Z").min() if dataset.sizes["eta_Z"] > 1 else 0.0


def _spread(values: xarray.DataArray, *dims: str) -> xarray.DataArray:
    """Ratio of the largest to the smallest value along `dims` (none: all), minus 1."""
    return (values.max(*dims) / values.min(*dims) - 1).max()


def _on_axis(dataset: xarray.Dataset, time: str) -> xarray.DataArray:
    return (dataset[time] / dataset.time.isel(point=-1)).max()


PROPERTIES = (
    statement("smallest step of B from one eta_Z to the next", "closed form", _least_step, at_least=0.0),
    statement(
        "spread of B(t0) over eta_Z, relative",
        "closed form",
        lambda dataset: _spread(dataset.B_t0, "eta_Z"),
        at_most=1e-12,
        wrong={"B(t0) the same in both panels, relative": lambda dataset: _spread(dataset.B_t0)},
    ),
    statement(
        "largest t0 over the end of the axis",
        "closed form",
        lambda dataset: _on_axis(dataset, "t0"),
        at_most=1.0,
        wrong={
            "nu = eta_Z/eta_Y, largest t0 over the end of the axis": (
                lambda dataset: _on_axis(dataset, "t0_inverse_ratio")
            )
        },
    ),
    statement(
        "B of the consistent form at K = 1",
        "closed form",
        lambda dataset: np.abs(dataset.B.sel(form="consistent")).max(),
        at_most=0.0,
    ),
)
GENERAL = tuple(prop.name for prop in PROPERTIES[:2])
