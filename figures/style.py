"""The style that all figures share, and the widths of the printed page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = "snapdyn.figures.snapdyn"
SINGLE_COLUMN, DOUBLE_COLUMN = 3.4, 7.0  # inches
# The time of theory: attributes of data, label of an axis.
CLOCK = {"units": "batch-size-1 steps"}
TIME_LABEL = "$t$ (batch-size-1 steps)"


@contextmanager
def house_style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Draw and save in the project's style with `changes`, whatever the user's own matplotlib settings."""
    import matplotlib.style

    with matplotlib.style.context([STYLE, dict(changes or {})], after_reset=True):
        yield


def new_figure(width: float, height: float, dpi: float | None = None) -> Figure:
    """Return an empty figure of this size in inches.

    matplotlib is loaded here, at the first drawing, so that the register of figures can be read without it.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=dpi)
