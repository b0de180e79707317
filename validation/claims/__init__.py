"""The claims: a folder per chapter, a file per claim. Take the filled register from here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from snapdyn.dynamics.files.user_files import load_file
from snapdyn.errors import FORGOTTEN, InputError, list_of, shown, suggest
from snapdyn.validation.claims import (
    approximations,
    attention,
    concentration,
    correlation,
    decoder,
    extensions,
    gradient,
    reproduction,
    transition,
)
from snapdyn.validation.register import CLAIMS, Claim, claim

__all__ = ["CLAIMS", "chosen_claims", "claim", "load_claims"]

# The order of the register.
CHAPTERS = (
    gradient,
    decoder,
    concentration,
    correlation,
    attention,
    transition,
    approximations,
    extensions,
    reproduction,
)
CLAIMS.declare(
    replace(module.CLAIM, chapter=chapter.__name__.rpartition(".")[2])
    for chapter in CHAPTERS
    for module in chapter.MODULES
)


def names_of_claims() -> list[str]:
    """Ids of all claims, and their chapters."""
    return [*CLAIMS, *dict.fromkeys(entry.chapter for entry in CLAIMS.values() if entry.chapter)]


def chosen_claims(only: str | Iterable[str] | None) -> list[Claim]:
    """Claims that ids and groups name (None: all), in the register's order.

    A name is an id; else a chapter; else what ids begin with.
    """
    wanted = None if only is None else {only} if isinstance(only, str) else set(list_of("claim ids", only, str))
    if wanted is None:
        return list(CLAIMS.values())
    if not wanted:
        raise InputError("expected at least one claim id, received none; leave them out for all")
    CLAIMS.load_named(wanted)
    chosen: set[str] = set()
    for name in sorted(wanted):
        ids = (
            [name] if name in CLAIMS
            else [entry.id for entry in CLAIMS.values() if entry.chapter == name]
            or [id_ for id_ in CLAIMS if name and id_.startswith(name)]
        )  # fmt: skip
        if not ids:
            known = names_of_claims()
            raise InputError(
                f"expected a claim or a group of claims, received {shown(name)}{suggest(name, known) or FORGOTTEN}; "
                "snapdyn validate --list shows all"
            )
        chosen.update(ids)
    return [entry for entry in CLAIMS.values() if entry.id in chosen]


def load_claims(path: str | os.PathLike[str]) -> list[str]:
    """Run a user's Python file, which adds claims to the register, and return their ids.

    Parameters
    ----------
    path : str or os.PathLike
        The file. It may import modules that lie beside it, and register entries of other kinds as well. Loading a
        file again replaces its entries.

    Returns
    -------
    list of str
        Ids of the file's claims.

    Raises
    ------
    InputError
        As `snapdyn.dynamics.files.user_files.load_file`; the register is then as it was.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from snapdyn.validation import CLAIMS, load_claims
    >>> text = '''
    ... import snapdyn as sd
    ... @sd.claim("eight", source="own", title="Eight", statement="8 is less than 9.")
    ... def eight(evidence):
    ...     evidence.holds("eight", "arithmetic", 8.0, at_most=9.0)
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "my_claims.py"
    ...     _ = file.write_text(text)
    ...     load_claims(file)
    ['eight']
    >>> del CLAIMS["eight"]
    """
    return load_file(path).get(CLAIMS.kind, [])
