"""What the claims on approximations share: conditions of the modified flow, and a picture of measured numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, OVERLAPPING, OWN_NEXT_TOKENS, SEVERAL_CLASSES
from snapdyn.validation.statement import Picture

MODIFIED_FLOW = (OWN_NEXT_TOKENS, SEVERAL_CLASSES, OVERLAPPING, INDEPENDENT_ATTENTION)


def picture_of(
    xlabel: str,
    x: Floats,
    ylabel: str,
    measures: Mapping[str, Callable[[Any], Any]],
    at: Callable[[float], Any] = float,
) -> Picture:
    """Picture of measures by name, each on the instances at(value) of the values x (N,)."""
    lines = [Picture.line(name, x, [of(at(each)).value for each in x], "simulation") for name, of in measures.items()]
    return Picture(xlabel, ylabel, tuple(lines), yscale="symlog")
