"""Every displayed equation of arXiv 2305.16380v4, what recomputes it, and its verdict.

The table itself is `equations.csv`: statements in the project's notation (V outputs of the decoder, K classes,
D_1 and D_2 for Delta_1 and Delta_2 of Lemma 9), read off a text extraction of the paper whose layout is damaged.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from textwrap import fill

from snapdyn.validation.results import ClaimResult, Verdict

LAST = 138
"""Number of the paper's last displayed equation."""
NOT_RECOMPUTED = "not recomputed"
WORST_FIRST: tuple[Verdict, ...] = ("refuted", "corrected", "conditional", "holds")


@dataclass(frozen=True)
class EquationRow:
    """One row of the table: an equation, or a run of equations that are recomputed together.

    Attributes
    ----------
    equation : str
        "(45)" or "(44)-(45)".
    statement : str
        The equation as printed, in short.
    claims, derivations, tests : tuple of str
        What recomputes it: ids of the register, of `snapdyn.analytic.symbolic.derivations`, and tests of the
        repository.
    verdict : str
        A verdict of the register, or "not recomputed" with the reason in `note`.
    note : str
        Where print and recomputation disagree, by finding or in full.
    """

    equation: str
    statement: str
    claims: tuple[str, ...]
    derivations: tuple[str, ...]
    tests: tuple[str, ...]
    verdict: str
    note: str

    @property
    def numbers(self) -> range:
        """Numbers of the equations."""
        ends = [int(number) for number in re.findall(r"\d+", self.equation)]
        return range(ends[0], ends[-1] + 1)

    @property
    def recomputed_by(self) -> str:
        """Ids of claims and derivations, and the names of tests, in one line."""
        return ", ".join([*self.claims, *self.derivations, *(test.rpartition("::")[2] for test in self.tests)])


def equation_table(results: Iterable[ClaimResult] | None = None) -> list[EquationRow]:
    """List the displayed equations (1) to (138) with their verdicts.

    Parameters
    ----------
    results : iterable of ClaimResult, optional
        Results of a validation run. None: the verdicts on record, at once. Otherwise the measured ones: the worst
        of a row's claims, as far as they were run, and of its derivations, which sympy verifies anew (about half a
        minute). A row whose verdict on record is stricter than its claims and derivations keeps it.

    Returns
    -------
    list of EquationRow
        In the order of the paper.
    """
    text = (files("snapdyn.validation") / "equations.csv").read_text(encoding="utf-8")
    rows = [
        EquationRow(
            equation=row["equation"],
            statement=row["statement"],
            claims=tuple(row["claims"].split()),
            derivations=tuple(row["derivations"].split()),
            tests=tuple(row["tests"].split()),
            verdict=row["verdict"],
            note=row["note"],
        )
        for row in csv.DictReader(text.splitlines())
    ]
    if results is None:
        return rows
    measured = {result.id: result.verdict for result in results}
    return [replace(row, verdict=_measured_verdict(row, measured)) for row in rows]


def equation_text(rows: Iterable[EquationRow] | None = None) -> str:
    """Write the table (default: as recorded) as plain text: the counts, then one paragraph per row."""
    rows = equation_table() if rows is None else list(rows)
    counts = {
        verdict: sum(len(row.numbers) for row in rows if row.verdict == verdict)
        for verdict in (*reversed(WORST_FIRST), NOT_RECOMPUTED)
    }
    total = sum(len(row.numbers) for row in rows)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    paragraphs = [f"{total} displayed equations: {listed}"]
    for row in rows:
        lines = [f"{row.equation:<14}{row.verdict}", _indented(row.statement)]
        lines += [_indented(f"by {row.recomputed_by}")] if row.recomputed_by else []
        lines += [_indented(f"note: {row.note}")] if row.note else []
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def _indented(text: str) -> str:
    indent = " " * 14
    return fill(
        text, 110, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Worst of some verdicts; none at all hold."""
    found = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in found), "holds")


def expected_verdict(row: EquationRow) -> Verdict:
    """Worst verdict that the register and the derivations' printed forms expect of a row."""
    from snapdyn.analytic.symbolic import derivation_of

    return worst(
        [
            *(_expected(id_) for id_ in row.claims),
            *("holds" if derivation_of(id_).printed is None else "corrected" for id_ in row.derivations),
        ]
    )


def _expected(id_: str) -> Verdict:
    """Verdict that the register states for a claim."""
    from snapdyn.validation.claims import CLAIMS

    return CLAIMS[id_].expected


def _measured_verdict(row: EquationRow, measured: dict[str, Verdict]) -> str:
    if row.verdict == NOT_RECOMPUTED:
        return row.verdict
    found = worst(
        [
            *(measured.get(id_, _expected(id_)) for id_ in row.claims),
            *(derivation_verdict(id_) for id_ in row.derivations),
        ]
    )
    recorded: Verdict = row.verdict  # type: ignore[assignment]
    return found if recorded == expected_verdict(row) else worst([found, recorded])


@cache
def derivation_verdict(id_: str) -> Verdict:
    """Verdict of sympy on a derivation: refuted if a residual is left, corrected if one is left of the print."""
    from snapdyn.analytic.symbolic import derivation_of

    found = derivation_of(id_)
    if any(residual != 0 for residual in found.verify().values()):
        return "refuted"
    if found.printed is None:
        return "holds"
    rejected = any(residual != 0 for residual in found.verify(found.printed).values())
    return "corrected" if rejected else "holds"
