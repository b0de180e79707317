"""`plot`: one drawing of a result (a trajectory, runs with seeds, a report, a ladder, a sweep, a comparison)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics import Trajectory
from snapdyn.dynamics.observables import curve_named
from snapdyn.errors import InputError, choice, instance, shown, text
from snapdyn.figures.layout import fit_texts, legend_above
from snapdyn.figures.style import SINGLE_COLUMN, Style, house_style, line_width, note_size, text_scale
from snapdyn.figures.trajectory_curves import draw_runs, known_options
from snapdyn.validation import InstanceReport, Ladder

if TYPE_CHECKING:
    import xarray
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STATUS_COLOURS = {"holds": "C0", "fails": "C1", "outside": "C4", "undecided": "0.6"}
MOST_INSIDE = 3  # entries of a legend inside the axes
SMALLEST_MARGIN = 1e-6  # smaller ones stand here


def plot(thing: Any, what: str, ax: Axes | None = None, *, style: Style | None = None, **options: Any) -> Axes:
    """Draw one quantity of a result, in the house style.

    Parameters
    ----------
    thing : Trajectory, list of Trajectory, InstanceReport, Ladder or xarray.Dataset
        A list of runs on the same times (seeds) is drawn as median and 10-90 % band. A dataset is the result of a sweep
        or of a comparison.
    what : str
        Trajectory: "attention", "entropy", "loss", "relative_gain", "growth_factor", or the name of a value of an own
        system. Report: "margins". Ladder: an observable, such as "z". Sweep: a variable, drawn as a phase diagram.
        Comparison: an observable, such as "entropy 0".
    ax : matplotlib Axes, optional
        Default: new ones, of one column's width, from matplotlib.pyplot.
    style : str, path or mapping, optional
        As in `house_style`.
    **options
        Trajectory: ``n``, the class (default 0; for "entropy" all classes); ``tokens``, a list (default: all tokens of
        the class; for "relative_gain" all its distinct tokens), ``l0``, the token that gains are relative to (default
        the most frequent distinct token). Sweep: ``x`` and ``y``, the dimensions (default the first two).

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        The result is of another type, or it has no such quantity, class, token, option or dimension; or there is no
        curve to draw, or more than 50, one per class or token.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=2, common_probability=0.3, vocab_size=20)
    >>> run = sd.integrate(sd.MeanField(classes, 1.0, 0.1), [0.0, 1.0, 10.0])
    >>> axes = sd.figures.plot(run, "entropy")
    >>> axes.get_ylabel()
    'entropy of attention (nats)'
    """
    from matplotlib import axes, pyplot

    text("what", what)
    if isinstance(thing, Trajectory):
        thing = [thing]
    draw = _drawing(thing)
    if ax is None:
        # Loads the backend: that of notebooks turns interactive mode on, and the end of the style would turn it off.
        pyplot.draw_if_interactive()
    with house_style(style=style):
        if ax is not None:
            drawn_before = _drawn(instance("ax", ax, axes.Axes, "give the axes of one panel"))
            draw(ax, thing, what, **options)
            _keep_style(ax, drawn_before)
            return ax
        figure, ax = pyplot.subplots(figsize=(SINGLE_COLUMN, 2.5 * text_scale()))
        try:
            draw(ax, thing, what, **options)
        except InputError:
            pyplot.close(figure)  # which a notebook would show empty
            raise
        _clear_legend(ax, figure)
        fit_texts(figure)
        _keep_style(figure)
    return ax


def _clear_legend(axes: Axes, figure: Figure) -> None:
    """Move a legend that would cover the curves above the axes, and let the figure grow by its height."""
    legend = axes.get_legend()
    if legend is None or len(legend.get_texts()) <= MOST_INSIDE:
        return
    handles, labels = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
    legend.remove()
    above = legend_above(figure, handles, labels, fontsize=note_size())
    figure.set_figheight(figure.get_figheight() + above.get_window_extent().height / figure.dpi)


def _drawn(axes: Axes) -> frozenset[int]:
    """Lines and texts that the caller drew; labels of the axes are ours to write."""
    labels = axes.xaxis.label, axes.yaxis.label
    return frozenset(id(artist) for artist in axes.findobj() if artist not in labels)


def _keep_style(drawn: Artist, before: frozenset[int] = frozenset()) -> None:
    """Write colours and fonts of the current style into what was drawn; matplotlib looks them up when it saves.

    What is in `before`, the ids of artists, stays as it is.
    """
    import matplotlib
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    settings: Any = matplotlib.rcParams
    family = settings["font.family"][0]
    new = [artist for artist in drawn.findobj() if id(artist) not in before]
    for line in new:
        if not isinstance(line, Line2D):
            continue
        line.set(color=to_rgba(line.get_color()), markeredgecolor=to_rgba(line.get_markeredgecolor()))
        line.set_markerfacecolor(to_rgba(line.get_markerfacecolor()))
    for words in new:
        if not isinstance(words, Text):
            continue
        words.set_fontfamily(settings.get(f"font.{family}", family))
        words.set_math_fontfamily(settings["mathtext.fontset"])


def _drawing(thing: Any) -> Callable[..., None]:
    import xarray

    if isinstance(thing, InstanceReport):
        return _draw_report
    if isinstance(thing, Ladder):
        return _draw_ladder
    if isinstance(thing, xarray.Dataset):
        if "curve" in thing.dims or "sgd" in thing:
            return _draw_comparison
        if "settings" in thing.attrs:
            return _draw_diagram
    if isinstance(thing, (list, tuple)) and thing and all(isinstance(run, Trajectory) for run in thing):
        return draw_runs
    raise InputError(
        "expected a Trajectory, a list of them, an InstanceReport, a Ladder, or the dataset of a sweep or a comparison "
        f"to plot, received {shown(thing)}; give one of these"
    )


def _draw_report(axes: Axes, report: InstanceReport, what: str, **options: Any) -> None:
    """Draw the number of each claim over its bound: on the left of 1 the statement holds."""
    choice("what", what, ("margins",))
    known_options("a report", options, ())
    shown_results, margins = [], []
    for result in report.claims:
        ratio = result.measured / result.bound if result.bound else np.nan
        ratio = 1 / ratio if result.number and result.number.relation == ">=" and ratio else ratio
        if np.isfinite(ratio) and ratio > 0:
            shown_results.append(result)
            margins.append(max(ratio, SMALLEST_MARGIN))
    if not margins:
        raise InputError("expected a report with numbers and bounds, received none; plot the report of more claims")
    rows = np.arange(len(margins))
    axes.axvline(1.0, color="0.5", linewidth=line_width(0.8))
    for status, color in STATUS_COLOURS.items():
        chosen = [row for row, result in enumerate(shown_results) if result.status == status]
        if chosen:
            axes.plot(
                np.array(margins)[chosen],
                rows[chosen],
                "osD^"[list(STATUS_COLOURS).index(status)],
                color=color,
                label=status,
            )
    axes.set_xscale("log")
    axes.set_yticks(rows, [result.id for result in shown_results])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y")
    axes.set_xlabel("measured number over its bound\n(at most 1: holds; smallest shown: $10^{-6}$)")
    axes.legend(fontsize=note_size())
    figure: Any = axes.get_figure(root=True)
    figure.set_figheight(max(figure.get_figheight(), 0.8 + 0.16 * len(rows)))


def _draw_ladder(axes: Axes, ladder: Ladder, what: str, **options: Any) -> None:
    from snapdyn.figures.figure_ladder import draw_gaps

    gaps = ladder.gaps.assign_attrs(tolerance=ladder.tolerance)
    choice("what", what, [str(name) for name in gaps.observable.values])
    known_options("a ladder", options, ())
    draw_gaps(axes, gaps, what)
    axes.set_ylabel(f"gap of {what} relative to its largest change")
    axes.legend(fontsize=note_size())


def _draw_comparison(axes: Axes, dataset: xarray.Dataset, what: str, **options: Any) -> None:
    from snapdyn.figures.comparison import draw_curves

    choice("what", what, [str(name) for name in dataset.observable.values])
    known_options("a comparison", options, ())
    draw_curves(axes, dataset.sel(observable=what))
    observable, indices = curve_named(what)
    axes.set_ylabel(observable.axis_of(*indices))
    axes.set_xlabel("step")
    axes.legend(fontsize=note_size())


def _draw_diagram(axes: Axes, dataset: xarray.Dataset, what: str, **options: Any) -> None:
    from snapdyn.figures.phase_diagrams import draw_panel

    choice("what", what, [str(name) for name in dataset.data_vars])
    known_options("a sweep", options, ("x", "y"))
    x, y = options.get("x"), options.get("y")
    dims = [str(name) for name in dataset[what].dims if name != "seed" and dataset.sizes[name] > 1]
    if len(dims) < 2 and (x is None or y is None):
        raise InputError(f"expected a variable over two dimensions, received {what} over {dims}; sweep two parameters")
    # One that is given leaves the first other one.
    x = next(name for name in dims if name != y) if x is None else choice("x", x, dims)
    y = next(name for name in dims if name != x) if y is None else choice("y", y, dims)
    if x == y:
        raise InputError(f"expected two dimensions x and y, received {x} twice; choose two of {', '.join(dims)}")
    if texts := [name for name in (x, y) if dataset[name].dtype.kind not in "iuf"]:
        raise InputError(f"expected numbers along the axes, received texts along {texts[0]}; choose another dimension")
    if others := [name for name in dims if name not in (x, y)]:
        raise InputError(
            f"expected the dimensions {x} and {y} only, received also {', '.join(others)}; choose one value of each "
            "with dataset.sel(...) first"
        )
    handles = draw_panel(axes, dataset, x, y, what)
    if handles:
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.25), fontsize=note_size())
