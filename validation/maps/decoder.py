"""Map of a statement about the decoder alone, over two of eta_Y, V and the number of steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn.validation.design import over_grid
from snapdyn.validation.pictures import Map
from snapdyn.validation.properties import Property
from snapdyn.validation.search.instance import Instance

RANGES = {"eta_Y": (1e-3, 1e3), "vocab_size": (4, 1e6), "t_end": (10.0, 1e6)}
LABELS = {"eta_Y": "eta_Y", "vocab_size": "V", "t_end": "t (batch-size-1 steps)"}


def decoder_map(prop: Property, title: str, full: bool, axes: tuple[str, str] = ("eta_Y", "vocab_size")) -> Map:
    """Margin of `prop` with the other sign on two equal classes; off the axes eta_Y = 1, V = 1000, t = 1e4."""
    base = Instance(np.eye(2), np.zeros(2, int), np.ones(2), 1000, 1.0, 1.0, 1e4)
    x, y = (np.geomspace(*RANGES[name], 25 if full else 13) for name in axes)
    if "vocab_size" in axes:
        x, y = (np.unique(np.round(v)) if name == "vocab_size" else v for name, v in zip(axes, (x, y), strict=True))

    def violation(**values: float) -> float | None:
        whole = {name: int(value) if name == "vocab_size" else value for name, value in values.items()}
        measured = prop.measure(replace(base, **whole))  # type: ignore[arg-type]
        return None if measured is None else -measured.margin

    grid = over_grid(violation, {axes[1]: y, axes[0]: x})
    return Map(title, LABELS[axes[0]], LABELS[axes[1]], f"{prop.name}, over its bound", x, y, grid, 0.0, scale="linear")
