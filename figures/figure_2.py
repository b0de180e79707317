"""Figure 2: the four stages of attention, on a trajectory of the mean field."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.core.errors import InputError
from snapdyn.dynamics import SequenceClasses
from snapdyn.figures.declaration import AttentionRate, DecoderRate, VocabSize, statement
from snapdyn.figures.panels import fitting_columns, folded_grid, label_above, letter_panels
from snapdyn.figures.style import (
    CLOCK,
    DOUBLE_COLUMN,
    TIME_LABEL,
    Axes,
    Figure,
    new_figure,
    power_of_ten,
    text_scale,
    thin_dotted,
)
from snapdyn.validation.rungs.run import MEAN_FIELD, TOLERANCES, run_on_rung

TITLE = "The four stages of attention"
CAPTION = (
    "Attention of two classes of one query in the mean field, K = 2, V = 100, eta_Y = eta_Z = 1. Tokens a-c are "
    "distinct tokens of class 0, d-f of class 1; token * is common and starts with attention 0.6. Stage 1: start. "
    "Stage 2: the common token has lost half of what it loses in the whole run. Stage 3: the dominant token passes "
    "the common one. Stage 4: t = 1e5; attention moves slowly, and the common token still falls. The dominant token's "
    "lead over the next distinct token rises from 1.67 to 1.79 and comes back to 1.75: at eta_Z = eta_Y the decoder "
    "of the mean field remembers earlier attention; the decoder of Eq. (10) does not."
)

# Two classes of one query: three distinct tokens each and one common token, the most frequent of all. How the distinct
# tokens share what the common one leaves:
SHARES = np.array([0.2, 0.12, 0.08])
FIRST_TIME = 0.1
POINTS = {"quick": 241, "full": 961}
COMMON = 3
STAGES = ("start", "common token suppressed", "dominant tokens ahead", "slow movement")


def classes(vocab_size: int, common_probability: float) -> SequenceClasses:
    """Build the classes: tokens 0-2 of class 0, 3 common, 4-6 of class 1; tokens 0 and 4 are dominant."""
    P = np.zeros((2, 7))
    P[0, :3] = P[1, 4:] = SHARES * ((1 - common_probability) / 0.4)
    P[:, COMMON] = common_probability
    return SequenceClasses(P, query=[0, 0], vocab_size=vocab_size)


def compute(
    level: str,
    eta_Y: DecoderRate = 1.0,
    eta_Z: AttentionRate = 1.0,
    vocab_size: VocabSize = 100,
    common_probability: Annotated[float, Field(gt=0, le=0.95, description="of the common token")] = 0.6,
    last_time: Annotated[float, Field(ge=100, description="end of the run, batch-size-1 steps")] = 1e5,
) -> xarray.Dataset:
    """Integrate the mean field and find the times of the stages.

    Parameters
    ----------
    level : "quick" or "full"
        241 or 961 times on the logarithmic axis.
    eta_Y, eta_Z, vocab_size, common_probability, last_time
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        attention c_n(l) (time, class, token); stage_time (stage): 0; the time at which the common token has lost half
        of what it loses in the whole run; the first saved time at which the dominant token has more attention than the
        common one; the last time. Times in batch-size-1 steps.
    """
    time = np.concatenate([[0.0], np.geomspace(FIRST_TIME, last_time, POINTS[level])])
    attention = run_on_rung(
        MEAN_FIELD, classes(vocab_size, common_probability), eta_Y, eta_Z, time, **TOLERANCES
    ).attention
    common, dominant = attention[:, 0, COMMON], attention[:, 0, 0]
    half = int(np.argmax(common <= (common[0] + common[-1]) / 2))
    if dominant[-1] <= common[-1]:
        raise InputError(
            "expected the dominant token to pass the common one by last_time, received last_time = "
            f"{last_time:g}, at which the dominant token has attention {dominant[-1]:.3g} and the common one "
            f"{common[-1]:.3g}; give a later one, or rates nearer to each other"
        )
    ahead = int(np.argmax(dominant > common))
    return xarray.Dataset(
        {
            "attention": (("time", "class", "token"), attention),
            "stage_time": ("stage", time[[0, half, ahead, -1]], CLOCK),
        },
        {"time": ("time", time, CLOCK), "token": np.arange(7), "stage": list(STAGES)},
        TOLERANCES,
    )


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw attention as bars at the four times, a row per class, and over time below."""
    columns = fitting_columns(width, 4, 1.3)
    blocks = 4 // columns
    figure = new_figure(width, 1.9 + 1.9 * blocks + 0.8 / blocks)
    parts: Any = figure.subfigures(2, 1, height_ratios=[2.1 * blocks, 2.3])
    bars, curves = parts
    grid = folded_grid(bars, 2, 4, columns, sharex=True, sharey=True)
    grid[0, 0].set_ylim(0, 1.1 * float(dataset.attention.max()))
    grid[0, 0].set_xlim(-0.6, 6.6)
    for number, stage in enumerate(dataset.stage.values):
        time = dataset.stage_time.sel(stage=stage).item()
        for n, axes in enumerate(grid[:, number]):
            _draw_bars(axes, dataset.attention.sel(time=time).isel({"class": n}).values)
            if number % columns == 0:
                axes.set_ylabel(f"class {n}\n$c_n(l)$")
        grid[0, number].set_title(f"stage {number + 1}: {stage}, $t$ = {power_of_ten(time)}")
    for axes in grid[-1, -columns:]:
        axes.set_xlabel("token $l$")
    below = curves.subplots()
    _draw_curves(below, dataset)
    letter_panels(grid[0])
    # Above the numbers of the stages.
    below.set_title("(e) stages 1 to 4 over time", loc="left", pad=14 * text_scale())
    curves.legend(loc="outside lower center", ncols=fitting_columns(width, 4, 1.6))
    return figure


NAMES = ("dominant", "distinct", "distinct", "common")
STYLES = (("C0", ""), ("C5", ""), ("C5", ""), ("C1", "////"))


def _draw_bars(axes: Axes, values: np.ndarray) -> None:
    for token, value in enumerate(values):
        color, hatch = STYLES[token % 4]
        axes.bar(token, value, 0.8, facecolor=color, hatch=hatch, edgecolor="white", linewidth=0)
    axes.set_xticks(range(7), list("abc*def"))
    axes.tick_params(axis="x", length=0)


def _draw_curves(axes: Axes, dataset: xarray.Dataset) -> None:
    late = dataset.isel(time=slice(1, None))
    first, last = late.time.values[[0, -1]]
    for token, style in ((0, "-"), (1, "--"), (2, ":"), (COMMON, "-.")):
        curve = late.attention.sel(token=token).isel({"class": 0})
        axes.plot(late.time, curve, style, color=STYLES[token][0], label=f"{'abc*'[token]} ({NAMES[token]})")
    axes.set(xscale="log", xlim=(first, last), ylim=(0, None), xlabel=TIME_LABEL)
    axes.set_ylabel("class 0: $c_0(l)$")
    # t = 0 has no place on a logarithmic axis: stage 1 is its left end.
    for number, time in enumerate([first, *dataset.stage_time.values[1:]], start=1):
        if 1 < number < 4:
            axes.axvline(time, color="0.5", **thin_dotted())
        label_above(axes, time, f"{number}")


def _attention(dataset: xarray.Dataset) -> xarray.DataArray:
    """Attention of class 0 (time, token)."""
    return dataset.attention.isel({"class": 0})


def _lead(dataset: xarray.Dataset) -> xarray.DataArray:
    """Attention of the dominant token, divided by that of the second distinct token, (time,)."""
    return _attention(dataset).sel(token=0) / _attention(dataset).sel(token=1)


def _moved(dataset: xarray.Dataset) -> xarray.DataArray:
    """Movement of attention by decade (largest over tokens), divided by that in the fastest decade."""
    decades = xarray.DataArray(np.geomspace(1, dataset.time.values[-1], 6), dims="decade")
    moved = abs(_attention(dataset).interp(time=decades).diff("decade")).max("token")
    return moved / moved.max()


PROPERTIES = (
    statement(
        "largest step of the common token",
        "mean field",
        lambda dataset: _attention(dataset).diff("time").sel(token=COMMON).max(),
        at_most=0.0,
    ),
    statement(
        "smallest step of the dominant token",
        "mean field",
        lambda dataset: _attention(dataset).diff("time").sel(token=0).min(),
        at_least=0.0,
        wrong={
            "the common token stays the most attended, its smallest lead over the dominant one": (
                lambda dataset: (_attention(dataset).sel(token=COMMON) - _attention(dataset).sel(token=0)).min()
            )
        },
    ),
    statement(
        "dominant token over the next one, end over start",
        "mean field",
        lambda dataset: _lead(dataset)[-1] / _lead(dataset)[0],
        at_least=1.0,
        wrong={
            "the lead never falls back, end over largest": lambda dataset: _lead(dataset)[-1] / _lead(dataset).max()
        },
    ),
    statement(
        "smallest time from a stage to the next",
        "mean field",
        lambda dataset: dataset.stage_time.diff("stage").min(),
        at_least=1.0,
    ),
    statement(
        "movement in the last decade over that in the fastest",
        "mean field",
        lambda dataset: _moved(dataset)[-1],
        at_most=0.1,
        wrong={
            "movement in the decade before the common token has lost half of what it loses": (
                lambda dataset: _moved(dataset)[0]
            )
        },
    ),
)
GENERAL = tuple(prop.name for prop in PROPERTIES[:2])
