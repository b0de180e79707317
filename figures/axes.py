"""Axes that several pictures share: ticks of logarithmic axes, edges of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics.classes import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def readable_ticks(axes: Axes, edges: tuple[Sequence[float] | Floats, Sequence[float] | Floats]) -> None:
    """Label both axes as `readable_axis` does."""
    for axis, edge in zip((axes.xaxis, axes.yaxis), edges, strict=True):
        readable_axis(axis, edge)


def readable_axis(axis: Axis, edge: Sequence[float] | Floats) -> None:
    """Label 1, 2, 5 on a logarithmic axis of less than three decades, powers of ten on a longer one."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if axis.get_scale() != "log":
        return
    if edge[-1] < 1e3 * edge[0]:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def cell_edges(points: Floats, scale: str) -> Floats:
    """Return the edges of the cells around grid points, halfway between neighbours on the axis ("log" or "linear")."""
    place = np.log(points) if scale == "log" else np.asarray(points, dtype=float)
    if place.size == 1:
        edges = np.array([place[0] - 0.5, place[0] + 0.5])
    else:
        middle = (place[1:] + place[:-1]) / 2
        edges = np.concatenate([[2 * place[0] - middle[0]], middle, [2 * place[-1] - middle[-1]]])
    return np.exp(edges) if scale == "log" else edges


def label_above(axes: Axes, x: float, text: str, side: str = "center", **style: Any) -> None:
    """Write a text on the upper edge of the axes, above x; `side` is matplotlib's horizontal alignment."""
    axes.annotate(text, (x, 1), xycoords=("data", "axes fraction"), ha=side, va="bottom", **style)
