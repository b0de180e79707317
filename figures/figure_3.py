"""Figure 3: growth factor exp(2 B) of the dominant token through the phase transition (Theorem 4)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.analytic import growth_exponent, transition_time
from snapdyn.dynamics import SingleCommonToken, whole_run
from snapdyn.figures.declaration import AttentionRate, Different, NumClasses, Rate, Start, VocabSize, statement
from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.style import (
    CIRCLES,
    CLOCK,
    DOUBLE_COLUMN,
    TIME_LABEL,
    Axes,
    Figure,
    curve_style,
    note_size,
    thin_dotted,
)
from snapdyn.validation.rungs.run import TOLERANCES

TITLE = "Growth factor of the dominant token through the phase transition"
CAPTION = (
    "Upper bound exp(2B) of the dominant token's growth factor, K = 10, V = 1000, eta_Z = 0.5. Lines: closed forms; "
    "circles: Eq. (13) integrated numerically; dotted: t0 = 2(1+omega_1) K ln V/eta_Y. Left, as printed: a larger "
    "eta_Y leads before the transition and trails after it, and its transition comes earlier. Right, the form "
    "consistent with Eqs. (98)-(100): the same order and times, with an exponent about K times smaller. The paper "
    "gives no rho0; here rho0 = K^(1/4) = 1.778, so that C0 = 1, the only value at which the printed B starts at 0. "
    "Scale: at t = 700 the largest curve reaches 45.2 as printed and 1.46 in the consistent form (1.63 at the "
    "smallest possible rho0 = 1), whereas the axis of the printed figure reaches 600. For any rho0 >= 1, even the "
    "printed form grows by at most a factor 143 from its value at t = 0."
)

FORMS = ("printed", "consistent")
POINTS = {"quick": 701, "full": 2801}
# Where (13) is integrated as well, in 700ths of the time axis (so many steps at the default).
CHECKED = np.concatenate([[0, 10, 25], np.arange(50, 701, 50)])
PAPER_AXIS = 600  # where the printed axis of exp(2B) ends
EARLY = 10  # before all transitions, in the same unit
# The control is not among them: where the exponent stays near 0 (many classes, a short axis) both forms are one.


def compute(
    level: str,
    num_classes: NumClasses = 10,
    vocab_size: VocabSize = 1000,
    eta_Y: Annotated[Different[Rate], Field(description="rates of the decoder, per step")] = (0.5, 1.0, 2.0, 5.0),
    eta_Z: AttentionRate = 0.5,
    rho0: Start = None,
    last_time: Annotated[float, Field(gt=0, description="end of the axis, batch-size-1 steps")] = 700.0,
) -> xarray.Dataset:
    """Evaluate exp(2 B) in both closed forms, and by integration of (13) at a few times.

    Parameters
    ----------
    level : "quick" or "full"
        701 or 2801 times, the checked ones among them.
    num_classes, vocab_size, eta_Y, eta_Z, rho0, last_time
        See the annotations of these arguments. The paper gives no rho0. With C0 = rho0^4/K = 1, and no other value, the
        printed B starts at 0; this is the default for every K.

    Returns
    -------
    xarray.Dataset
        chi = exp(2 B) (form, eta_Y, time) from the closed forms; chi_integrated (form, eta_Y, checked_time)
        from the reduced system, which shares no code with the closed forms; t0 (eta_Y). Times in batch-size-1 steps.
    """
    rho0 = rho0 or num_classes**0.25
    time = np.linspace(0, last_time, POINTS[level])
    checked_time = time[CHECKED * (POINTS[level] - 1) // CHECKED[-1]]

    def integrated(form: str, rate: float) -> np.ndarray:
        system = SingleCommonToken(num_classes, vocab_size, rate, eta_Z, rho0, form)
        return np.exp(2 * whole_run(system, checked_time, **TOLERANCES).extra["B"][:, 0])

    rates = np.array(eta_Y)
    exponents = [growth_exponent(time, rates[:, None], eta_Z, vocab_size, num_classes, rho0, form) for form in FORMS]
    return xarray.Dataset(
        {
            "chi": (("form", "eta_Y", "time"), np.exp(2 * np.array(exponents))),
            "chi_integrated": (
                ("form", "eta_Y", "checked_time"),
                np.array([[integrated(form, rate) for rate in rates] for form in FORMS]),
            ),
            "t0": ("eta_Y", transition_time(num_classes, vocab_size, rates, kind="end"), CLOCK),
        },
        {
            "form": list(FORMS),
            "eta_Y": rates,
            "time": ("time", time, CLOCK),
            "checked_time": ("checked_time", checked_time, CLOCK),
        },
        {
            "rho0": rho0,
            "C0": rho0**4 / num_classes,
            **TOLERANCES,
        },
    )


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw the closed forms as lines, the integrated system as circles, t0 dotted; one panel per form."""
    figure, panels = panel_grid(width, 2, least=2.6, height=2.75, rest=0.3)
    titles = {
        "printed": "as printed: $B = \\frac{1}{4}\\,\\ln(C_0 + 4\\Gamma)$",
        "consistent": "consistent: $B = \\frac{1}{4K}\\,\\ln(1 + 4A\\Gamma)$",
    }
    for axes, form in zip(panels.flat, dataset.form.values, strict=True):
        _draw_form(axes, dataset.sel(form=form))
        axes.set_title(titles[form])
    letter_panels(panels.flat)
    # The paper gives no rho0, so the picture itself says which one was chosen.
    values = dataset.attrs
    chosen = " ($\\rho_0 = K^{1/4}$)" if values["rho0"] == values["num_classes"] ** 0.25 else ""
    title = (
        f"$K$ = {values['num_classes']}, $V$ = {values['vocab_size']}, $\\eta_Z$ = {values['eta_Z']:g}; chosen: "
        "$C_0$ = "
        f"{values['C0']:.3g}{chosen}"
    )
    legend_above(figure, title=title, most_columns=4)
    return figure


def _draw_form(axes: Axes, data: xarray.Dataset) -> None:
    for number, eta_Y in enumerate(data.eta_Y.values):
        curve, color = data.sel(eta_Y=eta_Y), f"C{number}"
        axes.plot(curve.time, curve.chi, label=f"$\\eta_Y$ = {eta_Y:g}", **curve_style(number))
        axes.plot(curve.checked_time, curve.chi_integrated, color=color, clip_on=False, zorder=3, **CIRCLES)
        axes.axvline(curve.t0.item(), color=color, **thin_dotted())
    axes.plot([], [], color="black", label="closed form")
    axes.plot([], [], color="black", label="(13) integrated", **CIRCLES)
    axes.plot([], [], color="black", label="$t_0$", **thin_dotted())
    axes.set_xlim(0, data.time.values[-1])
    axes.set_xlabel(TIME_LABEL)
    axes.set_ylabel("$\\exp(2B)$")
    if data.form == "printed" and float(data.chi.max()) < PAPER_AXIS:
        axes.annotate(
            f"the paper's axis\ngoes to {PAPER_AXIS}",
            (0.98, 0.04),
            xycoords="axes fraction",
            ha="right",
            fontsize=note_size(),
        )


def _largest(values: xarray.DataArray, largest: bool = True) -> float:
    """Largest or smallest value; 0 if there is none: with a single rate, or transitions beyond the axis."""
    return float(values.max() if largest else values.min()) if values.size else 0.0


def _late_steps(dataset: xarray.Dataset) -> xarray.DataArray:
    """Differences of exp(2B) between successive eta_Y at the times after the last t0."""
    return dataset.chi.sel(time=dataset.time > dataset.t0.max()).diff("eta_Y")


def _early_steps(dataset: xarray.Dataset) -> xarray.DataArray:
    """Differences of exp(2B) between successive eta_Y at t = 10."""
    return dataset.chi.isel(time=EARLY * (dataset.sizes["time"] - 1) // CHECKED[-1]).diff("eta_Y")


def _balance(dataset: xarray.Dataset) -> xarray.DataArray:
    u = dataset.t0 * dataset.eta_Y / (2 * dataset.attrs["num_classes"])
    return np.abs(np.exp(u) / ((dataset.attrs["vocab_size"] - 1) * u) - 1).max()


def _tolerance(dataset: xarray.Dataset) -> float:
    return 1e3 * float(dataset.attrs["rtol"])  # a thousand steps, each good to rtol


def _circles(dataset: xarray.Dataset) -> xarray.DataArray:
    """Error against integrated (13) of the closed forms that start at B = 0; the printed form does so if C0 = 1."""
    started = np.abs(dataset.chi.isel(time=0) - 1).max("eta_Y") <= _tolerance(dataset)
    circles = np.abs(dataset.chi.sel(time=dataset.checked_time) / dataset.chi_integrated - 1)
    return circles.where(started).max()


def _exchanged_circles(dataset: xarray.Dataset) -> xarray.DataArray:
    other = dataset.chi.sel(time=dataset.checked_time).assign_coords(form=dataset.form.values[::-1])
    return np.abs(other / dataset.chi_integrated - 1).max()


PROPERTIES = (
    statement("u = t0 eta_Y/(2K) solves exp(u) = (V-1) u, relative", "closed form", _balance, at_most=1e-12),
    statement(
        "closed form that starts at exp(2B) = 1, against (13) integrated, relative",
        "closed form",
        _circles,
        at_most=_tolerance,
        wrong={"each form's circles on the other form's lines": _exchanged_circles},
    ),
    statement(
        "smallest step of exp(2B) from one eta_Y to the next at t = 10",
        "closed form",
        lambda dataset: _largest(_early_steps(dataset), largest=False),
        at_least=0.0,
        wrong={
            "larger eta_Y ahead at all times: smallest step after the last t0": (
                lambda dataset: _largest(_late_steps(dataset), largest=False)
            )
        },
    ),
    statement(
        "largest step of exp(2B) from one eta_Y to the next after the last t0",
        "closed form",
        lambda dataset: _largest(_late_steps(dataset)),
        at_most=0.0,
    ),
)
GENERAL = tuple(prop.name for prop in PROPERTIES[:2])
