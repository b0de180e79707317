"""`snapdyn validate`: the claims of the register, checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import snapdyn
from snapdyn.commands.options import Jobs, Level, Load, load_files
from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, progress_bar, say, show_table

if TYPE_CHECKING:
    from snapdyn.validation import Check, ClaimResult, Report


FORMATS = {".tex": "latex", ".json": "json", ".txt": "text", "": "text"}  # by the ending of the file

VERDICT_STYLES = {"corrected": "yellow", "refuted": "red", "conditional": "cyan", "holds": "none"}


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
    from snapdyn.dynamics.storage import check_target

    for target in (output, json):
        if target:
            check_target(target)
    if output and not format and output.suffix.lower() not in FORMATS:
        raise snapdyn.InputError(
            f"expected --output FILE to end in .tex, .json or .txt, received {output.name!r}; or give --format"
        )
    load_files(load)
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


def _check_claims(ids: Sequence[str] | None, level: str, jobs: int | None) -> tuple[Report, bool]:
    """Check claims; the finished ones, and whether Ctrl-C cut the run short."""
    from snapdyn.validation.run import check_claims, report_of
    from snapdyn.validation.store import FinishedClaims

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
