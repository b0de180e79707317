"""What validation returns: checks, verdicts, pictures, the report."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Literal

from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Check, json_number
from snapdyn.validation.headlines import Headline
from snapdyn.validation.pictures import Map, Picture

Verdict = Literal["holds", "corrected", "conditional", "refuted"]
# Order of every list by outcome: verdicts that disagree with the printed paper come first.
VERDICTS: tuple[Verdict, ...] = ("corrected", "refuted", "conditional", "holds")
NO_VERDICT = "no verdict"
OUTCOMES: tuple[str, ...] = (NO_VERDICT, *VERDICTS)


@dataclass(frozen=True)
class ClaimResult:
    """Verdict on one claim, with its evidence.

    Attributes
    ----------
    id : str
        Id of the claim.
    source : str
        Where the statement stands: paper, equation, version; or "own".
    title : str
        One line for lists.
    statement : str
        The statement in words.
    latex : str
        The statement as a formula.
    assumptions : tuple of str
        What the statement presupposes, in words.
    expected : "holds", "corrected", "conditional" or "refuted"
        Verdict that the register states.
    verdict : "holds", "corrected", "conditional" or "refuted"
        Verdict that follows from the checks.
    checks : tuple of Check
        Checks of the statement, and controls.
    conclusion : str
        One sentence with the numbers.
    answer : str
        What was found, in one sentence, as the register states it.
    headline : Headline or None
        Print and recomputation as formulas, for the first screen of the report.
    difference : str
        For a claim with a headline: how far print and recomputation are apart, with the measured numbers.
    findings : tuple of str
        Ids of `FINDINGS` that the claim shows.
    conditions : tuple of Condition
        Assumptions as evaluated on the instance.
    picture : Picture or None
        Data of the picture that shows the claim.
    maps : tuple of Map
        Validity maps of the statement.
    seeds : tuple of int
        Seeds of all random numbers.
    tried : int
        Number of instances that met the conditions of the searched properties; 0 if there was no search.
    undecided : int
        Number of instances inside the conditions on which a run failed.
    worst : str
        Smallest margins of the searched properties, and where.
    counterexample : dict or None
        Instance on which a searched statement fails, simplified (`snapdyn.validation.search.Instance.to_dict`).
    grade : "proved", "certified", "searched" or "measured"
        How the statement is known: sympy, interval proof, search of the domain, or at named settings.
    domain : str
        For what the statement is made.
    level : str
        Level of the run.
    file : str
        The user's file that the claim was loaded from; empty for a claim of the package.
    fault : str
        Why the evidence allows no verdict (the claim's function raised an error, a control passed, a check is missing,
        a number is not finite); empty if it does. Such a claim is never as expected; its `verdict` is "refuted".
    seconds : float
        Wall time of the evidence.
    """

    id: str
    source: str
    title: str
    statement: str
    latex: str
    assumptions: tuple[str, ...]
    expected: Verdict
    verdict: Verdict
    checks: tuple[Check, ...]
    conclusion: str = ""
    answer: str = ""
    headline: Headline | None = None
    difference: str = ""
    findings: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    picture: Picture | None = None
    maps: tuple[Map, ...] = ()
    seeds: tuple[int, ...] = ()
    tried: int = 0
    undecided: int = 0
    worst: str = ""
    counterexample: dict[str, Any] | None = None
    grade: str = "measured"
    domain: str = ""
    level: str = "quick"
    file: str = ""
    fault: str = ""
    seconds: float = field(default=math.nan, compare=False)

    @property
    def as_expected(self) -> bool:
        """Whether the verdict equals that of the register and the evidence has no fault."""
        return self.verdict == self.expected and not self.fault

    @property
    def sentence(self) -> str:
        """What was found, in one sentence: the register's answer, or, where the verdict differs, the conclusion's."""
        if self.answer and self.as_expected:
            return self.answer
        return re.split(r"(?<=[.!?])\s+(?=[A-Z(])", self.conclusion, maxsplit=1)[0]

    @property
    def outcome(self) -> str:
        """The verdict, or "no verdict" if the evidence has a fault."""
        return NO_VERDICT if self.fault else self.verdict

    @property
    def signal(self) -> float:
        """Signal over tolerance: the smallest ratio of a control to its bound; NaN without a control.

        It is infinite if the bound of every control is 0 (symbolic checks). If it is at most 1, a control passed.
        """
        return min((check.excess for check in self.checks if check.role == "control"), default=math.nan)

    @property
    def decisive(self) -> Check | None:
        """The check that decides the verdict.

        It is the check with the largest `excess` among those of the statement, or, for a conditional verdict, those
        outside the conditions; for a refuted one the checks of the corrected statement are included.
        """
        roles = {"conditional": ("outside",), "refuted": ("statement", "corrected")}.get(self.verdict, ("statement",))
        weighed = [check for check in self.checks if check.role in roles] or list(self.checks)
        return max(weighed, key=lambda check: math.inf if math.isnan(check.excess) else check.excess, default=None)

    @property
    def command(self) -> str:
        """Command that reproduces this claim."""
        load = f" --load {shlex.quote(self.file)}" if self.file else ""
        return f"snapdyn validate {shlex.quote(self.id)} --level {self.level}{load}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; numbers that are not finite become text."""
        return {
            "id": self.id,
            "source": self.source,
            "title": self.title,
            "statement": self.statement,
            "latex": self.latex,
            "verdict": self.verdict,
            "expected": self.expected,
            "grade": self.grade,
            "domain": self.domain,
            "fault": self.fault,
            "findings": list(self.findings),
            "answer": self.answer,
            "difference": self.difference,
            "conclusion": self.conclusion,
            "assumptions": list(self.assumptions),
            "conditions": [condition.to_dict() for condition in self.conditions],
            "checks": [check.to_dict() for check in self.checks],
            "signal_over_tolerance": json_number(self.signal),
            "seeds": list(self.seeds),
            "tried": self.tried,
            "undecided": self.undecided,
            "worst": self.worst,
            "counterexample": self.counterexample,
            "seconds": json_number(self.seconds),
            "level": self.level,
            "command": self.command,
        }


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
        """Results by outcome: first those not as expected, then those that disagree with the printed paper."""
        return sorted(self.claims, key=lambda result: (result.as_expected, OUTCOMES.index(result.outcome)))

    def count(self) -> dict[str, int]:
        """Return the number of claims of each outcome that occurs."""
        counts = {outcome: sum(result.outcome == outcome for result in self.claims) for outcome in OUTCOMES}
        return {outcome: count for outcome, count in counts.items() if count}

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
