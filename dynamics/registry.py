"""Registries: the entries of one kind by name, ours and those that a user's file adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from snapdyn.errors import InputError, shown, unknown_name

Entry = TypeVar("Entry")

# Every registry of the program, so that a user's file that fails can be taken back whatever it registered.
_REGISTRIES: list[Registry[Any]] = []


class Registry(dict[str, Entry], Generic[Entry]):
    """Entries of one kind by name, in the order in which they were added.

    Parameters
    ----------
    kind : str
        What an entry is, for messages: "system", "figure".
    name_of : callable
        From an entry to its name.
    entries : iterable, optional
        Our own entries. Each kind has one static list of them, beside its code.
    """

    def __init__(self, kind: str, name_of: Callable[[Entry], str], entries: Iterable[Entry] = ()) -> None:
        super().__init__()
        self.kind, self._name_of = kind, name_of
        self.declare(entries)
        _REGISTRIES.append(self)

    def declare(self, entries: Iterable[Entry]) -> None:
        """Make `entries` our own entries, in this order and before all others; they survive `restore`."""
        self.own: dict[str, Entry] = {self._name_of(entry): entry for entry in entries}
        self.restore({name: entry for name, entry in self.items() if name not in self.own})

    def restore(self, entries: Mapping[str, Entry]) -> None:
        """Hold our own entries and `entries` by name, and no others."""
        entries = {**self.own, **entries}
        self.clear()
        self.update(entries)

    def add(self, entry: Entry) -> Entry:
        """Add an entry under its name.

        Raises
        ------
        InputError
            The name is taken.
        """
        name = self._name_of(entry)
        if name in self:
            raise InputError(
                f"expected a new name for a {self.kind}, received {shown(name)}, which is taken; choose another"
            )
        self[name] = entry
        return entry

    def find(self, name: str) -> Entry:
        """Return the entry of this name; InputError with the nearest name where there is none."""
        if name not in self:
            raise unknown_name(f"the {self.kind}", name, self)
        return self[name]


def registries() -> tuple[Registry[Any], ...]:
    """Every registry of the modules imported so far."""
    return tuple(_REGISTRIES)
