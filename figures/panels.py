"""Layout of figures at any width: columns that fit, letters of panels, texts that fit, ticks, edges of cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.style import Axes, Figure, new_figure, text_scale

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.text import Text

ROUNDS = 6  # of changing texts and laying out again


def fitting_columns(width: float, count: int, least: float) -> int:
    """Return the number of columns of panels in `width`, each at least `least` inches wide (at house text size)."""
    columns = max(1, min(count, int(width / text_scale() / least + 1e-9)))
    return -(-count // -(-count // columns))  # no emptier last row than needed


def panel_grid(
    width: float,
    count: int,
    least: float,
    height: float,
    rest: float,
    xlabel: str = "",
    ylabel: str = "",
    **options: Any,
) -> tuple[Figure, np.ndarray]:
    """Return a new figure and its axes (row, column): `count` panels in as many columns as fit.

    Parameters
    ----------
    width : float
        Width of the figure, inches.
    count : int
        Number of panels; places of the last row without a panel stay empty.
    least : float
        Least width of a panel, inches.
    height : float
        Height of a row, inches.
    rest : float
        Height of what is not a row, inches.
    xlabel : str
        Label of every panel, or of the last row where panels share the axis.
    ylabel : str
        Label of the first column.
    **options
        Options of `Figure.subplots`.
    """
    columns = fitting_columns(width, count, least)
    rows = -(-count // columns)
    figure = new_figure(width, rest + height * rows)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    for axes in grid[-1] if options.get("sharex") else grid.flat[:count]:
        axes.set_xlabel(xlabel)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    return figure, grid


def folded_grid(figure: Any, rows: int, count: int, columns: int, **options: Any) -> np.ndarray:
    """Return axes (rows, count) of which only `columns` stand side by side; the others follow in blocks below."""
    blocks = -(-count // columns)
    grid = figure.subplots(rows * blocks, columns, squeeze=False, **options)
    return np.hstack(np.split(grid, blocks))


def letter_panels(panels: Iterable[Axes], pad: float | None = None) -> None:
    """Write (a), (b), ... before the titles of panels, at their left edge, `pad` points above the axes."""
    for number, axes in enumerate(panels):
        title = axes.get_title()
        axes.set_title("")
        axes.set_title(f"({chr(ord('a') + number)}) {title}".strip(), loc="left", pad=pad)


def legend_above(
    figure: Any,
    handles: Sequence[Any] | None = None,
    labels: Sequence[str] | None = None,
    loc: str = "outside upper center",
    most_columns: int = 6,
    grow: bool = False,
    **options: Any,
) -> None:
    """Draw a legend outside the panels with as many columns as fit into the width of the figure.

    Without handles it shows what has a label in any panel, each label once. With `grow` the figure becomes higher by
    the legend, so that the panels keep their height.
    """
    if handles is None:
        shown: dict[str, Any] = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                shown.setdefault(label, handle)
        handles = list(shown.values())
    labels = [str(handle.get_label()) for handle in handles] if labels is None else labels
    for columns in range(min(len(labels), most_columns), 0, -1):
        legend = figure.legend(handles, labels, loc=loc, ncols=columns, **options)
        wrap(legend.get_title(), 0.95 * figure.bbox.width)
        box = legend.get_window_extent()
        if columns == 1 or box.width <= 0.98 * figure.bbox.width:
            break
        legend.remove()
    if grow and labels:
        figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)


def fit_texts(figure: Figure) -> None:
    """Break titles and labels that are wider than their place into lines.

    matplotlib itself breaks a text only at the edge of the page, and never a text that LaTeX sets.

    Parameters
    ----------
    figure : matplotlib Figure
        It is laid out again after each change, at most ROUNDS times.
    """
    for number in range(ROUNDS):
        # Before the first layout too, which long titles would squeeze to nothing. All texts in each round.
        changed = [wrap(*place) for place in _places(figure)]
        figure.draw_without_rendering()
        if number and not any(changed):
            return


def _places(figure: Any) -> Iterator[tuple[Text, float, bool]]:
    """Titles and labels, the room that each has, and whether it stands upright."""
    for axes in (each for outer in figure.axes for each in (outer, *outer.child_axes)):
        for title in (axes.title, axes._left_title, axes._right_title):
            yield title, axes.bbox.width, False
        yield axes.xaxis.label, 1.15 * axes.bbox.width, False
        yield axes.yaxis.label, 1.1 * axes.bbox.height, True
    if figure._suptitle is not None:
        yield figure._suptitle, 0.98 * figure.bbox.width, False


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


def readable_axis(axis: Axis, edge: Sequence[float] | Floats) -> None:
    """Label 1, 2, 5 on a logarithmic axis of less than three decades, powers of ten on a longer one."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if axis.get_scale() != "log":
        return
    if edge[-1] < 1e3 * edge[0]:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def label_above(axes: Axes, x: float, text: str, side: str = "center", **style: Any) -> None:
    """Write a text on the upper edge of the axes, above x; `side` is matplotlib's horizontal alignment."""
    axes.annotate(text, (x, 1), xycoords=("data", "axes fraction"), ha=side, va="bottom", **style)
