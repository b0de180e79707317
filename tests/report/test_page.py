"""The report page: complete, self-contained, well formed."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sympy

import snapdyn.figures
import snapdyn.report.page
import snapdyn.validation.claims.equations
from snapdyn.analytic.symbolic import Derivation, derivations, ids_of_users
from snapdyn.analytic.symbolic.derivation import DECLARED
from snapdyn.core.errors import InputError
from snapdyn.figures import FIGURES
from snapdyn.report.mathematics import prose_html
from snapdyn.report.page import FILTERS, BuiltReport, VerifiedDerivation, build_report, headlines, render
from snapdyn.validation import CLAIMS, ClaimResult, Map, Picture, Report
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.claims.equations import EquationRow
from snapdyn.validation.register import Headline
from snapdyn.validation.results import VERDICTS
from tests.report.helpers import invented
from tests.validation.helpers import result_of

VOID = {"meta", "img", "br", "hr", "link", "input"}
# What a reader of the page shall not see in its sentences: mathematics as it is typed in a terminal.
GREEK = "alpha|beta|gamma|eta|theta|iota|kappa|lambda|xi|rho|omega|zeta"
TYPED = re.compile(rf"\b(?:{GREEK})_?\w?\b|<=|>=|!=|\de-\d|\w\^\w|\b[a-zA-Z]_\w")


class Page(HTMLParser):
    """Collects ids, links and sources; fails on a tag that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.images_without_text = 0
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in VOID:
            self._open.append(tag)
        self._note(tag, values)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "code", "title"} & set(self._open):
            self.text.append(data)

    def _note(self, tag: str, values: dict[str, str | None]) -> None:
        assert tag not in ("script", "link", "iframe")
        if "id" in values and "svg" not in self._open:
            self.ids.append(values["id"] or "")
        if tag == "a":
            self.links.append(values["href"] or "")
        self.fetched += [values[name] or "" for name in ("src", "xlink:href", "srcset") if name in values]
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        described = {"img": ("alt",), "svg": ("aria-label", "aria-hidden")}.get(tag)
        if described and not any(values.get(name) for name in described):
            self.images_without_text += 1


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
    page = Page(text)
    for id_ in ("lemma8", "lemma16", "figure-9"):
        assert id_ in page.ids
    for derivation in derivations()[:6]:
        assert f"<code>{derivation.id}</code>" in text
    assert "0, verified" in text
    assert "not 0" not in text
    assert all(address.startswith(("data:", "#")) for address in page.fetched)
    assert "url(http" not in text
    assert "@import" not in text
    assert page.images_without_text == 0


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
    page = Page(page_text)
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert page.headings.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in pairwise(page.headings))


def test_disagreements_first(page_text: str) -> None:
    """Assert that what differs from the register leads, then what is at odds with print, each under its heading."""
    ids = [id_ for id_ in Page(page_text).ids if id_.startswith("claim-")]
    assert ids == [
        "claim-broken", "claim-news", "claim-corrected", "claim-refuted", "claim-conditional", "claim-holds"
    ]  # fmt: skip
    assert "2\nverdicts differ" in page_text
    assert "(refuted, expected holds)" in page_text
    assert "(no verdict, expected refuted)" in page_text
    places = [page_text.index(f">{words} <") for words in ("Differs from the printed statement", "Holds as stated")]
    assert page_text.index('id="claim-news"') < places[0] < page_text.index('id="claim-corrected"') < places[1]


@pytest.mark.parametrize(
    "words",
    [
        # checks, by role
        "rejected, as required", "fails outside its conditions", "≥ 1", "nan", "a &lt; <i>b</i> &amp; <i>c</i>",
        "The corrected statement", "Controls: wrong theories",
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


def test_finished_claims_are_kept_until_the_page_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Assert that claims are reused when drawing the figures was interrupted, and that a sentence says so."""

    def interrupted(**options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("SNAPDYN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(snapdyn.report.page, "chosen_claims", lambda only: chosen_claims("lemma8"))
    monkeypatch.setattr(snapdyn.report.page, "derivations", list)
    monkeypatch.setattr(snapdyn.report.page, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_report(tmp_path / "report")
    told: list[str] = []
    monkeypatch.setattr(snapdyn.report.page, "write", lambda **options: [])
    build_report(tmp_path / "report", notify=told.append)
    assert told == ["resumed: 1 of 1 claims from an interrupted run"]
    assert list((tmp_path / "cache" / "claims").iterdir()) == []


def test_a_derivation_that_no_claim_names_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Assert that a true and a false derivation of a user's file are on the page and in its count; not one that raises.

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
    monkeypatch.setitem(DECLARED, "one-that-raises", lambda: 1 // 0)
    with pytest.raises(InputError, match=r"expected the derivation one-that-raises .* received ZeroDivisionError"):
        build_report(tmp_path / "report")


@pytest.fixture(scope="module")
def whole_page(built: BuiltReport) -> str:
    """The page of the whole register: its real words, formulas and tables, and for every claim a picture of usual size.

    One claim's picture stands for all, one map for the maps of every second claim, and one figure for 17.
    """
    (checked,) = (claim for claim in built.report.claims if claim.id == "lemma8")
    grid = np.linspace(1.0, 2.0, 20)
    violation = np.add.outer(np.sin(9 * grid), np.cos(7 * grid)) + 2
    map_ = Map("Where it holds, eta_Y <= 1", "V", "eta_Z/eta_Y", "violation", grid, grid, violation, 0.3)
    line = np.geomspace(1, 1e6, 200)
    lines = tuple(Picture.line(f"V = 1e{n}, eta_Y", line, np.log(line) / n) for n in range(1, 4))
    claims = tuple(
        ClaimResult(
            entry,
            replace(
                checked.evidence, conclusion=f"{entry.answer} It is 6.25 times too large.",
                picture=Picture("t", "xi_n", lines), map=map_ if number % 2 else None,
            ),
            entry.expected,
        )
        for number, entry in enumerate(CLAIMS.values())
    )  # fmt: skip
    (figure,) = snapdyn.figures.write(["9"], out=built.page.parent / "figures")
    figures = [replace(figure, id=id_) for id_ in list(FIGURES)[:17]]
    entries = [VerifiedDerivation(derivation, True, None) for derivation in derivations()]
    printed = {derivation.id: derivation.printed is not None for derivation in derivations()}
    with pytest.MonkeyPatch.context() as patch:
        # Sympy verifies the derivations in tests of their own.
        patch.setattr(
            snapdyn.validation.claims.equations,
            "derivation_verdict",
            lambda id_: "corrected" if printed[id_] else "holds",
        )
        for name in ("svg", "map_svg"):  # one drawing of each kind for all
            drawing = FILTERS[name](Picture("t", "xi_n", lines) if name == "svg" else map_)
            patch.setitem(FILTERS, name, lambda data, drawing=drawing: drawing)
        return render(Report("quick", claims, 125.0), figures, entries, 150.0)


def test_first_screen(whole_page: str) -> None:
    """Assert five findings before the counts, each with a sentence, both formulas and the measured difference.

    The page is one file of at most 4 MB, whose first link leads to its findings, without script or handler of events.
    """
    assert 1e6 < len(whole_page.encode()) < 4e6
    page = Page(whole_page)
    assert page.links[0] == "#main"
    assert not re.search(r"<script|<iframe|\son\w+=|javascript:", whole_page)
    assert all(address.startswith("data:") for address in page.fetched)
    first = whole_page[whole_page.index('id="findings"') : whole_page.index('id="verdicts"')]
    assert first.count('<li class="finding ') == 5
    findings, _, symbols = first.partition("</ol>")
    assert findings.count('<svg class="formula"') == 10
    assert symbols.count("<dt>") == symbols.count('<svg class="formula"') > 30
    assert first.count(">Printed<") == first.count(">Recomputed<") == 5
    assert first.count("6.25 times too large") == 5
    ids = re.findall(r'<h3><a href="#([^"]+)">', first)
    assert [CLAIMS[id_].headline.rank for id_ in ids] == [1, 2, 3, 4, 5]  # type: ignore[union-attr]
    assert {"main", *ids} <= set(page.ids)
    for id_ in ids:
        assert prose_html(CLAIMS[id_].answer) in first
    assert whole_page.index('id="verdicts"') < whole_page.index('id="claims"') < whole_page.index('id="figures"')


def test_mathematics_is_not_typed(whole_page: str, page_text: str) -> None:
    """Assert that no visible text shows eta_Y, <=, xi_n, V^2 or 1e-05; code, such as ids and commands, may."""
    for text in (whole_page, page_text):
        assert [part for part in Page(text).text if TYPED.search(part)] == []
    assert TYPED.search("eta_Y <= 1")


def test_another_verdict_than_recorded_shows_its_conclusion(page_text: str) -> None:
    """Assert that the register's answer is not shown where the verdict differs, and that no headline is made of it."""
    facts = {"id": "new", "headline": Headline(1, "x", "y"), "evidence": {"conclusion": "It is so."}}
    expected, other = (result_of("refuted", expected=each, **facts) for each in ("refuted", "holds"))
    assert (expected.sentence, other.sentence) == ("It is so.", "The verdict is refuted.")
    assert headlines(Report("quick", (other,))) == []
    assert headlines(Report("quick", (expected,)))[0].id == "new"
    assert 'id="findings"' not in page_text
