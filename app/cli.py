"""The command line: `snapdyn validate`, `figures`, `simulate`, `report`.

Only typer is imported here; a command imports what it needs, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import snapdyn
import typer
from snapdyn.terminal import progress_bar, say, show_table

if TYPE_CHECKING:
    from snapdyn.dynamics import Trajectory
    from snapdyn.validation import Check, Report

DONE, DIFFERS, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
# Classes that the summary of a run lists; the file has them all.
LISTED_CLASSES = 12
TOP_TOKENS = 3

Level = Annotated[
    Literal["quick", "full"], typer.Option(help="full: more instances, longer times, larger vocabularies.")
]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done, every verdict is the register's; 1: a verdict differs, or an integration failed; 2: bad usage or
    input, with one sentence on stderr; 130: interrupted.
    """
    try:
        code = app(arguments, prog_name="snapdyn", standalone_mode=False)
    except typer.TyperException as error:
        say(_usage_sentence(error))
        return BAD_INPUT
    except snapdyn.InputError as error:
        say(str(error))
        return BAD_INPUT
    return code or DONE


def _usage_sentence(error: typer.TyperException) -> str:
    """Message of a wrong option or command as one sentence that says where to look."""
    message = error.format_message().rstrip(".").replace(". Did you", "; did you").replace("\n", " ")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "snapdyn"
    return f"{message}; see `{command} --help`"


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
    """How a 1-layer transformer learns where to look: simulate the dynamics, check the theory, draw the figures."""


# -- validate ----------------------------------------------------------------------------------------------
@app.command()
def validate(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Claims; default all.")] = None,
    level: Level = "quick",
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the report as JSON.")] = None,
) -> None:
    """Check the claims of the paper and say which hold.

    Example: snapdyn validate lemma6 theorem4 --json verdicts.json

    Verdicts: holds; corrected (the printed statement fails, a corrected one holds); conditional (holds under
    stated conditions); refuted. Exit code 1 when a verdict is not the one in the register.
    """
    if json:
        _check_file(json, "--json")
    report, interrupted = checked_claims(ids, level)
    _show_report(report)
    if json:
        from snapdyn.dynamics.storage import replacing

        with replacing(json) as temporary:
            temporary.write_text(report.to_json(), encoding="utf-8")
    if interrupted:
        say("interrupted; the claims listed are complete")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(DONE if report.as_expected else DIFFERS)


def checked_claims(ids: Iterable[str] | None, level: str) -> tuple[Report, bool]:
    """Check claims one by one with a progress bar; the finished ones, and whether Ctrl-C cut the run short."""
    from snapdyn.validation import CLAIMS, Report, claims  # noqa: F401  (importing claims fills the register)
    from snapdyn.dynamics.errors import unknown_name
