"""LaTeX formulas as inline SVG, drawn by matplotlib's mathtext: the reader needs no script and no font."""

from __future__ import annotations

import html
import re
from functools import cache

# latex2mathml was tried on all formulas of the report: a browser without a mathematics font does not stretch the
# brackets around fractions and matrices and sets ln ln V without spaces, whereas a drawing looks the same everywhere.

# An SVG unit is a hundredth of the font size, so that whole numbers are precise enough.
FONT_SIZE = 100.0
MARGIN = 5.0
# LaTeX that mathtext does not parse, or sets too tightly, and the mathtext that replaces it.
SPELLINGS = (
    (r"\\[td]frac(?![A-Za-z])", r"\\frac"),
    (r"\\(le|ge|ne)(?![A-Za-z])", r"\\\1q "),
    (r"\\iff(?![A-Za-z])", r"\\ \\Leftrightarrow\\ "),
    (r"\\(text|display)style(?![A-Za-z])|\\limits(?![A-Za-z])", ""),
    (r"\\[lr]Vert\b|\\\|", r"\\Vert "),
    (r"\\[lr]vert\b", "|"),
    (r"\\top\b", r"\\mathsf{T}"),
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
    x, y, width, height, path = _drawing(latex)
    source = html.escape(latex.strip(), quote=True)
    em = 1 / FONT_SIZE
    return (
        f'<svg class="formula" role="img" aria-label="{source}" viewBox="{x:.0f} {y:.0f} {width:.0f} {height:.0f}" '
        f'style="width:{width * em:.2f}em;height:{height * em:.2f}em;vertical-align:{-(y + height) * em:.2f}em">'
        f'<title>{source}</title><path fill="currentColor" d="{path}"/></svg>'
    )


def _drawing(latex: str) -> tuple[float, float, float, float, str]:
    """Return the box (x, y, width, height; y downwards, baseline at 0) and the path of a formula.

    Raises ValueError if mathtext cannot parse the formula.
    """
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    for pattern, replacement in SPELLINGS:
        latex = re.sub(pattern, replacement, latex)
    latex = _braced(latex)
    with matplotlib.rc_context({"mathtext.fontset": "stix"}):
        font = FontProperties(family="STIXGeneral")
        outline = TextPath((0, 0), f"${_displayed(latex)}$", size=FONT_SIZE, prop=font)
    letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
    parts = []
    for points, code in outline.iter_segments(simplify=False):
        numbers = (points.reshape(-1, 2) * (1, -1)).ravel() if code != Path.CLOSEPOLY else points[:0]
        parts.append(letters[code] + " ".join(f"{value:.0f}" for value in numbers))
    box = outline.get_extents()
    return box.x0 - MARGIN, -box.y1 - MARGIN, box.width + 2 * MARGIN, box.height + 2 * MARGIN, "".join(parts)


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
