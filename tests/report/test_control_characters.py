"""Control characters of users' titles, statements and words: they reach no page, no table and no terminal."""

import unicodedata
from collections.abc import Callable

import pytest

from snapdyn.core.errors import visible
from snapdyn.report.page import render
from snapdyn.validation import InstanceReport, InstanceResult, Measured, Property, Report
from snapdyn.validation.tables import latex_table, text_table
from tests.validation.helpers import check, result_of

ODD = "red \x1b[31m, bell \x07, zero \x00, half \ud800, C1 \x9b, line \u2028"
FACTS = {"source": ODD, "title": ODD, "statement": ODD, "latex": "x\x1b", "conditions": (ODD,)}
CLAIM = result_of("holds", [check(ODD, ODD, 1.0, 2.0)], {"conclusion": ODD}, id="own\x1bclaim", **FACTS)
REPORT = Report("quick", (CLAIM,))
PROP = Property(ODD, ODD, lambda _: None)
ANSWER = InstanceResult(CLAIM.claim, "holds", ODD, PROP, Measured(1.0, at_most=2.0))
INSTANCE = InstanceReport((ANSWER,), {"classes": ODD})
OUTPUTS: dict[str, Callable[[], str]] = {
    "text table": lambda: text_table(REPORT),
    "LaTeX table": lambda: latex_table(REPORT),
    "page": lambda: render(REPORT, [], [], 1.0),
    "text of an instance": INSTANCE.to_text,
    "LaTeX of an instance": INSTANCE.to_latex,
    "HTML of an instance": INSTANCE._repr_html_,
}


def controls(text: str) -> set[str]:
    """Control characters of a text besides line breaks."""
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")} - {"\n"}


@pytest.mark.parametrize("name", OUTPUTS)
def test_no_control_character_is_written(name: str) -> None:
    """Assert that an output shows the characters escaped, and can be encoded."""
    text = OUTPUTS[name]()
    assert controls(text) == set()
    assert "x1b" in text
    text.encode()


def test_other_characters_stay() -> None:
    """Assert that lines, tabs, letters of all scripts and non-breaking spaces are kept."""
    text = "a → b\tß\n日本語 עברית\u00a0\u202f\u00ad"
    assert visible(text) == text
