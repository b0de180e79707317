"""Tables that notebooks show."""

import re

from snapdyn.core.prose import html_table
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
