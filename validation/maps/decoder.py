"""Map of a statement about the decoder alone, over two of eta_Y, V and the number of steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn.validation.design import over_grid
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.search.instance import Instance

# Label of each axis, and its values.
AXES = {
    "eta_Y": ("eta_Y", lambda points: np.geomspace(1e-3, 1e3, points)),
    "vocab_size": ("V", lambda points: np.geomspace(4, 1e6, points).round()),
    "t_end": ("t (batch-size-1 steps)", lambda points: np.geomspace(10, 1e6, points)),
}


def decoder_map(prop: Property, title: str, full: bool, axes: tuple[str, str] = ("eta_Y", "vocab_size")) -> Map:
    """Margin of `prop` with the other sign on two equal classes; off the axes eta_Y = 1, V = 1000, t = 1e4."""
    base = Instance(np.eye(2), np.zeros(2, int), np.ones(2), 1000, 1.0, 1.0, 1e4)
    (xlabel, x), (ylabel, y) = ((label, values(25 if full else 13)) for label, values in (AXES[name] for name in axes))

    def violation(**cell: float) -> float | None:
        measured = prop.measure(replace(base, **cell))  # type: ignore[arg-type]
        return None if measured is None else -measured.margin

    grid = over_grid(violation, {axes[1]: y, axes[0]: x})
    return Map(title, xlabel, ylabel, f"{prop.name}, less its bound", x, y, grid, 0.0, scale="linear")


def decoder_picture(prop: Property) -> Picture:
    """Rows of the map over the number of steps and eta_Y: small, middle and large rates."""
    found = decoder_map(prop, prop.name, False, ("t_end", "eta_Y"))
    rows = [Picture.line(f"eta_Y = {found.y[k]:.1g}", found.x, found.violation[k]) for k in (0, 6, 9)]
    rows.append(Picture.line("bound", found.x, 0 * found.x, "bound"))
    return Picture(found.xlabel, found.quantity, tuple(rows), yscale="symlog")
