"""What validation returns: checks, verdicts, pictures, the report."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.validation.assumptions import Condition

Verdict = Literal["holds", "corrected", "conditional", "refuted"]
Role = Literal["statement", "corrected", "outside", "control"]
# Order of every list by outcome: what disagrees with print comes first.
VERDICTS: tuple[Verdict, ...] = ("corrected", "refuted", "conditional", "holds")
NO_VERDICT = "no verdict"
OUTCOMES: tuple[str, ...] = (NO_VERDICT, *VERDICTS)


@dataclass(frozen=True)
class Check:
    """One comparison of a measured number with a bound.

    Attributes
    ----------
    name : str
        What is compared, in plain words.
    rung : str
        Where on the ladder: "symbolic", "closed form", "modified decoder", "mean field", ...
    measured, bound : float
    relation : "<=" or ">="
        `passed` is `measured relation bound`; NaN never passes.
    role : "statement", "corrected", "outside" or "control"
        The statement as printed; the corrected statement; the statement outside its conditions (there it
        is expected to fail: that is the boundary); a wrong theory, which must fail.
    """

    name: str
    rung: str
    measured: float
    bound: float
    relation: Literal["<=", ">="] = "<="
    role: Role = "statement"

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", float(self.measured))
        object.__setattr__(self, "bound", float(self.bound))

    @property
    def passed(self) -> bool:
        """Whether the comparison holds, whatever the role."""
        return bool(self.measured <= self.bound if self.relation == "<=" else self.measured >= self.bound)

    @property
    def as_expected(self) -> bool:
        """Controls must fail; everything else speaks for itself."""
        return not self.passed if self.role == "control" else self.passed

    @property
    def excess(self) -> float:
        """Measured over bound ("<=") or bound over measured (">="): above 1 where the check fails.

        Negative numbers compare by their size: -0.5 where at most -0.9 is allowed is 1.8 times off. It is infinite
        where no factor tells the distance: the bound is 0, or lies on the other side of 0.
        """
        measured, bound = (self.measured, self.bound) if self.relation == "<=" else (-self.measured, -self.bound)
        if math.isnan(measured) or math.isnan(bound):
            return math.nan
        if measured <= 0 <= bound:
            return 0.0
        if bound <= 0 <= measured:
            return math.inf
        return measured / bound if bound > 0 else bound / measured

    @property
    def digits(self) -> int:
        """Significant digits, 3 or more, that tell the measured number from the bound: not 1 <= 1."""
        enough = (d for d in range(3, 17) if f"{self.measured:.{d}g}" != f"{self.bound:.{d}g}")
        return 3 if self.measured == self.bound else next(enough, 17)

    @property
    def comparison(self) -> str:
        """Measured, relation and bound as text."""
        return f"{self.measured:.{self.digits}g} {self.relation} {self.bound:.{self.digits}g}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `passed` of a control says that the wrong theory was rejected."""
        return {
            "name": self.name,
            "rung": self.rung,
            "role": self.role,
            "measured": _number(self.measured),
            "relation": self.relation,
            "bound": _number(self.bound),
            "passed": self.as_expected,
        }


def _number(value: float) -> float | str:
    value = float(value)
    return value if math.isfinite(value) else str(value)


@dataclass(frozen=True)
class Line:
    """One curve: x, y arrays of one length, a label, and whether it is theory, simulation or a control."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    kind: Literal["theory", "simulation", "printed", "control", "bound"] = "theory"

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        if self.x.ndim != 1 or self.x.shape != self.y.shape:
            raise ValueError(
                f"expected line {self.label!r} to have x and y of one length, received {self.x.shape}, {self.y.shape}"
            )


@dataclass(frozen=True)
class Picture:
    """Data of the one picture that shows a claim; drawn by the figures room."""

    xlabel: str
    ylabel: str
    lines: tuple[Line, ...]
    xscale: Literal["linear", "log"] = "log"
    yscale: Literal["linear", "log", "symlog"] = "linear"
    verticals: tuple[tuple[str, float], ...] = ()

    @staticmethod
    def line(label: str, x: ArrayLike, y: ArrayLike, kind: str = "theory") -> Line:
        """Build a `Line` from anything array-like."""
        return Line(label, np.asarray(x, dtype=float), np.asarray(y, dtype=float), kind)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Map:
    """Where a statement holds, over two quantities: measured violation on a grid, the printed condition on it.

    Attributes
    ----------
    title, xlabel, ylabel : str
    x, y : (nx,), (ny,) increasing
    violation : (ny, nx)
        Measured violation; NaN where an instance does not exist.
    threshold : float
        The statement counts as failed where `violation` is larger.
    quantity : str
        What `violation` measures, with its unit.
    boundaries : lines over the same axes
        Printed conditions (kind "printed") and fitted or corrected ones (kind "theory").
    xscale, yscale, scale : "linear" or "log", of the axes and of the colours
    """

    title: str
    xlabel: str
    ylabel: str
    quantity: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    violation: NDArray[np.float64]
    threshold: float
    boundaries: tuple[Line, ...] = ()
    xscale: Literal["linear", "log"] = "log"
    yscale: Literal["linear", "log"] = "log"
    scale: Literal["linear", "log"] = "log"

    def __post_init__(self) -> None:
        for name in ("x", "y", "violation"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        if self.violation.shape != (self.y.size, self.x.size):
            raise ValueError(
                f"expected map {self.title!r} to have violations of shape (ny, nx) = {(self.y.size, self.x.size)}, "
                f"received {self.violation.shape}"
            )
        if (np.diff(self.x) <= 0).any() or (np.diff(self.y) <= 0).any():
            raise ValueError(f"expected map {self.title!r} to have increasing x and y")


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
                    "bound": _number(condition.bound),
                    "measured": _number(condition.measured),
                    "satisfied": bool(condition.satisfied),
                }
                for condition in self.conditions
            ],
            "checks": [check.to_dict() for check in self.checks],
            "signal_over_tolerance": _number(self.signal),
            "seeds": list(self.seeds),
            "tried": self.tried,
            "seconds": _number(self.seconds),
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
            "seconds": _number(self.seconds),
            "claims": [result.to_dict() for result in self.claims],
        }
        return json.dumps(document, indent=2) + "\n"

    def __repr__(self) -> str:
        listed = ", ".join(f"{count} {outcome}" for outcome, count in self.count().items())
        return f"Report({'; '.join((f'{self.level}: {listed}', *self.notes))})"
