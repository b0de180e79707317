"""Mathematics of the page: LaTeX formulas as inline SVG, formulas in sentences as letters, signs and indices."""

from __future__ import annotations

import html
import re
from functools import cache

from snapdyn.core.prose import pieces

# latex2mathml was tried on all formulas of the report: a browser without a mathematics font does not stretch the
# brackets around fractions and matrices and sets ln ln V without spaces, whereas a drawing looks the same everywhere.

# An SVG unit is a hundredth of the font size, so that whole numbers are precise enough.
FONT_SIZE = 100.0
MARGIN = 5.0
CLOSED = 79
# Letter of SVG and number of points, by matplotlib's codes of a path (matplotlib.path.Path).
SEGMENTS = {1: ("M", 1), 2: ("L", 1), 3: ("Q", 2), 4: ("C", 3), CLOSED: ("Z", 1)}
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
# An argument without braces, and one in braces with others inside.
SHORT, GROUP, DEPTH = r"\\[A-Za-z]+|[^\\{}\s]", r"\{[^{}]*\}", 4
for _ in range(DEPTH):
    GROUP = rf"\{{(?:[^{{}}]|{GROUP})*\}}"
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
        source. A matrix, which mathtext does not support, is a table with one drawing for each entry.
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
    """Draw a formula with its baseline on that of the text; ValueError where mathtext cannot parse it."""
    import matplotlib
    import numpy as np
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    source = html.escape(latex.strip(), quote=True)
    for pattern, replacement in SPELLINGS:
        latex = re.sub(pattern, replacement, latex)
    with matplotlib.rc_context({"mathtext.fontset": "stix"}):
        font = FontProperties(family="STIXGeneral")
        path = TextPath((0, 0), f"${_displayed(_braced(latex))}$", size=FONT_SIZE, prop=font)
    if not len(path):
        raise ValueError(f"the formula {latex!r} draws nothing")
    points = np.rint(path.vertices * (1, -1)).astype(int).tolist()
    outline, at = "", 0
    while at < len(points):
        letter, number = SEGMENTS[int(path.codes[at])]
        places = " ".join(f"{x} {y}" for x, y in points[at : at + number])
        outline += letter if letter == "Z" else (letter + places).replace(" -", "-")
        at += number
    corners = path.vertices[path.codes != CLOSED]  # what closes an outline is no point of it
    (left, bottom), (right, top) = corners.min(axis=0) - MARGIN, corners.max(axis=0) + MARGIN
    width, height, em = right - left, top - bottom, 1 / FONT_SIZE
    return (
        f'<svg class="formula" role="img" fill="currentColor" aria-label="{source}" '
        f'viewBox="{left:.0f} {-top:.0f} {width:.0f} {height:.0f}" '
        f'style="width:{width * em:.2f}em;height:{height * em:.2f}em;vertical-align:{bottom * em:.2f}em">'
        f'<title>{source}</title><path d="{outline}"/></svg>'
    )


def _braced(latex: str) -> str:
    r"""Put braces around arguments that TeX accepts without them: \frac12, \frac{2K}\delta, \sqrt N."""
    latex = re.sub(rf"\\(frac|sqrt)(?![A-Za-z[])\s*({SHORT})", r"\\\1{\2}", latex)
    for _ in range(DEPTH):  # a fraction in the first argument of another one is found in the next round
        latex = re.sub(rf"(\\frac\s*{GROUP})\s*({SHORT})", r"\1{\2}", latex)
    return latex


def _displayed(latex: str) -> str:
    r"""Replace \frac outside braces by \dfrac, the size that TeX gives fractions of a displayed formula."""
    depth, out = 0, []
    for part in re.split(r"(\\frac\b|[{}])", latex):
        depth += {"{": 1, "}": -1}.get(part, 0)
        out.append(r"\dfrac" if part == r"\frac" and depth == 0 else part)
    return "".join(out)


def prose_html(text: str) -> str:
    """Return a sentence as HTML, with its mathematics in letters, signs, indices and powers.

    Parameters
    ----------
    text : str
        Plain text: "eta_Y <= 1e-3 for K^2 classes".

    Returns
    -------
    str
        Escaped HTML of the same words.

    Examples
    --------
    >>> from snapdyn.report.mathematics import prose_html
    >>> prose_html("eta_Y <= 1e-3")
    '<i>η</i><sub>Y</sub> ≤ 10<sup>−3</sup>'
    """
    tags = {"italic": "i", "sub": "sub", "sup": "sup"}
    return "".join(
        f"<{tags[kind]}>{html.escape(part)}</{tags[kind]}>" if kind in tags else html.escape(part)
        for kind, part in pieces(text)
        if part
    )
