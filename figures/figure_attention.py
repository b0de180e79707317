"""Attention of both classes of Syn-Small over time, in the mean field of SGD."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.dynamics import momentum_clock, syn_small
from snapdyn.figures.declaration import AttentionRate, Momentum, Rate, TwoDecoderRates, statement
from snapdyn.figures.panels import fitting_columns, folded_grid, letter_panels
from snapdyn.figures.shared_runs import COMMON, DOMINANT, ITERATIONS, RAREST
from snapdyn.figures.style import CLOCK, DOUBLE_COLUMN, TIME_LABEL, Axes, Figure, line_width, new_figure, note_size
from snapdyn.validation.rungs.run import MEAN_FIELD, TOLERANCES, run_on_rung

TITLE = "Attention on Syn-Small over time, mean field"
CAPTION = (
    "Attention c_n(l) of both classes of Syn-Small in the mean field (infinite sequences, no noise), eta_Y = 1 (left) "
    "and 10 (right), eta_Z = 1. Time counts batch-size-1 steps. The paper's SGD has momentum 0.9, so that late in "
    "training t is about 10 times its iterations; the upper axis counts iterations and includes the build-up of the "
    "velocity at a constant gradient (iteration 10 at t = 41, 48 at t = 391). Common tokens fall and the dominant "
    "distinct token rises. It moves first at eta_Y = 10 (0.074 against 0.069 at t = 9); eta_Y = 1 overtakes near t = "
    "16 and goes further: at iteration 48 the entropy is 2.87 nats against 2.89 (start 2.90), so the larger "
    "eta_Y/eta_Z leaves attention denser."
)

FIRST_TIME, LAST_TIME = 1.0, 1000.0
GENERAL = (
    "largest step of a common token",
    "smallest step of the dominant token",
    "sum of attention over the tokens of a class, distance from 1",
)
POINTS = {"quick": 61, "full": 301}


def compute(
    level: str,
    eta_Y: TwoDecoderRates[Rate] = (1.0, 10.0),
    eta_Z: AttentionRate = 1.0,
    momentum: Annotated[Momentum, Field(description="of the paper's SGD, for the upper axis")] = 0.9,
) -> xarray.Dataset:
    """Integrate the mean field for both decoder rates.

    Parameters
    ----------
    level : "quick" or "full"
        61 or 301 times on the logarithmic axis.
    eta_Y, eta_Z, momentum
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        attention c_n(l) (eta_Y, time, class, token), NaN where P(l|n) = 0; entropy (eta_Y, time, class) in
        nats; t_of_iteration (iteration): the time shown for the paper's iterations. Times in batch-size-1
        steps: 0, then from 1 to 1000.
    """
    classes = syn_small()
    time = np.concatenate([[0.0], np.geomspace(FIRST_TIME, LAST_TIME, POINTS[level])])
    runs = [run_on_rung(MEAN_FIELD, classes, rate, eta_Z, time, **TOLERANCES) for rate in eta_Y]
    P = classes.P.toarray()
    return xarray.Dataset(
        {
            "attention": (
                ("eta_Y", "time", "class", "token"),
                np.stack([np.where(P > 0, run.attention, np.nan) for run in runs]),
            ),
            "entropy": (
                ("eta_Y", "time", "class"),
                np.stack([run.entropy() for run in runs]),
                {"units": "nats"},
            ),
            "t_of_iteration": ("iteration", momentum_clock(ITERATIONS, momentum), CLOCK),
        },
        {
            "eta_Y": np.array(eta_Y),
            "time": ("time", time, CLOCK),
            "token": np.arange(classes.num_tokens),
            "iteration": ITERATIONS,
        },
        {"vocab_size": classes.vocab_size, **TOLERANCES},
    )


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw token x time maps, one row per class, one column per rate; a logarithmic time axis."""
    classes, rates = dataset.sizes["class"], dataset.sizes["eta_Y"]
    columns = fitting_columns(width, rates, 2.2)
    figure = new_figure(width, 0.4 + (2.1 if columns > 1 else 1.95) * classes * rates / columns)
    grid = folded_grid(figure, classes, rates, columns, sharex=True, sharey=True)
    data = dataset.isel(time=slice(1, None))  # t = 0 has no place on a logarithmic axis
    highest = float(data.attention.max())
    for (n, rate), axes in np.ndenumerate(grid):
        attention = data.attention.isel({"eta_Y": rate, "class": n})
        axes.set_facecolor("0.9")
        mesh = axes.pcolormesh(
            data.time, data.token, attention.T, shading="nearest", vmin=0, vmax=highest, rasterized=True
        )
        axes.hlines([9.5, 19.5], FIRST_TIME, LAST_TIME, color="white", linewidth=line_width(0.8))
        _label_groups(axes, attention)
        axes.set(xscale="log", xlim=(FIRST_TIME, LAST_TIME), ylabel=f"class {n}: token")
        if n == 0:
            _iteration_axis(axes, dataset)
            axes.set_title(f"$\\eta_Y$ = {data.eta_Y.values[rate]:g}, $\\eta_Z$ = {dataset.attrs['eta_Z']:g}")
    letter_panels(grid[0])
    for axes in grid[-1, -columns:]:
        axes.set_xlabel(TIME_LABEL)
    figure.colorbar(mesh, ax=grid, label="attention $c_n(l)$", aspect=40, pad=0.01)
    return figure


def _label_groups(axes: Axes, attention: xarray.DataArray) -> None:
    absent = attention.token.values[np.isnan(attention.isel(time=0))]
    axes.annotate(
        "not in this class",
        (0.5, absent.mean()),
        xycoords=("axes fraction", "data"),
        ha="center",
        va="center",
        fontsize=note_size(),
        color="0.35",
    )
    axes.set_yticks(
        [4.5, 14.5, 24.5],
        ["common\n0–9", "distinct\n10–19", "distinct\n20–29"],
        rotation=90,
        va="center",
        multialignment="center",
    )
    axes.tick_params(axis="y", length=0)


def _iteration_axis(axes: Axes, dataset: xarray.Dataset) -> None:
    shown: list[tuple[float, int]] = []
    for time, iteration in zip(dataset.t_of_iteration.values, dataset.iteration.values, strict=True):
        # Neighbours closer than a factor of 1.8 would touch.
        if FIRST_TIME <= time <= LAST_TIME and (not shown or time > 1.8 * shown[-1][0]):
            shown.append((float(time), int(iteration)))
    iterations = axes.secondary_xaxis("top")
    iterations.set_xticks([time for time, _ in shown], [str(iteration) for _, iteration in shown])
    iterations.xaxis.minorticks_off()
    iterations.set_xlabel(f"iterations with momentum {dataset.attrs['momentum']:g}")


def _dominant_step(dataset: xarray.Dataset) -> float:
    return min(float(dataset.attention.isel({"class": n}).sel(token=DOMINANT[n]).diff("time").min()) for n in (0, 1))


def _denser(dataset: xarray.Dataset) -> xarray.DataArray:
    denser = dataset.entropy.isel(eta_Y=1) - dataset.entropy.isel(eta_Y=0)
    return denser.sel(time=slice(50, None)).min()


PROPERTIES = (
    statement(
        "largest step of a common token",
        "mean field",
        lambda dataset: dataset.attention.sel(token=COMMON).diff("time").max(),
        at_most=0.0,
    ),
    statement(
        "smallest step of the dominant token",
        "mean field",
        _dominant_step,
        at_least=0.0,
        wrong={
            "every distinct token gains attention: smallest step of the rarest": (
                lambda dataset: dataset.attention.isel({"class": 0}).sel(token=RAREST).diff("time").min()
            )
        },
    ),
    statement("entropy, eta_Y = 10 minus eta_Y = 1, smallest from t = 50 on", "mean field", _denser, at_least=0.0),
    statement(
        "sum of attention over the tokens of a class, distance from 1",
        "mean field",
        lambda dataset: np.abs(dataset.attention.sum("token") - 1).max(),
        at_most=1e-12,
    ),
)
