"""SVG text of a picture, as an element of an HTML page."""

from __future__ import annotations

import html
import io
import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, PLOT_HEIGHT, LEGEND_ROW = 5.2, 2.7, 0.19  # inches
# Larger than in print: on a telephone the picture shrinks to about two thirds.
TEXT_SIZES = {
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
}
# Characters that fit: along the height, along the width, and in one of two legend columns.
TALL, WIDE, HALF = 30, 60, 26


def wrapped(text: str, width: int) -> str:
    """Break a text into lines of at most `width` characters; formulas and "K = 10" stay whole."""
    return text if "$" in text else textwrap.fill(text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), width)


def legend_rows(labels: list[str]) -> int:
    """Return the number of text lines that the wrapped labels take."""
    return sum(wrapped(label, WIDE).count("\n") + 1 for label in labels)


def inline_svg(figure: Figure, description: str) -> str:
    """Return a figure as one <svg> element without size, for an HTML page that may hold many of them.

    Parameters
    ----------
    figure : matplotlib Figure
    description : str
        Text for screen readers.

    Returns
    -------
    str
        The element fills the width it is given. The same figure gives the same text.
    """
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = written.getvalue()
    description = html.escape(description)
    view_box = re.search(r'viewBox="[^"]*"', text)
    assert view_box is not None
    # Left out: the file's header with its fixed size; style rules, which would hold for the whole page; names
    # of groups ("axes_1"), which would repeat from picture to picture and to which nothing refers.
    body = text[text.index("</defs>") + len("</defs>") :]
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {view_box[0]} '
        f'role="img" aria-label="{description}" style="stroke-linejoin: round; stroke-linecap: butt">{body}'
    )
