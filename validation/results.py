"""What validation returns: checks, verdicts, pictures, the report."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass, field
from typing import Any, Literal

from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Check, json_number
from snapdyn.validation.pictures import Map, Picture

Verdict = Literal["holds", "corrected", "conditional", "refuted"]
# Order of every list by outcome: what disagrees with print comes first.
VERDICTS: tuple[Verdict, ...] = ("corrected", "refuted", "conditional", "holds")
NO_VERDICT = "no verdict"
OUTCOMES: tuple[str, ...] = (NO_VERDICT, *VERDICTS)


@dataclass(frozen=True)
class ClaimResult:
    """The verdict on one claim with everything that led to it.

    Attributes
    ----------
    assumptions, conditions
        What the statement presupposes: in words, and as measured on the instance.
    seeds, tried
        Seeds of everything random; number of instances of a search for counterexamples, 0 when there was none.
    level, file
        Level of the run, and the user's file that the claim was loaded from (empty for the register's own).
    seconds
        Wall time that the evidence took.
    fault
        Why the evidence itself cannot carry a verdict (the claim's function raised an error, a control passed, a
        check is missing, a number is not finite); such a claim is never as expected, and its `verdict` is "refuted".
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
    findings: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    picture: Picture | None = None
    maps: tuple[Map, ...] = ()
    seeds: tuple[int, ...] = ()
    tried: int = 0
    level: str = "quick"
    file: str = ""
    fault: str = ""
    seconds: float = field(default=math.nan, compare=False)

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the register's and rests on sound evidence."""
        return self.verdict == self.expected and not self.fault

    @property
    def outcome(self) -> str:
        """The verdict, or "no verdict" when the evidence is at fault."""
        return NO_VERDICT if self.fault else self.verdict

    @property
    def signal(self) -> float:
        """Signal over tolerance: how many times beyond its bound the weakest control lies; NaN without a control.

        Infinite when every control's bound is 0 (sympy leaves a residual or none). At most 1: a control passed.
        """
        return min((check.excess for check in self.checks if check.role == "control"), default=math.nan)

    @property
    def decisive(self) -> Check | None:
        """The check that the verdict hangs on.

        Of the checks that decide (of the statement; outside its conditions when it is conditional; corrected ones
        as well when it is refuted) the one that is furthest beyond its bound, or nearest to it.
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
            "fault": self.fault,
            "findings": list(self.findings),
            "conclusion": self.conclusion,
            "assumptions": list(self.assumptions),
            "conditions": [
                {
                    "name": condition.name,
                    "required": condition.required,
                    "bound": json_number(condition.bound),
                    "measured": json_number(condition.measured),
                    "satisfied": bool(condition.satisfied),
                }
                for condition in self.conditions
            ],
            "checks": [check.to_dict() for check in self.checks],
            "signal_over_tolerance": json_number(self.signal),
            "seeds": list(self.seeds),
            "tried": self.tried,
            "seconds": json_number(self.seconds),
            "level": self.level,
            "command": self.command,
        }


@dataclass(frozen=True)
class Report:
    """Verdicts of one validation run, in the order of the register.

    `seconds` is the wall time of the whole run; `notes` say what else happened: claims taken over from an
    interrupted run, a stored claim that was damaged.
    """

    level: str
    claims: tuple[ClaimResult, ...]
    seconds: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def as_expected(self) -> bool:
        """Whether every verdict is the register's."""
        return all(result.as_expected for result in self.claims)

    @property
    def by_outcome(self) -> list[ClaimResult]:
        """Claims whose verdict is not the register's first, then those that disagree with print, then the rest."""
        return sorted(self.claims, key=lambda result: (result.as_expected, OUTCOMES.index(result.outcome)))

    def count(self) -> dict[str, int]:
        """Return the number of claims of each outcome that occurs."""
        counts = {outcome: sum(result.outcome == outcome for result in self.claims) for outcome in OUTCOMES}
        return {outcome: count for outcome, count in counts.items() if count}

    def to_json(self) -> str:
        """JSON text: {"level", "seconds", "claims": [{"id", "source", "title", "verdict", "checks": [...], ...}]}."""
        document = {
            "level": self.level,
            "seconds": json_number(self.seconds),
            "claims": [result.to_dict() for result in self.claims],
        }
        return json.dumps(document, indent=2) + "\n"

    def __repr__(self) -> str:
        listed = ", ".join(f"{count} {outcome}" for outcome, count in self.count().items())
        return f"Report({'; '.join((f'{self.level}: {listed}', *self.notes))})"
