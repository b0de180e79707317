"""`snapdyn validate`: the claims of the register, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import snapdyn
from snapdyn.commands.options import Jobs, Level, Load
from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, prepare, say, show

FORMATS = {".tex": "latex", ".json": "json", ".txt": "text", "": "text"}  # by the ending of the file


def validate(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Claims, chapters or beginnings of ids; default all.")
    ] = None,
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
    seed: Annotated[int | None, typer.Option(metavar="N", help="Search the same domains with other instances.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the claims by chapter, without checking them.")] = False,
) -> int:
    """Check the claims of the theory and say which hold.

    A claim holds, is corrected (the printed statement fails, a corrected one holds), conditional (it holds
    under stated conditions), or refuted. Exit code 1: a verdict is not the one in the register, or a claim's
    function raised an error. A run that was interrupted goes on where it stopped. Its partial result says so
    inside, and does not replace the file of a complete run: it becomes NAME.partial.json or the like.

    Example: snapdyn validate lemma6 --level full --json verdicts.json

    Example: snapdyn validate theorem3 attention --seed 1

    Example: snapdyn validate --load my_claims.py --format latex --output table.tex
    """
    from snapdyn.commands.summaries.verdicts import checked, exported, show_claims, show_report

    if list_:
        show_claims(ids)
        return DONE

    for target in (output, json):
        if target:
            prepare(target)
    if output and not format and output.suffix.lower() not in FORMATS:
        raise snapdyn.InputError(
            f"expected --output FILE to end in .tex, .json or .txt, received {output.name!r}; or give --format"
        )
    report, interrupted = checked(ids, level, jobs, seed)
    if format and not output:
        show(exported(report, format), end="")
    else:
        show_report(report)
    for claim in report.claims:
        if claim.fault:
            say(claim.fault)
    if report.claims:
        if output:
            _write(output, exported(report, format or FORMATS[output.suffix.lower()]), report.complete)
        if json:
            _write(json, report.to_json(), report.complete)
    if interrupted:
        return INTERRUPTED
    return DONE if report.as_expected else DIFFERS


def _write(path: Path, text: str, complete: bool) -> None:
    """Write a result; a partial one stands beside a complete one."""
    from snapdyn.dynamics.storage import write_text
    from snapdyn.validation.tables import is_partial

    if not complete and path.exists() and not is_partial(path.read_text(encoding="utf-8", errors="replace")):
        beside = path.with_name(f"{path.stem}.partial{path.suffix}")
        say(f"{str(path)!r} is of a complete run and is kept; the partial result of this one is in {str(beside)!r}")
        path = beside
    write_text(path, text)
