"""Mathematics of the page: formulas and sentences."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from snapdyn.analytic.symbolic import derivation_of
from snapdyn.analytic.symbolic.derivation import DECLARED
from snapdyn.report.mathematics import formula_html, prose_html
from snapdyn.validation import CLAIMS

HEADLINES = {c.id: c.headline for c in CLAIMS.values() if c.headline}
FORMULAS = (
    {f"claim {c.id}": c.latex for c in CLAIMS.values()}
    | {f"printed {id_}": headline.printed for id_, headline in HEADLINES.items()}
    | {f"recomputed {id_}": headline.recomputed for id_, headline in HEADLINES.items()}
)


@pytest.mark.parametrize("name", [*DECLARED, *FORMULAS])
def test_every_formula_is_drawn(name: str) -> None:
    """Assert that each formula of the project is drawn, as well-formed markup that carries its source."""
    text = formula_html(FORMULAS[name] if name in FORMULAS else derivation_of(name).latex())
    assert "<code>" not in text
    drawings = list(ElementTree.fromstring(f"<div>{text}</div>").iter("svg"))
    assert drawings
    for drawing in drawings:
        assert drawing.get("aria-label")
        (outline,) = drawing.iter("path")
        assert outline.get("d", "").startswith("M")


def test_a_formula_has_the_outline_of_matplotlib() -> None:
    """Assert that points of all kinds are those of matplotlib's own path."""
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    (drawn,) = ElementTree.fromstring(formula_html(r"\frac{x^2}{K}")).iter("path")
    numbers = re.findall(r"-?\d+", drawn.get("d", ""))
    points = np.array(numbers, dtype=float).reshape(-1, 2)
    with matplotlib.rc_context({"mathtext.fontset": "stix"}):
        path = TextPath((0, 0), r"$\dfrac{x^2}{K}$", size=100, prop=FontProperties(family="STIXGeneral"))
    expected = path.vertices[path.codes != path.CLOSEPOLY] * (1, -1)
    np.testing.assert_allclose(points, expected, atol=0.501)


@pytest.mark.parametrize("latex", [r"\begin{cases} a \\ b \end{cases}", r"\undefined<&x", r"\left( x"])
def test_source_where_it_cannot_be_drawn(latex: str) -> None:
    """Assert that LaTeX which cannot be drawn is shown as escaped source."""
    text = formula_html(latex)
    assert ElementTree.fromstring(text).tag == "code"
    assert ElementTree.fromstring(text).text == latex


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("eta_Y <= 1e-3", "<i>η</i><sub>Y</sub> ≤ 10<sup>−3</sup>"),
        ("2.3e+04.", "2.3·10<sup>4</sup>."),
        ("V = 10..1e7", "<i>V</i>\u00a0=\u00a010…10<sup>7</sup>"),
        ("E'_nn of (V-1)", "<i>E</i>′<sub>nn</sub> of (<i>V</i>−1)"),
        ("f_n.f_k", "<i>f</i><sub>n</sub>·<i>f</i><sub>k</sub>"),
        ("h*(s), t0', u_-", "<i>h</i><sup>*</sup>(<i>s</i>), <i>t</i><sub>0</sub>′, <i>u</i><sub>−</sub>"),
        ("(ln t)^(1/(a K))", "(ln <i>t</i>)<sup>1/(a K)</sup>"),
        ("sum_{k != n} beta_nk", "∑<sub>k ≠ n</sub> <i>β</i><sub>nk</sub>"),
        ("1/sqrt(K-2) >> 0", "1/√(<i>K</i>−2) ≫ 0"),
        ("(G^{-1})_nn", "(<i>G</i><sup>−1</sup>)<sub>nn</sub>"),
        ("|c~|^2", "|<i>c̃</i>|<sup>2</sup>"),
        ("at most -0.5", "at most −0.5"),
    ],
)
def test_mathematics_is_shown(text: str, shown: str) -> None:
    """Assert that letters, signs, indices and powers are as in print."""
    assert prose_html(text) == shown


@pytest.mark.parametrize(
    "words",
    [
        "a batch-size-1 step of Syn-Medium", "Lemma 7(b), F1-F18, Eqs. (98)-(100)", "relative_gain", "e.g. this",
        "theorem2a-strong-slow", "interval sums", "I think so",
    ],
)  # fmt: skip
def test_words_stay(words: str) -> None:
    """Assert that names, ranges and articles are left as they are."""
    assert prose_html(words) == words


def test_text_is_escaped() -> None:
    """Assert that markup in a user's text is shown, not obeyed."""
    assert prose_html("<b> & 'we'") == "&lt;<i>b</i>&gt; &amp; &#x27;we&#x27;"
    assert "<script" not in prose_html("x_{<script>} <script>")
