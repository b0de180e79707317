"""LaTeX formulas as inline SVG, drawn by matplotlib's mathtext: the reader needs no script and no font."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any

# latex2mathml was tried on all formulas of the report: a browser without a mathematics font does not stretch the
# brackets around fractions and matrices and sets ln ln V without spaces, whereas a drawing looks the same everywhere.

# An SVG unit is a hundredth of the font size, so that whole numbers are precise enough.
FONT_SIZE = 100.0
MARGIN = 5.0
# matplotlib's codes of the parts of an outline (matplotlib.path.Path), their SVG letters and numbers of points.
CLOSED = 79
LETTERS = {1: "M", 2: "L", 3: "Q", 4: "C", CLOSED: "Z"}
POINTS = {1: 1, 2: 1, 3: 2, 4: 3, CLOSED: 0}
# Outlines of the glyphs of all formulas drawn so far: formulas refer to them, and a page defines each once.
GLYPHS: dict[str, str] = {}
# LaTeX that mathtext does not parse, or sets too tightly, and the mathtext that replaces it.
SPELLINGS = (
    (r"\\[td]frac(?![A-Za-z])", r"\\frac"),
    (r"\\(le|ge|ne)(?![A-Za-z])", r"\\\1q "),
    (r"\\iff(?![A-Za-z])", r"\\ \\Leftrightarrow\\ "),
    (r"\\(text|display)style(?![A-Za-z])|\\limits(?![A-Za-z])", ""),
    (r"\\[lr]Vert\b|\\\|", r"\\Vert "),
    (r"\\[lr]vert\b", "|"),
    (r"\\top\b", r"\\mathsf{T}"),
    ("'", r"\\prime "),
    (r"\\mathbb\{I\}", "I"),
    (r"\\[Bb]igg?[lr]?(?![a-z])", ""),
    (r"(\\sum_(?:\w|\{[^{}]*\}))", r"\1\\,"),
)
MATRIX = re.compile(r"\\left\[\\begin\{matrix\}(.*?)\\end\{matrix\}\\right\]")


@cache
def formula_html(latex: str) -> str:
    """Return a formula as HTML: an SVG drawing, or the LaTeX source in <code> where mathtext cannot parse it.

    Parameters
    ----------
    latex : str
        The formula, without $.

    Returns
    -------
    str
        The drawing has the colour and the size of the text around it; its label and its tooltip show the LaTeX
        source. It refers to the outlines of its glyphs, which `glyph_definitions` adds to the page. A matrix, which
        mathtext does not support, is a table with one drawing for each entry.
    """
    try:
        return "".join(
            _matrix(part) if number % 2 else _svg(part)
            for number, part in enumerate(MATRIX.split(latex))
            if part.strip()
        )
    except ValueError:
        return f"<code>{html.escape(latex)}</code>"


def _matrix(body: str) -> str:
    rows = "".join(
        "<tr>" + "".join(f"<td>{_svg(cell)}</td>" for cell in row.split("&")) + "</tr>" for row in body.split(r"\\")
    )
    return f'<table class="matrix" role="presentation">{rows}</table>'


def _svg(latex: str) -> str:
    x, y, width, height, body = _drawing(latex)
    source = html.escape(latex.strip(), quote=True)
    em = 1 / FONT_SIZE
    return (
        f'<svg class="formula" role="img" fill="currentColor" aria-label="{source}" '
        f'viewBox="{x:.0f} {y:.0f} {width:.0f} {height:.0f}" '
        f'style="width:{width * em:.2f}em;height:{height * em:.2f}em;vertical-align:{-(y + height) * em:.2f}em">'
        f"<title>{source}</title>{body}</svg>"
    )


def _drawing(latex: str) -> tuple[float, float, float, float, str]:
    """Return the box (x, y, width, height; y downwards, baseline at 0) and the glyphs and bars of a formula.

    Raises ValueError if mathtext cannot parse the formula.
    """
    import matplotlib
    import numpy as np
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    for pattern, replacement in SPELLINGS:
        latex = re.sub(pattern, replacement, latex)
    latex = _braced(latex)
    with matplotlib.rc_context({"mathtext.fontset": "stix"}):
        font = FontProperties(family="STIXGeneral")
        # Its lengths are hundredths of the font size: FONT_SIZE.
        placed, shapes, bars = text_to_path.get_glyphs_mathtext(font, f"${_displayed(latex)}$")
    points, body = [], ""
    for shape, x, y, scale in placed:
        vertices, codes = (np.asarray(each) for each in shapes[shape])
        if len(vertices):
            # The last point of a closed contour is no point of the outline.
            points.append(vertices[codes != CLOSED] * scale + (x, y))
            place = f'x="{x:.0f}" y="{-y:.0f}"'
            if scale != 1:
                place = f'transform="translate({x:.0f} {-y:.0f})scale({scale:.3g})"'
            body += f'<use href="#{_glyph(vertices, codes)}" {place}/>'
    for corners, _ in bars:
        (left, bottom), _, (right, top), *_ = corners
        points.append(np.array([[left, bottom], [right, top]]))
        body += f'<rect x="{left:.0f}" y="{-top:.0f}" width="{right - left:.0f}" height="{max(top - bottom, 4):.0f}"/>'
    if not points:
        raise ValueError(f"the formula {latex!r} draws nothing")
    (left, bottom), (right, top) = (extreme(np.concatenate(points), axis=0) for extreme in (np.min, np.max))
    return left - MARGIN, -top - MARGIN, right - left + 2 * MARGIN, top - bottom + 2 * MARGIN, body


def _glyph(vertices: Any, codes: Any) -> str:
    """Return the id of a glyph's outline, which is kept in GLYPHS."""
    outline = "".join(
        LETTERS[code] + " ".join(f"{value:.0f}" for point in contour for value in (point[0], -point[1]))
        for code, contour in _segments(vertices, codes)
    )
    name = "g" + hashlib.sha256(outline.encode()).hexdigest()[:8]
    GLYPHS[name] = outline
    return name


def _segments(vertices: Any, codes: Any) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(codes):
        code = int(codes[at])
        length = POINTS[code]
        yield code, vertices[at : at + length] if code != CLOSED else ()
        at += max(length, 1)


def glyph_definitions(page: str) -> str:
    """Return the outlines of the glyphs that formulas of a page use, to be put into the page once.

    Parameters
    ----------
    page : str
        HTML that contains formulas of `formula_html`.

    Returns
    -------
    str
        An <svg> without size.
    """
    used = sorted(set(re.findall(r'<use href="#(g[0-9a-f]{8})"', page)))
    outlines = "".join(f'<path id="{name}" d="{GLYPHS[name]}"/>' for name in used if name in GLYPHS)
    return f'<svg class="glyphs" aria-hidden="true" width="0" height="0"><defs>{outlines}</defs></svg>'


def filled(template: Traversable, filters: Mapping[str, Any], **values: Any) -> str:
    """Return a page: a template of jinja2 with values, and the outlines of its glyphs at `<!-- glyphs -->`."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(filters)
    page = environment.from_string(template.read_text(encoding="utf-8")).render(**values)
    return page.replace("<!-- glyphs -->", glyph_definitions(page))


def _braced(latex: str) -> str:
    r"""Put braces around arguments that TeX accepts without them: \frac12, \frac{2K}\delta, \sqrt N."""
    argument = re.compile(r"\\[A-Za-z]+|\\?.")
    for command in reversed(list(re.finditer(r"\\(frac|sqrt)(?![A-Za-z[])\s*", latex))):
        at, arguments = command.end(), ""
        for _ in range(2 if command[1] == "frac" else 1):
            while latex[at : at + 1] == " ":
                at += 1
            if latex[at : at + 1] == "{":
                end = _closing_brace(latex, at)
                arguments += latex[at:end]
            elif match := argument.match(latex, at):
                end = match.end()
                arguments += f"{{{match[0]}}}"
            else:
                return latex
            at = end
        latex = f"{latex[: command.start()]}\\{command[1]}{arguments}{latex[at:]}"
    return latex


def _closing_brace(latex: str, at: int) -> int:
    """Return the index after the brace that closes the brace at index `at`."""
    depth = 0
    for place in range(at, len(latex)):
        depth += {"{": 1, "}": -1}.get(latex[place], 0)
        if depth == 0:
            return place + 1
    return len(latex)


def _displayed(latex: str) -> str:
    r"""Replace \frac outside braces by \dfrac, the size that TeX gives fractions of a displayed formula."""
    depth, out = 0, []
    for part in re.split(r"(\\frac\b|[{}])", latex):
        depth += {"{": 1, "}": -1}.get(part, 0)
        out.append(r"\dfrac" if part == r"\frac" and depth == 0 else part)
    return "".join(out)
