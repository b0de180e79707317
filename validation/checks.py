"""Checks: one comparison of a measured number with a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from snapdyn.errors import choice, number, text

Role = Literal["statement", "corrected", "outside", "control"]
# Relations in words, for numbers that break them: "0.1 <= 0.01" would read as a statement.
REQUIRED = {"<=": "must be at most", ">=": "must be at least"}


@dataclass(frozen=True)
class Check:
    """One comparison of a measured number with a bound.

    Attributes
    ----------
    name : str
        What is compared.
    rung : str
        Where on the ladder: "symbolic", "closed form", "modified decoder", "mean field", ...
    measured : float
        The measured number.
    bound : float
        The number that it is compared with.
    relation : "<=" or ">="
        `passed` is `measured relation bound`; NaN never passes.
    role : "statement", "corrected", "outside" or "control"
        The statement as printed; the corrected statement; the statement outside its conditions (there it
        is expected to fail: that is the boundary); a wrong theory, which must fail.

    Raises
    ------
    InputError
        A name that is no text, a number that is none, or an unknown relation or role.

    Examples
    --------
    >>> from snapdyn import Check
    >>> check = Check("relative error", "closed form", measured=2e-9, bound=1e-8)
    >>> check.passed, check.comparison
    (True, '2e-09 <= 1e-08')
    >>> Check("wrong theory", "closed form", 0.3, 1e-8, role="control").as_expected
    True
    """

    name: str
    rung: str
    measured: float
    bound: float
    relation: Literal["<=", ">="] = "<="
    role: Role = "statement"

    def __post_init__(self) -> None:
        text("the name of a check", self.name)
        text("the rung of a check", self.rung)
        object.__setattr__(self, "measured", number("measured", self.measured))
        object.__setattr__(self, "bound", number("bound", self.bound))
        choice("relation", self.relation, ("<=", ">="))
        choice("role", self.role, get_args(Role))

    @property
    def passed(self) -> bool:
        """Whether the comparison holds, whatever the role."""
        return bool(self.measured <= self.bound if self.relation == "<=" else self.measured >= self.bound)

    @property
    def as_expected(self) -> bool:
        """Whether the check came out as it must: a control must fail; every other check must pass."""
        return not self.passed if self.role == "control" else self.passed

    @property
    def excess(self) -> float:
        """Measured over bound ("<=") or bound over measured (">="): above 1 where the check fails.

        Negative numbers compare by their size: -0.5 where at most -0.9 is allowed is 1.8 times off. It is infinite
        where no factor gives the distance: the bound is 0, or lies on the other side of 0.
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
        """Significant digits, at least 3, with which the measured number and the bound look different."""
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
            "measured": json_number(self.measured),
            "relation": self.relation,
            "bound": json_number(self.bound),
            "passed": self.as_expected,
        }


def json_number(value: float) -> float | str:
    value = float(value)
    return value if math.isfinite(value) else str(value)
