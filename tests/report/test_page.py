"""The report page: complete, self-contained, well formed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import snapdyn.figures
import snapdyn.report.page
import snapdyn.validation
from snapdyn.analytic.symbolic import derivations
from snapdyn.report.page import BuiltReport, VerifiedDerivation, build_report, render
from snapdyn.validation import CLAIMS, Report
from snapdyn.validation.equations import EquationRow
from snapdyn.validation.results import VERDICTS
from snapdyn.validation.run import check_claims
from tests.report.helpers import invented

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Collects ids, links and sources; fails on a tag that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.images_without_text = 0
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

    def _note(self, tag: str, values: dict[str, str | None]) -> None:
        assert tag not in ("script", "link", "iframe")
        if "id" in values and "svg" not in self._open:
            self.ids.append(values["id"] or "")
        if tag == "a":
            self.links.append(values["href"] or "")
        self.fetched += [values[name] or "" for name in ("src", "xlink:href", "srcset") if name in values]
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        if (tag == "img" and not values.get("alt")) or (tag == "svg" and not values.get("aria-label")):
            self.images_without_text += 1


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltReport:
    """A report on some real claims, one real figure and some real derivations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            snapdyn.report.page, "check_claims", lambda only, *rest: check_claims(["lemma8", "lemma5"], *rest)
        )
        patch.setattr(snapdyn.report.page, "draw", partial(snapdyn.figures.draw, ["9"]))
        patch.setattr(snapdyn.report.page, "derivations", lambda: derivations()[-6:])
        return build_report(tmp_path_factory.mktemp("report") / "new", jobs=1)


def test_files(built: BuiltReport) -> None:
    """Assert that the page, the verdicts and the figures are in the folder, and no unfinished file."""
    folder = built.page.parent
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "index.html", "report.json"]
    assert json.loads((folder / "report.json").read_text()) == json.loads(built.report.to_json())
    assert (folder / "figures" / "figure_9.pdf").is_file()


def test_real_page(built: BuiltReport) -> None:
    """Assert that the page shows each claim, figure and derivation, is well formed, and fetches nothing."""
    text = built.page.read_text(encoding="utf-8")
    page = Page(text)
    for id_ in ("lemma8", "lemma5", "figure-9"):
        assert id_ in page.ids
    for derivation in derivations()[-6:]:
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
    broken = replace(invented("claim-broken", "refuted"), checks=(), conclusion="It raised <an error>.", fault="No.")
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
    """Assert that each link stays on the page and each id is there once."""
    page = Page(page_text)
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)


def test_headings_are_in_order(page_text: str) -> None:
    """Assert one title, and no level of headings left out."""
    headings = Page(page_text).headings
    assert headings.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in pairwise(headings))


def test_disagreements_first(page_text: str) -> None:
    """Assert that what differs from the register leads, then what is at odds with print, each under its heading."""
    ids = [id_ for id_ in Page(page_text).ids if id_.startswith("claim-")]
    assert ids == [
        "claim-broken", "claim-news", "claim-corrected", "claim-refuted", "claim-conditional", "claim-holds"
    ]  # fmt: skip
    assert "2\nverdicts differ" in page_text
    assert "(refuted, expected holds)" in page_text
    assert "(no verdict, expected refuted)" in page_text
    headings = (
        "Differs from the register",
        "Differs from the printed statement",
        "Holds under conditions",
        "Holds as printed",
    )
    places = [page_text.index(words) for heading in headings for words in (f">{heading} <",)]
    assert places == sorted(places)
    assert page_text.index('id="claim-news"') < places[1] < page_text.index('id="claim-corrected"') < places[2]


@pytest.mark.parametrize(
    "words",
    [
        # checks, by role
        "rejected, as required", "fails outside its conditions", "≥ 1", "nan", "a &lt; b &amp; c",
        "The statement as printed", "The corrected statement", "outside its conditions: the boundary",
        "Controls: wrong theories",
        # what it rests on
        "Title &lt;claim-holds&gt;", "T is infinite", "F1", "It is so.", "|lambda_1| &lt; 1/K", "0.123", ">no</td>",
        # how it was computed and how to repeat it
        "snapdyn validate claim-holds --level full", "12,345", "0-2, 7", "1.4 min", "violates its bound by this factor",
        # the rest of the page
        "It raised &lt;an error&gt;.", "not 0", "2.5 min, of which claims 2.1 min", "resumed: 2 of 6 claims",
        # the table of equations
        '<a href="#claim-holds">', "F1 &amp; more", "<code>test_y</code>", "not recomputed", "its verdict (2)",
    ],
)  # fmt: skip
def test_contents(words: str, page_text: str) -> None:
    """Assert that outcomes, bounds, conditions and the way to repeat a claim are on the page, escaped."""
    assert words in page_text


def test_every_claim_has_its_picture_and_its_maps(page_text: str) -> None:
    """Assert one drawing for each picture and each map, each map with its title."""
    assert page_text.count('<figure class="picture"><svg') == 6
    assert page_text.count('<figure class="picture map"><svg') == 6
    assert page_text.count("Where it holds") >= 6


def test_no_equations_for_a_part_of_the_register(built: BuiltReport) -> None:
    """Assert that the table of equations is on the page of a whole run only."""
    assert len(built.report.claims) < len(CLAIMS)
    assert 'id="equations"' not in built.page.read_text(encoding="utf-8")


def test_finished_claims_are_kept_until_the_page_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Assert that claims are reused when drawing the figures was interrupted, and that a sentence says so."""

    def interrupted(**options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("SNAPDYN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(snapdyn.report.page, "check_claims", lambda only, *rest: check_claims("lemma8", *rest))
    monkeypatch.setattr(snapdyn.report.page, "derivations", list)
    monkeypatch.setattr(snapdyn.report.page, "draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_report(tmp_path / "report")
    told: list[str] = []
    monkeypatch.setattr(snapdyn.report.page, "draw", lambda **options: [])
    build_report(tmp_path / "report", notify=told.append)
    assert told == ["resumed: 1 of 1 claims from an interrupted run"]
    assert list((tmp_path / "cache" / "claims").iterdir()) == []
