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
from snapdyn.core.errors import InputError, choice, instance, list_of, optional_function, positive, printable, visible
from snapdyn.core.memory import Unaffordable
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.dynamics.rules import GradientDescent, Optimizer, optimizer_as_json
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.measured import Measured
from snapdyn.validation.properties import Property, Reading, Requirement
from snapdyn.validation.register import Claim
from snapdyn.validation.results import counted
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.instance import Instance, require_dense
from snapdyn.validation.tables import latex_comparison, latex_id, latex_text, latex_words

Status = Literal["fails", "undecided", "outside", "holds", "not applicable"]
# The most serious first: a claim with several properties has the status of its most serious one.
STATUSES: tuple[Status, ...] = get_args(Status)
# The rung that decides where a claim has been measured on it.
DECIDING = "mean field"
# t_end of a check without one, in units of the time t0 of the rarest class.
HORIZON = 100.0
# t_end of a check under another rule without one, in updates times eta_Y: the order of tokens has settled by then.
HORIZON_OF_RULES = 40.0
GRADIENT_DESCENT = Requirement(
    "gradient descent",
    "layers with another rule: 0",
    lambda i: sum(not isinstance(rule, GradientDescent) for rule in i.rules) or 1,
    at_most=0,
)
# In a text: "24 hold, 1 fails, 20 are outside their conditions".
SPOKEN: dict[Status, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "undecided": ("is undecided", "are undecided"),
    "outside": ("is outside its conditions", "are outside their conditions"),
    "not applicable": ("does not apply", "do not apply"),
}
LATEX_HEAD = r"""% Needs \usepackage{booktabs,longtable,array} in the preamble.
\begingroup\small
\begin{longtable}{@{}>{\raggedright}p{0.30\linewidth}>{\raggedright}p{0.35\linewidth}
  >{\raggedright\arraybackslash}p{0.28\linewidth}@{}}
\toprule
Statement & Conditions & Verdict \\
\midrule
\endhead
\bottomrule
\endlastfoot
"""


@dataclass(frozen=True)
class InstanceResult:
    """Answer of the register on one claim for one instance.

    Attributes
    ----------
    claim : Claim
        The claim.
    status : "holds", "fails", "outside", "not applicable" or "undecided"
        "outside": a condition is not met; "undecided": the margin is below the numerical error, or a run failed. For
        a claim that the register corrects, the status is that of the corrected statement.
    reason : str
        The numbers and conditions from which the status follows.
    prop : Property or None
        The property that decided; None if the claim is not applicable.
    number : Measured or None
        The measured number against its bound; None where there is none.
    conditions : tuple of Measured
        Conditions of the statement as measured on the instance.
    printed : InstanceResult or None
        For a claim that the register corrects, the answer for the statement as printed.
    """

    claim: Claim
    status: Status
    reason: str
    prop: Property | None = None
    number: Measured | None = None
    conditions: tuple[Measured, ...] = ()
    printed: InstanceResult | None = None

    @property
    def verdict(self) -> str:
        """The status; where the register corrects the statement, that of the printed form first."""
        if self.printed is not None:
            return f"{self.printed.status} as printed, {self.status} as corrected"
        return f"{self.status} as corrected" if self.prop is not None and self.prop.corrected else self.status

    @property
    def holds_only_as_corrected(self) -> bool:
        """Whether the corrected statement holds, and the printed one does not, or has no answer."""
        return self.status == "holds" and self.verdict not in ("holds", "holds as printed, holds as corrected")

    @property
    def explanation(self) -> str:
        """The reason, and how the statement as printed fares."""
        printed = (
            "" if self.printed is None else f" As printed it {SPOKEN[self.printed.status][0]}: {self.printed.reason}."
        )
        return f"{self.reason}.{printed}"

    @property
    def sentence(self) -> str:
        """The answer in one sentence, with its numbers."""
        return f"{self.status.capitalize()}: {self.explanation}"

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
        """The bound of the measured number; NaN where there is none."""
        return self.number.bound if self.number else math.nan

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; numbers that are missing or not finite become text or null."""
        return {
            "id": self.id,
            "source": self.claim.source,
            "title": self.claim.title,
            "status": self.status,
            "as_printed": self.printed.status if self.printed else self.status,
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
    InstanceReport(1 holds, 1 does not apply)
    >>> print(report["figure6"].sentence)
    Not applicable: it is about the 64 published cells of Fig. 6.
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
        lines += [f"{result.id}: {result.sentence}" for result in self.in_order()]
        return visible("\n".join(lines) + "\n")

    def in_order(self) -> list[InstanceResult]:
        """Answers in the order of a paper: theorems and corollaries, statements that follow from them, then lemmas."""
        return sorted(self.claims, key=lambda result: result.claim.place)

    def theorems(self) -> InstanceReport:
        """Return the report without lemmas, remarks and assumptions."""
        return replace(self, claims=tuple(result for result in self.claims if not result.claim.is_auxiliary))

    def to_latex(self) -> str:
        """LaTeX longtable to \\input: statement, conditions with their values here, verdict with its numbers.

        Statements that do not apply are named in a comment only.
        """
        rows = []
        absent = ", ".join(result.id for result in self.claims if result.status == "not applicable")
        for result in self.in_order():
            if result.status == "not applicable":
                continue
            statement = f"{latex_words(result.claim.title)} ({latex_id(result.id)})"
            rows.append(
                " & ".join((statement, _latex_conditions(result), _latex_verdict(result))) + r" \\ \addlinespace"
            )
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        comment = f"% {printable(settings)}\n% Does not apply here: {printable(absent or 'none')}.\n"
        return comment + LATEX_HEAD + "\n".join([*rows, r"\end{longtable}\endgroup"]) + "\n"

    @property
    def summary(self) -> str:
        """Number of claims of each status; those that hold as corrected and not as printed stand apart."""
        counts = self.count()
        corrected = sum(result.holds_only_as_corrected for result in self.claims)
        spoken = [(counts.get(status, 0), words) for status, words in SPOKEN.items()]
        spoken[:1] = [
            (spoken[0][0] - corrected, SPOKEN["holds"]),
            (corrected, ("holds only as corrected", "hold only as corrected")),
        ]
        return ", ".join(f"{number} {words[number != 1]}" for number, words in spoken if number)

    def __repr__(self) -> str:
        return f"InstanceReport({self.summary})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>{html.escape(result.id)}</code></td><td>{html.escape(result.claim.title)}</td>"
            f"<td>{result.verdict}</td><td style='text-align:left'>{html.escape(result.explanation)}</td></tr>"
            for result in self.in_order()
        )
        return visible(
            f"<p>{html.escape(self.summary)}</p><table style='border-collapse:separate;border-spacing:1em 0.3em'>"
            f"<thead><tr><th>id</th><th>statement</th><th>here</th><th>why</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def _latex_conditions(result: InstanceResult) -> str:
    """Conditions of a statement; those that are not met are in italics, with their values here."""
    spoken = [
        latex_words(condition.name if condition.holds else _in_words([condition])) for condition in result.conditions
    ]
    held = [condition.holds for condition in result.conditions]
    marked = [text if holds else rf"\emph{{{text}}}" for text, holds in zip(spoken, held, strict=True)]
    if result.status == "outside" and all(held):  # of the ranges of a Box
        marked.append(rf"\emph{{{latex_words(result.reason)}}}")
    return "; ".join(dict.fromkeys(marked))  # two conditions of one name may have bounds of their own


def _latex_verdict(result: InstanceResult) -> str:
    """Verdict, and the measured number against its bound, of the statement as printed and as it is corrected."""
    forms = [(result, " as corrected")] if result.prop is not None and result.prop.corrected else [(result, "")]
    forms = [(result.printed, " as printed"), *forms] if result.printed is not None else forms
    return "; ".join(f"{form.status}{words}{_latex_numbers(form)}" for form, words in forms)


def _latex_numbers(result: InstanceResult) -> str:
    if result.number is None:
        return f": {latex_words(result.reason)}" if result.status == "undecided" else ""
    there = ""
    if result.status == "outside":
        found = "it holds" if result.number.holds else "it fails"
        there = f"; there {found if result.number.decided else 'the number decides nothing'}"
    return f"{there}: {latex_comparison(result.number)} ({latex_text(result.rung)})"


class CheckInterrupted(KeyboardInterrupt):
    """Ctrl-C during a check.

    Attributes
    ----------
    report : InstanceReport
        The answers until the interruption; its settings hold "interrupted", which says after how many statements.
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
    optimizer: Optimizer | None = None,
    rungs: Sequence[str] | Literal["all"] = (),
    progress: Callable[[int, int, str], None] | None = None,
) -> InstanceReport:
    """Check every statement of the register on one instance: these classes, these rates, up to t_end.

    Statements about the flow are decided in the full mean field; statements about a part of it (the decoder alone, the
    overlaps, counts of steps) on the rung on which they are stated. Settings, versions and conditions go into the
    report.

    With `optimizer`, statements about the flow of gradient descent are outside their conditions; where they are about
    attention in the mean field, they are measured all the same, on the mean map of this rule (descent on the
    expectation, whole updates), and the answer says whether they hold there and which claim says why.

    Parameters
    ----------
    classes : SequenceClasses or mapping of str to float
        Classes of the sequences; or the parameters of a theory whose claims have a `Box`, which need nothing else.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of attention per batch-size-1 step.
    t_end : float, optional
        Last time, batch-size-1 steps; default 100 t0 of the rarest class, t0 the end of the transition. With a rule
        such as Adam, updates; default 40/eta_Y.
    only : str or iterable of str, optional
        Ids or groups of claims; default all.
    start : (Q, M) array, optional
        Attention logits at t = 0; default 0.
    seq_len : int, optional
        Number of contextual tokens T-1; default infinite.
    momentum : float
        Heavy-ball momentum mu in [0, 1): the flows run on the clock t/(1-mu).
    optimizer : str, rule of descent or pair of rules, optional
        As in `snapdyn.sgd`: "adam", `snapdyn.Adam(beta2=0.99)`, or (rule of Y, rule of z). Default: gradient descent.
    rungs : sequence of str or "all"
        Further rungs of the ladder on which to answer, for example "modified decoder".
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
        Ctrl-C was pressed; a KeyboardInterrupt whose `report` holds the answers until then.

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
        if any(value is not None for value in (eta_Y, eta_Z, t_end, start, seq_len, optimizer)) or momentum:
            raise InputError(
                "expected the parameters of a theory alone, received arguments of sequence classes beside them; put "
                "rates and times into the mapping"
            )
    else:
        advice = "build them from a table with sd.SequenceClasses(P, query) or from text with sd.from_text"
        instance("classes", classes, SequenceClasses, advice)
        if eta_Y is None or eta_Z is None:
            raise InputError(f"expected eta_Y and eta_Z, received {eta_Y} and {eta_Z}; give both learning rates")
        require_dense(classes)  # before the priors of all classes are made
        of_descent = HORIZON * _last_transition(classes, positive("eta_Y", eta_Y)) if t_end is None else t_end
        given = Instance.of(classes, eta_Y, eta_Z, of_descent, start, seq_len, momentum, optimizer)
        if given.rules and t_end is None:
            given = Instance.of(classes, eta_Y, eta_Z, HORIZON_OF_RULES / eta_Y, start, seq_len, momentum, optimizer)
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
    """Parameters of a theory, all of one claim's Box or more; each claim takes those of its own."""
    boxes = [prop.domain for entry in entries for prop in entry.properties if isinstance(prop.domain, Box)]
    complete = [box for box in boxes if box.ranges.keys() <= given.keys()]
    unknown = [name for name in given if all(name not in box.ranges for box in complete)]
    if not complete or unknown:
        spoken = "; ".join(dict.fromkeys(", ".join(box.ranges) for box in boxes)) or "none: they speak of classes"
        raise InputError(
            f"expected all parameters of one of these claims or more ({spoken}), received "
            f"{', '.join(map(str, given)) or 'none'}; give a number to each of a claim's parameters"
        )
    refusals = []
    for box in complete:
        try:
            box.of_parameters(given)
        except InputError as error:
            refusals.append(error)
    if len(refusals) == len(complete):
        raise refusals[0]
    return dict(given)


def _last_transition(classes: SequenceClasses, eta_Y: float) -> float:
    """t0 of the rarest class, batch-size-1 steps; for V < 4, where t0 does not exist, twice its t* (peak of gamma)."""
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
        **({"optimizer": optimizer_as_json(given.rules)} if given.rules else {}),
        "versions": library_versions(),
    }


def _answers(entry: Claim, rungs: Iterable[str], given: Instance | dict[str, float]) -> list[InstanceResult]:
    """Answers of a claim: on the rung that decides, and on each of `rungs` on which the claim has properties."""
    speaking = [
        prop for prop in entry.properties if prop.domain is not None and prop.domain.speaks_of(_own(prop, given))
    ]
    rules = given.rules if isinstance(given, Instance) else None
    if speaking and isinstance(given, Instance) and entry.of_rule == "own" and not rules:
        words = "it is about another rule than gradient descent: give optimizer, for example optimizer='adam'"
        return [InstanceResult(entry, "not applicable", words)]
    if rules and entry.of_rule == "gradient descent":
        speaking = [_of_gradient_descent(prop) for prop in speaking]
    if not speaking:
        words = f"it is about {entry.domain or 'named settings'}"
        boxes = [prop.domain.ranges for prop in entry.properties if isinstance(prop.domain, Box)]
        if isinstance(given, dict) and boxes:
            missing = min(([name for name in box if name not in given] for box in boxes), key=len)
            words += f"; give {', '.join(missing)} too"
        return [InstanceResult(entry, "not applicable", words)]
    # A Family says only where to search.
    inside = [prop for prop in speaking if not isinstance(prop.domain, Box) or prop.domain.contains(_own(prop, given))]
    speaking = inside or speaking
    of_rungs = [prop.rung for prop in speaking]
    deciding = DECIDING if DECIDING in of_rungs else of_rungs[0]
    wanted = [deciding, *(rung for rung in rungs if rung != deciding and rung in of_rungs)]
    return [_answer(entry, [prop for prop in speaking if prop.rung == rung], given) for rung in wanted]


def _answer(entry: Claim, properties: Sequence[Property], given: Instance | dict[str, float]) -> InstanceResult:
    """Answer of a claim on one rung: that of the corrected statement, if there is one."""
    upheld = [prop for prop in properties if prop.corrected] or properties
    answer = _most_serious(entry, upheld, given)
    printed = [prop for prop in properties if prop not in upheld]
    return replace(answer, printed=_most_serious(entry, printed, given)) if printed else answer


def _most_serious(entry: Claim, properties: Sequence[Property], given: Instance | dict[str, float]) -> InstanceResult:
    """The most serious answer of several properties; one that is outside does not hide those that hold."""
    answers = [_on_property(entry, prop, given) for prop in properties]
    found = min(answers, key=lambda result: STATUSES.index(result.status))
    held = [result.reason for result in answers if result.status == "holds"]
    if found.status != "outside" or not held:
        return found
    return replace(
        found, reason=f"{found.reason}. Of its other statements these hold here: {'; '.join(dict.fromkeys(held))}"
    )


def _of_gradient_descent(prop: Property) -> Property:
    """The property for an instance with other rules, whose run only a measure in the mean field makes."""
    requirement = replace(GRADIENT_DESCENT, defining=prop.rung != DECIDING)
    return replace(prop, conditions=(requirement, *prop.conditions))


def _own(prop: Property, given: Instance | dict[str, float]) -> Instance | dict[str, float]:
    """What a property reads of the instance: its Box takes its own parameters, and leaves others to other claims."""
    if isinstance(prop.domain, Box) and isinstance(given, dict):
        return {name: given[name] for name in prop.domain.ranges if name in given}
    return given


def _on_property(entry: Claim, prop: Property, given: Instance | dict[str, float]) -> InstanceResult:
    """Answer of one property."""
    beyond, given = "", _own(prop, given)
    if isinstance(prop.domain, Box) and isinstance(given, dict):
        misses = [name for name, range_ in prop.domain.ranges.items() if not range_.contains(given[name])]
        beyond = ", ".join(f"{name} is {given[name]:g}" for name in misses)
    try:
        if isinstance(prop.domain, Box) and isinstance(given, dict) and not beyond:
            given = prop.domain.of_parameters(given)
        reading = prop.at(given)
    except InputError as error:
        failed = "" if isinstance(error, Unaffordable) else "the measurement failed: "
        reading = Reading([], None, measurable=True, reason=f"{failed}{error}")
    measured, unmet = reading.measured, reading.unmet
    if measured is not None and not unmet and not beyond:
        measured = prop.with_rounding(given, measured)
    numbers = f"{prop.name}: {measured}" if measured is not None else ""
    status: Status
    if unmet or beyond:
        reasons = [f"it is about {prop.domain}, and {beyond}"] if beyond else []
        reasons += [f"it requires {_in_words(unmet)}"] if unmet else []
        status, reason = "outside", "; ".join(reasons)
        if measured is not None:
            here = "it holds here" if measured.holds else "it fails here"
            reason += (
                f". Measured all the same, {here if measured.decided else 'the number decides nothing'}: {numbers}"
            )
        if entry.under_rules and any(condition.name == GRADIENT_DESCENT.name for condition in unmet):
            reason += f". {entry.under_rules}"
    elif measured is None:
        status, reason = "undecided", reading.reason
    else:
        status = "undecided" if not measured.decided else "holds" if measured.holds else "fails"
        several = isinstance(prop.domain, Box) and len({str(each.domain) for each in entry.properties}) > 1
        reason = f"{numbers} ({prop.domain})" if several else numbers
    return InstanceResult(entry, status, reason, prop, measured, tuple(reading.conditions))


def _in_words(unmet: Sequence[Measured]) -> str:
    return " and ".join(f"{condition.name} ({condition.required}; here {condition.value:.3g})" for condition in unmet)
