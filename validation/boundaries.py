"""Where does a statement hold on a family of classes of one's own? Maps of the measured number over one or two axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from contourpy import contour_generator
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, finite_array, function, instance, shown, text, unknown_name, whole
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.grid import Grid
from snapdyn.validation.instance_checks import InstanceResult, check
from snapdyn.validation.pictures import Line, Map


def boundary(
    claim: str,
    classes: Callable[..., SequenceClasses] | SequenceClasses | Mapping[str, float],
    axes: Mapping[str, ArrayLike],
    *,
    eta_Y: float = 1.0,
    eta_Z: float = 1e-3,
    t_end: float | None = None,
    rung: str | None = None,
    seq_len: int | None = None,
    momentum: float = 0.0,
    most_evaluations: int | None = None,
) -> Map:
    """Measure where a claim's statement holds on a family of classes.

    Parameters
    ----------
    claim : str
        Id of a claim that is about one instance.
    classes : callable, SequenceClasses or mapping of str to float
        ``classes(**values)`` builds the classes from the values of those axes that are not rates; or fixed classes; or
        the parameters of a theory whose claims have a `Box`, some of which the axes replace.
    axes : mapping of str to (N,) array
        One or two axes: "eta_Y", "eta_Z", "t_end", or a parameter of `classes`; positive increasing values.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step, where it is no axis.
    eta_Z : float
        Learning rate of attention per batch-size-1 step, where it is no axis.
    t_end : float, optional
        Last time, batch-size-1 steps, where it is no axis; default that of `check`.
    rung : str, optional
        Rung of the ladder; default the one that decides in `check`.
    seq_len : int, optional
        Number of contextual tokens T-1; default infinite.
    momentum : float
        Heavy-ball momentum.
    most_evaluations : int, optional
        Largest number of points; default the number of instances on which `validate` measures the claim at level full.

    Returns
    -------
    Map
        The measured number over the axes, its bound as threshold; NaN where there is no number. With one axis the
        second has the single value 1. For a statement "at least", the number and the bound have the opposite sign,
        and the quantity says "minus".
        Its `boundaries` are the claim's conditions: a line where each of them begins to be met.

    Raises
    ------
    InputError
        The claim is not about one instance, an axis is unknown, its values do not increase, or the points are too many;
        or what `check` raises.

    Examples
    --------
    >>> import snapdyn as sd
    >>> found = sd.boundary(
    ...     "conservation", lambda common: sd.single_common_token(3, 2, common, 50), {"common": [0.1, 0.3]}, t_end=100.0
    ... )
    >>> bool((found.violation < found.threshold).all())
    True
    """
    entry, *others = chosen_claims(text("claim", claim))
    instance("axes", axes, Mapping, 'write, for example, {"eta_Y": [0.1, 1.0]}')
    if not isinstance(classes, SequenceClasses | Mapping):
        function("classes", classes)
    if rung is not None:
        text("rung", rung)
    if others:
        raise InputError(
            f"expected one claim, received the group {shown(claim)} of {len(others) + 1}; name one of them"
        )
    if all(prop.domain is None for prop in entry.properties):
        raise InputError(
            f"expected a claim about one instance, received {shown(claim)}, which speaks of "
            f"{entry.domain or 'named settings'}"
        )
    whole("the number of axes", len(axes), 1, 2)
    values = {name: np.atleast_1d(finite_array(f"axis {shown(name)}", axis)) for name, axis in axes.items()}
    for name, axis in values.items():
        finite_array(f"axis {shown(name)}", axis, ("N",), increasing=True)
    points = math.prod(axis.size for axis in values.values())
    paid = max(prop.evaluations[1] for prop in entry.properties)
    if points > (paid if most_evaluations is None else whole("most_evaluations", most_evaluations, 1)):
        raise InputError(
            f"expected at most {most_evaluations or paid} points to measure {claim} at, received {points}; use fewer "
            f"values, or most_evaluations={points}"
        )
    defaults = {"eta_Y": eta_Y, "eta_Z": eta_Z, "t_end": t_end}
    options: dict[str, Any] = {"only": [claim], "rungs": [rung] if rung else ()}

    def answer(point: dict[str, Any]) -> InstanceResult:
        if isinstance(classes, Mapping):
            report = check({**classes, **point}, **options)
        else:
            rates: dict[str, Any] = {name: point.pop(name, default) for name, default in defaults.items()}
            if point and isinstance(classes, SequenceClasses):
                raise unknown_name("axis of fixed classes", next(iter(point)), tuple(defaults))
            made = classes if isinstance(classes, SequenceClasses) else classes(**point)
            report = check(made, **rates, **options, seq_len=seq_len, momentum=momentum)
        return next((each for each in report.claims if rung in (None, each.rung)), report.claims[0])

    answers: list[InstanceResult] = Grid(dict(reversed(values.items())), dict, answer).measured()
    found = [(each.prop.name, each.number) if each.prop and each.number else None for each in answers]
    kinds = {(name, measured.bound, measured.relation) for name, measured in filter(None, found)}
    # Numbers of several properties, or with bounds of their own, compare by how far they are beyond their bounds.
    quantity, bound, relation = kinds.pop() if len(kinds) == 1 else ("measured over its bound", 1.0, "<=")
    read = [np.nan if each is None else each[1].value if each[0] == quantity else each[1].excess for each in found]
    sign = 1.0 if relation == "<=" else -1.0
    (xname, x), (yname, y) = [*values.items(), ("all", np.ones(1))][:2]
    return Map(
        title=f"{entry.title} ({claim})",
        xlabel=xname,
        ylabel=yname,
        quantity=quantity if sign > 0 else f"minus the {quantity}",
        x=x,
        y=y,
        violation=sign * np.reshape(read, (y.size, x.size)),
        threshold=sign * bound,
        boundaries=_conditions(answers, x, y),
        xscale=_scale(x),
        yscale=_scale(y),
        scale="linear",
    )


def _conditions(answers: Sequence[InstanceResult], x: Floats, y: Floats) -> tuple[Line, ...]:
    """Lines over (x, y) on which each condition of the answers turns from met to unmet."""
    if min(x.size, y.size) < 2:
        return ()
    lines = []
    for condition in {each.required or each.name: None for answer in answers for each in answer.conditions}:
        here = [[each for each in answer.conditions if condition in (each.required, each.name)] for answer in answers]
        # The logarithm of value over bound: straight for products of powers on logarithmic axes.
        excess = np.array([each[0].excess if each else np.nan for each in here])
        margin = np.array([-each[0].margin if each else np.nan for each in here])
        with np.errstate(divide="ignore"):
            level = np.where(np.isfinite(margin), np.log(excess), np.nan)
        level = level if np.isfinite(level[np.isfinite(margin)]).all() else margin
        logs = [_scale(axis) == "log" for axis in (x, y)]
        places = [np.log(axis) if log else axis for axis, log in zip((x, y), logs, strict=True)]
        field = np.ma.masked_invalid(level.reshape(y.size, x.size))
        contours: Any = contour_generator
        if parts := contours(*places, field).lines(0.0):
            points = np.concatenate([np.append(part, [[np.nan, np.nan]], axis=0) for part in parts])[:-1]
            right, up = (np.exp(each) if log else each for each, log in zip(points.T, logs, strict=True))
            lines.append(Line(condition, right, up, "printed"))
    return tuple(lines)


def _scale(axis: Floats) -> Literal["log", "linear"]:
    """Logarithmic where values are positive and spread over more than a factor ten."""
    return "log" if axis[0] > 0 and axis[-1] > 10 * axis[0] else "linear"
