"""The directives `findings`, `claims` and `symbols`: the register of claims as sections of a page."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from snapdyn.report.mathematics import pieces
from snapdyn.validation import CLAIMS, FINDINGS
from snapdyn.validation.register import Claim
from snapdyn.validation.register_folder import OURS

KINDS = {"italic": nodes.emphasis, "sub": nodes.subscript, "sup": nodes.superscript}


def prose(text: str) -> list[nodes.Node]:
    """Return a sentence with Greek letters, signs, indices and powers."""
    return [KINDS[kind]("", part) if kind in KINDS else nodes.Text(part) for kind, part in pieces(text) if part]


def paragraph(label: str, *content: nodes.Node) -> nodes.paragraph:
    """Return a paragraph that begins with a word in bold."""
    start = [nodes.strong("", label), nodes.Text(" ")] if label else []
    return nodes.paragraph("", "", *start, *content)


def section(id: str, title: Iterable[nodes.Node]) -> nodes.section:
    """Return an empty section."""
    return nodes.section("", nodes.title("", "", *title), ids=[nodes.make_id(id)], names=[id])


def links(page: str, ids: Iterable[str]) -> list[nodes.Node]:
    """Return links to sections of a page of the same folder, with commas between them."""
    found: list[nodes.Node] = []
    for id in ids:
        found += [nodes.Text(", ")] if found else []
        found.append(nodes.reference("", id, refuri=f"{page}.html#{nodes.make_id(id)}", internal=True))
    return found


class Symbols(SphinxDirective):
    """The symbols of the register's formulas."""

    def run(self) -> list[nodes.Node]:
        """Return a list of definitions."""
        items = [
            nodes.definition_list_item(
                "", nodes.term("", "", nodes.math(symbol, symbol)), nodes.definition("", paragraph("", *prose(meaning)))
            )
            for symbol, meaning in OURS.symbols.items()
        ]
        return [nodes.definition_list("", *items, classes=["symbols"])]


class Findings(SphinxDirective):
    """Each finding with its sentence, and the claims that test it."""

    def run(self) -> list[nodes.Node]:
        """Return a section per finding."""
        found: list[nodes.Node] = []
        for name, sentence in FINDINGS.items():
            part = section(name, [nodes.Text(name)])
            part += nodes.paragraph("", "", *prose(sentence))
            tested = [claim for claim in CLAIMS.values() if name in claim.findings]
            for claim in tested:
                if claim.findings == (name,):  # else the formulas may be those of another finding
                    part += print_and_correction(claim)
            part += paragraph("Claims:", *links("claims", [claim.id for claim in tested]))
            found.append(part)
        return found


def print_and_correction(claim: Claim) -> list[nodes.Node]:
    """Return the formulas of the report's first screen, where a claim has them."""
    if claim.headline is None:
        return []
    return [
        paragraph("Printed:"), nodes.math_block("", claim.headline.printed),
        paragraph("Recomputed:"), nodes.math_block("", claim.headline.recomputed),
    ]  # fmt: skip


class Claims(SphinxDirective):
    """Each claim of the register, by chapter."""

    def run(self) -> list[nodes.Node]:
        """Return a section per chapter."""
        chapters: list[nodes.Node] = []
        for chapter, claims in groupby(CLAIMS.values(), key=lambda claim: claim.chapter):
            part = section(f"chapter {chapter}", [nodes.Text(OURS.chapters[chapter].title)])
            part += [self.claim(each) for each in claims]
            chapters.append(part)
        return chapters

    def claim(self, claim: Claim) -> nodes.section:
        """Return what the register says of a claim."""
        part = section(claim.id, prose(claim.title))
        place = [nodes.literal("", claim.id), nodes.Text(f" · {claim.source} · {claim.expected} · {claim.grade}")]
        part += nodes.paragraph("", "", *place, classes=["place"])
        part += nodes.math_block("", claim.latex)
        part += paragraph("", *prose(claim.statement))
        part += paragraph("Answer:", *prose(claim.answer))
        part += print_and_correction(claim)
        if claim.findings:
            part += paragraph("Findings:", *links("findings", claim.findings))
        return part


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("findings", Findings)
    app.add_directive("symbols", Symbols)
    app.add_directive("claims", Claims)
    return {"parallel_read_safe": True}
