"""`plot`: one drawing of a result (a trajectory, runs with seeds, a report, a ladder, a sweep, a comparison)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.core.errors import InputError, choice, instance, shown, text, unknown_name, whole
from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.dynamics.observables import OBSERVABLES, Observable, curve_names
from snapdyn.figures.claim_pictures import draw_picture
from snapdyn.figures.heat_maps import draw_map, drawable
from snapdyn.figures.panels import fit_texts, legend_above
from snapdyn.figures.style import (
    LINE_STYLES,
    SINGLE_COLUMN,
    Axes,
    Style,
    house_style,
    line_width,
    note_size,
    text_scale,
)
from snapdyn.validation import Fit, InstanceReport, Ladder
from snapdyn.validation.pictures import Map, Picture

if TYPE_CHECKING:
    import xarray
    from matplotlib.artist import Artist

STATUS_COLOURS = {"holds": "C0", "fails": "C1", "outside": "C4", "undecided": "0.6"}
MOST_INSIDE = 3  # entries of a legend inside the axes
HIGHEST_RISE = 9.0  # of profiles
SMALLEST_MARGIN = 1e-6  # smaller ones stand here


def plot(
    thing: Any, what: str | None = None, ax: Axes | None = None, *, style: Style | None = None, **options: Any
) -> Axes:
    """Draw one quantity of a result, in the house style.

    Parameters
    ----------
    thing : Trajectory, list of Trajectory, InstanceReport, Ladder, Fit, Map, Picture or xarray.Dataset
        A list of runs on the same times (seeds) is drawn as median and 10-90 % band. A dataset is the result of a sweep
        or of a comparison. A Map or a Picture is that of a claim: ``sd.validation.CLAIMS["adam-winner"].map("quick")``.
    what : str, optional
        Trajectory: "attention", "entropy", "loss", "relative_gain", "growth_factor", or the name of a value of a user's
        own system. Report: "margins". Fit: "profiles". Map: "map". Picture: "picture". These four may be left out.
        Ladder: an observable, such as "z". Sweep: a variable, drawn as a phase diagram. Comparison: an observable, such
        as "entropy 0".
    ax : matplotlib Axes, optional
        Default: new axes of one column's width, from matplotlib.pyplot.
    style : str, path or mapping, optional
        As in `house_style`.
    **options
        Trajectory: ``label`` and ``color``, as in matplotlib; with several curves the label stands before the name of
        each, and there is no color. ``n``, the class (default 0; for "entropy" all classes); ``tokens``, a list
        (default: all tokens of the class; for "relative_gain" all its distinct tokens), ``l0``, the token that gains
        are relative to (default the most frequent distinct token). Sweep: ``x`` and ``y``, the dimensions (default the
        first two).

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        The result is of another type, or it has no such quantity, class, token, option or dimension; or there is no
        curve to draw; or there are more than 50 curves, with one per class or token.

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

    if isinstance(thing, Trajectory):
        thing = [thing]
    draw, known = _drawing(thing)
    if what is None and known is not None and len(known) == 1:
        what = known[0]
    what = text("what", what or "")
    if known is not None:
        choice("what", what, known)
        known_options(what, options, ("x", "y") if draw is _draw_sweep else ())
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
        legend = ax.get_legend()
        if legend is not None and len(legend.get_texts()) > MOST_INSIDE:  # it would cover the curves
            handles, labels = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
            legend.remove()
            legend_above(figure, handles, labels, grow=True, fontsize=note_size())
        fit_texts(figure)
        _keep_style(figure)
    return ax


def _drawn(axes: Axes) -> frozenset[int]:
    """Lines and texts that the caller drew, without the labels of the axes, which `plot` writes."""
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
    for artist in drawn.findobj():
        if id(artist) in before:
            continue
        if isinstance(artist, Line2D):
            artist.set(color=to_rgba(artist.get_color()), markeredgecolor=to_rgba(artist.get_markeredgecolor()))
            artist.set_markerfacecolor(to_rgba(artist.get_markerfacecolor()))
        elif isinstance(artist, Text):
            artist.set_fontfamily(settings.get(f"font.{family}", family))
            artist.set_math_fontfamily(settings["mathtext.fontset"])


def _drawing(thing: Any) -> tuple[Callable[..., None], list[str] | None]:
    """Return the function that draws a result, and the names it can draw (None: the function checks the name)."""
    import xarray

    if isinstance(thing, InstanceReport):
        return _draw_report, ["margins"]
    if isinstance(thing, Fit):
        return _draw_profiles, ["profiles"]
    if isinstance(thing, Map):
        return _draw_map, ["map"]
    if isinstance(thing, Picture):
        return _draw_picture, ["picture"]
    if isinstance(thing, Ladder):
        return _draw_ladder, [str(name) for name in thing.gaps.observable.values]
    if isinstance(thing, xarray.Dataset):
        if "curve" in thing.dims or "sgd" in thing:
            return _draw_comparison, [str(name) for name in thing.observable.values]
        if "settings" in thing.attrs:
            return _draw_sweep, [str(name) for name in thing.data_vars]
    if isinstance(thing, (list, tuple)) and thing and all(isinstance(run, Trajectory) for run in thing):
        return draw_runs, None
    raise InputError(
        "expected a Trajectory, a list of them, an InstanceReport, a Ladder, a Fit, a Map, a Picture, or the dataset "
        f"of a sweep or a comparison to plot, received {shown(thing)}; give one of these"
    )


def _draw_map(axes: Axes, map: Map, what: str) -> None:
    handles = draw_map(axes, map)
    axes.legend(handles=handles, fontsize=note_size(), loc="upper center", bbox_to_anchor=(0.5, -0.25))


def _draw_picture(axes: Axes, picture: Picture, what: str) -> None:
    draw_picture(axes, picture)
    axes.legend(fontsize=note_size())


def _draw_report(axes: Axes, report: InstanceReport, what: str) -> None:
    """Draw the number of each claim divided by its bound; a claim holds if this ratio is at most 1."""
    shown_results: list[tuple[Any, float]] = []  # with their margins
    for result in report.claims:
        ratio = result.measured / result.bound if result.bound else np.nan
        ratio = 1 / ratio if result.number and result.number.relation == ">=" and ratio else ratio
        if np.isfinite(ratio) and ratio > 0:
            shown_results.append((result, max(ratio, SMALLEST_MARGIN)))
    if not shown_results:
        raise InputError("expected a report with numbers and bounds, received none; plot the report of more claims")
    rows = np.arange(len(shown_results))
    axes.axvline(1.0, color="0.5", linewidth=line_width(0.8))
    for (status, color), marker in zip(STATUS_COLOURS.items(), "osD^", strict=True):
        chosen = [(margin, row) for row, (result, margin) in enumerate(shown_results) if result.status == status]
        if chosen:
            axes.plot(*zip(*chosen, strict=True), marker, color=color, label=status)
    axes.set_xscale("log")
    axes.set_yticks(rows, [result.id for result, _ in shown_results])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y")
    axes.set_xlabel("measured number over its bound\n(at most 1: holds; smallest shown: $10^{-6}$)")
    axes.legend(fontsize=note_size())
    figure: Any = axes.get_figure(root=True)
    figure.set_figheight(max(figure.get_figheight(), 0.8 + 0.16 * len(rows)))


def _draw_profiles(axes: Axes, fit: Fit, what: str) -> None:
    """Draw each parameter's profile against parameter/estimate, and the parabola that its standard error gives."""
    widest = 1.0
    for number, (name, estimate) in enumerate(fit.estimates.items()):
        values, rises = fit.profile(name)
        ratio = values / estimate
        color, seen = f"C{number}", rises < HIGHEST_RISE
        widest = max(widest, ratio[seen].max() / ratio[seen].min())
        axes.plot(ratio, rises, linestyle=LINE_STYLES[number % len(LINE_STYLES)], color=color, label=name)
        parabola = (np.log(ratio) * estimate / fit.standard_errors[name]) ** 2
        axes.plot(ratio, parabola, ":", color=color, linewidth=line_width(0.8))
    if widest > 3.0:
        axes.set_xscale("log")
    axes.axhline(2.71, color="0.5", linewidth=line_width(0.8))
    axes.annotate(
        "90 %", (1.0, 2.71), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=note_size()
    )
    axes.set_ylim(0.0, HIGHEST_RISE)
    axes.set_xlabel("parameter over its estimate\n(dotted: parabola of the standard error)")
    axes.set_ylabel("rise of the weighted squares")
    axes.legend(fontsize=note_size())


def _draw_ladder(axes: Axes, ladder: Ladder, what: str) -> None:
    from snapdyn.figures.figure_ladder import draw_gaps

    gaps = ladder.gaps.assign_attrs(tolerance=ladder.tolerance)
    draw_gaps(axes, gaps, what)
    axes.set_xlabel(drawable(f"$t$ ({ladder.rungs[0].runs[0].clock})"))
    axes.set_ylabel(f"gap of {what} relative to its largest change")
    axes.legend(fontsize=note_size())


def _draw_comparison(axes: Axes, dataset: xarray.Dataset, what: str) -> None:
    from snapdyn.figures.residuals import draw_curves, label_of

    one = dataset.sel(observable=what)
    draw_curves(axes, one)
    axes.set_ylabel(label_of(one))
    axes.set_xlabel("step")
    axes.legend(fontsize=note_size())


def _draw_sweep(axes: Axes, dataset: xarray.Dataset, what: str, x: str | None = None, y: str | None = None) -> None:
    from snapdyn.figures.heat_maps import diagram, draw_diagram

    dims = [str(name) for name in dataset[what].dims if name != "seed" and dataset.sizes[name] > 1]
    # One that is given leaves the first other one.
    x = next((name for name in dims if name != y), "") if x is None else x
    y = next((name for name in dims if name != x), "") if y is None else y
    handles = draw_diagram(axes, diagram(dataset, x, y, what))
    if handles:
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.25), fontsize=note_size())


LOW, HIGH = 0.1, 0.9  # quantiles of the band of seeds
MOST_CURVES = 50  # more are not told apart
OPTIONS = ("n", "tokens", "l0")  # class, tokens, and the token that gains are relative to; as many as there are indices


def known_options(what: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Raise InputError for an option that `what` does not have."""
    for name in options:
        if not known:
            raise InputError(f"expected no options for {what}, received {shown(name)}; leave it out")
        if name not in known:
            raise unknown_name(f"an option of {what}", name, known)


def draw_runs(
    axes: Axes, runs: Sequence[Trajectory], what: str, label: str = "", color: Any = None, **options: Any
) -> None:
    """Draw one quantity of runs over time: the median over the runs, and with several runs the 10-90 % band.

    Curves that are in the axes already keep their colours, and the legend names all. A record at t = 0 has no place on
    a logarithmic axis.
    """
    from matplotlib.colors import is_color_like

    first = runs[0]
    if any(not np.array_equal(run.t, first.t) for run in runs):
        raise InputError("expected runs on the same times, received others; give the same t_eval or record to all")
    if any(run.classes is not first.classes and run.classes != first.classes for run in runs):
        raise InputError("expected runs of the same classes, received others; draw them one by one")
    ylabel, curves = _curves(runs, what, options)
    if color is not None and len(curves) > 1:
        raise InputError(f"expected no color with {len(curves)} curves, received {shown(color)}; choose one curve")
    if not (color is None or is_color_like(color)):
        raise InputError(f"expected color to be a colour of matplotlib, received {shown(color)}; write such as 'C1'")
    drawn = [str(line.get_label()) for line in axes.lines if not str(line.get_label()).startswith("_")]
    before = len(drawn)
    positive = first.t > 0
    log_time = positive.any() and first.t[-1] > 100 * first.t[positive][0]
    kept = positive if log_time else np.full(first.t.size, True)
    for number, (name, of_runs) in enumerate(curves, start=before):
        # Colours first, or a line style of its own for each of a few curves.
        style = number if before + len(curves) <= len(LINE_STYLES) else number // 7
        low, median, high = np.quantile(np.asarray(of_runs)[:, kept], [LOW, 0.5, HIGH], axis=0)
        colour = f"C{number % 7}" if color is None else color
        words = label if label and len(curves) == 1 else f"{label}, {name}" if label else name
        alike = sum(each == words or each.startswith(f"{words} (") for each in drawn)
        words += f" ({alike + 1})" if alike else ""
        axes.plot(first.t[kept], median, label=words, color=colour, linestyle=LINE_STYLES[style % len(LINE_STYLES)])
        if len(runs) > 1:
            axes.fill_between(first.t[kept], low, high, color=colour, alpha=0.2, linewidth=0)
    if log_time:
        axes.set_xscale("log")
    axes.set_xlabel(drawable(f"$t$ ({first.clock})"))
    axes.set_ylabel(ylabel)
    if before + len(curves) > 1:
        axes.legend(ncols=1 + (before + len(curves) - 1) // 8, fontsize=note_size())


def _curves(runs: Sequence[Trajectory], what: str, options: dict[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    """Return the label of the axis, and the name of each curve with its values (run, time)."""
    if runs[0].classes is None:
        values = np.array([run.observable(what) for run in runs])
        known_options(what, options, ())
        if values.shape[2:] not in ((), (1,)):
            raise InputError(
                f"expected a quantity of one number at a time to draw, received {what}, of shape {values.shape[2:]}; "
                "draw trajectory.observable(...) yourself"
            )
        return what, [(what, values.reshape(values.shape[:2]))]
    choice("what", what, curve_names())
    observable = OBSERVABLES[what]
    names = OPTIONS[: observable.indices.count("{}")]
    known_options(what, options, names)
    classes, n = runs[0].require_classes(), options.get("n")
    label = observable.axis
    indices: list[tuple[tuple[int, ...], str]] = [((), what)]
    if names == ("n",):
        chosen = range(classes.num_classes) if n is None else [classes.check_class(n)]
        _check_number("classes", len(chosen), "plot trajectory.of_class(kind) of symmetric classes, or choose n")
        indices = [((k,), f"class {k}") for k in chosen]
    elif names:
        n = classes.check_class(0 if n is None else n)
        tokens, further = _tokens(classes, observable, n, options)
        label = f"relative gain over token {further[0]}, class {n}" if further else f"{label}, class {n}"
        indices = [((n, token, *further), f"token {token}") for token in tokens]
    return label, [(name, [observable.curve_of(run, *index) for run in runs]) for index, name in indices]


def _check_number(what: str, count: int, advice: str) -> None:
    if count > MOST_CURVES:
        raise InputError(f"expected at most {MOST_CURVES} {what} for a curve each, received {count}; {advice}")


def _tokens(
    classes: SequenceClasses, observable: Observable, n: int, options: dict[str, Any]
) -> tuple[list[int], tuple[int, ...]]:
    """Return the tokens of a class with a curve each, and the token that their gains are relative to."""
    tokens, l0 = options.get("tokens"), options.get("l0")
    chosen = [int(token) for token in classes.support(n)]
    further: tuple[int, ...] = ()
    if observable.name == "relative_gain":
        start, end = classes.P.indptr[n : n + 2]
        probability = dict(zip(chosen, classes.P.data[start:end], strict=True))
        distinct = sorted(map(int, classes.distinct_tokens(n)), key=lambda token: -probability[token])
        if l0 is None and not distinct:
            raise InputError(f"expected a token l0, since class {n} has no distinct token, received none; give one")
        further = (distinct[0] if l0 is None else whole("l0", l0, 0),)
        chosen = [token for token in distinct if token not in further]
    if tokens is not None:
        if not isinstance(tokens, (list, tuple, range, np.ndarray)) or np.ndim(tokens) != 1:
            raise InputError(f"expected tokens to be a list of token ids, received {shown(tokens)}; write [0, 1]")
        chosen = [whole("a token", token, 0) for token in tokens]
    if not chosen:
        raise InputError(
            f"expected at least one token of class {n} to draw, received none"
            f"{f' besides token {further[0]}' if further and tokens is None else ''}; give tokens=[...]"
        )
    _check_number("tokens", len(chosen), "choose tokens=[...]")
    return chosen, further
