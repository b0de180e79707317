"""The command line: `snapdyn validate`, `equations`, `figures`, `report`; the other commands have their own modules.

Only typer and rich are imported here; a command imports what it needs, so that `--help` is quick.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import snapdyn
from snapdyn.run_commands import check_target, compare, simulate
from snapdyn.sweep_command import sweep
from snapdyn.terminal import BAD_INPUT, DIFFERS, DONE, INTERRUPTED, progress_bar, say, show_table
from snapdyn.text_command import text

if TYPE_CHECKING:
    from snapdyn.validation import Check, ClaimResult, Report

FORMATS = {".tex": "latex", ".json": "json", ".txt": "text", "": "text"}  # by the ending of the file
VERDICT_STYLES = {"corrected": "yellow", "refuted": "red", "conditional": "cyan", "holds": "none"}

Level = Annotated[
    Literal["quick", "full"], typer.Option(help="full: more instances, longer times, larger vocabularies.")
]

Jobs = Annotated[int | None, typer.Option(metavar="N", help="Processes; default all cores.")]
Load = Annotated[
    list[Path] | None, typer.Option(metavar="FILE.py", help="Add the claims of a file of your own; may be repeated.")
]

app = typer.Typer(
    add_completion=False,
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
    except BrokenProcessPool as error:
        say(str(error))
        return DIFFERS
    if code == INTERRUPTED:
        kept = "interrupted; what is finished is kept, no file is half written"
        say(f"{kept}; validate, report and sweep go on from there when they are run again")
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


# -- validate ----------------------------------------------------------------------------------------------
@app.command()
def validate(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Claims; default all.")] = None,
    level: Level = "quick",
    jobs: Jobs = None,
    load: Load = None,
    format: Annotated[
        Literal["text", "latex", "json"] | None,
        typer.Option(help="Print the verdicts as a table for a paper, or as JSON, instead."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write that table to a file; .tex, .json and .txt tell the format."),
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the verdicts as JSON.")] = None,
) -> int:
    """Check the claims of the theory and say which hold.

    A claim holds, is corrected (the printed statement fails, a corrected one holds), conditional (it holds
    under stated conditions), or refuted. Exit code 1: a verdict is not the one in the register, or a claim's
    function raised an error. A run that was interrupted goes on where it stopped.

    Example: snapdyn validate lemma6 --level full --json verdicts.json

    Example: snapdyn validate --load my_claims.py --format latex --output table.tex
    """
    for target in (output, json):
        if target:
            check_target(target)
    if output and not format and output.suffix.lower() not in FORMATS:
        raise snapdyn.InputError(
            f"expected --output FILE to end in .tex, .json or .txt, received {output.name!r}; or give --format"
        )
    _load(load)
    report, interrupted = _check_claims(ids, level, jobs)
    if format and not output:
        print(_exported(report, format), end="")
    else:
        _show_report(report)
    for claim in report.claims:
        if claim.fault:
            say(claim.fault)
    if report.claims:
        if output:
            _write(output, _exported(report, format or FORMATS[output.suffix.lower()]))
        if json:
            _write(json, report.to_json())
    if interrupted:
        return INTERRUPTED
    return DONE if report.as_expected else DIFFERS


def _load(files: Sequence[Path] | None) -> None:
    """Add the claims of a user's files to the register."""
    if files:
        from snapdyn.validation import load_claims

        for file in files:
            load_claims(file)


def _check_claims(ids: Sequence[str] | None, level: str, jobs: int | None) -> tuple[Report, bool]:
    """Check claims; the finished ones, and whether Ctrl-C cut the run short."""
    from snapdyn.validation.run import check_claims, report_of
    from snapdyn.validation.storage import FinishedClaims

    started = time.perf_counter()
    results: list[ClaimResult] = []
    finished = FinishedClaims(say)
    interrupted = False
    with progress_bar("checking") as update:
        try:
            for result in check_claims(ids or None, level, update, jobs, finished):
                results.append(result)
        except KeyboardInterrupt:
            interrupted = True
        else:
            finished.clear()
    return report_of(level, results, started, finished), interrupted


def _exported(report: Report, format: str) -> str:
    from snapdyn.validation.tables import latex_table, text_table

    return {"text": text_table, "latex": latex_table, "json": type(report).to_json}[format](report)


def _write(target: Path, text: str) -> None:
    from snapdyn.dynamics.storage import replacing

    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _show_report(report: Report) -> None:
    """Print the claims, those that differ from the register first, then those that differ from print."""
    from snapdyn.validation.tables import summary

    rows, styles = [], []
    for claim in report.by_outcome:
        verdict = claim.outcome if claim.as_expected else f"{claim.outcome} (register: {claim.expected})"
        check = claim.decisive
        rows.append((claim.id, claim.source, claim.title, verdict, _in_words(check) if check else ""))
        styles.append(VERDICT_STYLES[claim.verdict] if claim.as_expected else "bold red")
    show_table(("id", "source", "title", "verdict", "decisive check"), rows, styles)
    print(summary(report))


def _in_words(check: Check) -> str:
    fails = "" if check.passed else " fails"
    return f"{check.name}: {check.comparison}{fails}"


# -- equations ---------------------------------------------------------------------------------------------
@app.command()
def equations() -> int:
    """List every displayed equation of the paper: what recomputes it, and its verdict on record.

    `snapdyn report` shows the table as measured in that run.

    Example: snapdyn equations
    """
    from snapdyn.validation import equation_text

    print(equation_text(), end="")
    return DONE


# -- figures -----------------------------------------------------------------------------------------------
@app.command()
def figures(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Figures; default all.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("out"),
    level: Level = "quick",
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DATA", help="Draw from a saved .nc, or a folder of them.")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Saved transformer runs, for figures 7 and 10.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Also hold the data against what each figure claims.")] = False,
) -> int:
    """Draw figures: picture (PDF, PNG), data (netCDF) and provenance.

    Exit code 1, with --check: the data of a figure do not show what it claims.

    Example: snapdyn figures 3 8 9 --out pictures --check
    """
    from snapdyn.figures import draw

    with progress_bar("drawing") as update:
        drawn = draw(ids or None, out=out, level=level, progress=update, source=source, runs=runs)
    show_table(("id", "title", "picture"), [(figure.id, figure.title, str(figure.png)) for figure in drawn])
    if not check:
        return DONE
    rows = [(figure.id, *_check_row(check)) for figure in drawn for check in figure.checks]
    show_table(("id", "claim of the figure", "measured", ""), rows)
    failed = [figure.id for figure in drawn if not figure.as_claimed]
    print(f"{len(rows)} checks; {'all figures show what they claim' if not failed else 'not: ' + ', '.join(failed)}")
    return DIFFERS if failed else DONE


def _check_row(check: Check) -> tuple[str, str, str]:
    outcome = "ok" if check.as_expected else "FAILS"
    if check.role == "control":
        outcome = "rejected, as it must be" if check.as_expected else "NOT REJECTED"
    return check.name, check.comparison, outcome


# -- report ------------------------------------------------------------------------------------------------
@app.command()
def report(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page.")] = Path("report"),
    level: Level = "quick",
    jobs: Jobs = None,
    load: Load = None,
) -> int:
    """Check every claim, draw every figure, and write one self-contained page, DIR/index.html.

    Exit code 1: a verdict is not the one in the register. Claims that an interrupted run finished are taken over.

    Example: snapdyn report --out report
    """
    from snapdyn.report import build_report
    from snapdyn.validation.tables import summary

    _load(load)
    with progress_bar("reporting") as update:
        built = build_report(out, level, update, jobs, say)
    for claim in built.report.claims:
        if claim.fault:
            say(claim.fault)
    print(f"{built.page}: {summary(built.report)}")
    return DONE if built.report.as_expected else DIFFERS


for command in (simulate, compare, sweep, text):
    app.command()(command)
