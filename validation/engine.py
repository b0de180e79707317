"""Search the domain of a property: corners, stored counterexamples, draws, and a directed search from the worst.

Budgets count instances, never seconds, so the numbers do not depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.errors import InputError
from snapdyn.validation.evidence import LEVELS, Evidence
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.search.counterexamples import stored_counterexamples
from snapdyn.validation.search.directed import OUTSIDE, push
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.search.shrinking import shrink

# Shares of the budget.
CORNER_SHARE = 0.25
DIRECTED_SHARE = 0.3
# Number of instances from which the directed search starts, quick and full.
STARTS = (2, 10)
# Evaluations that simplifying a counterexample may take.
SHRINK_BUDGET = 300
# Two columns of numbers that are the same up to rounding, mirrored or inverted, say the same.
SAME = 1e-9


@dataclass
class Case:
    """A measured number and the instance on which it was measured."""

    measured: Measured
    instance: Instance


@dataclass
class Examination:
    """What a search of a property's domain gave.

    Attributes
    ----------
    tried : int
        Instances inside the conditions that were measured.
    undecided : int
        Instances inside the conditions without a number: the run failed, say.
    outside : int
        Instances outside the conditions on which the statement was measured.
    fails_outside : int
        How many of them fail.
    worst : Case or None
        Smallest `Measured.slack` inside the conditions.
    worst_outside : Case or None
        Smallest `Measured.slack` outside the conditions.
    controls : dict of str to (int, Case)
        For every wrong theory the number of instances that reject it, and its largest failure.
    mirrored : list of str
        Controls whose numbers follow from the statement's own.
    """

    tried: int = 0
    undecided: int = 0
    outside: int = 0
    fails_outside: int = 0
    worst: Case | None = None
    worst_outside: Case | None = None
    controls: dict[str, tuple[int, Case]] = field(default_factory=dict)
    mirrored: list[str] = field(default_factory=list)


def examine(prop: Property, level: str, seed: int) -> Examination:
    """Search the domain of a property for a counterexample.

    Parameters
    ----------
    prop : Property
        The statement.
    level : "quick" or "full"
        Which of the property's budgets to use.
    seed : int
        Root of the SeedSequence whose child i draws instance i.

    Returns
    -------
    Examination
        Worst cases inside and outside the conditions, counts, and how the wrong theories fare.

    Raises
    ------
    RuntimeError
        A measured number is NaN: a property returns None where there is none.
    """
    budget = prop.evaluations[LEVELS.index(level)]
    pushed = round(DIRECTED_SHARE * budget) if prop.directed else 0
    most_corners = max(1, round(CORNER_SHARE * budget))
    corners = list(prop.domain.corners(seed, most_corners))
    stored = [instance for instance in stored_counterexamples() if prop.domain.contains(instance)]
    draws = max(budget - pushed - len(corners), 1)
    found = Examination()
    ranking: list[tuple[float, int, Instance]] = []
    numbers: dict[str, list[tuple[float, float]]] = {name: [] for name in prop.controls}
    for i, instance in enumerate(chain(corners, stored, (prop.domain.draw(seed, number) for number in range(draws)))):
        case = _measure(prop, instance, found)
        if case is None:
            continue
        if instance.family == prop.domain.name:
            ranking.append((case.measured.slack, i, instance))
        for name, wrong in prop.controls.items():
            _try_control(name, wrong(instance), case, found, numbers[name])
    starts = [instance for _, _, instance in sorted(ranking, key=lambda entry: entry[:2])[: STARTS[level == "full"]]]

    def violation(instance: Instance) -> float:
        case = _measure(prop, instance, found)
        return OUTSIDE if case is None else -case.measured.slack

    for start in starts if pushed else ():
        push(violation, prop.domain, start, max(pushed // len(starts), 1))
    found.mirrored = [name for name, pairs in numbers.items() if _mirrors(np.array(pairs))]
    return found


def _measure(prop: Property, instance: Instance, found: Examination) -> Case | None:
    """Measure the statement on an instance and count it; the case if it lies inside the conditions and has a number."""
    conditions = prop.conditions_on(instance)
    if not prop.measurable(conditions):
        return None
    measured = prop.measure(instance)
    if measured is not None and math.isnan(measured.value):
        raise RuntimeError(f"expected a number or None of {prop.name!r}, received NaN on {instance.to_dict()}")
    inside = all(condition.satisfied for condition in conditions)
    if measured is None:
        found.undecided += inside
        return None
    case = Case(measured, instance)
    if inside:
        found.tried += 1
        if found.worst is None or measured.slack < found.worst.measured.slack:
            found.worst = case
        return case
    found.outside += 1
    found.fails_outside += not measured.holds
    if found.worst_outside is None or measured.slack < found.worst_outside.measured.slack:
        found.worst_outside = case
    return None


def _try_control(
    name: str, measured: Measured | None, case: Case, found: Examination, numbers: list[tuple[float, float]]
) -> None:
    """Count whether the wrong theory `name` fails on the instance of `case`."""
    if measured is None or math.isnan(measured.value):
        return
    numbers.append((case.measured.value, measured.value))
    count, worst = found.controls.get(name, (0, Case(measured, case.instance)))
    if measured.slack < worst.measured.slack:
        worst = Case(measured, case.instance)
    found.controls[name] = (count + (not measured.holds), worst)


def _mirrors(pairs: Floats) -> bool:
    """Whether a control's numbers are the statement's own, or those with another sign, shift or factor, or inverted."""
    if len(pairs) < 4 or not np.isfinite(pairs).all():
        return False
    own, wrong = pairs.T
    if np.ptp(own) <= SAME * np.abs(own).max() or np.ptp(wrong) <= SAME * np.abs(wrong).max():
        return False
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        candidates = [own, 1 / own]
    for candidate in candidates:
        if np.isfinite(candidate).all():
            slope, shift = np.polyfit(candidate, wrong, 1)
            if np.abs(slope * candidate + shift - wrong).max() <= SAME * np.abs(wrong).max():
                return True
    return False


def search_property(prop: Property, evidence: Evidence) -> Examination:
    """Examine a property and add what was found to a claim's evidence.

    Adds the worst case inside the conditions as a check of the statement, the worst outside as the boundary, and
    each wrong theory as a control. A counterexample is simplified and kept in `evidence.counterexample`.

    Raises
    ------
    InputError
        No instance of the domain meets the conditions, or a control's numbers follow from the statement's own.
    """
    found = examine(prop, evidence.level, evidence.seed)
    evidence.tried += found.tried
    evidence.undecided += found.undecided
    if found.worst is None:
        raise InputError(
            f"expected instances of {prop.domain.name!r} that meet the conditions of {prop.name!r}, received none; "
            "widen the domain"
        )
    if found.undecided > found.tried:
        raise InputError(
            f"expected numbers of {prop.name!r} on most instances, received {found.tried} and {found.undecided} runs "
            "without one; narrow the domain"
        )
    if found.mirrored:
        raise InputError(
            f"expected controls of {prop.name!r} computed from a wrong theory, received numbers that follow from the "
            f"statement's own: {'; '.join(found.mirrored)}"
        )
    measured, instance = found.worst.measured, found.worst.instance
    name = f"{prop.name}, worst of {found.tried} instances"
    evidence.checks.append(measured.check(name, prop.rung, "corrected" if prop.corrected else "statement"))
    place = f"{measured} at {_described(instance)}"
    evidence.worst = f"{evidence.worst}; {place}" if evidence.worst else place
    if not measured.holds:
        evidence.counterexample = _simplified(prop, instance).to_dict()
    if found.worst_outside is not None and found.fails_outside:
        name = f"{prop.name}, outside the conditions: {found.fails_outside} of {found.outside} instances fail, worst"
        evidence.checks.append(found.worst_outside.measured.check(name, prop.rung, "outside"))
    for name in prop.controls:
        count, case = found.controls.get(name, (0, None))
        if case is None:
            raise InputError(f"expected numbers of the control {name!r}, received none on any instance")
        name = f"{name}: fails on {count} of {found.tried} instances, worst"
        evidence.checks.append(case.measured.check(name, prop.rung, "control"))
    return found


def _simplified(prop: Property, instance: Instance) -> Instance:
    """Simplify a counterexample with a budget of evaluations; itself once the budget is spent."""
    left = SHRINK_BUDGET

    def fails(candidate: Instance) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            return False
        if candidate is not instance and not prop.domain.contains(candidate):
            return False
        if not all(condition.satisfied for condition in prop.conditions_on(candidate)):
            return False
        measured = prop.measure(candidate)
        return measured is not None and not measured.holds

    return shrink(instance, fails) if fails(instance) else instance


def _described(instance: Instance) -> str:
    """Instance in a few words."""
    stored = any(instance is entry for entry in stored_counterexamples())
    drawn = "stored counterexample" if stored else f"draw {instance.number}, seed {instance.seed}"
    return (
        f"{instance.num_classes} classes, V = {instance.vocab_size:g}, eta_Y = {instance.eta_Y:.3g}, eta_Z/eta_Y = "
        f"{instance.ratio:.3g}, t = {instance.t_end:.3g} ({drawn})"
    )


def domain_of(properties: tuple[Property, ...]) -> str:
    """Text of the domains of a claim's properties, each once, with their conditions."""
    texts: Iterator[str] = (
        str(prop.domain) + "".join(f"; {requirement.required}" for requirement in prop.conditions)
        for prop in properties
    )
    return " | ".join(dict.fromkeys(texts))
