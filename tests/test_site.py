"""The site of docs/: every page is in the table of contents, and what its pages and its build name exists."""

import configparser
import re
from pathlib import Path

from tests.helpers import ROOT

DOCS = ROOT / "docs"
# Written at each build from the public names.
GENERATED = "reference/generated/"


def listed(page: Path) -> list[str]:
    """Pages that the tables of contents of a page name, relative to docs/."""
    text = page.read_text(encoding="utf-8")
    names = []
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        entries = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
        names += [str((page.parent / name).relative_to(DOCS)) for name in entries]
    return names


def test_every_page_is_in_one_table_of_contents() -> None:
    """Assert that tables of contents, from index.md on, list each page once, and no page that is missing."""
    waiting, found = ["index"], []
    while waiting:
        name = waiting.pop()
        found.append(name)
        if not name.startswith(GENERATED):
            waiting += listed(DOCS / f"{name}.md")
    written = [name for name in found if not name.startswith(GENERATED)]
    pages = [str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")]
    assert sorted(written) == sorted(pages)
    assert len(written) == len(set(written))


def test_every_package_of_the_build_is_pinned() -> None:
    """Assert that constraints.txt pins what the extra `docs` needs."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    needs = re.findall(r"^(\S+) *>=", setup["options.extras_require"]["docs"], re.MULTILINE)
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert len(needs) >= 4
    assert {name.lower() for name in needs} <= pinned
