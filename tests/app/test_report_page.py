"""The report page: complete, self-contained, well formed."""

import json
from functools import partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import snapdyn.figures
import snapdyn.report
import snapdyn.validation
from snapdyn.analytic.symbolic import derivations
from snapdyn.cli import main
from snapdyn.report import BuiltReport, VerifiedDerivation, build_report, render
from snapdyn.validation import Check, ClaimResult, Picture, Report
from snapdyn.validation.results import VERDICTS, Verdict

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


def invented(id: str, verdict: Verdict, expected: Verdict | None = None) -> ClaimResult:
    """A claim result with each role of check, and text that must be escaped."""
    checks = (
        Check("a < b & c", "closed form", 0.5, 1.0),
        Check("printed", "closed form", 2.0, 1.0),
        Check("boundary", "mean field", 2.0, 1.0, role="outside"),
        Check("at least", "mean field", 2.0, 1.0, relation=">=", role="corrected"),
        Check("wrong theory", "mean field", 2.0, 1.0, role="control"),
        Check("not a number", "mean field", float("nan"), 1.0),
    )
    return ClaimResult(
        id=id, source="[own]", title=f"Title <{id}>", statement="x < y", latex=r"\frac{1}{2}",
        assumptions=("T is infinite",), expected=expected or verdict, verdict=verdict, checks=checks,
        conclusion="It is so.", findings=("F1",),
        picture=Picture("t", "y", (Picture.line("theory", [1, 2, 3], [1, 2, 3]),)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltReport:
    """A report on some real claims, one real figure and some real derivations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapdyn.report, "validate", partial(snapdyn.validation.validate, ["lemma8", "lemma5"]))
        patch.setattr(snapdyn.report, "draw", partial(snapdyn.figures.draw, ["9"]))
        patch.setattr(snapdyn.report, "derivations", lambda: derivations()[-6:])
        return build_report(tmp_path_factory.mktemp("report") / "new")


def test_files(built: BuiltReport) -> None:
    """Assert that the page, the verdicts and the figures stand in the folder, and nothing unfinished."""
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
def page_text() -> str:
    """A page with every verdict, one of which is not the register's."""
    claims = [invented(f"claim-{verdict}", verdict) for verdict in reversed(VERDICTS)]
    claims.append(invented("claim-news", "refuted", expected="holds"))
    entries = [VerifiedDerivation(derivations()[-1], False, True)]
    return render(Report("full", tuple(claims)), [], entries, 12.3)


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
    """Assert that the claim that differs from the register leads, then those at odds with print."""
    ids = [id_ for id_ in Page(page_text).ids if id_.startswith("claim-")]
    assert ids == ["claim-news", "claim-corrected", "claim-refuted", "claim-conditional", "claim-holds"]
    assert "verdict differs" in page_text
    assert "expected holds" in page_text


@pytest.mark.parametrize(
    "words", ["rejected as it must be", "fails there", "≥ 1", "nan", "Title &lt;claim-holds&gt;", "a &lt; b &amp; c",
              "--level full", "T is infinite", "F1", "It is so.", "not 0", "control: a wrong theory"],
)  # fmt: skip
def test_contents(words: str, page_text: str) -> None:
    """Assert that outcomes, bounds, conditions and the way to repeat a claim are on the page, escaped."""
    assert words in page_text


def test_command(
    built: BuiltReport, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that the command says where the page is, and that a verdict that differs gives exit code 1."""
    news = BuiltReport(built.page, Report("quick", (invented("claim-news", "refuted", expected="holds"),)))
    for result, code in ((built, 0), (news, 1)):
        monkeypatch.setattr(snapdyn.report, "build_report", lambda *arguments, result=result: result)
        assert main(["report", "--out", str(tmp_path)]) == code
        assert str(built.page) in capsys.readouterr().out
