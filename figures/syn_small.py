"""What the figures of Syn-Small share: settings, attention with gaps, and strips (iterations down, tokens across)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from snapdyn.dynamics import Trajectory, syn_small
from snapdyn.figures.layout import legend_above
from snapdyn.figures.style import line_width, note_size
from snapdyn.validation.published import FIGURE_4, FIGURE_4_ITERATIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

ITERATIONS = np.array(FIGURE_4_ITERATIONS)
SETUP = {name: FIGURE_4[name] for name in ("steps", "batch_size", "seq_len")}
SEEDS = {"quick": 10, "full": 100}
COMMON = np.arange(10)
# First token of each group of ten, and what it is: common to both classes, or distinct, of one class.
GROUPS = ((0, "common"), (10, "distinct of class 0"), (20, "distinct of class 1"))
BREAK = 0.5  # rows that a break of the axis of iterations takes
# The most frequent distinct token of each class, the last of its ten.
DOMINANT = (19, 29)


def attention_of(run: Trajectory) -> np.ndarray:
    """Return attention c_n(l), (time, class, token), NaN for tokens that the class does not have."""
    P = syn_small().P.toarray()
    return np.where(P > 0, run.attention, np.nan)


def draw_strip(axes: Axes, strip: xarray.DataArray, **style: Any) -> QuadMesh:
    """Draw (iteration, token) as a grid of cells, the first iteration on top.

    A white line breaks the axis where iterations are left out. Grey cells: tokens that the class does not have.
    """
    iterations = strip.iteration.values
    steps = np.diff(iterations)
    # Each break moves all later rows down.
    breaks = np.concatenate([[0], np.cumsum(steps > 2 * steps.min())]) if steps.size else np.zeros(1, dtype=int)
    rows = np.arange(iterations.size) + BREAK * breaks
    axes.set_facecolor("0.85")
    tokens = strip.token.values
    for part in np.unique(breaks):
        shown = strip.isel(iteration=breaks == part).transpose("iteration", "token")
        place = rows[breaks == part]
        edges = np.append(place - 0.5, place[-1] + 0.5)
        mesh = axes.pcolormesh(np.append(tokens - 0.5, tokens[-1] + 0.5), edges, shown, **style)
        if part:
            axes.axhspan(edges[0] - BREAK, edges[0], color="white", zorder=3, clip_on=False)
    axes.spines["left"].set_visible(False)
    axes.set_yticks(rows[::2], [f"{i}" for i in iterations[::2]])
    axes.set_ylim(rows[-1] + 0.5, -0.5)
    axes.tick_params(length=0)
    groups = [group for group in GROUPS if group[0] <= tokens[-1]]
    for first, _ in groups[1:]:
        axes.axvline(first - 0.5, color="white", linewidth=line_width(1.0))
    axes.set_xticks([first for first, _ in groups])
    axes.tick_params(axis="x", length=2)
    return mesh


def groups_legend(figure: Figure, settings: str, absent: bool = True) -> None:
    """Write settings, the groups of tokens, and the meaning of grey above the panels."""
    from matplotlib.patches import Patch

    names = ", ".join(f"{first}–{first + 9} {name}" for first, name in GROUPS[: 3 if absent else 2])
    text = f"{settings}; tokens: {names}"
    if not absent:
        figure.suptitle(text, fontsize=note_size())
        return
    handle = Patch(facecolor="0.85", label="token not in this class")
    legend_above(figure, [handle], title=text)
