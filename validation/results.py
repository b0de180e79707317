"""What validation returns: verdicts with their evidence, and the report."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from snapdyn.validation.engine import CERTIFIED, SYMBOLIC
from snapdyn.validation.measured import SEED, Evidence, Measured, json_number
from snapdyn.validation.register import Claim, Verdict, first_sentence
from snapdyn.validation.register_folder import register_in_use

# Order of every list by outcome: verdicts that disagree with the printed paper come first.
VERDICTS: tuple[Verdict, ...] = ("corrected", "refuted", "conditional", "holds")
NO_VERDICT = "no verdict"
OUTCOMES: tuple[str, ...] = (NO_VERDICT, *VERDICTS)
# Two numbers are the same up to rounding.
SAME = 1e-12


def counted(found: Iterable[str], names: Sequence[str]) -> dict[str, int]:
    """How often each of `names` occurs in `found`, in the order of `names`; names that do not occur are left out."""
    counts = Counter(found)
    return {name: counts[name] for name in names if name in counts}


@dataclass(frozen=True)
class ClaimResult:
    """Verdict on one claim, with its evidence.

    Attributes
    ----------
    claim : Claim
        The claim.
    evidence : Evidence
        What was measured: the numbers, and what to show of them.
    verdict : "holds", "corrected", "conditional" or "refuted"
        Verdict that follows from the evidence.
    fault : str
        Why the evidence allows no verdict (a measure raised an error, a control passed, a number is missing or not
        finite); empty if it allows one. A claim with a fault is never as expected; its `verdict` is "refuted".
    seconds : float
        Wall time of the evidence.
    """

    claim: Claim
    evidence: Evidence
    verdict: Verdict
    fault: str = ""
    seconds: float = field(default=math.nan, compare=False)

    @property
    def id(self) -> str:
        """Id of the claim."""
        return self.claim.id

    @property
    def checks(self) -> list[Measured]:
        """Numbers of the statement against their bounds, and of the controls."""
        return self.evidence.checks

    @property
    def conclusion(self) -> str:
        """What was found, with its numbers."""
        return self.evidence.conclusion

    @property
    def as_expected(self) -> bool:
        """Whether the verdict equals that of the register and the evidence has no fault."""
        return self.verdict == self.claim.expected and not self.fault

    @property
    def sentence(self) -> str:
        """What was found: the first sentence of the conclusion, or, if the verdict is unexpected, what decides it."""
        if not self.as_expected:
            decisive = self.decisive
            found = f": {decisive.name}: {decisive}" if decisive else ""
            return self.fault or f"The verdict is {self.verdict}{found}."
        return first_sentence(self.evidence.conclusion)[0]

    @property
    def difference(self) -> str:
        """Second sentence of the conclusion: for a claim with a headline, the distance from print to recomputation."""
        return first_sentence(first_sentence(self.evidence.conclusion)[1])[0]

    @property
    def outcome(self) -> str:
        """The verdict, or "no verdict" if the evidence has a fault."""
        return NO_VERDICT if self.fault else self.verdict

    @property
    def signal(self) -> float:
        """Signal over tolerance: the smallest ratio of a control to its bound; NaN without a control.

        It is infinite if no control has a factor: its bound (symbolic checks) or its value is 0, or they differ in
        sign. If it is at most 1, a control passed.
        """
        return min((check.excess for check in self.checks if check.role == "control"), default=math.nan)

    @property
    def decisive(self) -> Measured | None:
        """The number that decides the verdict.

        It is the one with the largest `excess` among those of the statement, or, for a conditional verdict, those
        outside the conditions; for a refuted verdict, the numbers of the corrected statement are included.
        """
        roles = {"conditional": ("outside",), "refuted": ("statement", "corrected")}.get(self.verdict, ("statement",))
        weighed = [check for check in self.checks if check.role in roles] or list(self.checks)
        return max(weighed, key=lambda check: math.inf if math.isnan(check.excess) else check.excess, default=None)

    @property
    def command(self) -> str:
        """Command that reproduces this claim."""
        load = f" --load {shlex.quote(self.claim.file)}" if self.claim.file else ""
        load = register_in_use().option if self.claim.chapter else load
        seed = "" if self.evidence.seed == SEED else f" --seed {self.evidence.seed}"
        return f"snapdyn validate {shlex.quote(self.id)} --level {self.evidence.level}{seed}{load}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; numbers that are not finite become text."""
        claim, evidence = self.claim, self.evidence
        return {
            "id": claim.id,
            "source": claim.source,
            "title": claim.title,
            "statement": claim.statement,
            "latex": claim.latex,
            "conditions": list(claim.conditions),
            "verdict": self.verdict,
            "expected": claim.expected,
            "grade": claim.grade,
            "domain": claim.domain,
            "fault": self.fault,
            "findings": list(claim.findings),
            "conclusion": evidence.conclusion,
            "checks": [check.to_dict() for check in self.checks],
            "signal_over_tolerance": json_number(self.signal),
            "seed": evidence.seed,
            "tried": evidence.tried,
            "undecided": evidence.undecided,
            "worst": evidence.worst,
            "counterexample": evidence.counterexample,
            "seconds": json_number(self.seconds),
            "level": evidence.level,
            "command": self.command,
        }


def verdict_of(evidence: Evidence) -> tuple[Verdict, str]:
    """Verdict that follows from the numbers, and what is wrong with the evidence itself, as a predicate, or "".

    A statement that passes holds, or is conditional if it fails somewhere outside its conditions. A statement that
    fails is corrected if there is a corrected statement that passes, else refuted. Evidence is faulty, and proves
    nothing, if it lacks a number of the statement or a negative control, if a control passes or its number follows
    from the statement's own, or if a number is not finite.
    """
    roles: dict[str, list[Measured]] = {"statement": [], "corrected": [], "outside": [], "control": []}
    for check in evidence.checks:
        roles[check.role].append(check)
    if not roles["control"] or not roles["statement"]:
        return "refuted", "has no number of the statement or no negative control; add one"
    unmeasured = [check.name for check in evidence.checks if not math.isfinite(check.value) or math.isnan(check.slack)]
    if unmeasured:
        return "refuted", f"has a number that is not finite ({'; '.join(unmeasured)})"
    accepted = [check.name for check in roles["control"] if check.holds]
    if accepted:
        return "refuted", f"lets a wrong theory pass ({'; '.join(accepted)})"
    mirrored = [check.name for check in roles["control"] if _says_the_same(check, evidence.checks)]
    if mirrored:
        return "refuted", (
            "has a control that is not computed from a wrong theory: its number follows from the statement's own "
            f"({'; '.join(mirrored)})"
        )
    passed = {role: all(check.holds for check in checks) for role, checks in roles.items()}
    if not passed["statement"]:
        return ("corrected" if roles["corrected"] and passed["corrected"] else "refuted"), ""
    if not passed["corrected"]:
        return "refuted", ""
    return ("holds" if passed["outside"] else "conditional"), ""


def _says_the_same(control: Measured, checks: Sequence[Measured]) -> bool:
    """Whether a control's number is that of a check of the statement, or follows from it by sign, inverse or 1 - x."""
    x = control.value
    if control.rung in (SYMBOLIC, CERTIFIED) or x == 0 or math.isclose(x, 1, rel_tol=SAME) or not math.isfinite(x):
        return False
    others = [check.value for check in checks if check.role in ("statement", "corrected")]
    return any(
        math.isclose(abs(x), abs(y), rel_tol=SAME)
        or math.isclose(x * y, 1, rel_tol=SAME)
        or math.isclose(x, 1 - y, rel_tol=SAME)
        for y in others
        if y != 0 and math.isfinite(y)
    )


@dataclass(frozen=True)
class Report:
    """Verdicts of one validation run.

    Attributes
    ----------
    level : str
        Level of the run.
    claims : tuple of ClaimResult
        Results, in the order of the register.
    seconds : float
        Wall time of the whole run.
    notes : tuple of str
        Other events: results that were kept from an interrupted run, a stored result that was damaged.
    missing : tuple of str
        Ids of the claims that were to be checked when the run was interrupted.
    """

    level: str
    claims: tuple[ClaimResult, ...]
    seconds: float = math.nan
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all claims that were to be checked were checked."""
        return not self.missing

    @property
    def as_expected(self) -> bool:
        """Whether every result is as expected."""
        return all(result.as_expected for result in self.claims)

    @property
    def by_outcome(self) -> list[ClaimResult]:
        """Results sorted by outcome: first those not as expected, then those that disagree with the printed paper."""
        return sorted(self.claims, key=lambda result: (result.as_expected, OUTCOMES.index(result.outcome)))

    def count(self) -> dict[str, int]:
        """Return the number of claims of each outcome that occurs."""
        return counted((result.outcome for result in self.claims), OUTCOMES)

    @property
    def summary(self) -> str:
        """One line: number of claims, claims per outcome, claims that differ from the register, wall time."""
        listed = ", ".join(f"{count} {outcome}" for outcome, count in reversed(self.count().items()))
        differing = sum(not result.as_expected for result in self.claims)
        took = "" if math.isnan(self.seconds) else f"; {self.seconds:.0f} s"
        return f"{len(self.claims)} claims: {listed or 'none checked'}; {differing} differ from the register{took}"

    def to_json(self) -> str:
        """JSON text: {"level", "seconds", "complete", "missing", "claims": [{"id", "verdict", "checks", ...}]}."""
        document = {
            "level": self.level,
            "seconds": json_number(self.seconds),
            "complete": self.complete,
            "missing": list(self.missing),
            "claims": [result.to_dict() for result in self.claims],
        }
        return json.dumps(document, indent=2) + "\n"

    def __repr__(self) -> str:
        listed = ", ".join(f"{count} {outcome}" for outcome, count in self.count().items())
        return f"Report({'; '.join((f'{self.level}: {listed}', *self.notes))})"
