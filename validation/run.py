"""Run the register: gather evidence claim by claim and pronounce verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from snapdyn.dynamics.errors import unknown_name
from snapdyn.validation.register import CLAIMS, Claim, Evidence
from snapdyn.validation.results import ClaimResult, Report, Verdict

LEVELS = ("quick", "full")


def validate(
    only: Iterable[str] | None = None,
    level: str = "quick",
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Check claims of the register.

    Parameters
    ----------
    only : iterable of ids, optional
        Claims to check, in any order; default all. A single id may be given as a string.
    level : "quick" or "full"
        "full" tries more instances, longer times and larger V.
    progress : callable (done, total, id), optional
        Called before each claim, and at the end with done = total and an empty id.

    Returns
    -------
    Report
        One ClaimResult per claim, in the order of the register.

    Raises
    ------
    InputError
        Unknown claim or level, with the nearest known name.
    """
    from snapdyn.validation import claims  # noqa: F401  (importing it fills the register)

    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)
    wanted = list(CLAIMS) if only is None else [only] if isinstance(only, str) else list(only)
    for id_ in wanted:
        if id_ not in CLAIMS:
            raise unknown_name("claim", id_, CLAIMS)
    chosen = [entry for id_, entry in CLAIMS.items() if id_ in wanted]
    results = []
    for done, entry in enumerate(chosen):
        if progress:
            progress(done, len(chosen), entry.id)
        results.append(check_claim(entry, level))
    if progress:
        progress(len(chosen), len(chosen), "")
    return Report(level, tuple(results))


def check_claim(entry: Claim, level: str) -> ClaimResult:
    """Gather the evidence of one claim and pronounce its verdict."""
    started = time.perf_counter()
    evidence = entry.run(level)
    verdict, remark = verdict_of(evidence)
    return ClaimResult(
        id=entry.id,
        source=entry.source,
        title=entry.title,
        statement=entry.statement,
        latex=entry.latex,
        assumptions=(*entry.assumptions, *(str(condition) for condition in evidence.conditions)),
        expected=entry.expected,
        verdict=verdict,
        checks=tuple(evidence.checks),
        conclusion=" ".join(part for part in (remark, evidence.conclusion) if part),
        findings=entry.findings,
        picture=evidence.picture,
        seconds=time.perf_counter() - started,
    )


def verdict_of(evidence: Evidence) -> tuple[Verdict, str]:
    """Verdict that follows from the checks, and a remark when the evidence itself is faulty.

    A statement that passes holds, or is conditional when it fails somewhere outside its conditions. A
    statement that fails is corrected when there is a corrected one and that passes, else refuted. Evidence
    without a negative control, or whose control passes, cannot tell right from wrong: it counts as refuted.
    """
    by_role = {
        role: [c for c in evidence.checks if c.role == role]
        for role in ("statement", "corrected", "outside", "control")
    }
    if not by_role["control"] or not by_role["statement"]:
        return "refuted", "No verdict is possible: the evidence lacks a check or a negative control."
    accepted = [check.name for check in by_role["control"] if check.passed]
    if accepted:
        return "refuted", f"No verdict is possible: a wrong theory passed ({'; '.join(accepted)})."
    if all(check.passed for check in by_role["statement"]):
        if not all(check.passed for check in by_role["corrected"]):
            return "refuted", "The corrected form fails where the printed one passes."
        return ("holds" if all(check.passed for check in by_role["outside"]) else "conditional"), ""
    if by_role["corrected"] and all(check.passed for check in by_role["corrected"]):
        return "corrected", ""
    return "refuted", ""
