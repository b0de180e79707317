"""Formulas drawn as SVG."""

import xml.etree.ElementTree as ElementTree

import pytest

from snapdyn.analytic.symbolic import derivations
from snapdyn.report.formulas import formula_html
from snapdyn.validation import CLAIMS

FORMULAS = {d.id: d.latex() for d in derivations()} | {f"claim {c.id}": c.latex for c in CLAIMS.values()}


@pytest.mark.parametrize("name", FORMULAS)
def test_every_formula_is_drawn(name: str) -> None:
    """Assert that each formula of the project is drawn, as well-formed markup that carries its source."""
    text = formula_html(FORMULAS[name])
    assert "<code>" not in text
    drawings = list(ElementTree.fromstring(f"<div>{text}</div>").iter("svg"))
    assert drawings
    for drawing in drawings:
        assert drawing.get("aria-label")
        path = drawing.find("path")
        assert path is not None
        assert path.get("d", "").startswith("M")


def test_box_contains_the_drawing() -> None:
    """Assert that a taller formula gets a taller box, with its baseline inside."""

    def box(latex: str) -> list[float]:
        return [float(value) for value in formula_html(latex).split('viewBox="')[1].split('"')[0].split()]

    letter, fraction = box("x"), box(r"\frac{x}{y}")
    assert fraction[3] > 2 * letter[3]
    for _, y, _, height in (letter, fraction):
        assert y < 0 < y + height


@pytest.mark.parametrize("latex", [r"\begin{cases} a \\ b \end{cases}", r"\undefined<&x", r"\left( x"])
def test_source_where_it_cannot_be_drawn(latex: str) -> None:
    """Assert that LaTeX which cannot be drawn is shown as escaped source."""
    text = formula_html(latex)
    assert ElementTree.fromstring(text).tag == "code"
    assert ElementTree.fromstring(text).text == latex
