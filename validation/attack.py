"""The adversary: search the domains of claims with new instances; confirm counterexamples and store them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from snapdyn.core.errors import InputError
from snapdyn.core.parallel import in_processes
from snapdyn.dynamics.files.storage import write_text
from snapdyn.validation.claims import task
from snapdyn.validation.engine import examine
from snapdyn.validation.measured import Measured, json_number
from snapdyn.validation.properties import Property
from snapdyn.validation.register import Claim
from snapdyn.validation.search.counterexamples import WORST, shrink, worst_cases
from snapdyn.validation.search.instance import Instance

# Budgets of level quick of the whole register that two cores measure in a minute.
PER_MINUTE = 0.4
# Evaluations that simplifying a counterexample may take.
SHRINK_BUDGET = 300
LONGEST_ENTRY = 5_000  # characters of a stored instance
# Integrator of `Instance.solver` that a counterexample must survive; no flow is run by it otherwise.
SECOND_SOLVER = "Radau"


@dataclass(frozen=True)
class Attacked:
    """What the attack on one property found.

    Attributes
    ----------
    claim : str
        Id of the claim.
    number : int
        Number of the property among those of the claim, counted from 0.
    name : str
        Name of the property.
    rung : str
        Rung of the ladder on which it is measured.
    tried : int
        Instances inside the conditions that were measured.
    evaluations : int
        All measurements, including those outside the conditions and those that gave no number.
    worst : Measured or None
        Number with the smallest slack inside the conditions; None where no instance met them.
    place : str
        The instance of `worst` in a few words; without `worst`, the reason.
    instance : dict or None
        Entries of the instance of `worst`.
    needs : dict of str to dict
        By the name of a condition, entries of an instance on which the statement fails without this condition alone.
    counterexample : dict or None
        Entries of the simplified instance on which the statement fails; None where it never fails.
    confirmed : bool
        Whether the counterexample fails with a second integrator too.
    nan_message : str
        On how many instances the measure gave NaN, and the first of them; empty without any.
    cut : bool
        Whether the time was over before the budget.
    """

    claim: str
    number: int
    name: str
    rung: str
    tried: int
    evaluations: int
    worst: Measured | None
    place: str
    instance: dict[str, Any] | None = None
    needs: dict[str, dict[str, Any]] = field(default_factory=dict)
    counterexample: dict[str, Any] | None = None
    confirmed: bool = False
    nan_message: str = ""
    cut: bool = False


def targets(entries: Sequence[Claim]) -> list[tuple[Claim, int]]:
    """Pairs of a claim and the number of one of its properties, for all properties that must hold on a whole domain."""
    return [
        (entry, number)
        for entry in entries
        for number, prop in enumerate(entry.properties)
        if prop.domain is not None and (prop.corrected or entry.expected in ("holds", "conditional"))
    ]


def attack(
    chosen: Sequence[tuple[Claim, int]],
    budget: float,
    seed: int,
    jobs: int,
    progress: Callable[[int, int, str], None],
    until: float = math.inf,
) -> Iterator[Attacked]:
    """Attack each property of `targets` with `budget` times its budget of level quick, in `jobs` fresh processes.

    The results come in the order in which they are finished; none depends on the number of processes. After the time
    `until` (`time.time`) no further instance is measured, and what was found is simplified no further.
    """
    calls = [(number, (*task(attacked, entry), number, budget, seed, until)) for entry, number in chosen]
    progress(0, len(calls), "")
    with closing(in_processes(calls, jobs)) as ended:
        for done, (_, future) in enumerate(ended, start=1):
            yield future.result()
            progress(done, len(calls), "")


def attacked(entry: Claim, number: int, budget: float, seed: int, until: float = math.inf) -> Attacked:
    """Search the domain of one property; simplify a counterexample and measure it with a second integrator."""
    prop = entry.properties[number]
    nothing = Attacked(entry.id, number, prop.name, prop.rung, 0, 0, None, "no time left", cut=True)
    if time.time() > until:
        return nothing
    with threadpool_limits(1):
        try:
            found = examine(
                prop, max(1, round(budget * prop.evaluations[0])), seed, until, worst_cases(entry.id, prop.name)
            )
        except InputError as error:  # the measure raised, say: the others are attacked all the same
            return replace(nothing, place=str(error), cut=False)
        evaluations = found.tried + found.undecided + found.outside
        if found.worst is None:
            why = "no time left" if found.cut else "no instance inside the conditions"
            return replace(nothing, evaluations=evaluations, place=why, cut=found.cut)
        worst, instance = found.worst.measured, found.worst.instance
        result = replace(
            nothing,
            tried=found.tried,
            evaluations=evaluations,
            worst=worst,
            place=prop.domain.described(instance),  # type: ignore[union-attr]
            instance=plain(instance),
            needs={name: plain(case.instance) for name, case in found.needs.items()},
            nan_message=found.nan_message,
            cut=found.cut,
        )
        if worst.holds:
            return result
        simplest = simplified(prop, instance, until)
        return replace(result, counterexample=plain(simplest), confirmed=_survives(prop, simplest))


def simplified(prop: Property, instance: Any, until: float = math.inf) -> Any:
    """Simplify a counterexample inside the domain, with a budget of evaluations and until a time."""
    domain = prop.domain
    assert domain is not None
    left = SHRINK_BUDGET

    def fails(candidate: Any) -> bool:
        nonlocal left
        left -= 1
        if left < 0 or time.time() > until or not domain.contains(candidate):
            return False
        try:
            reading = prop.at(candidate)
        except InputError:
            return False
        if reading.unmet or reading.measured is None or reading.measured.holds:
            return False
        return not prop.with_rounding(candidate, reading.measured).holds

    return shrink(instance, fails, domain.simpler)


def plain(instance: Any) -> dict[str, Any]:
    """Entries of an instance, or parameters of a Box, JSON-ready."""
    return instance.to_dict() if isinstance(instance, Instance) else dict(instance)


def _survives(prop: Property, instance: Any) -> bool:
    """Whether a counterexample fails with a second integrator too; True where no flow is integrated."""
    if not isinstance(instance, Instance):
        return True
    try:
        reading = prop.at(replace(instance, solver=SECOND_SOLVER))
    except InputError:
        return False
    return reading.measured is not None and not reading.measured.holds


def store(found: Attacked, folder: Path, seed: int) -> Path:
    """Write a counterexample as a file of `folder`; its mechanism, one sentence, is left to be written."""
    assert found.worst is not None
    name = f"{found.claim}-{found.number}-seed-{seed}"
    entries = {
        "name": name,
        "statement": found.name,
        "rung": found.rung,
        "violation": json_number(-found.worst.margin),
        "tried": found.tried,
        "mechanism": "",
        "instance": found.counterexample,
    }
    path = folder / f"{name}.json"
    write_text(path, json.dumps(entries, indent=1) + "\n")
    return path


def store_worst(found: Sequence[Attacked], folder: Path) -> int:
    """Write the worst cases of properties into the file of a folder that every later search tries first.

    With them go instances that show that a condition is needed: a search would notice that it has been dropped.
    Entries of other properties stay. A search has tried the stored cases of its property, so its own are not better.
    Returns the number of entries that are left out, since their instances have too many classes and tokens for a file.
    """
    path = folder / WORST
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    new: list[dict[str, Any]] = []
    for each in found:
        if each.worst is None or not each.worst.holds:
            continue
        of = {"claim": each.claim, "property": each.name}
        numbers = {"value": json_number(each.worst.value), "bound": json_number(each.worst.bound)}
        new.append({**of, **numbers, "instance": each.instance})
        new += [{**of, "needs": name, "instance": instance} for name, instance in each.needs.items()]
    if not new:
        return 0
    names = {(each["claim"], each["property"]) for each in new}
    entries = [each for each in kept if (each["claim"], each["property"]) not in names] + new
    entries.sort(key=lambda each: (each["claim"], each["property"]))
    lines = [line for line in map(json.dumps, entries) if len(line) <= LONGEST_ENTRY]
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")
    return len(entries) - len(lines)
