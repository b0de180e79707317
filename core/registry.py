"""Registries: the entries of one kind by name, snapdyn's own and those of a user's file or an installed plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Any, Generic, TypeVar

from snapdyn.core.errors import InputError, shown

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
        Function that returns the name of an entry.
    entries : iterable, optional
        snapdyn's own entries: one static list for each kind, beside its code.
    entry_of : callable, optional
        Function that returns the entry for the object of a plugin's entry point; by default the object is the entry.
    """

    def __init__(
        self,
        kind: str,
        name_of: Callable[[Entry], str],
        entries: Iterable[Entry] = (),
        entry_of: Callable[[Any], Entry] | None = None,
    ) -> None:
        super().__init__()
        self.kind, self._name_of, self._entry_of = kind, name_of, entry_of
        self.declare(entries)
        _REGISTRIES.append(self)

    def declare(self, entries: Iterable[Entry]) -> None:
        """Make `entries` snapdyn's own entries, in this order and before all others; `restore` keeps them."""
        self.own: dict[str, Entry] = {self._name_of(entry): entry for entry in entries}
        self.restore({name: entry for name, entry in self.items() if name not in self.own})

    def restore(self, entries: Mapping[str, Entry]) -> None:
        """Keep snapdyn's own entries and `entries`, by name, and no others."""
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

    def load_named(self, names: Iterable[Any]) -> None:
        """Import the plugins that give entries of these names; known names, and names without a plugin, are ignored.

        A plugin is an entry point of an installed package, in the group snapdyn.systems, snapdyn.observables,
        snapdyn.claims or snapdyn.figures. Its name is that of the entry; its object is the entry, or a module that
        registers it. Importing it runs its code.

        Raises
        ------
        InputError
            The plugin cannot be imported, or gives no entry of its name.
        """
        for name in names:
            if isinstance(name, str) and name not in self and name in plugin_names(self.kind):
                self._load(name)

    def _load(self, name: str) -> None:
        point = _plugins(self.kind)[name]
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        try:
            loaded = point.load()
            if name not in self and not isinstance(loaded, ModuleType):
                self.add(self._entry_of(loaded) if self._entry_of else loaded)
        except Exception as error:  # whatever the code of somebody else raises
            raise InputError(
                f"expected the plugin {name!r} of {package} to load, received {type(error).__name__}: {error}; correct "
                "or uninstall it"
            ) from error
        if name not in self:
            raise InputError(
                f"expected the plugin {name!r} of {package} to give a {self.kind} of this name, received none; ask its "
                "authors"
            )


def registries() -> tuple[Registry[Any], ...]:
    """Every registry of the modules imported so far."""
    return tuple(_REGISTRIES)


@cache
def _plugins(kind: str) -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=f"snapdyn.{kind}s")}


def plugin_names(kind: str) -> tuple[str, ...]:
    """Names of the entries of one kind that installed plugins give; none of them is imported."""
    return tuple(_plugins(kind))


def plugin_versions() -> list[str]:
    """Name and version of each package with plugins; the hash of results that may depend on plugins includes them."""
    points = [point for kind in ("system", "observable", "claim", "figure") for point in _plugins(kind).values()]
    return sorted({f"{point.dist.name} {point.dist.version}" for point in points if point.dist})
