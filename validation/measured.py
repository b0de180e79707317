"""A measured number and its bound, to which statements, conditions, figures and wrong theories are reduced."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from snapdyn.core.errors import InputError, choice, number, text

Role = Literal["statement", "corrected", "outside", "control", "condition"]
# Relations in words, for numbers that break them: "0.1 <= 0.01" would read as a statement.
REQUIRED = {"<=": "must be at most", ">=": "must be at least"}


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
