"""The claims: a folder per chapter, in the order of register.toml. Import the register from here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from snapdyn.core.errors import FORGOTTEN, InputError, file_path, list_of, shown, suggest
from snapdyn.dynamics.files.user_files import load_file, taken_back_on_failure
from snapdyn.validation.register import CLAIMS, Claim, claim
from snapdyn.validation.register_folder import OURS, Register, read_register, register_in_use, set_register

__all__ = ["CLAIMS", "chosen_claims", "claim", "load_claims", "use_register"]


def claims_of_chapter(chapter: str) -> dict[str, Claim]:
    """Our own claims that the modules of a chapter's folder define, by id."""
    package = f"{__name__}.{chapter}"
    modules = [import_module(f"{package}.{found.name}") for found in iter_modules(import_module(package).__path__)]
    values = [value for module in modules for value in vars(module).values()]
    return {entry.id: replace(entry, chapter=chapter) for entry in values if isinstance(entry, Claim)}


_defined = {id_: entry for chapter in OURS.chapters for id_, entry in claims_of_chapter(chapter).items()}
CLAIMS.declare(_defined[id_] for id_ in OURS.chapter_of)


def names_of_claims() -> list[str]:
    """Ids of all claims, and their chapters."""
    return [*CLAIMS, *dict.fromkeys(entry.chapter for entry in CLAIMS.values() if entry.chapter)]


def chosen_claims(only: str | Iterable[str] | None) -> list[Claim]:
    """Claims that ids and groups name (None: all), in the register's order.

    A name is an id, or else a chapter, or else the beginning of ids.
    """
    wanted = None if only is None else {only} if isinstance(only, str) else set(list_of("claim ids", only, str))
    if wanted is None:
        return list(CLAIMS.values())
    if not wanted:
        raise InputError("expected at least one claim id, received none; leave the ids out to get all")
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
        The errors of `snapdyn.dynamics.files.user_files.load_file`; the register then stays unchanged.

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


def use_register(path: str | os.PathLike[str]) -> Register:
    """Run the files of a register's folder; commands then use its claims, and no others.

    Parameters
    ----------
    path : str or os.PathLike
        The folder, with register.toml. Its Python files run with all rights of the user.

    Returns
    -------
    Register
        What register.toml says.

    Raises
    ------
    InputError
        What `read_register` and `load_file` raise; also where a claim is missing in the files or in the chapters. The
        register in use then stays unchanged.

    Examples
    --------
    >>> from snapdyn.validation import use_register
    >>> use_register("nowhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    snapdyn.core.errors.InputError: expected a folder with register.toml, received 'nowhere'; ...
    """
    register = read_register(file_path("path", path))
    before, own = register_in_use(), dict(CLAIMS.own)
    set_register(register)  # it gives claims that are added their chapters
    try:
        with taken_back_on_failure():
            CLAIMS.declare(())
            CLAIMS.restore({})  # the folder may use the ids of our claims
            added = [load_file(Path(path) / name) for name in register.files]
            CLAIMS.declare(_in_order(register))
    except BaseException:
        set_register(before)
        CLAIMS.declare(own.values())
        raise
    register = replace(register, figures=tuple(id_ for names in added for id_ in names.get("figure", ())))
    set_register(register)
    return register


def _in_order(register: Register) -> list[Claim]:
    """Claims that the files of a register have added, by chapter; each claim must be in a chapter."""
    for id_ in register.chapter_of:
        if id_ not in CLAIMS:
            raise InputError(
                f"expected the files of {str(register.folder)!r} to register claim {id_!r} of its register.toml, "
                "received none; add a file, or leave the claim out"
            )
    for id_, entry in CLAIMS.items():
        if not entry.chapter:
            raise InputError(
                f"expected claim {id_!r} of {entry.file!r} in a chapter of register.toml, received none; add it to one"
            )
    return [CLAIMS[id_] for id_ in register.chapter_of]


def task(function: Callable[..., Any], entry: Claim) -> tuple[Any, ...]:
    """Return a call of `function` on a claim for another process; it runs the files of a user's register first."""
    folder = register_in_use().folder
    return (function, entry) if folder is OURS.folder else (_of_register, str(folder), function, entry.id)


def _of_register(folder: str, function: Callable[..., Any], id_: str, *arguments: Any) -> Any:
    if str(register_in_use().folder) != folder:
        use_register(folder)
    return function(CLAIMS[id_], *arguments)
