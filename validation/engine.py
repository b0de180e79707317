"""Measure a claim: search the domains of its properties, measure their cases, run its proofs.

A search makes corners, stored counterexamples, draws, and a directed search from the worst. Budgets count instances,
never seconds, so the numbers do not depend on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.errors import InputError, shown
from snapdyn.errors import instance as of_kind
from snapdyn.validation.evidence import LEVELS, SEED, Evidence
from snapdyn.validation.measured import Measured, Role
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.proofs import proofs_of
from snapdyn.validation.properties import Property
from snapdyn.validation.register import Claim
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
    instance: Any


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
    controls : dict of str to (int, int, Case)
        For every wrong theory the number of instances that reject it, of how many, and its largest failure.
    mirrored : list of str
        Controls whose numbers follow from the statement's own.
    """

    tried: int = 0
    undecided: int = 0
    outside: int = 0
    fails_outside: int = 0
    worst: Case | None = None
    worst_outside: Case | None = None
    controls: dict[str, tuple[int, int, Case]] = field(default_factory=dict)
    mirrored: list[str] = field(default_factory=list)


def gathered(entry: Claim, level: str, seed: int = SEED) -> Evidence:
    """Evidence of a claim: searches, cases, proofs, picture and map, then what its function adds.

    Raises
    ------
    InputError
        The evidence allows no verdict: a measure raises, gives no number at a case, a control follows from the
        statement's own number, say.
    """
    evidence = Evidence(level=level, seed=seed)
    for prop in entry.properties:
        if prop.domain is not None:
            _add_search(prop, evidence)
        _add_cases(prop, evidence)
    evidence.checks.extend(proofs_of(entry))
    if entry.picture is not None:
        evidence.picture = of_kind("the picture of the claim", entry.picture(), Picture, "return a snapdyn.Picture")
    if entry.map is not None:
        evidence.map = of_kind("the map of the claim", entry.map(level), Map, "return a Map")
    if entry.run is not None:
        entry.run(evidence)
    searched = f"Worst of {evidence.tried} instances: {evidence.worst}." if evidence.tried else ""
    evidence.conclusion = evidence.conclusion or _with_numbers(entry.conclusion, evidence.numbers) or searched
    return Evidence(**vars(evidence))  # checks again what the claim's function put into it


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
    InputError
        The measure raises, or its number is NaN: a property returns None where there is none.
    """
    domain = prop.domain
    assert domain is not None
    budget = prop.evaluations[LEVELS.index(level)]
    pushed = round(DIRECTED_SHARE * budget) if prop.directed else 0
    most_corners = max(1, round(CORNER_SHARE * budget))
    corners = [(instance, True) for instance in domain.corners(seed, most_corners)]
    # Those of this very family are starts of the directed search, too.
    known = (instance for instance in stored_counterexamples() if domain.contains(instance))
    stored = [(instance, instance.family == domain.name) for instance in known]
    draws = ((domain.draw(seed, number), True) for number in range(max(budget - pushed - len(corners), 1)))
    found = Examination()
    ranking: list[tuple[float, int, Any]] = []
    numbers: dict[str, list[tuple[float, float]]] = {name: [] for name in prop.controls}
    for i, (instance, own) in enumerate(chain(corners, stored, draws)):
        case = _measure(prop, instance, found)
        if case is None:
            continue
        if own:
            ranking.append((case.measured.slack, i, instance))
        for name, wrong in prop.controls.items():
            _try_control(name, prop.number(instance, wrong), case, found, numbers[name])
    starts = [instance for _, _, instance in sorted(ranking, key=lambda entry: entry[:2])[: STARTS[level == "full"]]]

    def violation(instance: Any) -> float:
        case = _measure(prop, instance, found)
        return OUTSIDE if case is None else -case.measured.slack

    for start in starts if pushed else ():
        push(violation, domain, start, max(pushed // len(starts), 1))
    found.mirrored = [name for name, pairs in numbers.items() if _mirrors(np.array(pairs))]
    return found


def _measure(prop: Property, instance: Any, found: Examination) -> Case | None:
    """Measure the statement on an instance and count it; the case if it lies inside the conditions and has a number."""
    reading = prop.at(instance)
    inside, measured = not reading.unmet, reading.measured
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
    if measured is None:
        return
    numbers.append((case.measured.value, measured.value))
    count, tried, worst = found.controls.get(name, (0, 0, Case(measured, case.instance)))
    if measured.slack < worst.measured.slack:
        worst = Case(measured, case.instance)
    found.controls[name] = (count + (not measured.holds), tried + 1, worst)


def _mirrors(pairs: Floats) -> bool:
    """Whether a control's numbers are the statement's own, or those with another sign, shift or factor, or inverted."""
    pairs = np.unique(pairs[np.isfinite(pairs).all(axis=1)], axis=0) if pairs.size else pairs
    if len(pairs) < 4:
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


def _add_search(prop: Property, evidence: Evidence) -> None:
    """Examine a property and add what was found: the worst case, the worst outside, and each wrong theory."""
    domain = prop.domain
    assert domain is not None
    found = examine(prop, evidence.level, evidence.seed)
    evidence.tried += found.tried
    evidence.undecided += found.undecided
    if found.worst is None:
        raise InputError(
            f"expected instances of {domain.name!r} that meet the conditions of {prop.name!r}, received none; widen "
            "the domain"
        )
    if found.undecided > found.tried:
        raise InputError(
            f"expected numbers of {prop.name!r} on most instances, received {found.tried} and {found.undecided} runs "
            "without one; narrow the domain"
        )
    measured, instance = found.worst.measured, found.worst.instance
    role: Role = "corrected" if prop.corrected else "statement"
    evidence.numbers.setdefault(prop.name, measured.value)
    evidence.checks.append(measured.labelled(role, f"{prop.name}, worst of {found.tried} instances", prop.rung))
    place = f"{measured} at {_place(prop, instance)}"
    evidence.worst = f"{evidence.worst}; {place}" if evidence.worst else place
    if not measured.holds:
        simplest = _simplified(prop, instance)
        evidence.counterexample = simplest.to_dict() if isinstance(simplest, Instance) else dict(simplest)
    if found.worst_outside is not None and found.fails_outside:
        name = f"{prop.name}, outside the conditions: {found.fails_outside} of {found.outside} instances fail, worst"
        evidence.checks.append(found.worst_outside.measured.labelled("outside", name, prop.rung))
    _add_controls(prop, found, "instances", evidence)


def _add_cases(prop: Property, evidence: Evidence) -> None:
    """Measure a property at its named settings; without a domain its controls are measured there too."""
    found = Examination()
    numbers: dict[str, list[tuple[float, float]]] = {name: [] for name in prop.controls}
    cases = prop.settings("cases")
    if prop.domain is None and not cases and not prop.settings("beyond"):
        raise InputError(f"expected a domain or settings of {prop.name!r}, received neither; give one")
    for name, instance in cases.items():
        measured = _at_setting(prop, name, instance, inside=True)
        role: Role = "corrected" if prop.corrected else "statement"
        _add_setting(prop, name, measured, role, evidence)
        if prop.domain is None:
            for wrong_name, wrong in prop.controls.items():
                number = prop.number(instance, wrong, name)
                _try_control(wrong_name, number, Case(measured, instance), found, numbers[wrong_name])
    for name, instance in prop.settings("beyond").items():
        _add_setting(prop, name, _at_setting(prop, name, instance, inside=False), "outside", evidence)
    if prop.domain is None:
        found.mirrored = [name for name, pairs in numbers.items() if _mirrors(np.array(pairs))]
        _add_controls(prop, found, "settings", evidence)


def _at_setting(prop: Property, name: str, instance: Any, inside: bool) -> Measured:
    """Number at a named setting, which must lie inside, or outside, the conditions and the domain."""
    if prop.domain is not None and not prop.domain.speaks_of(instance):
        raise InputError(
            f"expected the setting {name!r} of {prop.name!r} as one that its domain speaks of ({prop.domain}), "
            f"received {shown(instance)}; correct its names"
        )
    reading = prop.at(instance, name)
    unmet = reading.unmet
    outside = bool(unmet) or (prop.domain is not None and not prop.domain.contains(instance))
    if inside and unmet:
        raise InputError(
            f"expected the case {name!r} of {prop.name!r} inside its conditions, received one without "
            f"{unmet[0].name} ({unmet[0].required}; here {unmet[0].value:.3g}); list it under beyond"
        )
    if not inside and not (outside and reading.measurable):
        raise InputError(
            f"expected {name!r} of {prop.name!r} beyond its conditions or domain, and the defining conditions met, "
            "received another setting; list it under cases"
        )
    if reading.measured is None:
        raise InputError(f"expected a number of {prop.name!r} at {name!r}, received none: the run failed; change it")
    return reading.measured


def _add_setting(prop: Property, name: str, measured: Measured, role: Role, evidence: Evidence) -> None:
    evidence.checks.append(measured.labelled(role, f"{prop.name}: {name}", prop.rung))
    for key in (name, f"{prop.name}: {name}"):
        evidence.numbers.setdefault(key, measured.value)


def _add_controls(prop: Property, found: Examination, of: str, evidence: Evidence) -> None:
    """Add each wrong theory of a property, with the number of instances on which it fails."""
    if found.mirrored:
        raise InputError(
            f"expected controls of {prop.name!r} computed from a wrong theory, received numbers that follow from the "
            f"statement's own: {'; '.join(found.mirrored)}"
        )
    for name in prop.controls:
        if name not in found.controls:
            raise InputError(f"expected numbers of the control {name!r}, received none on any instance")
        count, tried, case = found.controls[name]
        row = f"{name}: fails on {count} of {tried} {of}, worst"
        evidence.checks.append(case.measured.labelled("control", row, prop.rung))


def _simplified(prop: Property, instance: Any) -> Any:
    """Simplify a counterexample with a budget of evaluations; itself once the budget is spent."""
    domain = prop.domain
    assert domain is not None
    left = SHRINK_BUDGET

    def fails(candidate: Any) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            return False
        if candidate is not instance and not domain.contains(candidate):
            return False
        try:
            reading = prop.at(candidate)
        except InputError:
            return False
        return not reading.unmet and reading.measured is not None and not reading.measured.holds

    return shrink(instance, fails, domain.simpler) if fails(instance) else instance


def _place(prop: Property, instance: Any) -> str:
    """Instance in a few words, and where it comes from."""
    assert prop.domain is not None
    drawn = ""
    if isinstance(instance, Instance):
        stored = any(instance is entry for entry in stored_counterexamples())
        drawn = f" ({'stored counterexample' if stored else f'draw {instance.number}, seed {instance.seed}'})"
    return prop.domain.described(instance) + drawn


def _with_numbers(conclusion: str, numbers: Mapping[str, float]) -> str:
    """Conclusion with ``{name}`` and ``{name:format}`` replaced by measured numbers."""

    def number(match: re.Match[str]) -> str:
        whole = match[0][1:-1]
        name, format = (whole, ".3g") if whole in numbers else (match[1], match[2] or ".3g")
        if name not in numbers:
            raise InputError(
                f"expected the name of a measured number in the conclusion, received {name!r}; the claim has "
                f"{'; '.join(numbers)}"
            )
        try:
            return f"{numbers[name]:{format}}"
        except ValueError as error:
            raise InputError(
                f"expected a format of numbers in the conclusion, received {format!r}; write .3g"
            ) from error

    return re.sub(r"\{([^{}]+?)(?::([^{}: ]*))?\}", number, conclusion)
