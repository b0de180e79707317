"""The one style of all figures, and the sizes of the printed page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

STYLE = "snapdyn.figures.snapdyn"
SINGLE_COLUMN, DOUBLE_COLUMN = 3.4, 7.0  # inches


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save in the project's style, whatever the user's own matplotlib settings are."""
    import matplotlib.style

    with matplotlib.style.context(STYLE, after_reset=True):
        yield
