"""The register of claims: frozen values, with their source, statement, properties and expected verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from snapdyn.core.errors import (
    InputError,
    choice,
    function,
    instance,
    list_of,
    optional_function,
    shown,
    text,
    unknown_name,
    whole,
)
from snapdyn.core.registry import Registry
from snapdyn.dynamics.files.user_files import file_being_loaded
from snapdyn.validation.measured import Evidence
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.register_folder import register_in_use

Verdict = Literal["holds", "corrected", "conditional", "refuted"]
# How a claim is known, from the strongest to the weakest.
Grade = Literal["proved", "certified", "searched", "measured"]
# Runs under which rules of descent a claim is about: "own" claims name theirs and run it.
OfRule = Literal["gradient descent", "any", "own"]
GRADES: tuple[Grade, ...] = get_args(Grade)


# First words of sources, as papers rank their statements; "": other sources.
KINDS = ("Theorem", "Corollary", "", "Assumption", "Lemma", "Remark")


@dataclass(frozen=True)
class Headline:
    r"""A finding in plain words, with the printed and the recomputed formula, for the first screen of the report.

    Attributes
    ----------
    rank : int
        Place among the headlines, from 1.
    printed : str
        What the paper prints, as LaTeX.
    recomputed : str
        What holds instead, as LaTeX.
    plain : str
        The finding in one sentence without symbols.
    where : str
        What the symbols of the two formulas mean.

    Raises
    ------
    InputError
        A formula is not text, or the rank is not a whole number from 1.

    Examples
    --------
    >>> from snapdyn.validation.register import Headline
    >>> Headline(
    ...     1, r"\gamma=O(1/t)", r"\gamma=O(\ln(t)/t)", "Attention slows down later than printed.",
    ...     "gamma is the speed of attention at step t.",
    ... ).rank
    1
    """

    rank: int
    printed: str
    recomputed: str
    plain: str
    where: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", whole("rank", self.rank, 1))
        for name in ("printed", "recomputed", "plain", "where"):
            text(name, getattr(self, name))


@dataclass(frozen=True)
class Claim:
    """An entry of the register: a statement as data.

    Attributes
    ----------
    id : str
        Name of the claim, for `validate` and the command line.
    source : str
        Where the statement is printed: paper, equation, version; or "own".
    title : str
        One line for lists.
    statement : str
        The statement in words.
    latex : str
        The statement as a formula.
    corrected_latex : str
        The corrected statement as a formula, for the page to show beside it.
    conditions : tuple of str
        What the statement presupposes, in words.
    conclusion : str
        What was found; its first sentence answers the title. ``{name}`` or ``{name:format}`` inserts the number
        measured at the case of that name, or the worst number in the domain of the property of that name.
    expected : "holds", "corrected", "conditional" or "refuted"
        Verdict that the register states; another verdict counts as a difference.
    properties : tuple of Property
        The statement as properties of one instance: their domains are searched, their cases measured, and
        `snapdyn.check` answers for a user's instance. The properties on the rung "mean field", or else on the rung of
        the first property, give the answer.
    proved : tuple of str
        Ids of derivations (`snapdyn.analytic.symbolic`) whose residuals sympy brings to zero; where a derivation has a
        printed form, sympy must reject this form.
    certified : tuple of str
        Ids of interval proofs (`snapdyn.analytic.certificates`), with their false inequalities as controls.
    picture : callable or None
        ``picture()`` gives the Picture that shows the claim.
    map : callable or None
        ``map(level)`` gives the Map of where the statement holds.
    findings : tuple of str
        Ids of `FINDINGS` that the claim shows.
    headline : Headline or None
        The finding in plain words and formulas, for the first screen of the report.
    grade : "proved", "certified", "searched" or "measured"
        How the statement is known; default "searched" where a property has a domain, else "measured".
    run : callable or None
        ``run(evidence)`` adds what a function of the user measures (`claim`).
    chapter : str
        Chapter of the register that the claim belongs to; empty for others.
    file : str
        The user's file that the claim was loaded from; empty for others.
    of_rule : "gradient descent", "any" or "own"
        Under which rules of descent the statement speaks of a run: gradient descent with or without momentum; every
        rule, for a statement that is about no run, such as one about overlaps; or the rule that the claim itself names,
        in whose place its measure takes the `rules` of an instance.
    under_rules : str
        What is known of the statement under other rules, such as Adam: a sentence for `snapdyn.check`.

    Raises
    ------
    InputError
        An attribute has the wrong type, or a verdict or grade is unknown.

    Examples
    --------
    >>> import snapdyn as sd
    >>> squares = sd.Property(
    ...     "x^2 over |x|", "arithmetic", lambda p: sd.Measured(p["x"] ** 2 / abs(p["x"]), at_most=1.0),
    ...     sd.Box(x=(-1.0, 1.0)), controls={"wrong theory: x + 1": lambda p: sd.Measured(p["x"] + 1, at_most=1.0)},
    ... )
    >>> entry = sd.Claim("squares", "own", "Squares", "x^2 is at most |x| on [-1, 1].", properties=(squares,))
    >>> entry.grade, entry.domain
    ('searched', 'x -1 to 1')
    """

    id: str
    source: str
    title: str
    statement: str
    latex: str = ""
    corrected_latex: str = ""
    conditions: tuple[str, ...] = ()
    conclusion: str = ""
    expected: Verdict = "holds"
    properties: tuple[Property, ...] = ()
    proved: tuple[str, ...] = ()
    certified: tuple[str, ...] = ()
    picture: Callable[[], Picture] | None = None
    map: Callable[[str], Map] | None = None
    findings: tuple[str, ...] = ()
    headline: Headline | None = None
    grade: Grade | None = None
    run: Callable[[Evidence], None] | None = None
    chapter: str = ""
    file: str = field(default_factory=file_being_loaded)
    of_rule: OfRule = "gradient descent"
    under_rules: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "source", "title", "statement", "latex", "corrected_latex", "conclusion", "under_rules"):
            text(name, getattr(self, name))
        for name in ("conditions", "proved", "certified", "findings"):
            object.__setattr__(self, name, tuple(list_of(name, getattr(self, name), str)))
        given = [self.properties] if isinstance(self.properties, Property) else self.properties
        object.__setattr__(self, "properties", tuple(list_of("properties", given, Property)))
        for name in ("picture", "map", "run"):
            optional_function(name, getattr(self, name))
        if self.headline is not None:
            instance("headline", self.headline, Headline, "give a Headline, or None")
        choice("the expected verdict", self.expected, get_args(Verdict))
        choice("of_rule", self.of_rule, get_args(OfRule))
        if self.grade is None:
            searched = any(prop.domain is not None for prop in self.properties)
            object.__setattr__(self, "grade", "searched" if searched else "measured")
        choice("grade", self.grade, GRADES)  # type: ignore[arg-type]

    @property
    def place(self) -> tuple[int, int]:
        """Place in a list, as in papers: theorems, corollaries, what follows from them, assumptions, lemmas."""
        found = re.match(r"([A-Z][a-z]+) (\d+)", self.source)
        kind = found[1] if found and found[1] in KINDS else ""
        return KINDS.index(kind), int(found[2]) if found and kind else 0

    @property
    def is_auxiliary(self) -> bool:
        """Whether it is an assumption, a lemma or a remark."""
        return KINDS[self.place[0]] in ("Assumption", "Lemma", "Remark")

    @property
    def grades(self) -> str:
        """How it is known, in words: its grade, and whether it was searched as well."""
        also = self.grade in ("proved", "certified") and any(prop.domain is not None for prop in self.properties)
        return f"{self.grade} and searched" if also else str(self.grade)

    @property
    def answer(self) -> str:
        """First sentence of the conclusion."""
        return first_sentence(self.conclusion)[0]

    @property
    def domain(self) -> str:
        """What the claim is about: the domains and conditions of its properties, or the names of their cases."""
        texts = []
        for prop in self.properties:
            if prop.domain is not None:
                texts.append(str(prop.domain) + "".join(f"; {each.required}" for each in prop.conditions))
        named = [name for prop in self.properties if prop.domain is None for name in prop.settings()]
        if not texts and named:
            texts.append("; ".join(dict.fromkeys(named)))
        return " | ".join(dict.fromkeys(texts))


# Our own claims are in it once `snapdyn.validation.claims` has been imported; take it from there.
CLAIMS: Registry[Claim] = Registry("claim", lambda entry: entry.id)


def claim(id: str, **facts: Any) -> Callable[[Callable[[Evidence], None]], Callable[[Evidence], None]]:
    """Register the decorated function ``run(evidence)`` as a claim; it adds numbers to the `Evidence` that it receives.

    Parameters
    ----------
    id : str
        Name of the claim, for `validate` and the command line.
    **facts : dict
        Attributes of `Claim`: at least source, title and statement.

    Returns
    -------
    callable
        Decorator that returns the function unchanged.

    Raises
    ------
    InputError
        What `Claim` and `add_claim` raise.

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
    text("the id of a claim", id)
    known = [entry.name for entry in fields(Claim) if entry.name not in ("id", "run", "chapter", "file")]
    for name in facts:
        if name not in known:
            raise unknown_name("attribute of a claim", name, known)
    missing = [name for name in ("source", "title", "statement") if name not in facts]
    if missing:
        raise InputError(f"expected {', '.join(missing)} of claim {shown(id)}, received none; give a text for each")

    def register(run: Callable[[Evidence], None]) -> Callable[[Evidence], None]:
        add_claim(Claim(id, run=function("a claim", run), **facts))
        return run

    return register


def add_claim(entry: Claim) -> None:
    """Add a claim to the register; it replaces a claim of the same id that was made in this process outside any file.

    So a cell of a notebook can be run again.

    Raises
    ------
    InputError
        The id is that of a claim of the package or of a file.
    """
    before = CLAIMS.get(entry.id)
    if before is not None and not (entry.chapter or entry.file or before.chapter or before.file):
        del CLAIMS[entry.id]
    chapter = register_in_use().chapter_of.get(entry.id, "")
    CLAIMS.add(replace(entry, chapter=chapter) if chapter else entry)


def first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence of a text, and the rest; "Eq. (10)" does not end one."""
    first, *rest = re.split(r"(?<=[.!?])(?<!Eq\.)(?<!Eqs\.)(?<!Fig\.)(?<!Sec\.)\s+(?=[A-Z(])", text, maxsplit=1)
    return first, "".join(rest)
