"""Curves of trajectories over time: which ones a quantity has, and their drawing (one run, or seeds as a band)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.dynamics.observables import OBSERVABLES, Observable, curve_names
from snapdyn.errors import InputError, choice, shown, unknown_name, whole
from snapdyn.figures.style import LINE_STYLES, TIME_LABEL, note_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOW, HIGH = 0.1, 0.9  # quantiles of the band of seeds
MOST_CURVES = 50  # more are not told apart
OPTIONS = ("n", "tokens", "l0")  # class, tokens, and the token that gains are relative to; as many as there are indices
Curve = tuple[str, Callable[[Trajectory], np.ndarray]]


def known_options(what: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Raise InputError for an option that `what` does not have."""
    for name in options:
        if not known:
            raise InputError(f"expected no options for {what}, received {shown(name)}; leave it out")
        if name not in known:
            raise unknown_name(f"an option of {what}", name, known)


def draw_runs(axes: Axes, runs: Sequence[Trajectory], what: str, **options: Any) -> None:
    """Draw one quantity of runs over time: the median over the runs, and with several runs the 10-90 % band."""
    first = runs[0]
    if any(not np.array_equal(run.t, first.t) for run in runs):
        raise InputError("expected runs on the same times, received others; give the same t_eval or record to all")
    if any(run.classes is not first.classes and run.classes != first.classes for run in runs):
        raise InputError("expected runs of the same classes, received others; draw them one by one")
    label, drawn = curves(first, what, options)
    values = [[evaluate(run) for run in runs] for _, evaluate in drawn]  # before anything is drawn into the axes
    for number, ((name, _), of_runs) in enumerate(zip(drawn, values, strict=True)):
        style: dict[str, Any] = {"color": f"C{number % 7}", "linestyle": LINE_STYLES[number // 7 % len(LINE_STYLES)]}
        if len(drawn) <= len(LINE_STYLES):
            style["linestyle"] = LINE_STYLES[number]
        low, median, high = np.quantile(of_runs, [LOW, 0.5, HIGH], axis=0)
        axes.plot(first.t, median, label=name, **style)
        if len(runs) > 1:
            axes.fill_between(first.t, low, high, color=style["color"], alpha=0.2, linewidth=0)
    positive = first.t[first.t > 0]
    if positive.size and positive[-1] > 100 * positive[0]:
        axes.set_xscale("log")
    axes.set_xlabel(TIME_LABEL)
    axes.set_ylabel(label)
    if len(drawn) > 1:
        axes.legend(ncols=1 + (len(drawn) - 1) // 8, fontsize=note_size())


def curves(run: Trajectory, what: str, options: dict[str, Any]) -> tuple[str, list[Curve]]:
    """Return the label of the axis, and name and function of each curve."""
    if run.classes is None:
        values = run.observable(what)  # of one run: names and shapes are those of all
        known_options(what, options, ())
        if values.shape[1:] not in ((), (1,)):
            raise InputError(
                f"expected a quantity of one number at a time to draw, received {what}, of shape {values.shape[1:]}; "
                "draw trajectory.observable(...) yourself"
            )
        return what, [(what, lambda run: run.observable(what).reshape(-1))]
    choice("what", what, curve_names())
    observable = OBSERVABLES[what]
    indices = OPTIONS[: observable.indices.count("{}")]
    known_options(what, options, indices)
    classes, n = run.require_classes(), options.get("n")
    if not indices:
        return observable.axis, [_curve(what, observable)]
    if indices == ("n",):
        count = classes.num_classes
        if n is None and count > MOST_CURVES:
            raise InputError(
                f"expected at most {MOST_CURVES} classes for a curve each, received {count}; plot "
                "trajectory.of_class(kind) of symmetric classes, or choose n"
            )
        chosen = range(count) if n is None else [classes.check_class(n)]
        return observable.axis, [_curve(f"class {k}", observable, k) for k in chosen]
    return _token_curves(classes, observable, classes.check_class(0 if n is None else n), options)


def _token_curves(
    classes: SequenceClasses, observable: Observable, n: int, options: dict[str, Any]
) -> tuple[str, list[Curve]]:
    tokens, l0 = options.get("tokens"), options.get("l0")
    chosen = [int(token) for token in classes.support(n)]
    further: tuple[int, ...] = ()
    label = f"{observable.axis}, class {n}"
    if observable.name == "relative_gain":
        start, end = classes.P.indptr[n : n + 2]
        probability = dict(zip(chosen, classes.P.data[start:end], strict=True))
        distinct = sorted(map(int, classes.distinct_tokens(n)), key=lambda token: -probability[token])
        if l0 is None and not distinct:
            raise InputError(f"expected l0, for class {n} has no distinct token, received none; give a token")
        reference = distinct[0] if l0 is None else whole("l0", l0, 0)
        label, further = f"relative gain over token {reference}, class {n}", (reference,)
        chosen = [token for token in distinct if token != reference]
    if tokens is not None:
        if not isinstance(tokens, (list, tuple, range, np.ndarray)) or np.ndim(tokens) != 1:
            raise InputError(f"expected tokens to be a list of token ids, received {shown(tokens)}; write [0, 1]")
        chosen = [whole("a token", token, 0) for token in tokens]
    if not chosen:
        raise InputError(
            f"expected at least one token of class {n} to draw, received none"
            f"{' besides token ' + str(further[0]) if further and tokens is None else ''}; give tokens=[...]"
        )
    if len(chosen) > MOST_CURVES:
        raise InputError(
            f"expected at most {MOST_CURVES} tokens for a curve each, received {len(chosen)}; choose tokens=[...]"
        )
    return label, [_curve(f"token {l}", observable, n, l, *further) for l in chosen]


def _curve(name: str, observable: Observable, *indices: int) -> Curve:
    return name, lambda run: observable.curve_of(run, *indices)
