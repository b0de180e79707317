"""Every displayed equation of arXiv 2305.16380v4, with the claims, derivations and tests of it, and its verdict.

The table itself is `claims/equations.csv`: statements in the project's notation (V outputs of the decoder, K classes,
D_1 and D_2 for Delta_1 and Delta_2 of Lemma 9), taken from an extraction of the paper's text whose layout is damaged.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from textwrap import fill

from snapdyn.core.errors import InputError, list_of
from snapdyn.validation.register import Verdict
from snapdyn.validation.register_folder import register_in_use
from snapdyn.validation.results import ClaimResult

NOT_RECOMPUTED = "not recomputed"
WORST_FIRST: tuple[Verdict, ...] = ("refuted", "corrected", "conditional", "holds")


@dataclass(frozen=True)
class EquationRow:
    """One row of the table: an equation, or a run of equations that are recomputed together.

    Attributes
    ----------
    equation : str
        Number, such as "(45)" or "(44)-(45)".
    statement : str
        Short form of the printed equation.
    claims : tuple of str
        Ids of the claims that recompute the equation.
    derivations : tuple of str
        Ids of the derivations that recompute it, as in `snapdyn.analytic.symbolic.derivations`.
    tests : tuple of str
        Tests of the repository that recompute it.
    verdict : str
        A verdict of the register, or "not recomputed" with the reason in `note`.
    note : str
        Difference between the printed equation and the recomputation: id of the finding, or a description.
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
        """Numbers of the equations of the row."""
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
        Results of a validation run. Default: the table states the recorded verdicts. Otherwise the verdict of a row
        is the worst of its claims (the expected verdict of a claim that was not run) and of its derivations, which
        sympy verifies again (about 30 s). A row keeps its recorded verdict where this is worse than the expected
        verdicts of its claims and derivations.

    Returns
    -------
    list of EquationRow
        In the order of the paper.

    Examples
    --------
    >>> from snapdyn.validation import equation_table
    >>> row = equation_table()[1]
    >>> row.equation, row.verdict
    ('(2)', 'holds')
    """
    table = register_in_use().folder / "equations.csv"
    text = table.read_text(encoding="utf-8") if table.is_file() else ""
    try:
        rows = [
            EquationRow(**row | {name: tuple(row[name].split()) for name in ("claims", "derivations", "tests")})
            for row in csv.DictReader(text.splitlines())
        ]
    except (KeyError, TypeError, AttributeError) as error:  # a column is missing, unknown or empty in a row
        columns = ", ".join(each.name for each in fields(EquationRow))
        raise InputError(f"expected the columns {columns} in every row of {str(table)!r}, received others") from error
    if results is None:
        return rows
    measured = {result.id: result.verdict for result in list_of("results", results, ClaimResult)}
    return [replace(row, verdict=_measured_verdict(row, measured)) for row in rows]


def equation_text(rows: Iterable[EquationRow] | None = None) -> str:
    """Write the table as plain text: first the number of equations with each verdict, then a paragraph per row.

    Parameters
    ----------
    rows : iterable of EquationRow, optional
        Rows of the table; default `equation_table()`, with the recorded verdicts.

    Returns
    -------
    str
        The text, which ends with a line break.

    Examples
    --------
    >>> from snapdyn.validation import equation_table, equation_text
    >>> print(equation_text(equation_table()[1:2]).splitlines()[0])
    1 displayed equations: 1 holds
    """
    rows = equation_table() if rows is None else list_of("rows", rows, EquationRow)
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
    """Return the worst of `verdicts`; "holds" if there are none."""
    given = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in given), "holds")


def expected_verdict(row: EquationRow) -> Verdict:
    """Worst verdict that is expected of a row: by the register for its claims, by the printed form of derivations."""
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
    verdict = worst(
        [
            *(measured.get(id_, _expected(id_)) for id_ in row.claims),
            *(derivation_verdict(id_) for id_ in row.derivations),
        ]
    )
    recorded: Verdict = row.verdict  # type: ignore[assignment]
    return verdict if recorded == expected_verdict(row) else worst([verdict, recorded])


@cache
def derivation_verdict(id_: str) -> Verdict:
    """Verify a derivation by sympy: "refuted" if a residual remains, "corrected" if the printed form leaves one."""
    from snapdyn.analytic.symbolic import derivation_of

    derivation = derivation_of(id_)
    if any(residual != 0 for residual in derivation.verify().values()):
        return "refuted"
    if derivation.printed is None:
        return "holds"
    rejected = any(residual != 0 for residual in derivation.verify(derivation.printed).values())
    return "corrected" if rejected else "holds"
