"""Measure properties over their domains, and run the proofs of a claim.

A search measures the worst cases of earlier searches, corners, stored counterexamples and draws, and then makes a
directed search from the worst of them.
Budgets count instances, never seconds, so the numbers do not depend on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError, choice, shown
from snapdyn.core.memory import Unaffordable
from snapdyn.dynamics.classes.table import Floats
from snapdyn.validation.measured import Measured, Role
from snapdyn.validation.properties import NotANumber, Property
from snapdyn.validation.register import Claim
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.counterexamples import stored_counterexamples
from snapdyn.validation.search.family import Family

# Shares of the budget.
CORNER_SHARE = 0.25
OUTSIDE_SHARE = 0.25  # of instances outside the conditions on which the statement is measured
DIRECTED_SHARE = 0.3
STRUCTURE_SHARE = 0.3  # of a directed search that changes the structure of instances, before it changes their numbers
# Draws per instance of the budget, at most: conditions may leave few of them.
MOST_DRAWS = 20
# Evaluations of the directed search per instance from which it starts, and members of its population.
PER_START = 400
MEMBERS = (8, 30)
# Fewest pairs of numbers that can show that a control says what the statement says, and instances after which this is
# looked at for the first time: the first twelve of a control of lemma10 lay where it agrees with its statement.
ENOUGH_PAIRS, FIRST_LOOK = 4, 40
# Two columns of numbers that are the same up to rounding, mirrored or inverted, say the same.
SAME = 1e-9
# Rungs of proofs, whose numbers are counts of what is left open.
SYMBOLIC, CERTIFIED = "symbolic", "interval proof"
OUTSIDE = -math.inf  # violation where the conditions are not met


@dataclass
class Case:
    """A measured number and the instance on which it was measured."""

    measured: Measured
    instance: Any


@dataclass
class Control:
    """Results of a wrong theory: how many instances were measured and failed, the worst of them, and all numbers.

    `pairs` holds, for each instance, the statement's number and that of the wrong theory.
    """

    tried: int = 0
    rejected: int = 0
    worst: Measured | None = None
    pairs: list[tuple[float, float]] = field(default_factory=list)

    def add(self, own: Measured, wrong: Measured | None) -> None:
        """Count an instance; `own` is the number of the statement."""
        if wrong is None:
            return
        self.pairs.append((own.value, wrong.value))
        self.tried += 1
        self.rejected += not wrong.holds
        if self.worst is None or wrong.slack < self.worst.slack:
            self.worst = wrong

    @property
    def mirrors(self) -> bool:
        """Whether the control's numbers are a factor times the statement's numbers, or their inverses, plus a shift."""
        pairs = np.array(self.pairs).reshape(-1, 2)
        pairs = np.unique(pairs[np.isfinite(pairs).all(axis=1)], axis=0)
        if len(pairs) < ENOUGH_PAIRS:
            return False
        own, wrong = pairs.T
        if np.ptp(own) <= SAME * np.abs(own).max() or np.ptp(wrong) <= SAME * np.abs(wrong).max():
            return False
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            candidates = [own, 1 / own]
            for candidate in candidates:
                if np.isfinite(candidate).all():
                    first, last = candidate.argmin(), candidate.argmax()
                    share = (candidate - candidate[first]) / (candidate[last] - candidate[first])
                    line = wrong[first] + share * (wrong[last] - wrong[first])
                    if np.abs(line - wrong).max() <= SAME * np.abs(wrong).max():
                        return True
        return False

    def require_own_numbers(self, prop: Property, name: str) -> None:
        """Raise InputError where the numbers of the control `name` of a property follow from the statement's own."""
        if self.mirrors:
            raise InputError(
                f"expected the control {name!r} of {prop.name!r} to be computed from a wrong theory, received numbers "
                f"that follow from the statement's own on {len(self.pairs)} instances; let the wrong theory depend "
                "on a parameter in another way"
            )


@dataclass
class Examination:
    """What a search of a property's domain gave.

    Attributes
    ----------
    tried : int
        Instances inside the conditions that were measured.
    fails : int
        Of these, instances on which the statement fails.
    undecided : int
        Instances inside the conditions without a number: the run failed, say. Those on which the measure gave NaN, or
        would take too long, are counted here wherever they lie.
    not_numbers : list of str
        What is wrong where the measure, or that of a wrong theory, gave NaN: a sentence per instance.
    too_long : str
        Why an instance would take too long; empty where none would.
    cut : bool
        Whether the time was over before the budget.
    outside : int
        Instances outside the conditions on which the statement was measured.
    fails_outside : int
        Instances outside the conditions on which the statement fails.
    worst : Case or None
        Smallest `Measured.slack` inside the conditions.
    worst_outside : Case or None
        Smallest `Measured.slack` outside the conditions.
    needs : dict of str to Case
        By the name of a condition, the worst instance on which the statement fails and this condition alone is not met.
    controls : dict of str to Control
        Results of the wrong theories, by name.
    """

    tried: int = 0
    fails: int = 0
    undecided: int = 0
    not_numbers: list[str] = field(default_factory=list)
    too_long: str = ""
    cut: bool = False
    outside: int = 0
    fails_outside: int = 0
    worst: Case | None = None
    worst_outside: Case | None = None
    needs: dict[str, Case] = field(default_factory=dict)
    controls: dict[str, Control] = field(default_factory=dict)

    @property
    def nan_message(self) -> str:
        """Number of NaNs and the first of them, in words; empty without any."""
        count = len(self.not_numbers)
        return f"NaN on {count} instance{'s'[: count > 1]}, the first: {self.not_numbers[0]}" if count else ""

    def add(self, prop: Property, instance: Any, most_outside: int) -> Measured | None:
        """Measure the statement on an instance and count it; return the number inside the conditions, if there is one.

        Outside the conditions at most `most_outside` instances are measured.
        """
        try:
            reading = prop.at(instance, beyond=self.outside < most_outside)
        except NotANumber as error:
            self.not_numbers.append(str(error))
            self.undecided += 1
            return None
        except Unaffordable as error:
            self.too_long = str(error)
            self.undecided += 1
            return None
        inside, measured = not reading.unmet, reading.measured
        if measured is None:
            self.undecided += inside
            return None
        before = self.worst if inside else self.worst_outside
        if inside and not measured.holds and (before is None or measured.slack < before.measured.slack):
            measured = prop.with_rounding(instance, measured)  # before it becomes a counterexample
        worst = Case(measured, instance) if before is None or measured.slack < before.measured.slack else before
        if inside:
            self.tried += 1
            self.fails += not measured.holds
            self.worst = worst
            return measured
        self.outside += 1
        self.fails_outside += not measured.holds
        self.worst_outside = worst
        if len(reading.unmet) == 1 and not measured.holds:
            alone = reading.unmet[0].name
            if alone not in self.needs or measured.slack < self.needs[alone].measured.slack:
                self.needs[alone] = Case(measured, instance)
        return None


class _TimeIsOver(Exception):
    """The directed search ends: its optimiser has no other way out of an evaluation."""


def examine(prop: Property, budget: int, seed: int, until: float = math.inf, known: Iterable[Any] = ()) -> Examination:
    """Search the domain of a property for a counterexample.

    Parameters
    ----------
    prop : Property
        The statement.
    budget : int
        Number of instances inside the conditions to draw; the directed search takes `DIRECTED_SHARE` of it on top.
    seed : int
        Root of the SeedSequence whose child i draws instance i.
    until : float
        Time (`time.time`) after which no further instance is measured: of `snapdyn attack` alone, since the numbers of
        a search that is cut depend on the machine.
    known : iterable of instances
        The worst cases of earlier searches, which are tried first; those outside the domain are left out.

    Returns
    -------
    Examination
        Worst cases inside and outside the conditions, counts, and the results of the wrong theories.

    Raises
    ------
    InputError
        The measure raises an error, or its number is NaN wherever the conditions are met: a measure returns None where
        there is no number.
    """
    domain = prop.domain
    assert domain is not None
    pushed = round(DIRECTED_SHARE * budget) if prop.directed else 0
    most_corners, most_outside = max(1, round(CORNER_SHARE * budget)), max(1, round(OUTSIDE_SHARE * budget))
    corners = [(instance, True) for instance in domain.corners(seed, most_corners)]
    first = [(instance, True) for instance in known if domain.contains(instance)]
    inside = (instance for instance in stored_counterexamples() if domain.contains(instance))
    # Those of this very family are starts of the directed search, too.
    stored = [(each, isinstance(domain, Box) or each.family == domain.name) for each in inside]
    found = Examination(controls={name: Control() for name in prop.controls})

    def draws() -> Iterator[tuple[Any, bool]]:
        """Draw until enough instances lie inside the conditions."""
        for number in range(MOST_DRAWS * budget):
            if number and found.tried >= budget:
                return
            yield domain.draw(seed, number), True

    ranking: list[tuple[float, int, Any]] = []
    for i, (instance, own) in enumerate(chain(first, corners, stored, draws())):
        if time.time() > until:
            found.cut = True
            break
        measured = found.add(prop, instance, most_outside)
        if measured is None:
            continue
        if own:
            ranking.append((measured.slack, i, instance))
        for name, wrong in prop.controls.items():
            try:
                found.controls[name].add(measured, prop.number(instance, wrong))
            except NotANumber as error:
                found.not_numbers.append(str(error))
            if found.tried == FIRST_LOOK:
                found.controls[name].require_own_numbers(prop, name)
    ranking.sort(key=lambda entry: entry[:2])
    starts = [instance for _, _, instance in ranking[: max(1, pushed // PER_START)]]

    def violation(instance: Any) -> float:
        if time.time() > until:
            raise _TimeIsOver
        measured = found.add(prop, instance, most_outside)
        return OUTSIDE if measured is None else -measured.slack

    try:
        for i, start in enumerate(starts if pushed else ()):
            entropy = np.random.SeedSequence(seed, spawn_key=(0, i))
            push(violation, domain, start, max(pushed // len(starts), 1), entropy)
    except _TimeIsOver:
        found.cut = True
    if not found.tried and (found.not_numbers or found.too_long):
        raise InputError(found.too_long or found.not_numbers[0])
    return found


def push(
    violation: Callable[[Any], float], domain: Family | Box, start: Any, evaluations: int, seed: np.random.SeedSequence
) -> None:
    """Increase the violation from `start` inside the domain, with about `evaluations` evaluations.

    Random changes of structure are kept where they increase the violation; differential evolution then changes the
    numbers. `violation` is positive where the statement fails, and OUTSIDE where its conditions are not met.
    """
    from scipy.optimize import differential_evolution

    def objective(x: Floats) -> float:
        instance = domain.moved(start, x)
        return math.inf if instance is None else -violation(instance)

    rng = np.random.default_rng(seed)
    if isinstance(domain, Family):
        changes = round(STRUCTURE_SHARE * evaluations)
        evaluations -= changes
        reached = violation(start)
        for _ in range(changes):
            changed = domain.restructured(start, rng)
            if changed is not None and (found := violation(changed)) > reached:
                start, reached = changed, found
    x, bounds, step = domain.coordinates(start)
    members = min(max(evaluations // 10, MEMBERS[0]), MEMBERS[1])
    population = x + step * rng.standard_normal((members, x.size))
    population[0] = x
    differential_evolution(
        objective, bounds, init=np.clip(population, *bounds.T), maxiter=max(evaluations // members - 1, 0), tol=0,
        mutation=(0.3, 0.9), polish=False, seed=rng,
    )  # fmt: skip


def proofs_of(entry: Claim) -> Iterator[Measured]:
    """Give the numbers of a claim's derivations and interval proofs, and, as controls, those of forms they must reject.

    They prove the corrected statement if the claim corrects the printed one.
    """
    role: Role = "corrected" if entry.expected == "corrected" else "statement"
    if entry.proved:
        yield from _derived(entry.proved, role)
    for id_ in entry.certified:
        yield from _certified(id_, role)


def _derived(ids: tuple[str, ...], role: Role) -> Iterator[Measured]:
    from snapdyn.analytic.symbolic import derivation_of

    try:
        found = [derivation_of(id_) for id_ in ids]
    except KeyError as error:
        raise InputError(
            f"expected ids of derivations, received {shown(error.args[0])}; snapdyn.analytic.symbolic.derivations() "
            "has all"
        ) from None
    left = sum(_nonzero(derivation.verify()) for derivation in found)
    name = f"residuals sympy cannot bring to zero ({', '.join(ids)})"
    yield Measured(left, at_most=0).labelled(role, name, SYMBOLIC)
    for derivation in found:
        if derivation.printed is not None:
            rejected = _nonzero(derivation.verify(derivation.printed))
            name = f"{derivation.id} as printed, residuals in sympy"
            yield Measured(rejected, at_most=0).labelled("control", name, SYMBOLIC)


def _certified(id_: str, role: Role) -> Iterator[Measured]:
    from snapdyn.analytic.certificates import CERTIFICATES, prove

    choice("the id of a certificate", id_, CERTIFICATES)
    statement = CERTIFICATES[id_]
    found = statement.run()
    left = sum(not proof.proved for proof in found.proofs)
    place = f"; {found.failing}" if found.failing else f", {found.boxes} sub-boxes"
    name = f"inequalities that the interval proof {id_} leaves open{place}"
    yield Measured(left, at_most=0).labelled(role, name, CERTIFIED)
    for wrong in statement.wrong:
        proof = prove(wrong)
        yield Measured(not proof.proved, at_most=0).labelled("control", f"false inequality: {proof}", CERTIFIED)


def _nonzero(residuals: Mapping[str, Any]) -> int:
    return sum(value != 0 for value in residuals.values())
