"""A measured number and its bound, to which all statements are reduced, and the evidence for a claim: such numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from snapdyn.core.errors import InputError, choice, instance, list_of, number, text, whole
from snapdyn.validation.pictures import Map, Picture

Role = Literal["statement", "corrected", "outside", "control", "condition"]
# Root of all draws of the register; another one searches the same domains again with other instances.
SEED = 2305
LEVELS = ("quick", "full")
# Relations in words, for numbers that break them: "0.1 <= 0.01" would read as a statement.
REQUIRED = {"<=": "must be at most", ">=": "must be at least"}


class NoNumber(Exception):
    """A measure has no number on an instance; the message says why: "the run failed (its solver gave up)"."""


@dataclass(frozen=True)
class Measured:
    """A number that was measured, and the bound that it must keep.

    Attributes
    ----------
    value : float
        The measured number.
    at_most : float or None
        Largest allowed number; or `at_least`.
    at_least : float or None
        Smallest allowed number.
    error : float
        Numerical error of `value`: a smaller margin decides nothing.
    where : str
        Where it was measured, for example "token 3 of class 0 at t = 120".
    name : str
        What is measured.
    rung : str
        Where on the ladder: "symbolic", "closed form", "modified decoder", "mean field", ...
    role : "statement", "corrected", "outside", "control" or "condition"
        The statement as printed; the corrected statement; the statement outside its conditions (it is expected to fail
        there, which shows the boundary); a wrong theory, which must fail; a condition of the statement.
    required : str
        A condition in symbols, with its bound.

    Raises
    ------
    InputError
        Not exactly one bound is given, a value is not a number, or the role is unknown.

    Examples
    --------
    >>> import snapdyn as sd
    >>> fall = sd.Measured(2e-4, at_most=1e-5, error=1e-7)
    >>> fall.holds, fall.decided
    (False, True)
    >>> sd.Measured(2e-9, at_most=1e-8, name="relative error", rung="closed form").comparison
    '2e-09 <= 1e-08'
    >>> sd.Measured(0.3, at_most=1e-8, name="wrong theory", role="control").as_expected
    True
    """

    value: float
    at_most: float | None = None
    at_least: float | None = None
    error: float = 0.0
    where: str = ""
    name: str = ""
    rung: str = ""
    role: Role = "statement"
    required: str = ""

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise InputError("expected at_most or at_least of a measured number, received both or none; give one")
        for name in ("value", "at_most", "at_least", "error"):
            if getattr(self, name) is not None or name in ("value", "error"):
                object.__setattr__(self, name, number(name, getattr(self, name)))
        for name in ("where", "name", "rung", "required"):
            text(name, getattr(self, name))
        choice("role", self.role, get_args(Role))

    def labelled(self, role: Role, name: str, rung: str = "", required: str = "") -> Measured:
        """The same number with its role, name and rung."""
        return replace(self, role=role, name=name, rung=rung, required=required)

    @property
    def bound(self) -> float:
        """The bound, `at_most` or `at_least`."""
        return self.at_most if self.at_most is not None else self.at_least  # type: ignore[return-value]

    @property
    def relation(self) -> Literal["<=", ">="]:
        """Relation that is required between value and bound."""
        return ">=" if self.at_most is None else "<="

    @property
    def margin(self) -> float:
        """Distance of the value from the bound, positive where the statement holds."""
        return self.bound - self.value if self.at_least is None else self.value - self.bound

    @property
    def slack(self) -> float:
        """Margin plus numerical error: negative where the statement fails by more than the error."""
        return self.margin + self.error

    @property
    def decided(self) -> bool:
        """Whether the margin is a number of at least the numerical error."""
        return abs(self.margin) >= self.error

    @property
    def holds(self) -> bool:
        """Whether the bound is kept, up to the numerical error; NaN never keeps it."""
        return self.slack >= 0 or self.value == self.bound

    @property
    def as_expected(self) -> bool:
        """Whether the number is as it must be: that of a control must fail; every other number must hold."""
        return not self.holds if self.role == "control" else self.holds

    @property
    def excess(self) -> float:
        """Value over bound ("<=") or bound over value (">="), the bound widened by the error: above 1 where it fails.

        Negative numbers are compared by their size: -0.5 where at most -0.9 is allowed gives 1.8. It is infinite
        where no factor gives the distance: the bound is 0, or lies on the other side of 0.
        """
        sign = 1.0 if self.at_least is None else -1.0
        value, bound = sign * self.value, sign * self.bound + self.error
        if math.isnan(value) or math.isnan(bound):
            return math.nan
        if value <= 0 <= bound:
            return 0.0
        if bound <= 0 <= value:
            return math.inf
        return value / bound if bound > 0 else bound / value

    @property
    def digits(self) -> int:
        """Significant digits, at least 3, with which the value and the bound look different."""
        enough = (d for d in range(3, 17) if f"{self.value:.{d}g}" != f"{self.bound:.{d}g}")
        return 3 if self.value == self.bound else next(enough, 17)

    @property
    def comparison(self) -> str:
        """Value, relation and bound as text, with the numerical error where this decides whether the bound is kept."""
        error = f" {'+' if self.relation == '<=' else '-'} {self.error:.1g}" if self.margin < 0 <= self.slack else ""
        return f"{self.value:.{self.digits}g} {self.relation} {self.bound:.{self.digits}g}{error}"

    @property
    def comparands(self) -> dict[str, Any]:
        """Value, relation and bound, JSON-ready."""
        return {"measured": json_number(self.value), "relation": self.relation, "bound": json_number(self.bound)}

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        relation = f" {self.relation}" if self.margin >= 0 else f", {REQUIRED[self.relation]}"
        error = "" if self.decided else f", but the numerical error is {self.error:.1g}"
        return f"{self.value:.3g}{relation} {self.bound:.3g}{place}{error}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `passed` of a control says that the wrong theory was rejected."""
        if self.role == "condition":
            return {"name": self.name, "required": self.required, **self.comparands, "met": self.holds}
        facts = {"name": self.name, "rung": self.rung, "role": self.role, **self.comparands}
        return {**facts, "error": json_number(self.error), "passed": self.as_expected}


def json_number(value: float) -> float | str:
    value = float(value)
    return value if math.isfinite(value) else str(value)


@dataclass
class Evidence:
    """What was measured for a claim, and what the report shows of it; a claim's function may add to it.

    Attributes
    ----------
    checks : list of Measured
        Numbers against their bounds; `holds`, `corrected`, `outside` and `control` add one each.
    conclusion : str
        What was found; if empty, the claim's own conclusion is shown, with its numbers.
    picture : Picture or None
        Picture that shows the claim.
    map : Map or None
        Where the statement holds.
    numbers : dict of str to float
        Measured numbers by the names of cases and properties, which a claim's conclusion may insert.
    tried : int
        Number of instances that met the conditions of the claim's searched properties.
    undecided : int
        Number of instances inside the conditions on which a run failed.
    worst : str
        Smallest margins of the searched properties, and the instances where they occur.
    counterexample : dict or None
        Instance on which a searched property fails, simplified.
    level : "quick" or "full"
        How much to measure.
    seed : int
        Root of the draws of the searches.

    Examples
    --------
    >>> import snapdyn as sd
    >>> evidence = sd.Evidence()
    >>> evidence.holds("relative error", "closed form", 2e-9, at_most=1e-8)
    >>> evidence.control("wrong theory: factor K", "closed form", 0.8, at_most=1e-8)
    >>> [check.as_expected for check in evidence.checks]
    [True, True]
    """

    checks: list[Measured] = field(default_factory=list)
    conclusion: str = ""
    picture: Picture | None = None
    map: Map | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    tried: int = 0
    undecided: int = 0
    worst: str = ""
    counterexample: dict[str, Any] | None = None
    level: str = "quick"
    seed: int = SEED

    def __post_init__(self) -> None:
        self.checks = list_of("checks", self.checks, Measured)
        if any(check.role == "condition" for check in self.checks):
            raise InputError(
                "expected numbers of statements and controls as checks, received a condition; leave it out"
            )
        for name in ("conclusion", "worst"):
            text(name, getattr(self, name))
        for name in ("tried", "seed", "undecided"):
            setattr(self, name, whole(name, getattr(self, name), 0))
        choice("level", self.level, LEVELS)
        for name, kind in (("picture", Picture), ("map", Map), ("counterexample", dict)):
            if getattr(self, name) is not None:
                instance(name, getattr(self, name), kind, "leave it out, or give one")

    def holds(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a number of the statement: `measured` is at most, or at least, a bound.

        Parameters
        ----------
        what : str
            What is measured, with the settings.
        rung : str
            Where on the ladder: "closed form", "modified decoder", "mean field", "descent", "SGD", ...
        measured : float
            The measured number.
        at_most : float, optional
            Largest allowed number; give it or `at_least`.
        at_least : float, optional
            Smallest allowed number.

        Raises
        ------
        InputError
            Not exactly one bound is given.
        """
        self._add("statement", what, rung, measured, at_most, at_least)

    def corrected(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a number of the corrected statement; arguments as those of `holds`."""
        self._add("corrected", what, rung, measured, at_most, at_least)

    def outside(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a number of the statement where its conditions are not met; arguments as those of `holds`.

        The statement is expected to fail there: then the claim is conditional, and the number shows the boundary.
        """
        self._add("outside", what, rung, measured, at_most, at_least)

    def control(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a negative control: a number computed from a wrong theory, which must fail; arguments as for `holds`.

        The number must not follow from the statement's own: such a control could not find an error in the statement's
        number, and the verdict says so (`snapdyn.validation.results.verdict_of`).
        """
        self._add("control", what, rung, measured, at_most, at_least)

    def _add(
        self, role: Role, what: str, rung: str, measured: float, at_most: float | None, at_least: float | None
    ) -> None:
        self.checks.append(Measured(measured, at_most, at_least, name=what, rung=rung, role=role))
