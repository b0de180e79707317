"""`snapdyn examples`: the run files and programs that the documentation names, copied to a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from snapdyn.commands.terminal import DONE, show


def examples(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the copies; it is made if missing.")],
) -> int:
    """Copy the example files to a folder, where you can run and change them.

    If the folder holds an example that you have changed, nothing is copied.

    Example: snapdyn examples examples
    """
    from importlib.resources import files

    from snapdyn.core.errors import InputError, escaped
    from snapdyn.dynamics.files.storage import output_folder, replacing

    contents = dict(_contents(files("snapdyn.examples")))
    changed = [name for name, data in contents.items() if _differs(folder / name, data)]
    if changed:
        raise InputError(
            f"expected a folder without changed examples, received {str(folder)!r}, where {', '.join(changed[:3])} "
            f"{'differs' if len(changed) == 1 else 'differ'}; choose another folder"
        )
    for name, data in contents.items():
        output_folder((folder / name).parent)
        with replacing(folder / name) as temporary:
            temporary.write_bytes(data)
        show(escaped(folder / name))
    return DONE


def _contents(folder: Traversable, path: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of every example, also of those in folders."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _contents(entry, f"{path}{entry.name}/")
        elif entry.is_file():
            yield path + entry.name, entry.read_bytes()


def _differs(file: Path, data: bytes) -> bool:
    return os.path.exists(file) and (not os.path.isfile(file) or file.read_bytes() != data)
