"""Python files of a user that register entries: claims, systems, observables, figures."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, MappingProxyType, ModuleType
from typing import Any

from snapdyn.core.errors import InputError, existing_file, shown_path
from snapdyn.core.registry import Registry, registries


@dataclass(frozen=True)
class _LoadedFile:
    """Digest (SHA-256) of the text that was run, and the entries that it registered: registry, name and entry."""

    digest: str
    entries: list[tuple[Registry[Any], str, Any]]

    def is_in_use(self) -> bool:
        """Whether a registry still holds an entry of the file."""
        return any(registry.get(name) is entry for registry, name, entry in self.entries)


_LOADED: dict[Path, _LoadedFile] = {}
# Paths as the user gave them: a file may load another one.
_BEING_LOADED: list[str] = []


def loaded_files() -> Mapping[Path, str]:
    """Files whose entries are registered: absolute path to the SHA-256 digest of the text that `load_file` ran.

    What these files import and read is not known. A result that may depend on them is computed again in each run.
    """
    return MappingProxyType({path: loaded.digest for path, loaded in _LOADED.items() if loaded.is_in_use()})


def file_being_loaded() -> str:
    """Path, as the user gave it, of the file that `load_file` is running; empty outside of `load_file`."""
    return _BEING_LOADED[-1] if _BEING_LOADED else ""


def load_file(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Run a user's Python file, which adds entries to one registry or several.

    The file may import modules that lie beside it. Loading a file again replaces its entries.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    dict of str to list of str
        Names of the entries that the file registered, by kind ("claim", "system", ...).

    Raises
    ------
    InputError
        The file cannot be read or run (the message gives the line and the error), registers nothing, or takes a name
        that a registry already has. All registries are then left as they were before.
    """
    file = existing_file("a Python file", path).absolute()
    code, digest = _compiled(path, file)
    with taken_back_on_failure():
        if file in _LOADED:
            for registry, name, entry in _LOADED[file].entries:
                if registry.get(name) is entry:
                    del registry[name]
        kept = {id(registry): set(registry) for registry in registries()}
        try:
            _run(code, file, os.fspath(path))
        except (Exception, SystemExit) as error:
            raise InputError(
                f"expected {shown_path(path)} to load, received {described(error, str(file))}; correct it"
            ) from error
        added = [
            (registry, name, entry)
            for registry in registries()
            for name, entry in registry.items()
            if name not in kept.get(id(registry), ()) and name not in registry.own
        ]
        if not added:
            raise InputError(
                f"expected {shown_path(path)} to register a claim, a system, an observable or a figure, received none; "
                "decorate a function with @snapdyn.claim(...), or call snapdyn.register(...)"
            )
    _LOADED[file] = _LoadedFile(digest, added)
    names: dict[str, list[str]] = {}
    for registry, name, _ in added:
        names.setdefault(registry.kind, []).append(name)
    return names


def _compiled(path: str | os.PathLike[str], file: Path) -> tuple[CodeType, str]:
    """Code of a file and the digest of its text."""
    try:
        text = file.read_bytes()
        return compile(text, str(file), "exec"), hashlib.sha256(text).hexdigest()
    except OSError as error:
        raise InputError(
            f"expected a Python file, received {shown_path(path)} ({error.strerror or error}); check the path"
        ) from error
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(
            f"expected a Python file, received {shown_path(path)} with an error{line}: {message}; correct it"
        ) from error


def _run(code: CodeType, file: Path, path: str) -> None:
    """Run a file's code as a module that cannot be imported by its name.

    Functions of the file are therefore sent to other processes as code, not as a name.
    """
    module = ModuleType(f"snapdyn_loaded_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    _BEING_LOADED.append(path)
    try:
        exec(code, module.__dict__)
    finally:
        _BEING_LOADED.pop()
        del sys.modules[module.__name__]


@contextmanager
def taken_back_on_failure() -> Iterator[None]:
    """If the block raises, reset every registry to what it was; one made in the block keeps snapdyn's own entries."""
    before = {id(registry): dict(registry) for registry in registries()}
    try:
        yield
    except BaseException:
        for registry in registries():
            registry.restore(before.get(id(registry), {}))
        raise


def described(error: BaseException, file: str) -> str:
    """Error in one phrase: type, message and line number, that of the last call in `file` if any is there."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if f.filename == file), frames[-1] if frames else None)
    message = " ".join(str(error).split())
    where = f" in line {frame.lineno} of {Path(frame.filename).name}" if frame else ""
    return f"{type(error).__name__}{where}{': ' if message else ''}{message}"
