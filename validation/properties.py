"""Properties: a statement about one instance, with its conditions, its domain, its cases and its wrong theories."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from snapdyn.core.errors import InputError, flag, function, instance, list_of, pair, shown, text, whole
from snapdyn.core.memory import Unaffordable
from snapdyn.dynamics.files.user_files import described
from snapdyn.validation.measured import Measured, NoNumber, Role
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance

# Changes by one disturbance that the numerical error of a number is taken to be.
ROUNDINGS = 10.0

# An instance: an `Instance` of a Family, the parameters of a Box, or what a figure computed.
Measure = Callable[[Any], Measured | None]
Cases = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


class NotANumber(InputError):
    """A measure gave NaN on one instance: a search counts it and goes on."""


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
        Whether the statement is empty without this condition: it is then not measured outside the condition.

    Examples
    --------
    >>> from snapdyn.validation import Requirement
    >>> one_query = Requirement("one query", "Q = 1", lambda instance: len(set(instance.query)), at_most=1)
    """

    name: str
    required: str
    measure: Callable[[Any], float]
    at_most: float | None = None
    at_least: float | None = None
    defining: bool = False

    def __post_init__(self) -> None:
        text("the name of a requirement", self.name)
        text("required", self.required)
        function("measure", self.measure)
        Measured(0.0, self.at_most, self.at_least)
        flag("defining", self.defining)

    def on(self, instance: Any) -> Measured:
        """Evaluate the condition on an instance."""
        value = float(self.measure(instance))
        return Measured(value, self.at_most, self.at_least, name=self.name, role="condition", required=self.required)


@dataclass(frozen=True)
class Reading:
    """What a property says of one instance.

    Attributes
    ----------
    conditions : list of Measured
        Conditions as measured.
    measured : Measured or None
        The number; None where a defining condition is not met, or where there is no number, for example since the run
        failed.
    measurable : bool
        Whether all defining conditions are met.
    reason : str
        Why the measure has no number; empty where it has one, and where none was asked for.
    """

    conditions: list[Measured]
    measured: Measured | None
    measurable: bool
    reason: str = ""

    @property
    def unmet(self) -> list[Measured]:
        """Conditions that are not met."""
        return [condition for condition in self.conditions if not condition.holds]


@dataclass(frozen=True)
class Property:
    """A statement about one instance: searched over its domain, measured at its cases and on a user's instance.

    Attributes
    ----------
    name : str
        What is measured.
    rung : str
        Rung of the ladder on which it is measured.
    measure : callable
        ``measure(instance)`` returns a Measured; None where the run failed or a number is not available. The instance
        of a Box is a mapping of its parameters.
    domain : Family, Box or None
        All instances of which the statement speaks; None: it speaks of its cases only.
    conditions : tuple of Requirement
        Conditions of the statement; outside them it is measured too, to show the boundary.
    controls : mapping of str to callable
        Wrong theories, by name: ``wrong(instance)`` returns what `measure` would return were the wrong theory true.
        A control is rejected if its number fails on an instance inside the conditions.
    evaluations : (int, int)
        Number of instances inside the conditions to measure at level quick and full; fewer than the default where a
        measurement takes more than 5 ms.
    corrected : bool
        Whether this is the corrected statement in place of the printed one.
    directed : bool
        Whether to push the worst instances further; False for statements whose number is only rounding.
    cases : mapping of str to instance
        Named settings inside the conditions, at which the statement must hold; or a function without arguments that
        makes the mapping when it is first needed.
    beyond : mapping of str to instance
        Named settings outside the conditions or the domain, at which the statement is expected to fail: they show the
        boundary.

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
    domain: Family | Box | None = None
    conditions: tuple[Requirement, ...] = ()
    controls: Mapping[str, Measure] = field(default_factory=dict)
    evaluations: tuple[int, int] = (200, 10_000)
    corrected: bool = False
    directed: bool = True
    cases: Cases = field(default_factory=dict)
    beyond: Cases = field(default_factory=dict)

    def __post_init__(self) -> None:
        text("the name of a property", self.name)
        text("the rung of a property", self.rung)
        function("measure", self.measure)
        if self.domain is not None and not isinstance(self.domain, Family | Box):
            raise InputError(
                f"expected the domain of {shown(self.name)} as a Family or a Box, received {shown(self.domain)}; give "
                'sd.Family("any classes") or sd.Box(eta=(0.1, 1.0)), or None and cases'
            )
        object.__setattr__(self, "conditions", tuple(list_of("conditions", self.conditions, Requirement)))
        for name, wrong in instance("controls", self.controls, Mapping, "give {name: wrong theory}").items():
            function(f"the control {shown(name)}", wrong)
        quick, full = pair("evaluations", self.evaluations)
        object.__setattr__(self, "evaluations", (whole("evaluations", quick, 1), whole("evaluations", full, 1)))
        flag("corrected", self.corrected)
        flag("directed", self.directed)
        for name in ("cases", "beyond"):
            given = getattr(self, name)
            if not callable(given):
                given = dict(instance(name, given, Mapping, "give {name of the setting: instance}"))
            object.__setattr__(self, name, given)

    @property
    def role(self) -> Role:
        """Role of its numbers: "corrected" for the corrected statement, "statement" for the printed one."""
        return "corrected" if self.corrected else "statement"

    def settings(self, which: str = "cases") -> Mapping[str, Any]:
        """Return the named settings, `which` of "cases" and "beyond"."""
        given = getattr(self, which)
        if not callable(given):
            return given
        if which in self._made:
            return self._made[which]
        try:
            self._made[which] = instance(which, given(), Mapping, "return {name of the setting: instance}")
        except Exception as error:  # whatever the code of a claim raises
            raise InputError(
                f"expected the {which} of {self.name!r}, received {described(error, '')}; correct the function"
            ) from error
        return self._made[which]

    @cached_property
    def _made(self) -> dict[str, Mapping[str, Any]]:
        """Settings made by a function, kept after the first call."""
        return {}

    def on(self, instance: Any) -> list[Measured]:
        """Numbers of the statement and of its wrong theories on a dataset, each with its role, name and rung."""
        measured: list[tuple[Role, str, Measured | None]] = [(self.role, self.name, self.measure(instance))]
        measured += [("control", name, wrong(instance)) for name, wrong in self.controls.items()]
        return [number.labelled(role, name, self.rung) for role, name, number in measured if number is not None]

    def at(self, instance: Any, name: str = "", beyond: bool = True) -> Reading:
        """Conditions and number on an instance; `name` is the name of a setting.

        Conditions are evaluated up to the first defining one that is not met, since later ones may need it; without
        `beyond`, up to the first that is not met, and there is a number only if all are.

        Raises
        ------
        InputError
            The measure raises an error, or gives anything but a Measured.
        NotANumber, an InputError: the measure gives NaN.
        Unaffordable, an InputError: it would take too long.
        """
        conditions: list[Measured] = []
        for requirement in self.conditions:
            try:
                conditions.append(requirement.on(instance))
            except Unaffordable:
                raise
            except NoNumber as reason:
                return Reading(conditions, None, measurable=False, reason=f"{requirement.name}: {reason}")
            except Exception as error:  # whatever the code of a claim raises
                raise self._refused(requirement.name, requirement.measure, error, instance, name) from error
            if math.isnan(conditions[-1].value) or (requirement.defining and not conditions[-1].holds):
                return Reading(conditions, None, measurable=False)
            if not beyond and not conditions[-1].holds:
                return Reading(conditions, None, measurable=True)
        try:
            return Reading(conditions, self._number(instance, self.measure, name), measurable=True)
        except NoNumber as reason:
            return Reading(conditions, None, measurable=True, reason=str(reason))

    def number(self, instance: Any, measure: Measure, name: str = "") -> Measured | None:
        """Number of `measure`, the property's own or that of a wrong theory, or None; raises as `at` does."""
        try:
            return self._number(instance, measure, name)
        except NoNumber:
            return None

    def _number(self, instance: Any, measure: Measure, name: str) -> Measured:
        """The number; NoNumber where the measure gives none or where the number decides nothing."""
        try:
            measured = measure(instance)
        except (Unaffordable, NoNumber):
            raise
        except Exception as error:  # whatever the code of a claim raises
            raise self._refused(self.name, measure, error, instance, name) from error
        if not isinstance(measured, Measured):
            if measured is None:
                raise NoNumber("the measure gives no number here")
            raise self._refused(self.name, measure, type(measured).__name__, instance, name)
        if math.isnan(measured.value) or math.isnan(measured.bound) or not measured.error >= 0:
            raise NotANumber(str(self._refused(self.name, measure, "NaN", instance, name)))
        if math.isnan(measured.margin):  # infinity against infinity
            raise NoNumber("the number and its bound are infinite")
        if math.isinf(measured.error):
            raise NoNumber("the numerical error is infinite")
        return measured

    def with_rounding(self, instance: Any, measured: Measured) -> Measured:
        """The number with the error that rounding makes in it: `ROUNDINGS` times its change on `disturbed`.

        This error includes differences that grow along a run, as on an unstable path.
        """
        if not isinstance(instance, Instance):
            return measured
        try:
            other = self.number(instance.disturbed, self.measure)
        except Unaffordable:
            other = None
        except InputError:  # a measure that speaks of equal classes only
            return measured
        if other is None:
            unknown = "the effect of rounding could not be measured"
            return replace(measured, where=f"{measured.where}; {unknown}" if measured.where else unknown)
        change = abs(other.margin - measured.margin)
        return replace(measured, error=max(measured.error, ROUNDINGS * change)) if change < math.inf else measured

    def _refused(self, what: str, measure: Any, trouble: str | Exception, instance: Any, name: str) -> InputError:
        """The error, in one sentence, of a measure or a condition that gives no number."""
        if isinstance(trouble, Exception):
            has = isinstance(trouble, KeyError) and isinstance(self.domain, Box)
            trouble = described(trouble, getattr(getattr(measure, "__code__", None), "co_filename", ""))
            trouble += f"; its Box has {', '.join(self.domain.ranges)}" if has else ""  # type: ignore[union-attr]
        known = self.domain is not None and self.domain.speaks_of(instance)
        place = name or (self.domain.described(instance) if known else "its case")  # type: ignore[union-attr]
        return InputError(
            f"expected a Measured with a number, or None, of {what!r} at {place}, received {trouble}; correct the "
            "measure, or return None where there is no number"
        )
