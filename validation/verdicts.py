"""Run the register: gather evidence claim by claim, on all cores, and pronounce verdicts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial as partial_of
from itertools import islice
from pickle import PicklingError
from types import FunctionType

import joblib
from threadpoolctl import threadpool_limits

from snapdyn.dynamics.parallel import WorkerPool
from snapdyn.dynamics.user_files import described
from snapdyn.errors import InputError, choice, optional_function, whole
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.engine import gathered
from snapdyn.validation.evidence import LEVELS, SEED, Evidence
from snapdyn.validation.measured import Measured
from snapdyn.validation.proofs import CERTIFIED, SYMBOLIC
from snapdyn.validation.register import Claim, Verdict
from snapdyn.validation.results import ClaimResult, Report
from snapdyn.validation.store import FinishedClaims, finished_claims

# (done, total, names of the claims that run)
Progress = Callable[[int, int, str], None]
NAMES_SHOWN = 3
# Two numbers are the same up to rounding.
SAME = 1e-12


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
        Ids or groups of the claims to check, in any order; default all. A group is a chapter ("attention") or what
        ids begin with ("theorem3").
    level : "quick" or "full"
        "full" tries more instances, longer times and larger V.
    progress : callable, optional
        Called as progress(done, total, names) whenever a claim starts or is finished, with the names of the claims
        that run; at the end with an empty text.
    jobs : int, optional
        Processes; default all cores. 1, or a single claim, runs in this process. The numbers do not depend on it.
    seed : int
        Root of the draws of the searches; another one searches the same domains with other instances.

    Returns
    -------
    Report
        One ClaimResult per claim, in the order of the register. A claim whose function raises an error gets no
        verdict (`ClaimResult.fault`); the others are checked all the same.

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
    Finished claims are kept on disk (`snapdyn.validation.store`) until the run is complete: after Ctrl-C the
    next run takes them over, and its `notes` say how many.
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
    """Check claims as `validate` does; those that `finished` holds are not computed again.

    With `partial`, Ctrl-C gives a report on what is finished, whose `missing` names the rest.
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

    check = _in_turn if min(jobs, len(left)) <= 1 else partial_of(_in_processes, jobs=min(jobs, len(left)))
    try:
        for result in check(left, level, seed, show):
            if finished:
                finished.add(result)
            results[result.id] = result
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
    """Check claims in `jobs` fresh processes; those left running when this generator is closed are stopped."""
    pool = WorkerPool(jobs)
    waiting = iter(entries)
    running: dict[Future[tuple[Evidence, Verdict, str, float]], Claim] = {}
    try:
        while True:
            for entry in islice(waiting, jobs - len(running)):
                running[pool.submit(_judged, entry, level, seed)] = entry
            if not running:
                break
            show([entry.id for entry in running.values()])
            # One at a time, so that the progress also counts claims that finished together.
            future = next(iter(wait(running, return_when=FIRST_COMPLETED).done))
            entry = running.pop(future)
            try:
                yield ClaimResult(entry, *future.result())
            except (PicklingError, TypeError):  # made in a notebook, say, around something that cannot be sent
                yield check_claim(entry, level, seed)
    except BrokenProcessPool as error:
        names = ", ".join([entry.id, *(other.id for other in running.values())])
        raise BrokenProcessPool(
            f"a process ended without a result while these claims ran: {names}; finished claims are kept: "
            "run again, with fewer jobs when memory is short"
        ) from error
    finally:
        pool.shutdown(kill_workers=bool(running))


def check_claim(entry: Claim, level: str, seed: int = SEED) -> ClaimResult:
    """Gather the evidence of one claim and pronounce its verdict; an error that it raises becomes its fault."""
    return ClaimResult(entry, *_judged(entry, level, seed))


def _judged(entry: Claim, level: str, seed: int) -> tuple[Evidence, Verdict, str, float]:
    """Evidence, verdict, fault and seconds of a claim: what another process sends back."""
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
    if trouble:
        fault = f"No verdict is possible: claim {entry.id!r} {trouble}."
    else:
        verdict, fault = verdict_of(evidence)
    return evidence, verdict, fault, time.perf_counter() - started


def verdict_of(evidence: Evidence) -> tuple[Verdict, str]:
    """Verdict that follows from the numbers, and what is wrong with the evidence itself, if anything.

    A statement that passes holds, or is conditional when it fails somewhere outside its conditions. A
    statement that fails is corrected when there is a corrected one and that passes, else refuted. Faulty
    evidence proves nothing: without a number of the statement or a negative control, with a control that passes or
    whose number follows from the statement's own, or with a number that is not finite.
    """
    roles: dict[str, list[Measured]] = {"statement": [], "corrected": [], "outside": [], "control": []}
    for check in evidence.checks:
        roles[check.role].append(check)
    if not roles["control"] or not roles["statement"]:
        return "refuted", "No verdict is possible: the evidence lacks a number of the statement or a negative control."
    unmeasured = [check.name for check in evidence.checks if not math.isfinite(check.value) or math.isnan(check.slack)]
    if unmeasured:
        return "refuted", f"No verdict is possible: a measured number is not finite ({'; '.join(unmeasured)})."
    accepted = [check.name for check in roles["control"] if check.holds]
    if accepted:
        return "refuted", f"No verdict is possible: a wrong theory passed ({'; '.join(accepted)})."
    mirrored = [check.name for check in roles["control"] if _says_the_same(check, evidence.checks)]
    if mirrored:
        return "refuted", (
            "No verdict is possible: a control must be computed from a wrong theory, but its number follows from the "
            f"statement's own ({'; '.join(mirrored)})."
        )
    passed = {role: all(check.holds for check in checks) for role, checks in roles.items()}
    if not passed["statement"]:
        return ("corrected" if roles["corrected"] and passed["corrected"] else "refuted"), ""
    if not passed["corrected"]:
        return "refuted", ""
    return ("holds" if passed["outside"] else "conditional"), ""


def _says_the_same(control: Measured, checks: Sequence[Measured]) -> bool:
    """Whether a control's number is that of a check of the statement, or follows from it by sign, inverse or 1 - x."""
    x = control.value
    if control.rung in (SYMBOLIC, CERTIFIED) or x in (0.0, 1.0) or not math.isfinite(x):
        return False
    others = [check.value for check in checks if check.role in ("statement", "corrected")]
    return any(
        math.isclose(abs(x), abs(y), rel_tol=SAME)
        or math.isclose(x * y, 1, rel_tol=SAME)
        or math.isclose(x, 1 - y, rel_tol=SAME)
        for y in others
        if y != 0 and math.isfinite(y)
    )
