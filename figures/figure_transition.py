"""Speed control, common logit and growth exponent over t, with the times t0', t* and t0 of the transition."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.analytic import gamma, gamma_integral, growth_exponent, transition_time
from snapdyn.dynamics import SingleCommonToken, single_common_token, whole_run
from snapdyn.figures.declaration import AttentionRate, DecoderRate, NumClasses, Start, Whole, statement
from snapdyn.figures.panels import legend_above, letter_panels
from snapdyn.figures.style import CIRCLES, CLOCK, SINGLE_COLUMN, TIME_LABEL, TIMES, Figure, line_width, new_figure
from snapdyn.validation.rungs.run import MODIFIED, TOLERANCES, run_on_rung

TITLE = "Speed control, common logit and growth exponent through the phase transition"
CAPTION = (
    "K = 10, V = 1000, eta_Y = 1, eta_Z = 0.5, rho0 = K^(1/4), so that C0 = 1. Lines: closed forms; circles: gamma "
    "from the logits of the modified flow, z_c and B from Eq. (13), consistent form, integrated. Vertical lines: the "
    "peak t* of gamma, t0' = K ln V/eta_Y and t0 = 2(1+omega_1) K ln V/eta_Y. Scanning ends and snapping begins "
    "between these times: the common logit continues to fall, but only as ln ln t. The printed B has the same shape "
    "and is about K times as large."
)

WIDTH = SINGLE_COLUMN
FIRST_TIME = 1.0
POINTS = {"quick": 201, "full": 801}
KINDS = {"peak": "peak of $\\gamma$", "start": "start of the transition", "end": "end of the transition"}
LINES = {"peak": ":", "start": "-.", "end": (0, (5, 2))}


def compute(
    level: str,
    num_classes: NumClasses = 10,
    vocab_size: Annotated[Whole, Field(ge=14, description="vocabulary V")] = 1000,
    eta_Y: DecoderRate = 1.0,
    eta_Z: AttentionRate = 0.5,
    rho0: Start = None,
    last_time: Annotated[float, Field(ge=100, description="end of the axis, batch-size-1 steps")] = 1e5,
) -> xarray.Dataset:
    """Evaluate the closed forms, and integrate the systems they solve at a few times.

    Parameters
    ----------
    level : "quick" or "full"
        201 or 801 times on the logarithmic axis.
    num_classes, vocab_size, eta_Y, eta_Z, rho0, last_time
        See the annotations of these arguments. With rho0 = K^(1/4), C0 = 1, as in Figure 3.

    Returns
    -------
    xarray.Dataset
        gamma, z_common, B (time) in the consistent form and B_printed (time); the integrated values, with the ending
        _integrated (checked_time): gamma from the decoder's logits under the modified flow, z and B from (13).
        transition_time (kind). Times in batch-size-1 steps.
    """
    rho0 = rho0 or num_classes**0.25
    time = np.geomspace(FIRST_TIME, last_time, POINTS[level])
    checked = np.geomspace(FIRST_TIME, last_time, 21)
    A = (num_classes - 1) / rho0**4
    exponents = {
        form: growth_exponent(time, eta_Y, eta_Z, vocab_size, num_classes, rho0, form)
        for form in ("consistent", "printed")
    }
    classes = single_common_token(num_classes, 3, 0.1, vocab_size)
    decoder = run_on_rung(MODIFIED, classes, eta_Y, eta_Z, checked, **TOLERANCES)
    reduced = SingleCommonToken(num_classes, vocab_size, eta_Y, eta_Z, rho0, "consistent")
    logit = whole_run(reduced, checked, **TOLERANCES)
    return xarray.Dataset(
        {
            "gamma": ("time", gamma(time, eta_Y, vocab_size, num_classes)),
            "z_common": (
                "time",
                -0.25 * np.log1p(4 * A * eta_Z * gamma_integral(time, eta_Y, vocab_size, num_classes)),
            ),
            "B": ("time", exponents["consistent"]),
            "B_printed": ("time", exponents["printed"]),
            # gamma = w_nn (1 - alpha_nn); the classes have equal profiles, so the loss is -ln alpha_nn.
            "gamma_integrated": ("checked_time", decoder.extra["own_logit"][:, 0] * -np.expm1(-decoder.loss)),
            "z_common_integrated": ("checked_time", logit.z_support[:, 0]),
            "B_integrated": ("checked_time", logit.extra["B"][:, 0]),
            "transition_time": (
                "kind",
                [float(transition_time(num_classes, vocab_size, eta_Y, kind=kind)) for kind in KINDS],
                CLOCK,
            ),
        },
        {"time": ("time", time, CLOCK), "checked_time": ("checked_time", checked, CLOCK), "kind": list(KINDS)},
        {
            "rho0": rho0,
            **TOLERANCES,
        },
    )


def draw(dataset: xarray.Dataset, width: float = SINGLE_COLUMN) -> Figure:
    """Draw three panels over one time axis: lines closed forms, circles integrated systems."""
    figure = new_figure(width, 5.2)
    panels = figure.subplots(3, 1, sharex=True)
    labels = {"gamma": "speed control $\\gamma$", "z_common": "common logit $z_c$", "B": "growth exponent $B$"}
    for axes, (name, label) in zip(panels, labels.items(), strict=True):
        axes.plot(dataset.time, dataset[name], label="closed form")
        axes.plot(dataset.checked_time, dataset[f"{name}_integrated"], color="C0", label="integrated", **CIRCLES)
        for kind, time in zip(dataset.kind.values, dataset.transition_time.values, strict=True):
            axes.axvline(
                time,
                color="0.5",
                linestyle=LINES[kind],
                linewidth=line_width(0.9),
                label=f"{TIMES[kind]}, {KINDS[kind]}",
            )
        axes.set_ylabel(label)
    K = dataset.attrs["num_classes"]
    panels[2].plot(dataset.time, dataset.B_printed / K, "--", color="C1", label=f"printed $B$, divided by $K$ = {K}")
    letter_panels(panels)
    legend_above(figure, most_columns=3)
    panels[-1].set(xscale="log", xlim=dataset.time.values[[0, -1]], xlabel=TIME_LABEL)
    figure.align_ylabels(panels)
    return figure


def _peak_off(dataset: xarray.Dataset, kind: str) -> float:
    """|ln(time of the largest gamma/theoretical time)|; a theoretical time beyond the axis is moved to its end."""
    times = dict(zip(dataset.kind.values, dataset.transition_time.values, strict=True))
    theory = np.clip(times[kind], *dataset.time.values[[0, -1]])
    peak = float(dataset.time[int(dataset.gamma.argmax("time"))])
    return float(abs(np.log(peak / theory)))


def _apart(dataset: xarray.Dataset, name: str, closed: str) -> xarray.DataArray:
    """Largest relative difference between the closed form and the integrated values."""
    values = dataset[closed].sel(time=dataset.checked_time, method="nearest")
    return np.abs(values / dataset[f"{name}_integrated"] - 1).max()


PROPERTIES = (
    statement(
        "|ln(time of the largest gamma/t*)|, t* or the end of the axis next to it",
        "closed form",
        lambda dataset: _peak_off(dataset, "peak"),
        at_most=lambda dataset: np.log(float(dataset.time[1] / dataset.time[0])),
        wrong={"gamma peaks at t0": lambda dataset: _peak_off(dataset, "end")},
    ),
    statement(
        "B against -z_c/K, relative (conservation)",
        "closed form",
        lambda dataset: np.abs(dataset.B / (-dataset.z_common / dataset.attrs["num_classes"]) - 1).max(),
        at_most=1e-12,
    ),
    *(
        statement(
            f"{name}: closed form against integration, relative",
            "closed form",
            partial(_apart, name=name, closed=name),
            at_most=lambda dataset: 1e3 * dataset.attrs["rtol"],  # a thousand steps, each good to rtol
            wrong=wrong,
        )
        for name, wrong in (
            ("gamma", {}),
            ("z_common", {}),
            ("B", {"the printed B for the integrated one, relative": partial(_apart, name="B", closed="B_printed")}),
        )
    ),
)
GENERAL = tuple(prop.name for prop in PROPERTIES)
