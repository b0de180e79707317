"""What systems of the same classes have in common, such as layouts and symmetries, kept with the classes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

Made = TypeVar("Made")


class Kept:
    """The last thing of each kind that was made from some classes and a start.

    It is not copied with its owner: pickles and deep copies are empty.

    Examples
    --------
    >>> kept = Kept()
    >>> kept.get_or_make("square", b"start", lambda: 3**2)
    9
    >>> kept.get_or_make("square", b"start", lambda: 4**2), kept.get_or_make("square", b"other start", lambda: 4**2)
    (9, 16)
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[bytes, object]] = {}

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()

    def clear(self) -> None:
        """Forget everything."""
        self._last.clear()

    def get_or_make(self, kind: Hashable, start: bytes, make: Callable[[], Made]) -> Made:
        """What was made of this kind from this start, or what `make` now makes.

        Two threads that ask at the same time may both make it; what they make must be equal.
        """
        known = self._last.get(kind)
        if known is None or known[0] != start:
            known = self._last[kind] = (start, make())
        return known[1]  # type: ignore[return-value]  # of this kind
