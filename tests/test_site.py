"""The site of docs/: every page is in the table of contents, and what its pages and its build name exists."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import snapdyn as sd
from tests.helpers import ROOT

DOCS = ROOT / "docs"


def extension(name: str) -> ModuleType:
    """Load an extension of the site's build."""
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location(name, DOCS / "extensions" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_broken_links_of_a_site_are_found(tmp_path: Path) -> None:
    """Assert that missing pages, missing anchors and what is loaded from elsewhere are named, and nothing else."""
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="b.html#there"></a><a href="https://arxiv.org"></a>'
        '<a href="c.html"></a><a href="b.html#gone"></a><script src="https://elsewhere.net/x.js"></script></p>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><img src="data:image/png;base64,AA=="></p>')
    assert extension("checked_links").faults(tmp_path) == [
        "a.html leads to b.html#gone, an anchor that does not exist",
        "a.html leads to c.html, which does not exist",
        "a.html loads https://elsewhere.net/x.js from elsewhere",
    ]


def test_marks_of_formulas_in_docstrings_are_plain_text() -> None:
    """Assert that bars, ends of names and stars are escaped, but not in literals, emphasis and doctests."""
    lines = ["|z_c| at t*, u_ of `a|b` and *next tokens*", ">>> x = a_ | b*c", "1 | 2", "", "|x|"]
    extension("plain_docstrings").escape(None, "", "", None, None, lines)
    assert lines == [r"\|z_c\| at t\*, u\_ of `a|b` and *next tokens*", ">>> x = a_ | b*c", "1 | 2", "", r"\|x\|"]


def test_every_public_name_is_in_the_reference() -> None:
    """Assert that the lists of the reference hold each function and class of `snapdyn` and of its closed forms."""
    lists = extension("listed_names")
    names = [name for _, room in lists.PAGES.values() for name in lists.listed(room)]
    assert len(names) == len(set(names))
    public = {f"snapdyn.{name}" for name in sd.__all__ if lists.documented(getattr(sd, name))}
    forms = {f"snapdyn.analytic.{name}" for name in sd.analytic.__all__}
    assert public | forms <= set(names)
    assert "snapdyn.integrate" in public
