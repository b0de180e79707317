"""The one style of all figures, and the sizes of the printed page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

STYLE = "snapdyn.figures.snapdyn"
SINGLE_COLUMN, DOUBLE_COLUMN = 3.4, 7.0  # inches


@contextmanager
def house_style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Draw and save in the project's style with `changes`, whatever the user's own matplotlib settings."""
    import matplotlib.style

    with matplotlib.style.context([STYLE, dict(changes or {})], after_reset=True):
        yield
