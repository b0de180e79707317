"""The register of claims: one function per claim, with its source, statement and expected verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import get_args

from snapdyn.dynamics.registry import Registry
from snapdyn.dynamics.user_files import file_being_loaded
from snapdyn.errors import InputError, unknown_name
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Check
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.results import Verdict


@dataclass(frozen=True)
class Evidence:
    """What a claim's function returns.

    Attributes
    ----------
    checks : sequence of Check
        With at least one control: a wrong theory that must fail.
    conclusion : str
        One sentence with the numbers.
    picture : Picture or None
    conditions : sequence of Condition
        Assumptions as evaluated on the instance.
    maps : sequence of Map
        Where the statement holds.
    seeds : sequence of int
        Seeds of everything random.
    tried : int
        Number of instances of a search for counterexamples.

    Examples
    --------
    >>> import snapdyn as sd
    >>> evidence = sd.Evidence(
    ...     checks=[
    ...         sd.Check("relative error", "closed form", measured=2e-9, bound=1e-8),
    ...         sd.Check("wrong theory: factor K", "closed form", measured=0.8, bound=1e-8, role="control"),
    ...     ],
    ...     conclusion="The closed form is met to 2e-9.",
    ... )
    >>> [check.as_expected for check in evidence.checks]
    [True, True]
    """

    checks: Sequence[Check]
    conclusion: str = ""
    picture: Picture | None = None
    conditions: Sequence[Condition] = ()
    maps: Sequence[Map] = ()
    seeds: Sequence[int] = ()
    tried: int = 0


@dataclass(frozen=True)
class Claim:
    """An entry of the register.

    `run(level)` gathers the evidence, level "quick" or "full"; the verdict follows from the checks
    (`snapdyn.validation.run.verdict_of`) and is compared with `expected`. `file` is the user's file that the
    claim was loaded from, empty for others.
    """

    id: str
    source: str
    title: str
    statement: str
    latex: str
    expected: Verdict
    run: Callable[[str], Evidence]
    assumptions: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    file: str = ""


# Our own claims are in it once `snapdyn.validation.claims` has been imported; take it from there.
CLAIMS: Registry[Claim] = Registry("claim", lambda entry: entry.id)


def claim(
    id: str,
    *,
    source: str,
    title: str,
    statement: str,
    latex: str = "",
    expected: Verdict = "holds",
    assumptions: Sequence[str] = (),
    findings: Sequence[str] = (),
) -> Callable[[Callable[[str], Evidence]], Callable[[str], Evidence]]:
    """Register the decorated function ``run(level) -> Evidence`` as a claim.

    Parameters
    ----------
    id : str
        Name of the claim, for `validate` and the command line.
    source : str
        Where the statement stands: paper, equation, version; or "own".
    title : str
        One line for lists.
    statement : str
        The statement in words.
    latex : str
        The statement as a formula.
    expected : "holds", "corrected", "conditional" or "refuted"
        Verdict that the register states; another one counts as a difference.
    assumptions : sequence of str
        What the statement presupposes, in words.
    findings : sequence of str
        Ids of `FINDINGS` that the claim shows.

    Returns
    -------
    callable
        Decorator that returns the function unchanged.

    Raises
    ------
    InputError
        The id is taken (by another function: a notebook's cell may run again), or `expected` is no verdict.

    Examples
    --------
    >>> import snapdyn as sd
    >>> @sd.claim("seven", source="own", title="Seven", statement="7 is less than 8.")
    ... def seven(level):
    ...     return sd.Evidence([
    ...         sd.Check("seven", "arithmetic", 7.0, 8.0),
    ...         sd.Check("wrong theory: nine", "arithmetic", 9.0, 8.0, role="control"),
    ...     ])
    >>> sd.validate("seven").claims[0].verdict
    'holds'
    >>> del sd.validation.CLAIMS["seven"]
    """
    if expected not in get_args(Verdict):
        raise unknown_name("the expected verdict", expected, get_args(Verdict))

    def register(run: Callable[[str], Evidence]) -> Callable[[str], Evidence]:
        if id in CLAIMS and not (run.__module__ == "__main__" and _place(CLAIMS[id].run) == _place(run)):
            raise InputError(f"expected a new claim id, received {id!r}, which the register has; choose another")
        CLAIMS[id] = Claim(
            id,
            source,
            title,
            statement,
            latex,
            expected,
            run,
            tuple(assumptions),
            tuple(findings),
            file=file_being_loaded(),
        )
        return run

    return register


def _place(run: Callable[[str], Evidence]) -> tuple[str, str]:
    return run.__module__, getattr(run, "__qualname__", "")


def file_of(run: Callable[[str], Evidence]) -> str:
    """File that a claim's function was written in, empty when it has none."""
    return run.__code__.co_filename if isinstance(run, FunctionType) else ""
