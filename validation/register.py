"""The register of claims: one function per claim, with its source, statement and expected verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, get_args

from snapdyn.dynamics.registry import Registry
from snapdyn.dynamics.user_files import file_being_loaded
from snapdyn.errors import InputError, choice, function, instance, list_of, shown, text
from snapdyn.validation.evidence import SEED, Evidence
from snapdyn.validation.headlines import Headline
from snapdyn.validation.properties import Property
from snapdyn.validation.results import Verdict

# How a claim is known, from the strongest to the weakest.
Grade = Literal["proved", "certified", "searched", "measured"]
GRADES: tuple[Grade, ...] = get_args(Grade)


@dataclass(frozen=True)
class Claim:
    """An entry of the register.

    `run(evidence)` adds the claim's measurements to its `Evidence`; before that the engine searches the domains of
    `properties`. The verdict follows from the checks (`snapdyn.validation.verdicts.verdict_of`) and is compared with
    `expected`. `chapter` is the folder of a claim of the package. `file` is the user's file that the claim was loaded
    from, empty for others.
    """

    id: str
    source: str
    title: str
    statement: str
    latex: str
    expected: Verdict
    run: Callable[[Evidence], None]
    assumptions: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()
    grade: Grade = "measured"
    domain: str = ""
    speaks_of: str = ""
    answer: str = ""
    headline: Headline | None = None
    chapter: str = ""
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
    properties: Property | Sequence[Property] = (),
    grade: Grade | None = None,
    domain: str = "",
    speaks_of: str = "",
    answer: str = "",
    headline: Headline | None = None,
) -> Callable[[Callable[[Evidence], None]], Callable[[Evidence], None]]:
    """Register the decorated function ``run(evidence)`` as a claim.

    The function adds checks to the `Evidence` that it receives, with at least one negative control.

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
    properties : Property or sequence of Property
        The statement as a property of one instance: its domain is searched, and `snapdyn.check` answers for a user's
        instance. The first of a rung "mean field", or else the first, gives the answer.
    grade : "proved", "certified", "searched" or "measured", optional
        How the statement is known; default "searched" with properties, else "measured".
    domain : str
        For what the statement is made, in words; default the domains of the properties. A claim that is measured at
        named settings names them here.
    speaks_of : str
        For a claim without properties: what it speaks of, if not of one instance.
    answer : str
        What was found, in one sentence. The report shows it below the title while the verdict is the expected one,
        and otherwise the first sentence of `Evidence.conclusion`.
    headline : Headline, optional
        Print and recomputation as formulas, for the first screen of the report.

    Returns
    -------
    callable
        Decorator that returns the function unchanged.

    Raises
    ------
    InputError
        The id is taken (by another function: a notebook's cell may run again), or `expected` or `grade` is unknown.

    Examples
    --------
    >>> import snapdyn as sd
    >>> @sd.claim("seven", source="own", title="Seven", statement="7 is less than 8.")
    ... def seven(evidence):
    ...     evidence.holds("seven", "arithmetic", 7.0, at_most=8.0)
    ...     evidence.control("wrong theory: nine", "arithmetic", 9.0, at_most=8.0)
    >>> sd.validate("seven").claims[0].verdict
    'holds'
    >>> del sd.validation.CLAIMS["seven"]
    """
    texts = {"id": id, "source": source, "title": title, "statement": statement, "latex": latex, "domain": domain}
    for name, value in {**texts, "speaks_of": speaks_of, "answer": answer}.items():
        text(name, value)
    choice("the expected verdict", expected, get_args(Verdict))
    if grade is not None:
        choice("grade", grade, GRADES)
    if headline is not None:
        instance("headline", headline, Headline, "give a Headline, or None")
    assumptions, findings = list_of("assumptions", assumptions, str), list_of("findings", findings, str)
    searched = tuple(list_of("properties", [properties] if isinstance(properties, Property) else properties, Property))

    def register(run: Callable[[Evidence], None]) -> Callable[[Evidence], None]:
        function("a claim", run)
        if id in CLAIMS and not (run.__module__ == "__main__" and _place(CLAIMS[id].run) == _place(run)):
            raise InputError(f"expected a new claim id, received {shown(id)}, which the register has; choose another")
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
            searched,
            grade or ("searched" if searched else "measured"),
            domain,
            speaks_of,
            answer,
            headline,
            chapter=_chapter(run.__module__),
            file=file_being_loaded(),
        )
        return run

    return register


class FaultyEvidenceError(Exception):
    """Evidence of a claim from which no verdict follows; the message goes on after the claim's name."""


def gathered(entry: Claim, level: str, seed: int = SEED) -> Evidence:
    """Evidence of a claim: the searches of its properties, then what its function adds.

    Raises
    ------
    FaultyEvidenceError
        What `search_property` refuses.
    """
    from snapdyn.validation.engine import search_property

    evidence = Evidence(level=level, seed=seed)
    for prop in entry.properties:
        try:
            search_property(prop, evidence)
        except InputError as error:
            raise FaultyEvidenceError(f"cannot be judged: {error}") from error
    entry.run(evidence)
    return evidence


def _chapter(module: str) -> str:
    """Folder of a claim of the package."""
    parts = module.split(".")
    return parts[3] if parts[:3] == ["snapdyn", "validation", "claims"] and len(parts) > 4 else ""


def _place(run: Callable[..., Any]) -> tuple[str, str]:
    return run.__module__, getattr(run, "__qualname__", "")


def file_of(run: Callable[..., Any]) -> str:
    """File that a claim's function was written in, empty when it has none."""
    return run.__code__.co_filename if isinstance(run, FunctionType) else ""
