"""Mathematics of the page: LaTeX formulas as inline SVG, formulas in sentences as letters, signs and indices."""

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


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eps": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "Wbar": "W̄", "chi": "χ", "psi": "ψ", "omega": "ω",
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Omega": "Ω",
}  # fmt: skip
SIGNS = {
    "<=": "≤", ">=": "≥", "!=": "≠", "<<": "≪", ">>": "≫", "=>": "⇒", "->": "→", "+-": "±", "...": "…", "..": "…",
}  # fmt: skip
NAMES = "|".join(sorted(GREEK, key=len, reverse=True))
INDEX = r"\{[^{}]*\}|[A-Za-z0-9]+'?|[-+](?![\w.])"
POWER = r"\{[^{}]*\}|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[-+]?\d+(?:\.\d+)?|[A-Za-z]+"
PIECES = re.compile(
    rf"""
    (?P<reading>(?<![A-Za-z])\([a-d]\))                                     # (a) of Theorem 1
  | (?<!\w)(?<!\d\.)(?P<mantissa>\d+(?:\.\d+)?)e(?P<sign>[-+]?)0*(?P<exponent>\d+)(?!\w|\.\d)
  | (?P<sqrt>(?<![A-Za-z_])sqrt(?![A-Za-z_])\s?)
  | (?<![A-Za-z_])(?P<big>sum|max|min)_(?P<range>{INDEX})
  | (?P<integral>(?<![A-Za-z_])int(?![A-Za-z_]))
  | (?<![A-Za-z_'’])(?<!\b[a-z]\.)
    (?P<base>{NAMES}|d[a-z](?=_)|[A-Za-z])(?P<tilde>~?)(?P<digits>(?:(?<=[a-zC])\d)?)(?P<prime>'?)(?P<star>\*?)(?:_(?P<index>{INDEX}))?
    (?![A-Za-z]|\d|_[A-Za-z]|\.[a-z](?![a-z_]))
  | (?<=[)\]])_(?P<late>{INDEX})
  | \^(?P<power>{POWER})
  | (?P<dot>(?<=\w)\.(?=[a-z]_))
  | (?P<minus>(?<![\w)])-(?=\d)|(?<=[\s(])-(?=[\sA-Za-z|])|(?<=(?<![A-Za-z])[A-Z])-(?=[A-Z\d])|(?<=\b1)-(?=[A-Za-z|]))
  | (?P<equals>[ ]=[ ](?=[-+\d.]))
  | (?P<operator>{"|".join(re.escape(sign) for sign in SIGNS)})
    """,
    re.VERBOSE,
)
# Articles, pronouns and the sign O(...) of orders stay upright.
UPRIGHT = frozenset("aAIO")

Piece = tuple[str, str]  # "text", "italic", "sub" or "sup", and its characters


def pieces(text: str) -> Iterator[Piece]:
    """Cut a text into plain, italic, lowered and raised pieces."""
    end = 0
    for match in PIECES.finditer(text):
        yield "text", text[end : match.start()]
        yield from _piece(match)
        end = match.end()
    yield "text", text[end:]


def _piece(match: re.Match[str]) -> Iterator[Piece]:
    found = match.groupdict()
    if found["mantissa"]:
        yield "text", "10" if found["mantissa"] == "1" else f"{found['mantissa']}·10"
        yield "sup", found["sign"].replace("-", "−").replace("+", "") + found["exponent"]
    elif found["sqrt"]:
        yield "text", "√"
    elif found["big"]:
        yield "text", {"sum": "∑"}.get(found["big"], found["big"])
        yield "sub", _inner(found["range"])
    elif found["integral"]:
        yield "text", "∫"
    elif found["base"]:
        base = GREEK.get(found["base"], found["base"]) + ("\u0303" if found["tilde"] else "")
        yield ("text" if found["base"] in UPRIGHT and not found["index"] else "italic"), base
        if found["digits"]:
            yield "sub", found["digits"]
        yield "text", "′" if found["prime"] else ""
        if found["star"]:
            yield "sup", "*"
        if found["index"]:
            yield "sub", _inner(found["index"])
    elif found["late"]:
        yield "sub", _inner(found["late"])
    elif found["power"]:
        power = found["power"]
        yield "sup", _inner(power[1:-1] if power[0] == "(" else power)
    else:
        signs = {"dot": "·", "minus": "−", "equals": "\u00a0=\u00a0"}
        kind = match.lastgroup or "reading"
        yield "text", signs.get(kind, SIGNS.get(match[0], match[0]))


def _inner(text: str) -> str:
    """Return an index or a power as characters, without indices of its own."""
    inner = text[1:-1] if text[:1] == "{" else text
    inner = re.sub(rf"(?<![A-Za-z])({NAMES})(?![a-z])", lambda match: GREEK[match[1]], inner)
    for sign, character in (*SIGNS.items(), ("^2", "²"), ("^4", "⁴"), ("_", "")):
        inner = inner.replace(sign, character)
    return inner.replace("'", "′").replace("-", "−")


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


def prose_svg(text: str) -> str:
    """Return a text as content of an SVG <text>, indices lowered and powers raised.

    Parameters
    ----------
    text : str
        Plain text.

    Returns
    -------
    str
        Escaped text and <tspan> elements; after an index the next piece returns to the line.
    """
    shifts, styles = {"sub": 2.0, "sup": -3.0}, {"sub": ' font-size="75%"', "sup": ' font-size="75%"'}
    out, height = "", 0.0
    for kind, part in pieces(text):
        if not part:
            continue
        wanted = shifts.get(kind, 0.0)
        moved = f' dy="{wanted - height:g}"' if wanted != height else ""
        attributes = moved + styles.get(kind, ' font-style="italic"' if kind == "italic" else "")
        out += f"<tspan{attributes}>{html.escape(part)}</tspan>" if attributes else html.escape(part)
        height = wanted
    return out
