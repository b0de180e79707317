"""`snapdyn validate`: the claims of the register, checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from snapdyn.commands.options import Claims, Jobs, Level, Load, Register
from snapdyn.commands.terminal import (
    DIFFERS,
    DONE,
    INTERRUPTED,
    prepare,
    progress_bar,
    say,
    show,
    show_table,
)

if TYPE_CHECKING:
    from snapdyn.validation import Claim, Measured, Report

VERDICT_STYLES = {"corrected": "yellow", "refuted": "red", "conditional": "cyan", "holds": "none"}


def validate(
    ids: Claims = None,
    level: Level = "quick",
    jobs: Jobs = None,
    load: Load = None,
    register: Register = None,
    format: Annotated[
        Literal["text", "latex", "json"] | None,
        typer.Option(help="Print the verdicts in this format instead: plain text, a table for a paper, JSON."),
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the verdicts as JSON.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of other instances in the same domains.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the claims by chapter, without checking them.")] = False,
) -> int:
    """Check the claims of the theory and say which hold.

    A claim holds, is corrected (the printed statement fails, a corrected one holds), conditional (it holds
    under stated conditions), or refuted. Exit code 1: a verdict is not the one in the register, or a claim's
    function raised an error. A run that was interrupted goes on where it stopped; it checks claims of your own again.
    A partial result is marked as partial. It does not replace the file of a complete run but is written to
    NAME.partial.json.

    Example: snapdyn validate lemma6 --level full --json verdicts.json

    Example: snapdyn validate theorem3 attention --seed 1

    Example: snapdyn validate --load my_claims.py --format latex > table.tex
    """
    from snapdyn.validation.claims import chosen_claims
    from snapdyn.validation.measured import SEED
    from snapdyn.validation.store import FinishedClaims
    from snapdyn.validation.verdicts import checked

    entries = chosen_claims(ids or None)
    if list_:
        show_claims(entries)
        return DONE

    if json:
        prepare(json)
    seed = SEED if seed is None else seed
    finished = FinishedClaims(say, seed)
    with progress_bar("checking") as update:
        report = checked(entries, level, update, jobs, finished, seed, partial=True)
    if report.complete:
        finished.clear()
    if format:
        show(exported(report, format), end="")
    else:
        show_report(report)
    for result in report.claims:
        if result.fault:
            say(result.fault)
    if json and report.claims:
        _write(json, report.to_json(), report.complete)
    if not report.complete:
        return INTERRUPTED
    return DONE if report.as_expected else DIFFERS


def show_claims(entries: Sequence[Claim]) -> None:
    """Print claims by chapter, with expected verdict and grade."""
    rows = [
        (entry.chapter or "yours", entry.id, entry.source, entry.title, entry.expected, str(entry.grade))
        for entry in entries
    ]
    show_table(("chapter", "id", "source", "title", "verdict", "grade"), rows, ["none"] * len(rows))


def exported(report: Report, format: str) -> str:
    """The verdicts as text, LaTeX or JSON."""
    from snapdyn.validation.tables import latex_table, text_table

    return {"text": text_table, "latex": latex_table, "json": type(report).to_json}[format](report)


def show_report(report: Report) -> None:
    """Print the claims, first those that differ from the register, then those that differ from the paper."""
    rows, styles = [], []
    for result in report.by_outcome:
        claim, check = result.claim, result.decisive
        verdict = result.outcome if result.as_expected else f"{result.outcome} (register: {claim.expected})"
        rows.append(
            (claim.id, claim.source, claim.title, f"{verdict}, {claim.grade}", _in_words(check) if check else "")
        )
        styles.append(VERDICT_STYLES[result.verdict] if result.as_expected else "bold red")
    show_table(("id", "source", "title", "verdict", "decisive check"), rows, styles)
    show(report.summary)


def _in_words(check: Measured) -> str:
    fails = "" if check.holds else " fails"
    return f"{check.name}: {check.comparison}{fails}"


def _write(path: Path, text: str, complete: bool) -> None:
    """Write a result; a partial one does not replace a complete one but is written beside it."""
    from snapdyn.dynamics.files.storage import write_text
    from snapdyn.validation.tables import is_partial

    if not complete and path.exists() and not is_partial(path.read_text(encoding="utf-8", errors="replace")):
        beside = path.with_name(f"{path.stem}.partial{path.suffix}")
        say(f"{str(path)!r} is of a complete run and is kept; the partial result of this one is in {str(beside)!r}")
        path = beside
    write_text(path, text)
