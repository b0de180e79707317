"""Docstrings are plain text with formulas, |z_c| or t*; reStructuredText would read marks in them."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

# A bar, an underscore or prime at the end of a name, and a star after a name.
MARKS = re.compile(r"\||(?<=\w)_(?!\w)|(?<=[\w)])\*")
LITERAL = re.compile(r"(`+[^`]*`+|\*\*[^*]+\*\*|(?<!\w)\*[^*\s][^*]*\*(?!\w))")


def escape(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Escape the marks of a docstring, outside literals, emphasis and doctests."""
    doctest = False
    for number, line in enumerate(lines):
        doctest = line.lstrip().startswith(">>>") or (doctest and bool(line.strip()))
        if not doctest:
            parts = LITERAL.split(line)
            parts[::2] = [MARKS.sub(lambda mark: "\\" + mark[0], part) for part in parts[::2]]
            lines[number] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Escape before numpydoc, of priority 500, reads the sections."""
    app.connect("autodoc-process-docstring", escape, priority=400)
    return {"parallel_read_safe": True}
