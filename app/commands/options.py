"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

Level = Annotated[
    Literal["quick", "full"], typer.Option(help="full: more instances, longer times, larger vocabularies.")
]

Jobs = Annotated[int | None, typer.Option(metavar="N", help="Processes; default all cores.")]

Load = Annotated[
    list[Path] | None, typer.Option(metavar="FILE.py", help="Add the claims of a file of your own; may be repeated.")
]


def load_files(files: Sequence[Path] | None) -> None:
    """Add the claims of a user's files to the register."""
    if files:
        from snapdyn.validation import load_claims

        for file in files:
            load_claims(file)
