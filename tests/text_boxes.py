"""Boxes of the texts of a figure: which overlap, and which leave the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

TOLERANCE = 1.0  # points by which boxes may reach into each other: they are a little larger than their letters


def tick_labels(axis: Axis) -> list[Text]:
    """Return the tick labels that are drawn: those with a text whose tick lies within the axis."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * min(high - low, abs(low) or high - low)  # of rounding; on a logarithmic axis of the lower end
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    inside = [tick for tick in ticks if low - slack <= tick.get_loc() <= high + slack and tick.get_visible()]
    labels = [label for tick in inside for label in (tick.label1, tick.label2)]
    return [label for label in labels if label.get_visible() and label.get_text().strip()]


def text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return every text of a figure that is drawn, with its box in pixels.

    Parameters
    ----------
    figure : matplotlib Figure
        Laid out: `figure.draw_without_rendering()` was called.

    Returns
    -------
    list of (str, Bbox)
    """
    from matplotlib.axis import Axis, Tick
    from matplotlib.text import Text

    found: list[Text] = []

    def visit(artist: Any) -> None:
        if not artist.get_visible() or isinstance(artist, Tick):
            return
        if isinstance(artist, Axis):
            found.extend(tick_labels(artist))
            found.extend([artist.label, artist.offsetText])
            return
        if isinstance(artist, Text):
            found.append(artist)
        for child in artist.get_children():
            visit(child)

    visit(figure)
    shown = [text for text in found if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), Text.get_window_extent(text)) for text in dict.fromkeys(shown) if _is_drawn(text)]


def _is_drawn(text: Text) -> bool:
    axes = text.axes
    return axes is None or (axes.get_visible() and (axes.axison or text in _titles(axes) or text in axes.texts))


def _titles(axes: Any) -> tuple[Any, ...]:
    return axes.title, axes._left_title, axes._right_title


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Find texts of a figure that overlap, or that reach beyond the edge of the page.

    Legends, notes, labels, titles and tick labels are compared by their boxes; boxes may reach into each other by one
    point.

    Parameters
    ----------
    figure : matplotlib Figure

    Returns
    -------
    list of (str, str)
        Pairs of texts; the second one is "edge of the page" for a text that leaves it.
    """
    figure.draw_without_rendering()
    boxes = text_boxes(figure)
    slack = TOLERANCE * figure.dpi / 72
    page = figure.bbox
    found = []
    for number, (text, box) in enumerate(boxes):
        if box.x0 < page.x0 - slack or box.y0 < page.y0 - slack or box.x1 > page.x1 + slack or box.y1 > page.y1 + slack:
            found.append((text, "edge of the page"))
        for other, its_box in boxes[number + 1 :]:
            wide = min(box.x1, its_box.x1) - max(box.x0, its_box.x0)
            high = min(box.y1, its_box.y1) - max(box.y0, its_box.y0)
            if wide > slack and high > slack:
                found.append((text, other))
    return found
