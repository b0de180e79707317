"""Run the register: gather evidence claim by claim, on all cores, and pronounce verdicts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial as partial_of
from pickle import PicklingError
from types import FunctionType
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from snapdyn.core.errors import InputError, choice, instance as of_kind, optional_function, shown, whole
from snapdyn.core.parallel import in_processes, startable
from snapdyn.dynamics.files.user_files import described
from snapdyn.validation.attack import plain, simplified
from snapdyn.validation.claims import chosen_claims, task
from snapdyn.validation.engine import Control, examine, proofs_of
from snapdyn.validation.measured import LEVELS, SEED, Evidence, Measured, Role
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.register import Claim, Verdict
from snapdyn.validation.results import ClaimResult, Report, verdict_of
from snapdyn.validation.search.counterexamples import stored_counterexamples, worst_cases
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.store import FinishedClaims, finished_claims

# (done, total, names of the claims that run)
Progress = Callable[[int, int, str], None]
NAMES_SHOWN = 3
TIGHT = 1.2  # A bound that is more than this times the worst number is called loose.


def validate(
    only: Iterable[str] | None = None,
    level: str = "quick",
    progress: Progress | None = None,
    jobs: int | None = None,
    seed: int = SEED,
) -> Report:
    """Check claims of the register.

    Parameters
    ----------
    only : str or iterable of str, optional
        Ids or groups of the claims to check, in any order; default all. A group is a chapter ("attention") or the
        beginning of ids ("theorem3").
    level : "quick" or "full"
        "full" tries more instances, longer times and larger V.
    progress : callable, optional
        Called as progress(done, total, names) whenever a claim starts or is finished, with the names of the claims
        that run; at the end with an empty text.
    jobs : int, optional
        Number of processes; default one per core. With 1, or for a single claim, everything runs in this process. The
        results do not depend on `jobs`.
    seed : int
        Root of the draws of the searches; another seed searches the same domains with other instances.

    Returns
    -------
    Report
        One ClaimResult per claim, in the order of the register. A claim whose function raises an error gets no
        verdict (`ClaimResult.fault`); the other claims are still checked.

    Raises
    ------
    InputError
        Unknown claim or level, with the nearest known name; jobs below 1.

    Examples
    --------
    >>> import snapdyn as sd
    >>> report = sd.validate("lemma8")
    >>> report.as_expected, report.count()
    (True, {'holds': 1})

    Notes
    -----
    Finished claims of the package are kept on disk (`snapdyn.validation.store`) until the run is complete: after
    Ctrl-C the next run takes them over, and its `notes` say how many. Claims of your own are checked again.
    """
    with finished_claims(seed=whole("seed", seed, 0)) as finished:
        return checked(chosen_claims(only), level, progress, jobs, finished, seed)


def checked(
    entries: Sequence[Claim],
    level: str = "quick",
    progress: Progress | None = None,
    jobs: int | None = None,
    finished: FinishedClaims | None = None,
    seed: int = SEED,
    partial: bool = False,
) -> Report:
    """Check claims as `validate` does; claims whose results `finished` holds are not computed again.

    With `partial`, Ctrl-C gives a report on the finished claims, whose `missing` names the rest.
    """
    choice("level", level, LEVELS)
    optional_function("progress", progress)
    jobs = joblib.cpu_count() if jobs is None else whole("jobs", jobs, 1)
    seed = whole("seed", seed, 0)
    started = time.perf_counter()
    results = finished.resumed(entries, level) if finished else {}
    left = [entry for entry in entries if entry.id not in results]

    def show(running: Sequence[str]) -> None:
        if progress:
            more = f" and {len(running) - NAMES_SHOWN} more" if len(running) > NAMES_SHOWN else ""
            progress(len(results), len(entries), ", ".join(running[:NAMES_SHOWN]) + more)

    workers = startable(min(jobs, len(left)))
    check = _in_turn if workers <= 1 else partial_of(_in_processes, jobs=workers)
    try:
        for result in check(left, level, seed, show):
            results[result.id] = result  # first: what Ctrl-C finds on disk is also in the report
            if finished:
                finished.add(result)
        show([])
    except KeyboardInterrupt:
        if not partial:
            raise
    done = tuple(results[entry.id] for entry in entries if entry.id in results)
    missing = tuple(entry.id for entry in entries if entry.id not in results)
    return Report(level, done, time.perf_counter() - started, tuple(finished.notes) if finished else (), missing)


Show = Callable[[Sequence[str]], None]


def _in_turn(entries: Sequence[Claim], level: str, seed: int, show: Show) -> Iterator[ClaimResult]:
    for entry in entries:
        show([entry.id])
        yield check_claim(entry, level, seed)


def _in_processes(entries: Sequence[Claim], level: str, seed: int, show: Show, jobs: int) -> Iterator[ClaimResult]:
    """Check claims in `jobs` fresh processes; processes still running when this generator is closed are stopped."""
    names: list[str] = []

    def show_running(running: list[Claim]) -> None:
        names[:] = [entry.id for entry in running]
        show(names)

    # From the last one on: at the end of the register are claims that take long, and a core would wait for them.
    calls = ((entry, (*task(_judged, entry), level, seed)) for entry in reversed(entries))
    with closing(in_processes(calls, jobs, show_running)) as ended:
        for entry, future in ended:
            try:
                yield ClaimResult(entry, *future.result())
            except (PicklingError, TypeError):  # made in a notebook, say, around something that cannot be sent
                yield check_claim(entry, level, seed)
            except BrokenProcessPool as error:
                raise BrokenProcessPool(
                    f"a process ended without a result while these claims ran: {', '.join(names)}; finished claims are "
                    "kept: run again, with fewer jobs when memory is short"
                ) from error


def check_claim(entry: Claim, level: str, seed: int = SEED) -> ClaimResult:
    """Gather the evidence of one claim and pronounce its verdict; an error that it raises becomes its fault."""
    return ClaimResult(entry, *_judged(entry, level, seed))


# Evidence, verdict, fault and seconds of a claim, as another process sends them back.
Judged = tuple[Evidence, Verdict, str, float]


def _judged(entry: Claim, level: str, seed: int) -> Judged:
    started = time.perf_counter()
    evidence, trouble = Evidence(level=level, seed=seed), ""
    try:
        # The last digits of linear algebra depend on the number of its threads; a claim's numbers must not.
        with threadpool_limits(1):
            evidence = gathered(entry, level, seed)
    except InputError as error:
        trouble = f"cannot be judged: {error}"
    except (Exception, SystemExit) as error:
        file = entry.run.__code__.co_filename if isinstance(entry.run, FunctionType) else ""
        trouble = f"raised {described(error, file)}"
    verdict: Verdict = "refuted"
    if not trouble:
        verdict, trouble = verdict_of(evidence)
    fault = f"No verdict is possible: claim {entry.id!r} {trouble}." if trouble else ""
    return evidence, verdict, fault, time.perf_counter() - started


def gathered(entry: Claim, level: str, seed: int = SEED) -> Evidence:
    """Evidence of a claim: searches, cases, proofs, picture and map, then what its function adds.

    Raises
    ------
    InputError
        The evidence allows no verdict: for example, a measure raises an error or gives no number at a case, or a
        control follows from the statement's own number.
    """
    evidence = Evidence(level=level, seed=seed)
    for prop in entry.properties:
        if prop.domain is not None:
            _add_search(entry, prop, evidence)
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


def _add_search(entry: Claim, prop: Property, evidence: Evidence) -> None:
    """Examine a property and add the worst case inside and outside the conditions, and each wrong theory."""
    domain = prop.domain
    assert domain is not None
    known = worst_cases(entry.id, prop.name)
    found = examine(prop, prop.evaluations[LEVELS.index(evidence.level)], evidence.seed, known=known)
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
    evidence.numbers.setdefault(prop.name, measured.value)
    loose = 0 < measured.excess < 1 / TIGHT and prop.directed
    remark = f"; the bound is {1 / measured.excess:.2g} times the worst found" if loose else ""
    some = (
        f"fails on {found.fails} of {found.tried} instances, worst"
        if found.fails
        else f"worst of {found.tried} instances"
    )
    name = f"{prop.name}, {some}{remark}"
    evidence.checks.append(measured.labelled(prop.role, name, prop.rung))
    origin = " (worst of all searches)" if any(instance is each for each in known) else _origin(instance)
    place = "; ".join(filter(None, (f"{measured} at {domain.described(instance)}{origin}", found.nan_message)))
    evidence.worst = f"{evidence.worst}; {place}" if evidence.worst else place
    if not measured.holds:
        evidence.counterexample = plain(simplified(prop, instance))
    if found.worst_outside is not None and found.fails_outside:
        name = f"{prop.name}, outside the conditions: {found.fails_outside} of {found.outside} instances fail, worst"
        evidence.checks.append(found.worst_outside.measured.labelled("outside", name, prop.rung))
    _add_controls(prop, found.controls, "instances", evidence)


def _add_cases(prop: Property, evidence: Evidence) -> None:
    """Measure a property at its named settings; if it has no domain, its controls are measured there too."""
    controls = {name: Control() for name in prop.controls}
    cases = prop.settings("cases")
    if prop.domain is None and not cases and not prop.settings("beyond"):
        raise InputError(f"expected a domain or settings of {prop.name!r}, received neither; give one")
    for name, instance in cases.items():
        measured = _at_setting(prop, name, instance, inside=True)
        _add_setting(prop, name, measured, prop.role, evidence)
        for wrong_name, wrong in prop.controls.items() if prop.domain is None else ():
            controls[wrong_name].add(measured, prop.number(instance, wrong, name))
    for name, instance in prop.settings("beyond").items():
        _add_setting(prop, name, _at_setting(prop, name, instance, inside=False), "outside", evidence)
    if prop.domain is None:
        _add_controls(prop, controls, "settings", evidence)


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


def _add_controls(prop: Property, controls: Mapping[str, Control], of: str, evidence: Evidence) -> None:
    """Add each wrong theory of a property, with the number of instances on which it fails."""
    for name, control in controls.items():
        control.require_own_numbers(prop, name)
        if control.worst is None:
            raise InputError(f"expected numbers of the control {name!r}, received none on any instance")
        row = f"{name}: fails on {control.rejected} of {control.tried} {of}, worst"
        evidence.checks.append(control.worst.labelled("control", row, prop.rung))


def _origin(instance: Any) -> str:
    """Where an instance comes from, in parentheses."""
    if any(instance is entry for entry in stored_counterexamples()):
        return " (stored counterexample)"
    return f" (draw {instance.number}, seed {instance.seed})" if isinstance(instance, Instance) else ""


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
