"""Letters in sentences, and tables that notebooks show."""

import re

import pytest

from snapdyn.core.prose import html_table, pieces
from snapdyn.dynamics import MeanField, integrate, single_common_token, syn_small


def test_names_and_values_are_escaped() -> None:
    """Assert two columns, numbers with six digits, and that markup in a value stays text."""
    table = html_table("a < b", {"<i>": 1 / 3, "words": "<script>"})
    assert re.findall(r">([^<>]+)<", table) == ["a &lt; b", "&lt;i&gt;", "0.333333", "words", "&lt;script&gt;"]


def test_classes_and_runs_have_tables() -> None:
    """Assert sizes of classes, also of more than could be listed, and settings and end of a run."""
    assert '<td style="text-align:left">34</td>' in syn_small()._repr_html_()
    assert ">1000000000<" in single_common_token(10**9, 2, 0.3, 10**12)._repr_html_()
    run = integrate(MeanField(syn_small(), 1.0, 0.5), [1.0, 2.0])
    for text in ("eta_Z</th>", ">0.5<", ">finished<", ">1 to 2<"):
        assert text in run._repr_html_()


@pytest.mark.parametrize("text", [
    "a' = b (s - a b)", "|a^2 - b^2|", "a(0) = b(0)", "the product of b and a", "where a is small", "for small a, b",
    "eta a t", "ratio a/b", "I - E'", "at a = 1", "4 A Gamma", "a b = s", "from a",
])  # fmt: skip
def test_variables_named_like_words(text: str) -> None:
    """Assert that a, A and I are variables beside signs and variables, and that a is where no article can stand."""
    assert not any(kind == "text" and re.search(r"\b[aAI]\b", part) for kind, part in pieces(text))


@pytest.mark.parametrize("text", [
    "a K x K table", "(a function of t)", "t = a few steps", "for a K of 10", "a t-test", "A claim holds",
    "Part I of it", "Lemma A.", "K = 2, a class", "in a K-ball", "case A and B", "a 2-layer net", "I find",
])  # fmt: skip
def test_articles_and_numerals(text: str) -> None:
    """Assert that articles, names of parts and the pronoun stay upright."""
    assert not any(kind == "italic" and part in "aAI" for kind, part in pieces(text))
