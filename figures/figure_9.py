"""Figure 9: growth exponent B(t) at a fixed ratio of the learning rates (Theorem 4, Eq. 129)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.analytic import growth_exponent, transition_time
from snapdyn.figures.style import CLOCK, DOUBLE_COLUMN, TIME_LABEL, new_figure
from snapdyn.validation.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Growth exponent at a fixed ratio of the learning rates"
CAPTION = (
    "Growth exponent B(t) of Eq. (129), K = 1, C0 = 1; dotted: t0; dots: B(t0), equal for all eta_Z at a fixed ratio. "
    "A larger eta_Z gives a larger B. The ratio nu is read as eta_Y/eta_Z: then every t0 lies inside the printed "
    "axis. With the other reading, eta_Z/eta_Y, the value nu = 10 would place them at t = 16 to 258 on an axis that "
    "ends at 5. With C0 = 1 the printed form starts at 0 and equals the form integrated from 0. The form consistent "
    "with Eqs. (98)-(100) has the factor K-1 and is 0 throughout: a single class shares no token with another class."
)

NUM_CLASSES = 1
RHO0 = 1.0  # C0 = rho0^4/K = 1
ATTENTION_RATES = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
RATIOS = np.array([10.0, 1.0])  # nu = eta_Y/eta_Z
VOCAB_SIZES = np.array([100, 10_000])
LAST_TIME = np.array([5.0, 50.0])
POINTS = {"quick": 251, "full": 2001}


def compute(level: str) -> xarray.Dataset:
    """Evaluate B(t) in the printed and in the consistent form, and both at the end t0 of the transition.

    Parameters
    ----------
    level : "quick" or "full"
        251 or 2001 times per panel.

    Returns
    -------
    xarray.Dataset
        B (form, panel, eta_Z, point), dimensionless, at time (panel, point); t0 and B_t0 (panel, eta_Z), B_t0
        in the printed form; t0_inverse_ratio (panel, eta_Z): t0 if nu meant eta_Z/eta_Y. Times in
        batch-size-1 steps.
    """
    time = np.linspace(0, LAST_TIME, POINTS[level], axis=1)
    nu, V = RATIOS[:, None], VOCAB_SIZES[:, None]

    def B(t: np.ndarray, form: str) -> np.ndarray:
        """Return B at t (panel, eta_Z or 1, any number of times)."""
        eta_Z = ATTENTION_RATES[:, None]
        return growth_exponent(t, nu[..., None] * eta_Z, eta_Z, V[..., None], NUM_CLASSES, RHO0, form)

    t0 = transition_time(NUM_CLASSES, V, nu * ATTENTION_RATES, kind="end")
    forms = ["printed", "consistent"]
    return xarray.Dataset(
        {
            "B": (("form", "panel", "eta_Z", "point"), np.stack([B(time[:, None], form) for form in forms])),
            "t0": (("panel", "eta_Z"), t0, CLOCK),
            "B_t0": (("panel", "eta_Z"), B(t0[..., None], "printed")[..., 0]),
            "t0_inverse_ratio": (
                ("panel", "eta_Z"),
                transition_time(NUM_CLASSES, V, ATTENTION_RATES / nu, kind="end"),
                CLOCK,
            ),
        },
        {
            "form": forms,
            "eta_Z": ATTENTION_RATES,
            "nu": ("panel", RATIOS),
            "vocab_size": ("panel", VOCAB_SIZES),
            "time": (("panel", "point"), time, CLOCK),
        },
        {"num_classes": NUM_CLASSES, "rho0": RHO0, "C0": RHO0**4 / NUM_CLASSES, "nu": "eta_Y/eta_Z"},
    )


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw B(t) with t0 dotted and a dot at B(t0), one panel per nu and V."""
    figure = new_figure(DOUBLE_COLUMN, 2.7)
    for axes, panel in zip(figure.subplots(1, 2), dataset.panel.values, strict=True):
        data = dataset.isel(panel=panel)
        # Largest rate first, so that the legend lists the curves from top to bottom.
        for eta_Z in reversed(data.eta_Z.values):
            curve = data.sel(eta_Z=eta_Z)
            (line,) = axes.plot(curve.time, curve.B.sel(form="printed"), label=f"{eta_Z:g}")
            axes.axvline(curve.t0.item(), linestyle=":", linewidth=0.8, color=line.get_color())
            axes.plot(curve.t0, curve.B_t0, "o", color=line.get_color(), markeredgecolor="black", zorder=3)
        axes.plot(data.time, data.B.sel(form="consistent", eta_Z=data.eta_Z[0]), color="0.6", linestyle="--")
        axes.annotate(
            "consistent form ($K$ = 1)",
            (0.71, 0),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color="0.35",
        )
        axes.set_xlim(0, data.time.values[-1])
        axes.set_xlabel(TIME_LABEL)
        axes.set_title(
            f"$K$ = {dataset.attrs['num_classes']}, $C_0$ = {dataset.attrs['C0']:g}, "
            f"$\\eta_Y/\\eta_Z$ = {data.nu.item():g}, $V$ = {data.vocab_size.item()}"
        )
        axes.legend(title="$\\eta_Z$", loc="center", bbox_to_anchor=(0.7, 0.36))
    figure.axes[0].set_ylabel("growth exponent $B(t)$")
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check that B grows with eta_Z, B(t0) depends on the ratio only, and every t0 lies on the printed axis."""
    printed = dataset.B.sel(form="printed").isel(point=slice(1, None))
    spread = dataset.B_t0.max("eta_Z") / dataset.B_t0.min("eta_Z") - 1
    end = xarray.DataArray(LAST_TIME, dims="panel")
    return [
        Check(
            "smallest step of B from one eta_Z to the next",
            "closed form",
            float(printed.diff("eta_Z").min()),
            0.0,
            ">=",
        ),
        Check("spread of B(t0) over eta_Z, relative", "closed form", float(spread.max()), 1e-12),
        Check("largest t0 over the end of the axis", "closed form", float((dataset.t0 / end).max()), 1.0),
        Check(
            "B of the consistent form at K = 1",
            "closed form",
            float(np.abs(dataset.B.sel(form="consistent")).max()),
            0.0,
        ),
        Check(
            "wrong theory: nu = eta_Z/eta_Y, largest t0 over the end of the axis",
            "closed form",
            float((dataset.t0_inverse_ratio / end).max()),
            1.0,
            role="control",
        ),
        Check(
            "wrong theory: B(t0) the same in both panels, relative",
            "closed form",
            float(dataset.B_t0.max() / dataset.B_t0.min() - 1),
            1e-12,
            role="control",
        ),
    ]
