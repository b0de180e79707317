"""Contents of a register besides its claims: its file register.toml, read and checked."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from snapdyn.core.errors import InputError, list_of, shown, shown_path, text, unknown_name

NAME = "register.toml"
KEYS = ("title", "about", "files", "chapters", "symbols", "findings")
OF_CHAPTER = ("title", "claims")


@dataclass(frozen=True)
class Chapter:
    """Title of a chapter, and the ids of its claims in order."""

    title: str
    claims: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Register:
    """A folder of claims, as its file register.toml describes it.

    Attributes
    ----------
    folder : Traversable
        The folder, which may also have counterexamples/ (as `snapdyn attack --store` writes them) and equations.csv.
    title : str
        Title of the page.
    about : str
        What the register is about, and its paper, in one or two sentences.
    chapters : dict of str to Chapter
        By their short names, in order. A claim of the folder belongs to one of them.
    files : tuple of str
        Python files that register systems, claims and figures, in the order in which they run.
    symbols : dict of str to str
        LaTeX of a symbol, and its meaning.
    findings : dict of str to str
        Short names that claims refer to, and a sentence for each.
    figures : tuple of str or None
        Ids of the figures that the files register; None: all that snapdyn has.
    """

    folder: Traversable
    title: str
    about: str
    chapters: dict[str, Chapter]
    files: tuple[str, ...]
    symbols: dict[str, str]
    findings: dict[str, str]
    figures: tuple[str, ...] | None = None

    @property
    def chapter_of(self) -> dict[str, str]:
        """The chapter of each claim."""
        return {id_: name for name, chapter in self.chapters.items() for id_ in chapter.claims}

    @property
    def option(self) -> str:
        """Option with which a command uses this register; empty for the package's own."""
        return "" if self.folder is OURS.folder else f" --register {shlex.quote(str(self.folder))}"


def read_register(folder: Traversable) -> Register:
    """Read the file register.toml of a folder.

    Parameters
    ----------
    folder : Path or Traversable
        The folder.

    Returns
    -------
    Register

    Raises
    ------
    InputError
        There is no such file, it is no TOML, a key is missing, unknown or of the wrong type, or a claim is in two
        chapters.
    """
    file = folder / NAME
    try:
        found = file.is_file()
    except OSError:  # the name is too long, or the folder around it must not be read
        found = False
    if not found:
        raise InputError(
            f"expected a folder with {NAME}, received {shown_path(folder)}; `snapdyn examples DIR` writes a template, "
            "registers/template"
        )
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"expected a file that can be read, received {shown_path(file)} ({error.strerror}); check its rights"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"expected TOML in {shown_path(file)}, received an error: {error}; correct it") from error
    try:
        return _register(folder, content)
    except InputError as error:
        raise InputError(f"{error} ({shown_path(file)})") from error


def _register(folder: Traversable, content: dict[str, Any]) -> Register:
    _known("key", content, KEYS)
    chapters = {}
    for name, entry in _table("chapters", content.get("chapters")).items():
        _known(f"key of chapter {name!r}", _table(f"chapter {name!r}", entry), OF_CHAPTER)
        claims = list_of(f"claims of chapter {name!r}", entry.get("claims", ()), str, different=True)
        chapters[name] = Chapter(text(f"title of chapter {name!r}", entry.get("title", ""), 1), tuple(claims))
    every = [id_ for chapter in chapters.values() for id_ in chapter.claims]
    list_of("claims of all chapters", every, str, different=True)

    def texts(key: str) -> dict[str, str]:
        return {name: text(f"{key}.{name}", value) for name, value in _table(key, content.get(key, {})).items()}

    title, about = (text(key, content.get(key, ""), 1) for key in ("title", "about"))
    files = tuple(list_of("files", content.get("files", ()), str, different=True))
    return Register(folder, title, about, chapters, files, texts("symbols"), texts("findings"))


def _known(what: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise unknown_name(what, name, known)


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"expected {name} to be a table of {NAME}, received {shown(value)}; write [{name.split()[0]}]")
    return value


# The folder of our own claims, as data: importing the package would import every claim.
OURS = read_register(resources.files("snapdyn.validation") / "claims")
_in_use = OURS


def register_in_use() -> Register:
    """Return the register that commands use: the package's own, or the one that `use_register` has loaded."""
    return _in_use


def set_register(register: Register) -> None:
    """Let commands use another register."""
    global _in_use
    _in_use = register
