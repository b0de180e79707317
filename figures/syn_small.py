"""What the figures of Syn-Small share: settings, attention with gaps, and strips (iterations down, tokens across)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from snapdyn.dynamics import Trajectory, syn_small
from snapdyn.validation.published import FIGURE_4, FIGURE_4_ITERATIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

ITERATIONS = np.array(FIGURE_4_ITERATIONS)
SETUP = {name: FIGURE_4[name] for name in ("steps", "batch_size", "seq_len")}
SEEDS = {"quick": 10, "full": 100}
COMMON = np.arange(10)
# The most frequent distinct token of each class, the last of its ten.
DOMINANT = (19, 29)


def attention_of(run: Trajectory) -> np.ndarray:
    """Return attention c_n(l), (time, class, token), NaN for tokens that the class does not have."""
    P = syn_small().P.toarray()
    return np.where(P > 0, run.attention, np.nan)


def draw_strip(axes: Axes, strip: xarray.DataArray, **style: Any) -> QuadMesh:
    """Draw (iteration, token) as a grid of cells, the first iteration on top."""
    rows = np.arange(strip.sizes["iteration"])
    axes.set_facecolor("0.9")
    mesh = axes.pcolormesh(strip.token, rows, strip.transpose("iteration", "token"), shading="nearest", **style)
    axes.set_yticks(rows, [f"{i}" for i in strip.iteration.values])
    axes.set_ylim(rows[-1] + 0.5, -0.5)  # the first iteration on top
    axes.tick_params(length=0)
    first = np.arange(strip.token.values[0], strip.token.values[-1] + 1, 10)
    for edge in first[1:]:
        axes.axvline(edge - 0.5, color="white", linewidth=1.0)
    axes.set_xticks([*first, strip.token.values[-1]])
    return mesh
