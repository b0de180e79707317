"""Properties: a statement about one instance, with its conditions, its domain and its wrong theories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from snapdyn.errors import InputError, flag, function, instance, list_of, number, pair, shown, text, whole
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import REQUIRED, Check, Role
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance


@dataclass(frozen=True)
class Measured:
    """A number that a statement bounds, measured on one instance.

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
        Where on the instance it was measured, "token 3 of class 0 at t = 120", say.

    Raises
    ------
    InputError
        Not exactly one bound is given, or a number is none.

    Examples
    --------
    >>> from snapdyn.validation import Measured
    >>> fall = Measured(2e-4, at_most=1e-5, error=1e-7)
    >>> fall.holds, fall.decided
    (False, True)
    """

    value: float
    at_most: float | None = None
    at_least: float | None = None
    error: float = 0.0
    where: str = ""

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise InputError("expected at_most or at_least of a measured number, received both or none; give one")
        for name in ("value", "at_most", "at_least"):
            if name == "value" or getattr(self, name) is not None:
                object.__setattr__(self, name, number(name, getattr(self, name)))
        object.__setattr__(self, "error", number("error", self.error))
        text("where", self.where)

    @property
    def bound(self) -> float:
        """The bound, `at_most` or `at_least`."""
        return self.at_most if self.at_most is not None else self.at_least  # type: ignore[return-value]

    @property
    def relation(self) -> Literal["<=", ">="]:
        """Relation that the statement claims between value and bound."""
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
        """Whether the statement holds: the margin is not negative beyond the numerical error."""
        return self.slack >= 0

    def check(self, name: str, rung: str, role: Role) -> Check:
        """Check whose bound is wider by the numerical error: it passes where `holds` is true."""
        bound = self.bound + self.error if self.relation == "<=" else self.bound - self.error
        return Check(name, rung, self.value, bound, self.relation, role)

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        relation = f" {self.relation}" if self.margin >= 0 else f", {REQUIRED[self.relation]}"
        error = "" if self.decided else f", but the numerical error is {self.error:.1g}"
        return f"{self.value:.3g}{relation} {self.bound:.3g}{place}{error}"


@dataclass(frozen=True)
class Requirement:
    """A condition of a statement: a number of the instance and its bound.

    Attributes
    ----------
    name : str
        Name of the condition.
    required : str
        The condition in symbols, with its bound: "|lambda_1(E)| K < 1".
    measure : callable
        ``measure(instance)`` returns the number.
    at_most : float or None
        Largest allowed number; or `at_least`.
    at_least : float or None
        Smallest allowed number.
    defining : bool
        Whether the statement says nothing without it: then it is not measured outside.

    Examples
    --------
    >>> from snapdyn.validation import Requirement
    >>> one_query = Requirement("one query", "Q = 1", lambda instance: len(set(instance.query)), at_most=1)
    """

    name: str
    required: str
    measure: Callable[[Instance], float]
    at_most: float | None = None
    at_least: float | None = None
    defining: bool = False

    def __post_init__(self) -> None:
        text("the name of a requirement", self.name)
        text("required", self.required)
        function("measure", self.measure)
        Measured(0.0, self.at_most, self.at_least)
        flag("defining", self.defining)

    def on(self, instance: Instance) -> Condition:
        """Evaluate the condition on an instance."""
        value = float(self.measure(instance))
        measured = Measured(value, self.at_most, self.at_least)
        return Condition(self.name, self.required, measured.bound, value, measured.margin >= 0)


Measure = Callable[[Instance], Measured | None]


@dataclass(frozen=True)
class Property:
    """A statement about one instance, which a search tests over its domain and `snapdyn.check` on a user's instance.

    Attributes
    ----------
    name : str
        What is measured.
    rung : str
        Rung of the ladder on which it is measured.
    measure : callable
        ``measure(instance)`` returns a Measured; None where the run failed or a number is not available.
    domain : Family
        Instances over which the statement is made, as wide as its words.
    conditions : tuple of Requirement
        Conditions of the statement; outside them it is measured too, to show the boundary.
    controls : mapping of str to callable
        Wrong theories, by name: ``wrong(instance)`` returns what `measure` would return were the wrong theory true.
        A control is rejected if its number fails on an instance inside the conditions.
    evaluations : (int, int)
        Number of instances to measure at level quick and full.
    corrected : bool
        Whether this is the corrected statement in place of the printed one.
    directed : bool
        Whether to push the worst instances further; not for statements whose number is rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from snapdyn.validation import Family, Measured, Property
    >>> larger = Property(
    ...     "largest |E_ij| over |lambda_1|", "linear algebra",
    ...     lambda i: Measured((i.gram - np.eye(len(i.gram))).max() * len(i.gram) / i.correlation, at_most=1 + 1e-12),
    ...     Family("any overlap", correlation="any"),
    ... )
    """

    name: str
    rung: str
    measure: Measure
    domain: Family
    conditions: tuple[Requirement, ...] = ()
    controls: Mapping[str, Measure] = field(default_factory=dict)
    evaluations: tuple[int, int] = (60, 3000)
    corrected: bool = False
    directed: bool = True

    def __post_init__(self) -> None:
        text("the name of a property", self.name)
        text("the rung of a property", self.rung)
        function("measure", self.measure)
        instance("domain", self.domain, Family, "give a snapdyn.Family")
        object.__setattr__(self, "conditions", tuple(list_of("conditions", self.conditions, Requirement)))
        for name, wrong in instance("controls", self.controls, Mapping, "give {name: wrong theory}").items():
            function(f"the control {shown(name)}", wrong)
        quick, full = pair("evaluations", self.evaluations)
        object.__setattr__(self, "evaluations", (whole("evaluations", quick, 1), whole("evaluations", full, 1)))
        flag("corrected", self.corrected)
        flag("directed", self.directed)

    def conditions_on(self, instance: Instance) -> list[Condition]:
        """Conditions as evaluated on an instance.

        Evaluation stops at the first defining condition that is not met, since later ones may need it.
        """
        found = []
        for requirement in self.conditions:
            found.append(requirement.on(instance))
            if requirement.defining and not found[-1].satisfied:
                break
        return found

    def measurable(self, conditions: list[Condition]) -> bool:
        """Whether all defining conditions among `conditions_on` are met."""
        return all(
            condition.satisfied
            for requirement, condition in zip(self.conditions, conditions, strict=False)
            if requirement.defining
        )
