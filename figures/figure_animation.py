"""Attention on Syn-Small over time: a strip of frames and a GIF."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.dynamics import syn_small
from snapdyn.dynamics.files.storage import replacing
from snapdyn.figures.declaration import AttentionRate, Rate, TwoDecoderRates, statement
from snapdyn.figures.layout import fitting_columns, folded_grid, letter_panels
from snapdyn.figures.shared_runs import COMMON, DOMINANT, RAREST
from snapdyn.figures.style import CLOCK, DOUBLE_COLUMN, new_figure, text_scale
from snapdyn.validation.rungs.run import MEAN_FIELD, TOLERANCES, run_on_rung

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

TITLE = "Attention on Syn-Small over time, animated"
CAPTION = (
    "Attention of class 0 in the mean field, eta_Y = 1 and 10, eta_Z = 1, at times evenly spaced on a logarithmic "
    "axis; as a strip of frames for print and as a GIF. Per step, attention comes to rest. On a logarithmic clock it "
    "keeps moving: at eta_Y = 10 and t = 1e5, the largest change of a token from frame to frame is still 0.34 of its "
    "largest value."
)

FIRST_TIME = 1.0
FRAMES = {"quick": 60, "full": 120}
TOKENS = 20  # of class 0: common 0-9, distinct 10-19
STRIP = 4  # frames in the printed strip
FRAMES_PER_SECOND = 12
DOTS_PER_INCH = 100  # of the GIF


def compute(
    level: str,
    eta_Y: TwoDecoderRates[Rate] = (1.0, 10.0),
    eta_Z: AttentionRate = 1.0,
    last_time: Annotated[float, Field(ge=10, description="end of the run, batch-size-1 steps")] = 1e5,
) -> xarray.Dataset:
    """Integrate the mean field for both decoder rates.

    Parameters
    ----------
    level : "quick" or "full"
        60 or 120 frames.
    eta_Y, eta_Z, last_time
        As in the annotations.

    Returns
    -------
    xarray.Dataset
        attention c_0(l) (eta_Y, time, token) of class 0; times 0 and then log-spaced, in batch-size-1 steps.
    """
    time = np.concatenate([[0.0], np.geomspace(FIRST_TIME, last_time, FRAMES[level] - 1)])
    runs = [run_on_rung(MEAN_FIELD, syn_small(), rate, eta_Z, time, **TOLERANCES) for rate in eta_Y]
    return xarray.Dataset(
        {"attention": (("eta_Y", "time", "token"), np.array([run.attention[:, 0, :TOKENS] for run in runs]))},
        {
            "eta_Y": np.array(eta_Y),
            "time": ("time", time, CLOCK),
            "token": np.arange(TOKENS),
        },
        {"eta_Z": eta_Z, "vocab_size": syn_small().vocab_size, **TOLERANCES},
    )


def clock_text(time: float) -> str:
    """Write a time as mathtext, three digits in groups of three: 43.4, 1 890, 100 000.

    Examples
    --------
    >>> clock_text(43.42), clock_text(1887.4), clock_text(1e5)
    ('43.4', '$1\\\\,890$', '$100\\\\,000$')
    """
    rounded = float(f"{time:.3g}")
    return f"{rounded:g}" if rounded < 1000 else f"${rounded:,.0f}$".replace(",", "\\,")


def bars(axes: Axes, attention: xarray.DataArray, highest: float) -> BarContainer:
    """Draw attention over tokens (token,), common ones hatched."""
    common = np.isin(attention.token, COMMON)
    drawn = axes.bar(
        attention.token,
        attention,
        0.8,
        color=np.where(common, "C1", "C0"),
        hatch=["////" if c else "" for c in common],
        edgecolor="white",
        linewidth=0,
    )
    count = attention.sizes["token"]
    axes.set(ylim=(0, 1.05 * highest), xlim=(-0.7, count - 0.3))
    axes.set_xticks([0, len(COMMON), count - 1])
    return drawn


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a strip of frames, a row per rate, for print."""
    columns = fitting_columns(width, STRIP, 1.3)
    blocks, rates = -(-STRIP // columns), dataset.sizes["eta_Y"]
    figure = new_figure(width, 0.4 + 1.2 * blocks * rates)
    shown = np.linspace(0, dataset.sizes["time"] - 1, STRIP).round().astype(int)
    grid = folded_grid(figure, rates, STRIP, columns, sharex=True, sharey=True)
    for number, frame in enumerate(shown):
        for axes, eta_Y in zip(grid[:, number], dataset.eta_Y.values, strict=True):
            bars(axes, dataset.attention.sel(eta_Y=eta_Y).isel(time=frame), float(dataset.attention.max()))
            if number % columns == 0:
                axes.set_ylabel(f"$\\eta_Y$ = {eta_Y:g}\n$c_0(l)$")
        grid[0, number].set_title(f"$t$ = {clock_text(dataset.time.values[frame])}")
    letter_panels(grid[0])
    for axes in grid[-1, -columns:]:
        axes.set_xlabel(f"token (0\N{EN DASH}{len(COMMON) - 1} common)")
    return figure


def animate(dataset: xarray.Dataset) -> FuncAnimation:
    """Draw every frame, with a panel for each rate and the time as the title."""
    from matplotlib.animation import FuncAnimation

    figure = new_figure(6.0 * text_scale(), 2.4, dpi=DOTS_PER_INCH)
    highest = float(dataset.attention.max())
    panels = figure.subplots(1, dataset.sizes["eta_Y"], sharey=True)
    drawn = []
    for axes, eta_Y in zip(panels, dataset.eta_Y.values, strict=True):
        drawn.append(bars(axes, dataset.attention.sel(eta_Y=eta_Y).isel(time=0), highest))
        axes.set_title(f"$\\eta_Y$ = {eta_Y:g}")
        axes.set_xlabel(f"token (0\N{EN DASH}{len(COMMON) - 1} common)")
    panels[0].set_ylabel("attention $c_0(l)$")
    clock = figure.suptitle("")

    def show(frame: int) -> None:
        for container, eta_Y in zip(drawn, dataset.eta_Y.values, strict=True):
            for bar, height in zip(container, dataset.attention.sel(eta_Y=eta_Y).isel(time=frame).values, strict=True):
                bar.set_height(height)
        clock.set_text(f"$t$ = {clock_text(dataset.time.values[frame])} batch-size-1 steps")

    show(0)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # panels that moved with the letters of the clock would jump
    return FuncAnimation(figure, show, frames=dataset.sizes["time"])


def write_extras(dataset: xarray.Dataset, folder: Path, name: str) -> list[Path]:
    """Write NAME.gif."""
    from matplotlib.animation import PillowWriter

    path = folder / f"{name}.gif"
    with replacing(path) as temporary, TemporaryDirectory() as scratch:  # the writer takes the format from the name
        drawn = Path(scratch) / path.name
        animate(dataset).save(drawn, writer=PillowWriter(fps=FRAMES_PER_SECOND), dpi=DOTS_PER_INCH)
        temporary.write_bytes(drawn.read_bytes())
    return [path]


def _steps(dataset: xarray.Dataset) -> xarray.DataArray:
    return dataset.attention.diff("time")


def _pace(dataset: xarray.Dataset, clock: xarray.DataArray | float) -> xarray.DataArray:
    """Movement per unit of a clock, end over largest."""
    speed = abs(_steps(dataset)).max("token") / clock
    return (speed.isel(time=-1) / speed.max("time")).max()


PROPERTIES = (
    statement(
        "sum of attention from 1",
        "mean field",
        lambda dataset: np.abs(dataset.attention.sum("token") - 1).max(),
        at_most=1e-12,
    ),
    statement(
        "largest step of a common token",
        "mean field",
        lambda dataset: _steps(dataset).sel(token=COMMON).max(),
        at_most=0.0,
    ),
    statement(
        "smallest step of the dominant token",
        "mean field",
        lambda dataset: _steps(dataset).sel(token=DOMINANT[0]).min(),
        at_least=0.0,
        wrong={
            "every distinct token gains attention, smallest step of the rarest": (
                lambda dataset: _steps(dataset).sel(token=RAREST).min()
            )
        },
    ),
    statement(
        "movement per batch-size-1 step, end over largest: it freezes",
        "mean field",
        lambda dataset: _pace(dataset, dataset.time.diff("time")),
        at_most=1e-3,
        wrong={
            "it freezes on a logarithmic clock too, movement per frame, end over largest": (
                lambda dataset: _pace(dataset, 1.0)
            )
        },
    ),
)
GENERAL = tuple(prop.name for prop in PROPERTIES[:3])
