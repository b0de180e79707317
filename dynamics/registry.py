"""Registries: the entries of one kind by name, ours and those that a user's file adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from snapdyn.errors import InputError, unknown_name

Entry = TypeVar("Entry")


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
        for entry in entries:
            self.add(entry)

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
                f"expected a new name for a {self.kind}, received {name!r}, which is taken; choose another"
            )
        self[name] = entry
        return entry

    def find(self, name: str) -> Entry:
        """Return the entry of this name; InputError with the nearest name where there is none."""
        if name not in self:
            raise unknown_name(f"the {self.kind}", name, self)
        return self[name]
