"""The command line: what all commands share. Each command has a module with its name.

Only typer and rich are imported here; a command imports what it needs, so that `--help` is quick.
"""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Annotated

import typer

import snapdyn
from snapdyn.commands.attack import attack
from snapdyn.commands.check import check
from snapdyn.commands.compare import compare
from snapdyn.commands.equations import equations
from snapdyn.commands.examples import examples
from snapdyn.commands.explore import explore
from snapdyn.commands.figures import figures
from snapdyn.commands.options import figure_ids, help_with, systems_and_classes, systems_and_observables
from snapdyn.commands.report import report
from snapdyn.commands.signals import received_signals
from snapdyn.commands.simulate import simulate
from snapdyn.commands.sweep import sweep
from snapdyn.commands.terminal import BAD_INPUT, DIFFERS, DONE, INTERRUPTED, TERMINATED, say
from snapdyn.commands.text import text
from snapdyn.commands.validate import validate

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done, and every verdict agrees with the register; 1: a verdict differs, or an integration failed; 2: bad usage or
    input, with one sentence on stderr; 130: interrupted; 143: ended by SIGTERM or SIGHUP, which act as
    Ctrl-C.
    """
    with received_signals() as received:
        try:
            code = app(arguments, prog_name="snapdyn", standalone_mode=False)
        except KeyboardInterrupt:  # before a command has begun, or after its end
            code = INTERRUPTED
        except Exception as error:  # a library that is being imported turns a signal into an error of any kind
            if received:
                if isinstance(error, snapdyn.InputError):  # such as a full disk, when finished work was to be stored
                    say(str(error))
                    return TERMINATED if set(received) - {signal.SIGINT} else INTERRUPTED
                code = INTERRUPTED
            elif isinstance(error, typer.TyperException):
                say(_usage_sentence(error))
                return BAD_INPUT
            elif isinstance(error, snapdyn.InputError):
                say(str(error))
                return BAD_INPUT
            elif isinstance(error, BrokenProcessPool):
                say(str(error))
                return DIFFERS
            else:
                raise
    if code == INTERRUPTED:
        terminated = bool(set(received) - {signal.SIGINT})
        kept = f"{'terminated' if terminated else 'interrupted'}; what is finished is kept, no file is half written"
        say(f"{kept}; validate, report and sweep go on from there when they are run again, but not with loaded code")
        return TERMINATED if terminated else INTERRUPTED
    return code or DONE


def _usage_sentence(error: typer.TyperException) -> str:
    """Message about a wrong command, option or value, as one sentence that says where to look."""
    message = error.format_message().rstrip(".").replace("\n", " ")
    message = message.replace(". Did you", ", did you").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "snapdyn"
    return f"{message} (see `{command} --help`)"


def _version(wanted: bool) -> None:
    if wanted:
        print(f"snapdyn {snapdyn.__version__}")
        raise typer.Exit


@app.callback()
def _snapdyn(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """How a 1-layer transformer learns where to look: its training dynamics simulated, its theory checked."""


def _help(command: Callable[..., int]) -> str:
    """Docstring of a command with a line per paragraph, so that it is wrapped once, at the width of the terminal."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


# Each command with what the end of its help lists.
for command, names in (
    (check, None),
    (validate, None),
    (attack, None),
    (equations, None),
    (figures, figure_ids),
    (report, None),
    (simulate, systems_and_classes),
    (compare, None),
    (sweep, systems_and_observables),
    (text, None),
    (explore, None),
    (examples, None),
):
    app.command(cls=help_with(names) if names else None, help=_help(command))(command)
