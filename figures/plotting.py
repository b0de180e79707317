"""`plot`: one drawing of a result (a trajectory, runs with seeds, a report, a ladder, a sweep, a comparison)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics import Trajectory
from snapdyn.errors import InputError, choice, shown, text, whole
from snapdyn.figures.layout import fit_texts
from snapdyn.figures.style import LINE_STYLES, SINGLE_COLUMN, TIME_LABEL, Style, house_style, note_size, text_scale
from snapdyn.validation import InstanceReport, Ladder
from snapdyn.validation.comparison import KINDS, IndexedObservable

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

STATUS_COLOURS = {"holds": "C0", "fails": "C1", "outside": "C4", "undecided": "0.6"}
SMALLEST_MARGIN = 1e-6  # smaller ones stand here
LOW, HIGH = 0.1, 0.9  # quantiles of the band of seeds


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
        Trajectory: ``n``, the class (default 0); ``tokens``, a list (default: all tokens of the class; for
        "relative_gain" all its distinct tokens), ``l0``, the token that gains are relative to (default the most
        frequent distinct token). Sweep: ``x`` and ``y``, the dimensions (default the first two).

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        The result is of another type, or it has no such quantity, class, token or dimension.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=2, common_probability=0.3, vocab_size=20)
    >>> run = sd.integrate(sd.MeanField(classes, 1.0, 0.1), [0.0, 1.0, 10.0])
    >>> axes = sd.figures.plot(run, "entropy")
    >>> axes.get_ylabel()
    'entropy of attention (nats)'
    """
    text("what", what)
    draw = _drawing(thing)
    if ax is None:
        from matplotlib import pyplot

        # Loads the backend: that of notebooks turns interactive mode on, and the end of the style would turn it off.
        pyplot.draw_if_interactive()
    with house_style(style=style):
        if ax is not None:
            draw(ax, thing, what, **options)
            return ax
        figure, ax = pyplot.subplots(figsize=(SINGLE_COLUMN, 2.5 * text_scale()))
        draw(ax, thing, what, **options)
        fit_texts(figure)
    return ax


def _drawing(thing: Any) -> Callable[..., None]:
    import xarray

    if isinstance(thing, Trajectory):
        return _draw_run
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
        return _draw_runs
    raise InputError(
        "expected a Trajectory, a list of them, an InstanceReport, a Ladder, or the dataset of a sweep or a "
        "comparison "
        f"to plot, received {shown(thing)}; give one of these"
    )


def _draw_run(axes: Axes, run: Trajectory, what: str, **options: Any) -> None:
    _draw_runs(axes, [run], what, **options)


def _draw_runs(
    axes: Axes,
    runs: Sequence[Trajectory],
    what: str,
    n: int = 0,
    tokens: Sequence[int] | None = None,
    l0: int | None = None,
) -> None:
    first = runs[0]
    if any(not np.array_equal(run.t, first.t) for run in runs):
        raise InputError("expected runs on the same times, received others; give the same t_eval or record to all")
    label, curves = _curves(first, what, n, tokens, l0)
    for number, (name, evaluate) in enumerate(curves):
        style: dict[str, Any] = {"color": f"C{number % 7}", "linestyle": LINE_STYLES[number // 7 % len(LINE_STYLES)]}
        if len(curves) <= len(LINE_STYLES):
            style["linestyle"] = LINE_STYLES[number]
        low, median, high = np.quantile([evaluate(run) for run in runs], [LOW, 0.5, HIGH], axis=0)
        axes.plot(first.t, median, label=name, **style)
        if len(runs) > 1:
            axes.fill_between(first.t, low, high, color=style["color"], alpha=0.2, linewidth=0)
    positive = first.t[first.t > 0]
    if positive.size and positive[-1] > 100 * positive[0]:
        axes.set_xscale("log")
    axes.set_xlabel(TIME_LABEL)
    axes.set_ylabel(label)
    if len(curves) > 1:
        axes.legend(ncols=1 + (len(curves) - 1) // 8, fontsize=note_size())


Curve = tuple[str, Callable[[Trajectory], np.ndarray]]


def _curves(
    run: Trajectory, what: str, n: int, tokens: Sequence[int] | None, l0: int | None
) -> tuple[str, list[Curve]]:
    """Return the label of the axis, and name and function of each curve."""
    if run.classes is None:
        column = list(run.value_names).index(choice("what", what, list(run.value_names)))
        return what, [(what, lambda run: run.require_state()[:, column])]
    choice("what", what, KINDS)
    classes = run.require_classes()
    if what == "loss":
        return "loss (nats)", [_curve("loss", IndexedObservable("loss"))]
    if what == "entropy":
        every = range(classes.num_classes)
        return "entropy of attention (nats)", [_curve(f"class {k}", IndexedObservable("entropy", (k,))) for k in every]
    n = classes.check_class(n)
    probability = classes.P.toarray()[n]
    distinct = sorted(map(int, classes.distinct_tokens(n)), key=lambda token: -probability[token])
    further: tuple[int, ...] = ()
    label = f"{KINDS[what][0].partition(',')[0]}, class {n}"
    chosen = [int(token) for token in np.flatnonzero(probability)]
    if what == "relative_gain":
        if l0 is None and not distinct:
            raise InputError(f"expected l0, for class {n} has no distinct token, received none; give a token")
        reference = distinct[0] if l0 is None else whole("l0", l0, 0)
        label, further = f"relative gain over token {reference}, class {n}", (reference,)
        chosen = [token for token in distinct if token != reference]
    shown_tokens = chosen if tokens is None else [whole("a token", token, 0) for token in tokens]
    return label, [_curve(f"token {l}", IndexedObservable(what, (n, l, *further))) for l in shown_tokens]


def _curve(name: str, observable: IndexedObservable) -> Curve:
    return name, observable.evaluate


def _draw_report(axes: Axes, report: InstanceReport, what: str) -> None:
    """Draw the number of each claim over its bound: on the left of 1 the statement holds."""
    choice("what", what, ("margins",))
    shown_results, margins = [], []
    for result in report.claims:
        ratio = result.measured / result.bound if result.bound else np.nan
        ratio = 1 / ratio if result.relation == ">=" and ratio else ratio
        if np.isfinite(ratio) and ratio > 0:
            shown_results.append(result)
            margins.append(max(ratio, SMALLEST_MARGIN))
    if not margins:
        raise InputError("expected a report with numbers and bounds, received none; plot the report of more claims")
    rows = np.arange(len(margins))
    axes.axvline(1.0, color="0.5", linewidth=0.8)
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
    axes.set_xlabel("measured number over its bound (at most 1: holds; smallest shown: $10^{-6}$)")
    axes.legend(fontsize=note_size())
    figure: Any = axes.get_figure(root=True)
    figure.set_figheight(max(figure.get_figheight(), 0.8 + 0.16 * len(rows)))


def _draw_ladder(axes: Axes, ladder: Ladder, what: str) -> None:
    from snapdyn.figures.figure_ladder import draw_gaps

    gaps = ladder.gaps.assign_attrs(tolerance=ladder.tolerance)
    choice("what", what, [str(name) for name in gaps.observable.values])
    draw_gaps(axes, gaps, what)
    axes.set_ylabel(f"gap of {what} relative to its largest change")
    axes.legend(fontsize=note_size())


def _draw_comparison(axes: Axes, dataset: xarray.Dataset, what: str) -> None:
    from snapdyn.figures.comparison import draw_curves

    choice("what", what, [str(name) for name in dataset.observable.values])
    draw_curves(axes, dataset.sel(observable=what))
    kind, *indices = what.split()
    axes.set_ylabel(IndexedObservable(kind, tuple(map(int, indices))).label)
    axes.set_xlabel("step")
    axes.legend(fontsize=note_size())


def _draw_diagram(axes: Axes, dataset: xarray.Dataset, what: str, x: str | None = None, y: str | None = None) -> None:
    from snapdyn.figures.phase_diagrams import draw_panel

    choice("what", what, [str(name) for name in dataset.data_vars])
    dims = [str(name) for name in dataset[what].dims if name != "seed" and dataset.sizes[name] > 1]
    if len(dims) < 2 and (x is None or y is None):
        raise InputError(f"expected a variable over two dimensions, received {what} over {dims}; sweep two parameters")
    handles = draw_panel(axes, dataset, x or dims[0], y or dims[1], what)
    if handles:
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.25), fontsize=note_size())
