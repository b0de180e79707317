"""The report page: complete, self-contained, well formed."""

import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
import sympy

import snapdyn.figures
import snapdyn.report.page
import snapdyn.validation.claims.equations
from snapdyn.analytic.symbolic import Derivation, derivations, ids_of_users
from snapdyn.analytic.symbolic.derivation import DECLARED
from snapdyn.report.mathematics import prose_html
from snapdyn.report.page import BuiltReport, VerifiedDerivation, build_report, headlines, render
from snapdyn.validation import CLAIMS, Report
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.claims.equations import EquationRow
from snapdyn.validation.register import Headline
from snapdyn.validation.results import VERDICTS
from tests.report.helpers import invented
from tests.validation.helpers import result_of

# What a reader of the page shall not see in its sentences: mathematics as it is typed in a terminal.
XLINK = "{http://www.w3.org/1999/xlink}href"
GREEK = "alpha|beta|gamma|eta|theta|iota|kappa|lambda|xi|rho|omega|zeta"
TYPED = re.compile(rf"\b(?:{GREEK})_?\w?\b|<=|>=|!=|\de-\d|\w\^\w|\b[a-zA-Z]_\w")


def kind(element: Element) -> str:
    """Tag without the namespace of SVG."""
    return element.tag.rpartition("}")[2]


def parsed(text: str) -> Element:
    """HTML as a tree; fails on a tag that is not closed in order, and on one that loads or runs something."""
    tree = ElementTree.fromstring(re.sub(r"<((?:meta|img|br|hr|link|input)\b[^>]*?)/?>", r"<\1/>", text))
    assert not {"script", "link", "iframe"} & set(map(kind, tree.iter()))
    return tree


def ids(text: str) -> list[str]:
    """Ids of the page outside its drawings."""
    return [each.get("id", "") for each in parsed(text).iter() if "id" in each.attrib and "}" not in each.tag]


def visible_texts(element: Element) -> Iterator[str]:
    """Texts that are neither code nor of the page's head."""
    if kind(element) not in ("style", "code", "title"):
        yield element.text or ""
        for child in element:
            yield from visible_texts(child)
            yield child.tail or ""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltReport:
    """A report on some real claims, one real figure and some real derivations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapdyn.report.page, "chosen_claims", lambda only: chosen_claims(["lemma8", "lemma16"]))
        patch.setattr(snapdyn.report.page, "write", partial(snapdyn.figures.write, ["9"]))
        patch.setattr(snapdyn.report.page, "derivations", lambda: derivations()[:6])
        return build_report(tmp_path_factory.mktemp("report") / "new", jobs=1)


def test_real_page(built: BuiltReport) -> None:
    """Assert that the page shows each claim, figure and derivation, is well formed, and fetches nothing.

    Page, verdicts and figures are in the folder, and no unfinished file. Equations are on the page of a whole run only.
    """
    folder = built.page.parent
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "index.html", "report.json"]
    assert json.loads((folder / "report.json").read_text()) == json.loads(built.report.to_json())
    assert (folder / "figures" / "figure_9.pdf").is_file()
    text = built.page.read_text(encoding="utf-8")
    assert 'id="equations"' not in text
    page = list(parsed(text).iter())
    assert {"lemma8", "lemma16", "figure-9"} <= set(ids(text))
    for derivation in derivations()[:6]:
        assert f"<code>{derivation.id}</code>" in text
    assert "0, verified" in text
    assert "not 0" not in text
    fetched = [each.get(name) for each in page for name in ("src", "srcset", XLINK) if name in each.attrib]
    assert all(address.startswith(("data:", "#")) for address in fetched)
    assert "url(http" not in text
    assert "@import" not in text
    assert all(
        {"alt", "aria-label", "aria-hidden"} & each.attrib.keys() for each in page if kind(each) in ("img", "svg")
    )


@pytest.fixture(scope="module")
def page_text() -> Iterator[str]:
    """A page with every verdict, one that is not the register's, one claim without a verdict, and equations."""
    claims = [invented(f"claim-{verdict}", verdict) for verdict in reversed(VERDICTS)]
    claims.append(invented("claim-news", "refuted", expected="holds"))
    broken = result_of("refuted", fault="It raised <an error>.", id="claim-broken", expected="refuted")
    entries = [VerifiedDerivation(derivations()[-1], False, True)]
    rows = [
        EquationRow(
            "(1)", "a < b", ("claim-holds",), ("late-gamma",), ("tests/x.py::test_y",), "corrected", "F1 & more"
        ),
        EquationRow("(2)", "c", (), (), (), "not recomputed", ""),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapdyn.report.page, "CLAIMS", {claim.id: None for claim in claims})
        patch.setattr(snapdyn.report.page, "equation_table", lambda results: rows)
        yield render(Report("full", (*claims, broken), 125.0, ("resumed: 2 of 6 claims",)), [], entries, 150.0)


def test_links_lead_somewhere(page_text: str) -> None:
    """Assert that links stay on the page, each id is there once, and no level of headings is left out."""
    page, targets = list(parsed(page_text).iter()), ids(page_text)
    links = {each.get("href", "").removeprefix("#") for each in page if each.tag == "a"}
    assert links
    assert links <= set(targets)
    assert len(set(targets)) == len(targets)
    headings = [int(each.tag[1]) for each in page if re.fullmatch(r"h\d", each.tag)]
    assert headings.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in pairwise(headings))


def test_disagreements_first(page_text: str) -> None:
    """Assert that what differs from the register leads, then what is at odds with print, each under its heading."""
    assert [id_ for id_ in ids(page_text) if id_.startswith("claim-")] == [
        "claim-broken", "claim-news", "claim-corrected", "claim-refuted", "claim-conditional", "claim-holds"
    ]  # fmt: skip
    assert "2\nverdicts differ" in page_text
    assert "(refuted, expected holds)" in page_text
    assert "(no verdict, expected refuted)" in page_text
    places = [page_text.index(f">{words} <") for words in ("Differs from the statement as given", "Holds as given")]
    assert page_text.index('id="claim-news"') < places[0] < page_text.index('id="claim-corrected"') < places[1]


@pytest.mark.parametrize(
    "words",
    [
        # checks, by role
        "rejected, as required", "fails outside its conditions", "≥ 1", "nan", "<i>a</i> &lt; <i>b</i> &amp; <i>c</i>",
        "The corrected statement", "Controls: wrong theories",
        # a formula beside the corrected one, the chapter by its title, and all that it rests on
        '<p class="label">Corrected</p>', "<dt>Chapter</dt><dd>Attention</dd>", "proved and searched",
        "simplified from the worst instance",
        # what it rests on
        "Title &lt;claim-holds&gt;", "<i>T</i> is infinite", "F1", "It is so.", "Where it holds",
        # how it was computed and how to repeat it
        "snapdyn validate claim-holds --level full", "12,345", "1.4 min",
        # the rest of the page
        "It raised &lt;an error&gt;.", "not 0", "2.5 min, of which claims 2.1 min", "resumed: 2 of 6 claims",
        # the table of equations
        '<a href="#claim-holds">', "F1 &amp; more", "<code>test_y</code>", "not recomputed", "its verdict (2)",
    ],
)  # fmt: skip
def test_contents(words: str, page_text: str) -> None:
    """Assert that outcomes, bounds, conditions and the way to repeat a claim are on the page, escaped."""
    assert words in page_text


def test_a_derivation_that_no_claim_names_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Assert that a true and a false derivation of a user's file are on the page and in its count.

    The report of one claim has one more formula per derivation, and one more that is verified.
    """
    monkeypatch.setenv("SNAPDYN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(snapdyn.report.page, "chosen_claims", lambda only: chosen_claims("lemma8"))
    monkeypatch.setattr(snapdyn.report.page, "derivations", list)
    monkeypatch.setattr(snapdyn.report.page, "write", lambda **options: [])

    def counted() -> tuple[int, int]:
        text = build_report(tmp_path / "report").page.read_text(encoding="utf-8")
        found = re.search(r"(\d+) of (\d+) formulas are verified", text)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    for id_ in ids_of_users():
        monkeypatch.delitem(DECLARED, id_)
    verified, every = counted()
    x = sympy.Symbol("x")
    for id_, equal in (("true-one", 2 * x), ("false-one", 3 * x)):
        derivation = Derivation("twice x", "own", "y", 2 * x, {"sum": equal}, id=id_)
        monkeypatch.setitem(DECLARED, id_, lambda derivation=derivation: derivation)
    assert counted() == (verified + 1, every + 2)


def test_mathematics_is_not_typed(page_text: str) -> None:
    """Assert that no visible text shows eta_Y, <=, xi_n, V^2 or 1e-05; code, such as ids and commands, may."""
    words = [text for entry in CLAIMS.values() for text in (entry.title, entry.statement, entry.answer)]
    for html in (page_text, *(f"<p>{prose_html(text)}</p>" for text in words)):
        assert [part for part in visible_texts(parsed(html)) if TYPED.search(part)] == []
    assert TYPED.search("eta_Y <= 1")


def test_another_verdict_than_recorded_shows_its_conclusion(page_text: str) -> None:
    """Assert that the register's answer is not shown where the verdict differs, and that no headline is made of it."""
    facts = {
        "id": "new",
        "headline": Headline(1, "x", "y", "It is y.", "x and y are numbers."),
        "evidence": {"conclusion": "It is so."},
    }
    expected, other = (result_of("refuted", expected=each, **facts) for each in ("refuted", "holds"))
    assert (expected.sentence, other.sentence) == ("It is so.", "The verdict is refuted.")
    assert headlines(Report("quick", (other,))) == []
    assert headlines(Report("quick", (expected,)))[0].id == "new"
    assert 'id="findings"' not in page_text
