"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

Level = Annotated[
    Literal["quick", "full"], typer.Option(help="full: more instances, longer times, larger vocabularies.")
]


def complete_claims(incomplete: str) -> list[str]:
    """Return the ids of claims and the chapters that complete a word."""
    from snapdyn.validation.claims import names_of_claims

    return [name for name in names_of_claims() if name.startswith(incomplete)]


Claims = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...",
        help="Claims, chapters or beginnings of ids; default all.",
        autocompletion=complete_claims,
    ),
]

Jobs = Annotated[int | None, typer.Option(metavar="N", help="Processes; default all cores.")]


def load_files(files: list[Path] | None) -> list[Path] | None:
    """Run a user's files, which add entries to the registers."""
    if files:
        from snapdyn.dynamics.files.user_files import load_file

        for file in files:
            load_file(file)
    return files


# Eager, so that --help after it names what the files add.
Load = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE.py",
        callback=load_files,
        is_eager=True,
        help="Execute this Python file first, with all your rights: load only files that you trust. It may add "
        "claims, systems, observables, figures. May be repeated.",
    ),
]


def load_register(folder: Path | None) -> Path | None:
    """Use the register of a folder in place of snapdyn's own."""
    if folder is not None:
        from snapdyn.validation.claims import use_register

        use_register(folder)
    return folder


Register = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        callback=load_register,
        is_eager=True,
        help="Take the claims, systems and figures of this folder (register.toml) in place of snapdyn's claims. Its "
        "Python files run with all your rights: take only folders that you trust.",
    ),
]


@contextmanager
def options_as_typed(*parameters: str) -> Iterator[None]:
    """Write parameters in messages as options of the command line: min_count becomes --min-count."""
    from snapdyn.core.errors import InputError

    try:
        yield
    except InputError as error:
        message = re.sub(rf"\b({'|'.join(parameters)})\b", lambda found: "--" + found[0].replace("_", "-"), str(error))
        raise InputError(message) from error


def help_with(names: Callable[[], str]) -> type[TyperCommand]:
    """Return a class of commands whose help ends with a sentence; the sentence is made only when it is shown."""

    class CommandWithNames(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            self.epilog = names()
            super().format_help(ctx, formatter)

    return CommandWithNames


def systems_and_classes() -> str:
    """What run files can name."""
    from snapdyn.core.registry import plugin_names
    from snapdyn.dynamics import SYSTEMS
    from snapdyn.experiments.class_sections import CLASSES

    return f"Systems: {', '.join(dict.fromkeys([*SYSTEMS, *plugin_names('system')]))}. Classes: {', '.join(CLASSES)}."


def systems_and_observables() -> str:
    """What sweep files can name."""
    from snapdyn.core.registry import plugin_names
    from snapdyn.experiments.sweep.columns import all_observables

    names = dict.fromkeys([*all_observables(), *plugin_names("observable")])
    return f"{systems_and_classes()} Observables: {', '.join(names)}."


def figure_ids() -> str:
    """Figures that can be drawn."""
    from snapdyn.core.registry import plugin_names
    from snapdyn.figures.gallery import FIGURES

    return f"Figures: {', '.join(dict.fromkeys([*FIGURES, *plugin_names('figure')]))}."
