"""Links of the built site: each leads to a page and an anchor that exist, and nothing is loaded from elsewhere."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


class Page(HTMLParser):
    """Anchors and links of a page, and what a browser loads to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the ids and the addresses of a tag."""
        values = {name: value for name, value in attrs if value}
        self.anchors.update(value for name, value in values.items() if name == "id" or (tag == "a" and name == "name"))
        for name in ("href", "src"):
            if name in values:
                (self.links if tag == "a" else self.loaded).add(values[name])


def faults(site: Path) -> list[str]:
    """Return what is wrong, a sentence each."""

    @cache
    def page(path: Path) -> Page:
        return Page(path.read_text(encoding="utf-8"))

    found = []
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site)
        for link in sorted(page(path).links | page(path).loaded):
            address = urlsplit(link)
            if address.scheme == "data":
                continue
            if address.scheme or address.netloc:
                if link in page(path).loaded:
                    found.append(f"{name} loads {link} from elsewhere")
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not target.is_file():
                found.append(f"{name} leads to {link}, which does not exist")
            elif (
                target.suffix == ".html" and address.fragment and unquote(address.fragment) not in page(target).anchors
            ):
                found.append(f"{name} leads to {link}, an anchor that does not exist")
    return found


def check(app: Sphinx, exception: Exception | None) -> None:
    """End the build where a link of the site is broken."""
    if exception is None and app.builder.format == "html" and (wrong := faults(Path(app.outdir))):
        raise ExtensionError("Links of the site:\n" + "\n".join(wrong))


def setup(app: Sphinx) -> dict[str, bool]:
    """Check the site once it is built."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
