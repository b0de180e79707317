"""Attention over time as a film: a GIF, or an MP4 where ffmpeg is installed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from snapdyn.errors import InputError
from snapdyn.figures.style import new_figure, text_scale
from snapdyn.figures.syn_small import COMMON

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

FRAMES_PER_SECOND = 12
DOTS_PER_INCH = 100


def ffmpeg_program() -> str | None:
    """Return the path of ffmpeg, on the PATH or of the package imageio-ffmpeg; None where there is neither."""
    found = which("ffmpeg")
    if found is None:
        try:
            found = str(import_module("imageio_ffmpeg").get_ffmpeg_exe())
        except (ImportError, RuntimeError):  # the package, or a program for this machine in it
            return None
    return found


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


def write_film(dataset: xarray.Dataset, path: Path) -> None:
    """Write the frames as a GIF or MP4, by the ending of `path`, both rates side by side.

    Parameters
    ----------
    dataset : xarray.Dataset
        attention (eta_Y, time, token); time in batch-size-1 steps.
    path : Path
        Ends with .gif or .mp4.

    Raises
    ------
    InputError
        An MP4 where ffmpeg is not installed.
    """
    import matplotlib
    from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter

    film = path.suffix == ".mp4"
    program = ffmpeg_program() if film else ""
    if program is None:
        raise InputError(
            f"expected ffmpeg to write {path.name}, received no such program; install it, or imageio-ffmpeg with pip, "
            "or write a GIF"
        )
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
    animation = FuncAnimation(figure, show, frames=dataset.sizes["time"])
    settings: Any = {"animation.ffmpeg_path": program} if film else {}
    with matplotlib.rc_context(settings):
        writer = (FFMpegWriter if film else PillowWriter)(fps=FRAMES_PER_SECOND)
        animation.save(path, writer=writer, dpi=DOTS_PER_INCH)
