"""Mathematics inside sentences."""

import xml.etree.ElementTree as ElementTree

import pytest

from snapdyn.report.prose import prose_html, prose_svg


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
    ElementTree.fromstring(f"<text>{prose_svg('a < b & V^2')}</text>")


def test_labels_return_to_the_line() -> None:
    """Assert that an index of a label in a picture is lowered, and that what follows it is not."""
    text = ElementTree.fromstring(f"<text>{prose_svg('eta_Y t')}</text>")
    assert "".join(text.itertext()) == "ηY t"
    assert sum(float(part.get("dy", 0)) for part in text) == 0
