"""The register on one instance: does each statement hold on a user's classes, rates and duration?"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from numpy.typing import ArrayLike

from snapdyn import analytic
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.errors import InputError, choice, list_of, optional_function, positive, printable, visible
from snapdyn.memory import Unaffordable
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.measured import REQUIRED, Measured
from snapdyn.validation.properties import Property, Reading
from snapdyn.validation.register import Claim
from snapdyn.validation.results import counted
from snapdyn.validation.rungs.run import FAILURE
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.instance import Instance, require_dense
from snapdyn.validation.tables import latex_formula, latex_id, latex_number, latex_text

Status = Literal["fails", "undecided", "outside", "holds", "not applicable"]
# The most serious first: a claim with several properties has the status of its most serious one.
STATUSES: tuple[Status, ...] = get_args(Status)
# The rung that decides where a claim has been measured on it.
DECIDING = "mean field"
# t_end of a check without one, in units of the time t0 of the rarest class.
HORIZON = 100.0
LATEX_RELATIONS = {"<=": r"\le", ">=": r"\ge"}
LATEX_HEAD = r"""% Needs \usepackage{booktabs,longtable,array,amsmath,amssymb} in the preamble.
\begingroup\small
\begin{longtable}{@{}>{\raggedright}p{0.16\linewidth}>{\raggedright}p{0.34\linewidth}>{\raggedright}p{0.12\linewidth}
  >{\raggedright\arraybackslash}p{0.30\linewidth}@{}}
\toprule
Id & Statement & Here & Check: measured against bound \\
\midrule
\endhead
\bottomrule
\endlastfoot
"""


@dataclass(frozen=True)
class InstanceResult:
    """Answer of one claim for one instance.

    Attributes
    ----------
    claim : Claim
        The claim.
    status : "holds", "fails", "outside", "not applicable" or "undecided"
        "outside": a condition is not met; "undecided": the margin is below the numerical error, or a run failed. For
        a claim that the register corrects, the status is that of the corrected statement.
    sentence : str
        The answer in one sentence, with its numbers.
    prop : Property or None
        The property that decided; None if the claim is not applicable.
    number : Measured or None
        The measured number against its bound; None where there is none.
    conditions : tuple of Measured
        Conditions of the statement as measured on the instance.
    """

    claim: Claim
    status: Status
    sentence: str
    prop: Property | None = None
    number: Measured | None = None
    conditions: tuple[Measured, ...] = ()

    @property
    def id(self) -> str:
        """Id of the claim."""
        return self.claim.id

    @property
    def rung(self) -> str:
        """Rung of the ladder that decided; empty if the claim is not applicable."""
        return self.prop.rung if self.prop else ""

    @property
    def measured(self) -> float:
        """The measured number; NaN where there is none."""
        return self.number.value if self.number else math.nan

    @property
    def bound(self) -> float:
        """Its bound; NaN where there is none."""
        return self.number.bound if self.number else math.nan

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; numbers that are missing or not finite become text or null."""
        return {
            "id": self.id,
            "source": self.claim.source,
            "title": self.claim.title,
            "status": self.status,
            "rung": self.rung,
            "conditions": [condition.to_dict() for condition in self.conditions],
            "check": self.prop.name if self.prop else "",
            **({"measured": None, "relation": "<=", "bound": None} if self.number is None else self.number.comparands),
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class InstanceReport:
    """The register on one instance.

    Attributes
    ----------
    claims : tuple of InstanceResult
        One per claim, in the order of the register; with `rungs`, further ones with the same id.
    settings : dict
        Classes in numbers, rates, duration, start, length, momentum, and versions.

    Examples
    --------
    >>> import snapdyn as sd
    >>> report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only=["lemma13", "figure6"])
    >>> report
    InstanceReport(1 holds, 1 not applicable)
    >>> print(report["figure6"].sentence)
    Not applicable: it speaks of the 64 published cells of Fig. 6.
    """

    if TYPE_CHECKING:
        plot: ClassVar[Callable[..., Any]]  # attached by `snapdyn`: drawing belongs to another room
    claims: tuple[InstanceResult, ...]
    settings: dict[str, Any]

    def __getitem__(self, id: str) -> InstanceResult:
        """Answer of the claim `id`."""
        for result in self.claims:
            if result.id == id:
                return result
        raise KeyError(id)

    @property
    def fails(self) -> tuple[InstanceResult, ...]:
        """Claims that fail on the instance."""
        return tuple(result for result in self.claims if result.status == "fails")

    def count(self) -> dict[str, int]:
        """Return the number of claims of each status that occurs."""
        return counted((result.status for result in self.claims), STATUSES)

    def to_json(self) -> str:
        """JSON text: {"settings": {...}, "claims": [{"id", "status", "conditions", "measured", "bound", ...}]}."""
        document = {"settings": self.settings, "claims": [result.to_dict() for result in self.claims]}
        return json.dumps(document, indent=2) + "\n"

    def to_text(self) -> str:
        """Plain text: the settings, the counts, and one paragraph per claim."""
        lines = [", ".join(f"{name} = {value}" for name, value in self.settings.items()), self.summary, ""]
        lines += [f"{result.id}: {result.sentence}" for result in self.claims]
        return visible("\n".join(lines) + "\n")

    def to_latex(self) -> str:
        """LaTeX longtable to \\input: id, formula, status, conditions not met, and each check's numbers."""
        rows = []
        for result in self.claims:
            claim = result.claim
            formula = latex_formula(claim.latex) if claim.latex else latex_text(claim.title)
            rows.append(" & ".join((latex_id(result.id), formula, result.status, _latex_numbers(result))) + r" \\")
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        return f"% {printable(settings)}\n" + LATEX_HEAD + "\n".join([*rows, r"\end{longtable}\endgroup"]) + "\n"

    @property
    def summary(self) -> str:
        """Number of claims of each status."""
        return ", ".join(f"{count} {status}" for status, count in self.count().items())

    def __repr__(self) -> str:
        return f"InstanceReport({self.summary})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>{html.escape(result.id)}</code></td><td>{html.escape(result.claim.title)}</td>"
            f"<td>{result.status}</td><td style='text-align:left'>{html.escape(result.sentence)}</td></tr>"
            for result in sorted(self.claims, key=lambda result: STATUSES.index(result.status))
        )
        return visible(
            f"<p>{html.escape(self.summary)}</p><table><thead><tr><th>id</th><th>statement</th><th>here</th>"
            f"<th>numbers</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def _latex_numbers(result: InstanceResult) -> str:
    """Conditions that are not met, then what was measured against its bound, for a cell of a LaTeX table."""
    unmet = [condition for condition in result.conditions if not condition.holds]
    parts = [latex_text(f"requires {_in_words(unmet)}")] if unmet else []
    number, prop = result.number, result.prop
    if number is not None and prop is not None:
        measured, bound = latex_number(number.value), latex_number(number.bound)
        if number.margin >= 0:
            numbers = f"${measured} {LATEX_RELATIONS[number.relation]} {bound}$"
        else:
            numbers = f"${measured}$, {REQUIRED[number.relation]} ${bound}$"
        parts.append(f"{latex_text(prop.name)}: {numbers} ({latex_text(prop.rung)})")
    return "; ".join(parts)


class CheckInterrupted(KeyboardInterrupt):
    """Ctrl-C during a check.

    Attributes
    ----------
    report : InstanceReport
        The answers until then; its settings hold "interrupted": after how many statements.
    """

    def __init__(self, report: InstanceReport) -> None:
        super().__init__(f"interrupted {report.settings['interrupted']}")
        self.report = report


def check(
    classes: SequenceClasses | Mapping[str, float],
    eta_Y: float | None = None,
    eta_Z: float | None = None,
    t_end: float | None = None,
    only: str | Iterable[str] | None = None,
    *,
    start: ArrayLike | None = None,
    seq_len: int | None = None,
    momentum: float = 0.0,
    rungs: Sequence[str] | Literal["all"] = (),
    progress: Callable[[int, int, str], None] | None = None,
) -> InstanceReport:
    """Check every statement of the register on one instance: these classes, these rates, up to t_end.

    Statements about the flow are decided in the full mean field; statements about less (the decoder alone, the
    overlaps, counts of steps) where they are made. Settings, versions and conditions go into the report.

    Parameters
    ----------
    classes : SequenceClasses or mapping of str to float
        Classes of the sequences; or the parameters of a theory whose claims have a `Box`, which need nothing else.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of attention per batch-size-1 step.
    t_end : float, optional
        Last time, batch-size-1 steps; default 100 t0 of the rarest class, t0 the end of the transition.
    only : str or iterable of str, optional
        Ids or groups of claims; default all.
    start : (Q, M) array, optional
        Attention logits at t = 0; default 0.
    seq_len : int, optional
        Number of contextual tokens T-1; default infinite.
    momentum : float
        Heavy-ball momentum mu in [0, 1): the flows run on the clock t/(1-mu).
    rungs : sequence of str or "all"
        Further rungs of the ladder on which to answer, "modified decoder", say.
    progress : callable, optional
        Called as progress(done, total, id) before each claim.

    Returns
    -------
    InstanceReport
        One answer per claim; with `rungs` also those of the further rungs.

    Raises
    ------
    InputError
        An argument is not valid; a claim or a rung is unknown; no claim speaks of these parameters.
    CheckInterrupted
        Ctrl-C, a KeyboardInterrupt whose `report` holds the answers until then.

    Examples
    --------
    >>> import snapdyn as sd
    >>> report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only="lemma13")
    >>> report["lemma13"].status
    'holds'
    """
    entries = chosen_claims(only)
    known = sorted({prop.rung for entry in entries for prop in entry.properties})
    if isinstance(rungs, str) and rungs != "all":
        rungs = (rungs,)
    asked = known if isinstance(rungs, str) else list_of("rungs", rungs, str)
    for rung in asked:
        choice("rung", rung, tuple(known))
    optional_function("progress", progress)
    given: Instance | dict[str, float]
    if isinstance(classes, Mapping):
        given = _parameters(classes, entries)
        if any(value is not None for value in (eta_Y, eta_Z, t_end, start, seq_len)) or momentum:
            raise InputError(
                "expected the parameters of a theory alone, received arguments of sequence classes beside them; put "
                "rates and times into the mapping"
            )
    else:
        if not isinstance(classes, SequenceClasses):
            raise InputError(
                f"expected classes as SequenceClasses, received {type(classes).__name__}; build them from a table with "
                "sd.SequenceClasses(P, query) or from text with sd.from_text"
            )
        if eta_Y is None or eta_Z is None:
            raise InputError(f"expected eta_Y and eta_Z, received {eta_Y} and {eta_Z}; give both learning rates")
        if t_end is None:
            require_dense(classes)  # before the priors of all classes are made
            t_end = HORIZON * _last_transition(classes, positive("eta_Y", eta_Y))
        given = Instance.of(classes, eta_Y, eta_Z, t_end, start, seq_len, momentum)
    answers: list[InstanceResult] = []
    finished = 0
    try:
        for entry in entries:
            if progress:
                progress(finished, len(entries), entry.id)
            answers += _answers(entry, asked, given)
            finished += 1
    except KeyboardInterrupt as stop:
        settings = _settings(given) | {"interrupted": f"after {finished} of {len(entries)} statements"}
        raise CheckInterrupted(InstanceReport(tuple(answers), settings)) from stop
    return InstanceReport(tuple(answers), _settings(given))


def _parameters(given: Mapping[str, float], entries: Iterable[Claim]) -> dict[str, float]:
    """Parameters of a theory, which a Box with these names accepts."""
    boxes = [prop.domain for entry in entries for prop in entry.properties if isinstance(prop.domain, Box)]
    refusals = []
    for box in (box for box in boxes if box.speaks_of(given)):
        try:
            return box.of_parameters(given)
        except InputError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]
    spoken = "; ".join(dict.fromkeys(", ".join(box.ranges) for box in boxes)) or "none: they speak of sequence classes"
    raise InputError(
        f"expected the parameters of one of these claims ({spoken}), received {', '.join(map(str, given)) or 'none'}; "
        "give a number to each of a claim's parameters, and to no other"
    )


def _last_transition(classes: SequenceClasses, eta_Y: float) -> float:
    """t0 of the rarest class, batch-size-1 steps; below V = 4, which has no t0, twice its peak of gamma."""
    # A class of probability p is visited s = p t times, so its times are those of K = 1 over p.
    V, rarest = classes.vocab_size, float(classes.prior.min())
    factor, kind = (1, "end") if V >= 4 else (2, "peak")
    return factor * float(analytic.transition_time(1, V, eta_Y, kind=kind)) / rarest


def _settings(given: Instance | dict[str, float]) -> dict[str, Any]:
    from snapdyn.dynamics.files.storage import library_versions

    if not isinstance(given, Instance):
        return {**given, "versions": library_versions()}
    classes = given.classes
    return {
        "classes": classes.num_classes,
        "tokens": classes.num_tokens,
        "queries": int(classes.queries.size),
        "next_tokens": int(classes.next_tokens.size),
        "vocab_size": classes.vocab_size,
        "eta_Y": given.eta_Y,
        "eta_Z": given.eta_Z,
        "t_end": given.t_end,
        "start": "0" if given.start is None else "given",
        "seq_len": "infinite" if given.seq_len is None else given.seq_len,
        "momentum": given.momentum,
        "versions": library_versions(),
    }


def _answers(entry: Claim, rungs: Iterable[str], given: Instance | dict[str, float]) -> list[InstanceResult]:
    """Answers of a claim: on the rung that decides, and on each of `rungs` that has properties of it."""
    speaking = [prop for prop in entry.properties if prop.domain is not None and prop.domain.speaks_of(given)]
    if not speaking:
        sentence = f"Not applicable: it speaks of {entry.domain or 'named settings'}."
        return [InstanceResult(entry, "not applicable", sentence)]
    speaking = [prop for prop in speaking if _contains(prop, given)] or speaking
    of_rungs = [prop.rung for prop in speaking]
    deciding = DECIDING if DECIDING in of_rungs else of_rungs[0]
    wanted = [deciding, *(rung for rung in rungs if rung != deciding and rung in of_rungs)]
    return [_answer(entry, [prop for prop in speaking if prop.rung == rung], given) for rung in wanted]


def _answer(entry: Claim, properties: Sequence[Property], given: Instance | dict[str, float]) -> InstanceResult:
    """Answer of a claim on one rung: that of the corrected statement, where there is one."""
    upheld = [prop for prop in properties if prop.corrected] or properties
    answers = [_on_property(entry, prop, given) for prop in upheld]
    answer = min(answers, key=lambda result: STATUSES.index(result.status))
    printed = [_on_property(entry, prop, given) for prop in properties if prop not in upheld]
    sentence = " ".join([answer.sentence, *(f"As printed: {each.sentence}" for each in printed)])
    return replace(answer, sentence=sentence)


def _contains(prop: Property, given: Instance | dict[str, float]) -> bool:
    """Whether parameters lie in the ranges of a property's Box; a Family says only where to search."""
    return not isinstance(prop.domain, Box) or prop.domain.contains(given)


def _on_property(entry: Claim, prop: Property, given: Instance | dict[str, float]) -> InstanceResult:
    """Answer of one property."""
    if not _contains(prop, given):
        return InstanceResult(entry, "outside", f"Outside: it speaks of {prop.domain}.", prop)
    if isinstance(prop.domain, Box) and isinstance(given, dict):
        given = prop.domain.of_parameters(given)
    reading, trouble = Reading([], None, measurable=True), ""
    try:
        reading = prop.at(given)
    except Unaffordable as error:
        trouble = str(error)
    except InputError as error:
        trouble = f"the measurement failed: {error}"
    measured, unmet = reading.measured, reading.unmet
    if measured is not None and not unmet:
        measured = prop.with_rounding(given, measured)
    numbers = f"{prop.name}: {measured}" if measured is not None else ""
    status: Status
    if unmet:
        status = "outside"
        sentence = f"Outside: it requires {_in_words(unmet)}."
        if measured is not None:
            sentence += f" There {'it holds all the same' if measured.holds else 'it fails'}: {numbers}."
    elif measured is None:
        failure = given.runs.get(FAILURE, "its solver gave up") if isinstance(given, Instance) else "no number"
        status, sentence = "undecided", f"Undecided: {trouble or f'the run failed ({failure})'}."
    elif not measured.decided:
        status, sentence = "undecided", f"Undecided: {numbers}."
    elif measured.holds:
        status, sentence = "holds", f"Holds: {numbers}."
    else:
        status, sentence = "fails", f"Fails: {numbers}."
    return InstanceResult(entry, status, sentence, prop, measured, tuple(reading.conditions))


def _in_words(unmet: Sequence[Measured]) -> str:
    return " and ".join(f"{condition.name} ({condition.required}; here {condition.value:.3g})" for condition in unmet)
