"""The words of a text that win and lose attention: a panel per class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.dynamics import TextClasses, Trajectory
from snapdyn.figures.layout import panel_grid
from snapdyn.figures.style import CIRCLES, DOUBLE_COLUMN
from snapdyn.validation.text_theorems import ROLES, winners_and_losers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 6
SHOWN_WORDS = 5  # of each kind in a panel
LONGEST_WORD = 14  # letters that fit beside the bars


def shown_classes(classes: TextClasses, count: int) -> list[int]:
    """Choose the most frequent classes with different next words whose query and next word consist of letters.

    If these are too few, classes that repeat a next word follow, then classes with other signs.
    """

    def spelt(n: int) -> bool:
        return all(classes.words[i].isalpha() for i in (classes.query[n], classes.next_token[n]))

    seen: set[int] = set()

    def repeats(n: int) -> bool:
        repeated = int(classes.next_token[n]) in seen
        seen.add(int(classes.next_token[n]))
        return repeated

    by_count = np.argsort(-classes.counts, kind="stable").tolist()
    return sorted(by_count, key=lambda n: 2 if not spelt(n) else 1 if repeats(n) else 0)[:count]


def words_dataset(run: Trajectory, classes: TextClasses) -> xarray.Dataset:
    """Collect attention at the start and the end, by panel (class) and rank: winners first, then losers, largest last.

    Parameters
    ----------
    run : Trajectory
        Run of these classes; times in batch-size-1 steps.
    classes : TextClasses

    Returns
    -------
    xarray.Dataset
        word, start, end, role (panel, rank), empty and NaN where a class has fewer; title, windows (panel).
    """
    moves = winners_and_losers(run, SHOWN_WORDS)
    chosen = shown_classes(classes, PANELS)
    shape = len(chosen), 2 * SHOWN_WORDS
    word, role = np.full(shape, "", dtype=object), np.full(shape, "", dtype=object)
    start, end = np.full(shape, np.nan), np.full(shape, np.nan)
    for panel, n in enumerate(chosen):
        winners, losers = moves[n]
        places = [*range(len(winners)), *range(2 * SHOWN_WORDS - len(losers), 2 * SHOWN_WORDS)]
        for place, move in zip(places, [*winners, *losers[::-1]], strict=True):
            word[panel, place], role[panel, place] = classes.words[move.token], ROLES[move.role]
            start[panel, place], end[panel, place] = move.start, move.end
    cells = ("panel", "rank")
    return xarray.Dataset(
        {
            "word": (cells, word),
            "role": (cells, role),
            "start": (cells, start),
            "end": (cells, end),
            "title": ("panel", np.array([classes.name(n) for n in chosen], dtype=object)),
            "windows": ("panel", classes.counts[chosen]),
        },
        attrs={**{key: float(value) for key, value in run.parameters.items()}, "t": float(run.t[-1])},
    )


def draw_words(dataset: xarray.Dataset) -> Figure:
    """Draw one panel per class: a line from the first (open) to the last attention (full) of each word."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    panels = dataset.sizes["panel"]
    figure, grid = panel_grid(DOUBLE_COLUMN, panels, least=2.2, height=1.95, rest=0.5, sharex=True)
    for panel, axes in zip(range(panels), grid.flat[:panels], strict=True):
        data = dataset.isel(panel=panel)
        start, end = 100 * data.start.values, 100 * data.end.values
        for rank in np.flatnonzero(np.isfinite(start)):
            wins = end[rank] > start[rank]
            color = "C0" if wins else "C1"
            axes.plot([start[rank], end[rank]], [rank, rank], color=color)
            axes.plot(start[rank], rank, color=color, **CIRCLES)
            axes.plot(end[rank], rank, "o", color=color)
        axes.set_yticks(range(start.size), [_short(word) for word in data.word.values])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(start.size - 0.3, -0.7)
        axes.axhline(SHOWN_WORDS - 0.5, color="0.8", linewidth=0.6)
        axes.set_xscale("log")
        axes.grid(axis="x")
        axes.set_title(f"… {data.title.item()} ({data.windows.item()} windows)", parse_math=False)
    shown = dataset[["start", "end"]].to_array().values * 100
    grid[0, 0].set_xlim(max(np.nanmin(shown) / 1.5, 1e-3), min(np.nanmax(shown) * 1.5, 100))
    # A decade or two: plain numbers read better than powers.
    grid[0, 0].xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    grid[0, 0].xaxis.set_major_formatter(FormatStrFormatter("%g"))
    grid[0, 0].xaxis.set_minor_locator(NullLocator())
    for axes in grid[-1]:
        axes.set_xlabel("attention $c_n(l)$ (%)")
    figure.suptitle(
        "words that win attention (above the line) and that lose it (below): open circle at t = 0, full at "
        f"t = {dataset.attrs['t']:.4g} steps",
        fontsize=8,
    )
    return figure


def _short(word: str) -> str:
    word = word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"
    return word.replace("$", r"\$")
