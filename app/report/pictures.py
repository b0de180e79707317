"""Pictures of the page: small files, readable on white and on dark paper."""

from __future__ import annotations

import html
import io
import re
from base64 import b64encode
from pathlib import Path
from xml.etree import ElementTree

from snapdyn.report.prose import prose_svg

# Of the 17 figures, all are smaller as PNG with this many colours than as SVG, and they need no font of the reader's.
COLOURS = 64
# A figure with more white than this is lines on paper, which dark pages invert; maps of colours keep their meaning.
LINES_ON_PAPER = 0.75
SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
# Paint that follows the page's colours. Outlines (wider than 3) stay black: they are behind white lines on a map.
BLACK = re.compile(r"stroke:#000000(?!.*stroke-width:3)")
PAINT = {
    "fill:#ffffff;stroke": "fill:var(--paper);stroke",
    "#0072b2": "var(--blue)",
    "#d9d9d9": "var(--line)",
    "#4c4c4c": "var(--soft)",
    "#4d4d4d": "var(--soft)",
    "#737373": "var(--soft)",
}
CELL = re.compile(r"M ([-\d.]+) ([-\d.]+) L ([-\d.]+) \2 L \3 ([-\d.]+) L \1 \4(?: L \1 \2)?(?: z)?$", re.IGNORECASE)


def page_svg(svg: str) -> str:
    """Return an SVG of matplotlib with fewer characters, in the colours of the page, with mathematics in its labels.

    Parameters
    ----------
    svg : str
        One <svg> element without size (`snapdyn.figures.claim_svg`, `snapdyn.figures.validity_maps.map_svg`).

    Returns
    -------
    str
        One <svg> element: a tenth of a point precise, cells of one colour as one path, black and white as
        `currentColor` and the colour of the paper.
    """
    root = ElementTree.fromstring(svg)
    attributes = f'viewBox="{root.get("viewBox")}" role="img" aria-label="{html.escape(root.get("aria-label", ""))}"'
    return f"<svg {attributes}>{''.join(_children(root))}</svg>"


def _children(parent: ElementTree.Element) -> list[str]:
    out: list[str] = []
    cells: dict[tuple[tuple[str, str], ...], str] = {}
    for child in parent:
        if child.tag == f"{SVG}path" and (cell := CELL.match(" ".join(child.get("d", "").split()))):
            left, bottom, right, top = (_number(value) for value in cell.groups())
            others = tuple((name, value) for name, value in child.attrib.items() if name != "d")
            cells[others] = cells.get(others, "") + f"M{left} {bottom}H{right}V{top}H{left}Z"
        else:
            out += _flush(cells)
            out.append(_element(child))
    return out + _flush(cells)


def _flush(cells: dict[tuple[tuple[str, str], ...], str]) -> list[str]:
    merged = [f'<path d="{outline}"{_attributes(dict(others))}/>' for others, outline in cells.items()]
    cells.clear()
    return merged


def _element(element: ElementTree.Element) -> str:
    name = element.tag.removeprefix(SVG)
    inside = "".join(_children(element))
    if name == "text":
        # matplotlib's own <tspan> are letters of a formula, each in its place.
        inside = inside or prose_svg((element.text or "").strip())
    elif name == "tspan":
        inside = html.escape(element.text or "")
    attributes = _attributes(element.attrib)
    if name == "use":  # the marker itself has the stroke
        attributes = re.sub(r"stroke[^;\"]*;?", "", attributes).replace(' style=""', "")
    if name == "g" and (not attributes or not inside):
        return inside
    return f"<{name}{attributes}>{inside}</{name}>" if inside else f"<{name}{attributes}/>"


def _attributes(found: dict[str, str]) -> str:
    digits = 2 if "id" in found else 1  # a marker is small
    out = ""
    for name, value in found.items():
        if name in ("d", "transform", "x", "y", "width", "height", "points"):
            value = re.sub(r"-?\d+\.\d+", lambda match: _number(match[0], digits), " ".join(value.split()))
            value = _outline(value) if name == "d" else value
            if name == "transform" and value.startswith("rotate(-0 "):
                continue
        elif name == "style":
            value = _paint(value)
        out += f' {"href" if name == HREF else name}="{html.escape(value)}"' if value else ""
    return out


def _outline(path: str) -> str:
    """Return a path's description without needless characters; lines of many points step by step."""
    if not re.fullmatch(r"(M [-\d.]+ [-\d.]+ ?)(L [-\d.]+ [-\d.]+ ?){3,}", path):
        return re.sub(r"(?<=[A-Za-z]) | (?=[A-Za-z-])", "", path)
    points = [round(10 * float(value)) for value in re.findall(r"[-\d.]+", path)]
    steps = [now - before for before, now in zip(points, points[2:], strict=False)]
    written = " ".join(re.sub(r"^(-?)0\.", r"\1.", _number(f"{step / 10}")) for step in steps)
    return f"M{points[0] / 10:g} {points[1] / 10:g}l{written.replace(' -', '-')}"


def _number(value: str, digits: int = 1) -> str:
    text = f"{float(value):.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _paint(style: str) -> str:
    """Return a style without spaces, fonts and defaults, black as the colour of the text."""
    rules = [rule.strip().replace(": ", ":") for rule in style.split(";")]
    kept = [rule for rule in rules if not rule.startswith("font-family") and rule != "stroke-dashoffset:0"]
    text = ";".join(kept)
    text = BLACK.sub("stroke:currentColor", text)
    text = "fill:none" if text == "fill:#ffffff" else text
    for colour, variable in PAINT.items():
        text = text.replace(colour, variable)
    return text


def figure_image(path: Path, alternative: str) -> str:
    """Return a figure as an <img> that needs no other file.

    Parameters
    ----------
    path : Path
        The PNG.
    alternative : str
        Text for readers who do not see it.

    Returns
    -------
    str
        The picture with COLOURS colours. Its class is "lines" where a dark page may invert it, else "colours".
    """
    from PIL import Image

    written = io.BytesIO()
    with Image.open(path) as image:
        picture = image.convert("RGB")
    bright = picture.convert("L").histogram()
    kind = "lines" if sum(bright[251:]) > LINES_ON_PAPER * sum(bright) else "colours"
    picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
        written, format="png", optimize=True
    )
    source = "data:image/png;base64," + b64encode(written.getvalue()).decode()
    size = f'width="{picture.width}" height="{picture.height}"'
    return f'<img class="{kind}" src="{source}" {size} alt="{html.escape(alternative)}" loading="lazy">'
