"""What `snapdyn validate` prints of verdicts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from snapdyn.commands.terminal import progress_bar, say, show, show_table
from snapdyn.validation import ClaimResult, Measured, Report
from snapdyn.validation.evidence import SEED
from snapdyn.validation.store import FinishedClaims
from snapdyn.validation.tables import latex_table, summary, text_table
from snapdyn.validation.verdicts import check_claims, chosen_claims, report_of

VERDICT_STYLES = {"corrected": "yellow", "refuted": "red", "conditional": "cyan", "holds": "none"}


def show_claims(ids: Sequence[str] | None) -> None:
    """Print the claims that ids and groups name, by chapter, with expected verdict and grade."""
    rows = [
        (entry.chapter or "yours", entry.id, entry.source, entry.title, entry.expected, str(entry.grade))
        for entry in chosen_claims(ids or None)
    ]
    show_table(("chapter", "id", "source", "title", "verdict", "grade"), rows, ["none"] * len(rows))


def checked(ids: Sequence[str] | None, level: str, jobs: int | None, seed: int | None = None) -> tuple[Report, bool]:
    """Check claims; the finished ones, and whether Ctrl-C cut the run short."""
    started = time.perf_counter()
    results: list[ClaimResult] = []
    seed = SEED if seed is None else seed
    finished = FinishedClaims(say, seed)
    interrupted = False
    with progress_bar("checking") as update:
        try:
            for result in check_claims(ids or None, level, update, jobs, finished, seed):
                results.append(result)
        except KeyboardInterrupt:
            interrupted = True
        else:
            finished.clear()
    report = report_of(level, results, started, finished)
    if interrupted:
        known = {result.id for result in results}
        report = replace(
            report, missing=tuple(entry.id for entry in chosen_claims(ids or None) if entry.id not in known)
        )
    return report, interrupted


def exported(report: Report, format: str) -> str:
    """The verdicts as text, LaTeX or JSON."""
    return {"text": text_table, "latex": latex_table, "json": type(report).to_json}[format](report)


def show_report(report: Report) -> None:
    """Print the claims, those that differ from the register first, then those that differ from print."""
    rows, styles = [], []
    for result in report.by_outcome:
        claim, check = result.claim, result.decisive
        verdict = result.outcome if result.as_expected else f"{result.outcome} (register: {claim.expected})"
        rows.append(
            (claim.id, claim.source, claim.title, f"{verdict}, {claim.grade}", _in_words(check) if check else "")
        )
        styles.append(VERDICT_STYLES[result.verdict] if result.as_expected else "bold red")
    show_table(("id", "source", "title", "verdict", "decisive check"), rows, styles)
    show(summary(report))


def _in_words(check: Measured) -> str:
    fails = "" if check.holds else " fails"
    return f"{check.name}: {check.comparison}{fails}"
