"""The exported tables: aligned text, and LaTeX that compiles whatever a title holds."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from snapdyn.validation import ClaimResult, Measured, Report
from snapdyn.validation.measured import Role
from snapdyn.validation.register import Verdict
from snapdyn.validation.tables import ESCAPES, latex_number, latex_table, latex_text, text_table
from tests.validation.helpers import check, result_of, typeset, with_latex

HOSTILE = "".join(ESCAPES) + " \\end{tabular} $x_1^2$ 100% #1 a--b [own] é ∮"


def result(id: str = "x", verdict: Verdict = "holds", **others: Any) -> ClaimResult:
    """A result with one check per role."""
    checks = others.pop("checks", None) or (
        check("near", "closed form", 0.5, 1.0),
        check("nearer", "mean field", 0.9, 1.0),
        check("boundary", "descent", 2.0, 1.0, role="outside"),
        check("control", "SGD", 5.0, 1.0, role="control"),
    )
    evidence = {"tried": others.pop("tried", 0)}
    return result_of(verdict, checks, evidence, id=id, **({"source": "Eq. (1)"} | others))


def failing(role: Role, *values: float) -> tuple[Measured, ...]:
    """Checks of one role that exceed their bound, besides a control."""
    control = check("control", "SGD", 100.0, 1.0, role="control")
    return (*(check(f"{role} {value:g}", "mean field", value, 1.0, role=role) for value in values), control)


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        (result(), "nearer"),
        (result(verdict="conditional"), "boundary"),
        (result(verdict="corrected", checks=failing("statement", 2.0, 3.0, 0.1)), "statement 3"),
        (result(verdict="refuted", checks=failing("statement", 0.1) + failing("corrected", 3.0)), "corrected 3"),
        (result(checks=(check("ratio", "mean field", 2.0, 1.0, ">="), check("b", "x", 0.6, 1.0))), "b"),
    ],
)
def test_the_check_that_the_verdict_hangs_on(claim: ClaimResult, name: str) -> None:
    """Assert that a verdict shows the worst check of the role that decided it, and never a control."""
    assert claim.decisive.name == name


def test_a_claim_without_checks_has_a_row() -> None:
    """Assert that a claim whose function raised an error stands in both tables, without a verdict."""
    broken = result_of("refuted", source="s", expected="holds", fault="No verdict is possible: ...")
    report = Report("quick", (broken,))
    assert re.search(r"^x +s +T +no verdict \(register: holds\) +- +-$", text_table(report), re.MULTILINE)
    assert "no verdict (register: holds) & --" in latex_table(report)


def test_text_table() -> None:
    """Assert aligned columns in the register's order, measured against bound with its relation, and the counts."""
    long = result("a-long-id", "corrected", checks=failing("statement", 3.0), title="Longer\ntitle")
    lines = text_table(Report("quick", (result(), long), seconds=61.4)).splitlines()
    starts = {lines[row].index(word) for row, word in ((0, "verdict"), (2, "holds"), (3, "corrected"))}
    assert len(starts) == 1
    assert [line.split()[0] for line in lines[2:4]] == ["x", "a-long-id"]
    assert "0.9 <= 1" in lines[2]
    assert "3 not <= 1" in lines[3]
    assert lines[-1] == "2 claims: 1 holds, 1 corrected; 0 differ from the register; 61 s"
    odd = result("y", "refuted", expected="holds")
    assert Report("quick", (result(), odd)).summary == "2 claims: 1 holds, 1 refuted; 1 differ from the register"


def test_every_special_character_is_escaped() -> None:
    """Assert that escaped text is ASCII or Latin, and holds no character that TeX takes for a command of its own."""
    text = latex_text(HOSTILE)
    assert "∮" not in text
    assert all(ord(letter) < 0x180 for letter in text)
    # Remove what the escapes themselves are made of: nothing special may be left.
    ours = r"\\ensuremath\{(\\[A-Za-z]+(\{\})?|-|')\}|\\textsuperscript\{\d\}|\\[A-Za-z]+\{\}|\\[{}$&#%_]|\{\}"
    plain = re.sub(ours, "", text)
    assert not set(plain) & set('\\{}$&#%_^~<>|"')


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (12.34, "12.3"), (123456.0, r"1.23\times 10^{5}"), (-1e-10, "-10^{-10}"),
        (-math.inf, r"-\infty"), (math.nan, r"\mathrm{NaN}"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    """Assert three digits, with powers of ten written as such."""
    assert latex_number(value) == text


@with_latex
def test_the_table_compiles(tmp_path: Path) -> None:
    """Assert that pdflatex sets the table with every special character in every text and each kind of number."""
    checks = tuple(check(HOSTILE, HOSTILE, value, 1e-300, ">=", "statement") for value in (1e300, -1e-5))
    hostile = result(HOSTILE, "refuted", checks=checks, source=HOSTILE, title=HOSTILE)
    infinite = result("y", "refuted", checks=(check("c", "mean field", math.inf, 0.0),))
    assert "Output written on paper.pdf" in typeset(
        tmp_path, latex_table(Report("quick", (result(), hostile, infinite)))
    )
