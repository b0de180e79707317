"""The command line: what all commands share. Each command has a module of its name.

Only typer and rich are imported here; a command imports what it needs, so that `--help` is quick.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Annotated

import typer

import snapdyn
from snapdyn.commands.check import check
from snapdyn.commands.compare import compare
from snapdyn.commands.equations import equations
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
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done, every verdict is the register's; 1: a verdict differs, or an integration failed; 2: bad usage or
    input, with one sentence on stderr; 130: interrupted; 143: ended by SIGTERM, which acts as Ctrl-C.
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
                    return TERMINATED if signal.SIGTERM in received else INTERRUPTED
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
        terminated = signal.SIGTERM in received
        kept = f"{'terminated' if terminated else 'interrupted'}; what is finished is kept, no file is half written"
        say(f"{kept}; validate, report and sweep go on from there when they are run again")
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """How a 1-layer transformer learns where to look: its training dynamics simulated, its theory checked."""


for command in (check, validate, equations):
    app.command()(command)
app.command(cls=help_with(figure_ids))(figures)
app.command()(report)
app.command(cls=help_with(systems_and_classes))(simulate)
app.command()(compare)
app.command(cls=help_with(systems_and_observables))(sweep)
app.command()(text)
