"""Figure 2: the four stages of attention, on a trajectory of the mean field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.dynamics import MeanField, SequenceClasses
from snapdyn.figures.axes import label_above
from snapdyn.figures.style import CLOCK, DOUBLE_COLUMN, TIME_LABEL, new_figure
from snapdyn.validation.accurate_runs import TOLERANCES, accurate_run
from snapdyn.validation.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The four stages of attention"
CAPTION = (
    "Attention of two classes of one query in the mean field, K = 2, V = 100, eta_Y = eta_Z = 1. Tokens a-c are "
    "distinct tokens of class 0, d-f of class 1; token * is common and starts with attention 0.6. Stage 1: start. "
    "Stage 2: the common token has lost half of what it loses in the whole run. Stage 3: the dominant token passes "
    "the common one. Stage 4: t = 1e5, attention hardly moves. The dominant token's lead over the next distinct token "
    "rises from 1.67 to 1.79 and comes back to 1.75: at eta_Z = eta_Y the decoder of the mean field remembers earlier "
    "attention; the decoder of Eq. (10) does not."
)

# Two classes of one query: three distinct tokens each and one common token, the most frequent of all.
DISTINCT, COMMON_PROBABILITY = (0.2, 0.12, 0.08), 0.6
VOCAB_SIZE, ETA_Y, ETA_Z = 100, 1.0, 1.0
FIRST_TIME, LAST_TIME = 0.1, 1e5
POINTS = {"quick": 241, "full": 961}
COMMON = 3
STAGES = ("start", "common token suppressed", "dominant tokens ahead", "frozen")


def classes() -> SequenceClasses:
    """Build the classes: tokens 0-2 of class 0, 3 common, 4-6 of class 1; tokens 0 and 4 are dominant."""
    P = np.zeros((2, 7))
    P[0, :3] = P[1, 4:] = DISTINCT
    P[:, COMMON] = COMMON_PROBABILITY
    return SequenceClasses(P, query=[0, 0], vocab_size=VOCAB_SIZE)


def compute(level: str) -> xarray.Dataset:
    """Integrate the mean field and find the times of the stages.

    Parameters
    ----------
    level : "quick" or "full"
        241 or 961 times on the logarithmic axis.

    Returns
    -------
    xarray.Dataset
        attention c_n(l) (time, class, token); stage_time (stage): 0; the time at which the common token has lost half
        of what it loses; the first saved time at which the dominant token has more attention than the common one; the
        last. Times in batch-size-1 steps.
    """
    time = np.concatenate([[0.0], np.geomspace(FIRST_TIME, LAST_TIME, POINTS[level])])
    attention = accurate_run(MeanField(classes(), ETA_Y, ETA_Z), time).attention
    common, dominant = attention[:, 0, COMMON], attention[:, 0, 0]
    half = int(np.argmax(common <= (common[0] + common[-1]) / 2))
    ahead = int(np.argmax(dominant > common))
    return xarray.Dataset(
        {
            "attention": (("time", "class", "token"), attention),
            "stage_time": ("stage", time[[0, half, ahead, -1]], CLOCK),
        },
        {"time": ("time", time, CLOCK), "token": np.arange(7), "stage": list(STAGES)},
        {"eta_Y": ETA_Y, "eta_Z": ETA_Z, "vocab_size": VOCAB_SIZE, **TOLERANCES},
    )


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw attention as bars at the four times, a row per class, and over time below."""
    figure = new_figure(DOUBLE_COLUMN, 4.6)
    grid = figure.add_gridspec(3, 4, height_ratios=[1, 1, 1.5])
    names = ["dominant", "distinct", "distinct", "common"]
    styles = [("C0", ""), ("C5", ""), ("C5", ""), ("C1", "////")]
    by_token = [0, 1, 2, 3, 0, 1, 2]
    highest = 1.1 * float(dataset.attention.max())
    for column, stage in enumerate(dataset.stage.values):
        time = dataset.stage_time.sel(stage=stage).item()
        for n in (0, 1):
            axes = figure.add_subplot(grid[n, column])
            values = dataset.attention.sel(time=time).isel({"class": n}).values
            for token, value in enumerate(values):
                color, hatch = styles[by_token[token]]
                axes.bar(token, value, 0.8, facecolor=color, hatch=hatch, edgecolor="white", linewidth=0)
            axes.set(ylim=(0, highest), xlim=(-0.6, 6.6))
            axes.set_xticks(range(7), [] if n == 0 else list("abc*def"))
            axes.tick_params(axis="x", length=0)
            if column:
                axes.set_yticklabels([])
            else:
                axes.set_ylabel(f"class {n}\n$c_n(l)$")
            if n == 0:
                axes.set_title(f"{column + 1}: {stage}\n$t$ = {time:.3g}")
    below = figure.add_subplot(grid[2, :])
    late = dataset.isel(time=slice(1, None))
    for token, style in ((0, "-"), (1, "--"), (2, ":"), (COMMON, "-.")):
        curve = late.attention.sel(token=token).isel({"class": 0})
        name = f"token {'abc*'[token]} ({names[token]})"
        below.plot(late.time, curve, style, color=styles[token][0], label=name)
    below.set(xscale="log", xlim=(FIRST_TIME, LAST_TIME), ylim=(0, None), xlabel=TIME_LABEL)
    below.set_ylabel("class 0: $c_0(l)$")
    for number, time in enumerate(dataset.stage_time.values[1:-1], start=2):
        below.axvline(time, color="0.5", linestyle=":", linewidth=0.8)
        label_above(below, time, f"{number}")
    below.legend(loc="upper right", ncols=2)
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check the order of the stages: the common token falls, the dominant one rises, then attention hardly moves."""
    attention = dataset.attention.isel({"class": 0})
    steps = attention.diff("time")
    lead = attention.sel(token=0) / attention.sel(token=1)
    decades = xarray.DataArray(np.geomspace(1, LAST_TIME, 6), dims="decade")
    moved = np.abs(attention.interp(time=decades).diff("decade")).max("token")
    return [
        Check("largest step of the common token", "mean field", float(steps.sel(token=COMMON).max()), 0.0),
        Check("smallest step of the dominant token", "mean field", float(steps.sel(token=0).min()), 0.0, ">="),
        Check("dominant token over the next one, end over start", "mean field", float(lead[-1] / lead[0]), 1.0, ">="),
        Check(
            "smallest time from a stage to the next",
            "mean field",
            float(dataset.stage_time.diff("stage").min()),
            1.0,
            ">=",
        ),
        Check(
            "movement in the last decade over that in the fastest",
            "mean field",
            float(moved[-1] / moved.max()),
            0.1,
        ),
        Check(
            "wrong theory: the same for the decade before the common token has lost half of what it loses",
            "mean field",
            float(moved[0] / moved.max()),
            0.1,
            role="control",
        ),
        Check(
            "wrong theory: that lead never falls back, end over largest",
            "mean field",
            float(lead[-1] / lead.max()),
            1.0,
            ">=",
            role="control",
        ),
        Check(
            "wrong theory: the common token stays the most attended, its smallest lead over the dominant one",
            "mean field",
            float((attention.sel(token=COMMON) - attention.sel(token=0)).min()),
            0.0,
            ">=",
            role="control",
        ),
    ]
