"""Layout of figures at any width: columns that fit, panel letters, and texts that are not wider than their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from snapdyn.figures.style import text_width_scale
from snapdyn.figures.text_boxes import tick_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text

CORNER, MOST_PAD = 2.0, 20.0  # points
ROUNDS = 6  # of changing texts and laying out again


def fitting_columns(width: float, count: int, least: float) -> int:
    """Return the number of columns of panels of at least `least` inches (at the house style's text) in `width`."""
    columns = max(1, min(count, int(width / text_width_scale() / least + 1e-9)))
    return -(-count // -(-count // columns))  # no emptier last row than needed


def letter_panels(panels: Iterable[Axes], pad: float | None = None) -> None:
    """Write (a), (b), ... before the titles of panels, at their left edge, `pad` points above the axes."""
    for number, axes in enumerate(panels):
        title = axes.get_title()
        axes.set_title("")
        axes.set_title(f"({chr(ord('a') + number)}) {title}".strip(), loc="left", pad=pad)


def legend_above(
    figure: Any, handles: Sequence[Any], labels: Sequence[str], loc: str = "outside upper center", **options: Any
) -> Legend:
    """Draw a legend outside the panels with as many columns as fit into the width of the figure."""
    room = 0.98 * figure.bbox.width
    for columns in range(min(len(labels), options.pop("most_columns", 6)), 0, -1):
        legend = figure.legend(handles, labels, loc=loc, ncols=columns, **options)
        if columns == 1 or legend.get_window_extent().width <= room:
            return legend
        legend.remove()
    raise AssertionError("a legend has at least one column")


def fit_texts(figure: Figure) -> None:
    """Wrap titles and labels that are wider than their place, and thin out tick labels that touch.

    Parameters
    ----------
    figure : matplotlib Figure
        Laid out again after each change, at most ROUNDS times.
    """
    # Before the first layout, which long titles would squeeze to nothing.
    panels = _all_axes(figure)
    for axes in panels:
        _fit_labels(axes)
    for _ in range(ROUNDS):
        figure.draw_without_rendering()
        # All are tried in each round: no short-circuit.
        if not any([_fit_axes(axes) for axes in panels] + [_fit_headings(figure)]):
            return
    figure.draw_without_rendering()


def _all_axes(figure: Any) -> list[Any]:
    """Axes of a figure and of its subfigures, with those that lie inside others."""
    return [each for axes in figure.axes for each in (axes, *axes.child_axes)]


def _fit_headings(figure: Figure) -> bool:
    found = False
    for name, upright in (("_suptitle", False), ("_supxlabel", False), ("_supylabel", True)):
        text = getattr(figure, name, None)
        if text is not None:
            found |= wrap(text, 0.98 * (figure.bbox.height if upright else figure.bbox.width), upright)
    return found


def _fit_axes(axes: Axes) -> bool:
    changed = _fit_labels(axes)
    # Axes that share an axis share its ticks: the first one with labels decides.
    for axis, shared in ((axes.xaxis, axes.get_shared_x_axes()), (axes.yaxis, axes.get_shared_y_axes())):
        labelled = [sibling for sibling in shared.get_siblings(axes) if tick_labels(_same(axis, sibling))]
        if labelled and labelled[0] is axes:
            changed |= thin_ticks(axis)
    return changed | _clear_corner(axes)


def _clear_corner(axes: Axes) -> bool:
    """Move the tick labels of the x axis down where one overlaps a label of the y axis; return whether they moved."""
    beside = [label.get_window_extent() for label in tick_labels(axes.yaxis)]
    below = [label.get_window_extent() for label in tick_labels(axes.xaxis)]
    if not any(box.overlaps(other) for box in beside for other in below):
        return False
    tick: Any = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()][0]
    pad = float(tick.get_pad())
    axes.tick_params(axis="x", which="both", pad=pad + CORNER)
    return pad < MOST_PAD


def _fit_labels(axes: Axes) -> bool:
    box, changed = axes.bbox, False
    for place in ("left", "center", "right"):
        # Titles start at the left edge of the axes and may end at the edge of the figure where no panel follows.
        root: Any = axes.get_figure(root=True)
        alone = place == "left" and _is_alone(axes)
        changed |= wrap(_title(axes, place), root.bbox.width - box.x0 if alone else box.width)
    changed |= wrap(axes.xaxis.label, 1.15 * box.width)
    return changed | wrap(axes.yaxis.label, 1.1 * box.height, upright=True)


def _same(axis: Axis, sibling: Axes) -> Axis:
    return sibling.xaxis if axis is axis.axes.xaxis else sibling.yaxis


def _title(axes: Axes, place: str) -> Text:
    return {"left": axes._left_title, "center": axes.title, "right": axes._right_title}[place]  # type: ignore[attr-defined]


def _is_alone(axes: Axes) -> bool:
    """Whether no other axes lie right of these ones."""
    others = [other for other in _all_axes(axes.get_figure(root=True)) if other is not axes and other.get_visible()]
    return not any(
        other.bbox.x0 > axes.bbox.x0 + 1 and other.bbox.y1 > axes.bbox.y0 and other.bbox.y0 < axes.bbox.y1 + 40
        for other in others
    )


def words_of(text: str) -> list[str]:
    """Return the words of a text; formulas between $ and equations such as K = 10 stay whole."""
    parts = re.split(r"(\$[^$]*\$)", text)
    parts[::2] = [re.sub(r" (=|<|>|±) ?", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", part) for part in parts[::2]]
    return re.findall(r"(?:\$[^$]*\$|[^ \n])+", "".join(parts))


def wrap(text: Text, room: float, upright: bool = False) -> bool:
    """Break a text that is longer than `room` pixels into lines; return whether it changed."""
    before = text.get_text()
    # As it was written: in a later round there may be more room.
    written = getattr(text, "_written", before)
    text._written = written  # type: ignore[attr-defined]

    def length() -> float:
        box = text.get_window_extent()
        return box.height if upright else box.width

    text.set_text(written)
    if len(words_of(written)) < 2 or not text.get_visible() or length() <= room:
        return text.get_text() != before
    lines: list[str] = []
    for paragraph in written.split("\n"):  # breaks that were written stay
        first, *words = words_of(paragraph) or [""]
        lines.append(first)
        for word in words:
            text.set_text(f"{lines[-1]} {word}")
            if length() <= room:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
    text.set_text("\n".join(lines))
    return text.get_text() != before


def thin_ticks(axis: Axis) -> bool:
    """Take away tick labels until none touches the next one; return whether any was taken."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator

    shown = tick_labels(axis)
    if len(shown) < 3:
        return False
    along = 0 if axis is axis.axes.xaxis else 1
    boxes = sorted(((text.get_window_extent(), text) for text in shown), key=lambda entry: entry[0].p0[along])
    gap = 2.0 * axis.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    if all(next_.p0[along] - box.p1[along] >= gap for (box, _), (next_, _) in pairwise(boxes)):
        return False
    locator: Any = axis.get_major_locator()
    if isinstance(locator, FixedLocator):
        written = {tick.get_loc(): tick.label1.get_text() or tick.label2.get_text() for tick in axis.get_major_ticks()}
        places = [place for place in locator() if place in written]
        labelled = [place for place in places if written[place]]
        axis.set_ticks(places, labels=[written[place] if place in labelled[::2] else "" for place in places])
    elif isinstance(locator, LogLocator):
        locator.set_params(numticks=max(2, len(shown) - 1), subs=(1.0,))
    elif isinstance(locator, MaxNLocator) or axis.get_scale() == "linear":
        axis.set_major_locator(MaxNLocator(max(2, len(shown) - 2), steps=[1, 2, 5, 10]))
    else:
        return False
    return True
