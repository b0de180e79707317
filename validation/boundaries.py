"""Where does a statement hold on a family of classes of one's own? Maps of the measured number over one or two axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.errors import InputError, finite_array, function, instance, shown, text, unknown_name
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.instance_checks import InstanceReport, check
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Map

# Axes that are not parameters of the function that makes the classes.
RATES = ("eta_Y", "eta_Z", "t_end")


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
) -> Map:
    """Measure where a claim's statement holds on a family of classes.

    Parameters
    ----------
    claim : str
        Id of a claim that is about one instance.
    classes : callable, SequenceClasses or mapping of str to float
        ``classes(**values)`` builds the classes from the values of those axes that are not rates; or fixed classes; or
        the parameters of a theory whose claims have a `Box`, of which the axes replace some.
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

    Returns
    -------
    Map
        The measured number over the axes, its bound as threshold; NaN where there is no number. With one axis the
        second has the single value 1. For a statement "at least", both have the other sign.

    Raises
    ------
    InputError
        The claim is not about one instance, an axis is unknown, or its values do not increase; or what `check` raises.

    Examples
    --------
    >>> import snapdyn as sd
    >>> found = sd.boundary(
    ...     "conservation", lambda common: sd.single_common_token(3, 2, common, 50), {"common": [0.1, 0.3]}, t_end=100.0
    ... )
    >>> bool((found.violation < found.threshold).all())
    True
    """
    named = chosen_claims(text("claim", claim))
    instance("axes", axes, Mapping, 'write, for example, {"eta_Y": [0.1, 1.0]}')
    if not isinstance(classes, SequenceClasses | Mapping):
        function("classes", classes)
    if rung is not None:
        text("rung", rung)
    entry = named[0]
    if len(named) > 1:
        raise InputError(f"expected one claim, received the group {shown(claim)} of {len(named)}; name one of them")
    if all(prop.domain is None for prop in entry.properties):
        raise InputError(
            f"expected a claim about one instance, received {shown(claim)}, which speaks of "
            f"{entry.domain or 'named settings'}"
        )
    values = {name: np.atleast_1d(finite_array(f"axis {shown(name)}", axis)) for name, axis in axes.items()}
    if not 1 <= len(values) <= 2:
        raise InputError(f"expected one or two axes, received {len(values)}")
    for name, axis in values.items():
        if axis.ndim != 1 or (np.diff(axis) <= 0).any():
            raise InputError(f"expected axis {shown(name)} as increasing values, received {axis}")
    rungs = [rung] if rung else ()

    def report_at(point: dict[str, float]) -> InstanceReport:
        if isinstance(classes, Mapping):
            return check({**classes, **point}, only=[claim], rungs=rungs)
        made = {name: value for name, value in point.items() if name not in RATES}
        if made and isinstance(classes, SequenceClasses):
            raise unknown_name("axis of fixed classes", next(iter(made)), RATES)
        of_point = classes if isinstance(classes, SequenceClasses) else classes(**made)
        first, second, last = point.get("eta_Y", eta_Y), point.get("eta_Z", eta_Z), point.get("t_end", t_end)
        return check(of_point, first, second, last, [claim], seq_len=seq_len, momentum=momentum, rungs=rungs)

    (xname, x), (yname, y) = [*values.items(), ("", np.ones(1))][:2]
    found: dict[tuple[int, int], tuple[str, Measured]] = {}
    for i, j in np.ndindex(y.size, x.size):
        point = {xname: float(x[j])} | ({yname: float(y[i])} if yname else {})
        answers = report_at(point).claims
        answer = next((result for result in answers if rung is None or result.rung == rung), answers[0])
        if answer.prop is not None and answer.number is not None:
            found[i, j] = answer.prop.name, answer.number
    measured = np.full((y.size, x.size), np.nan)
    kinds = {(name, number.bound, number.relation) for name, number in found.values()}
    # Numbers of several properties, or with bounds of their own, compare by how far they are beyond their bounds.
    quantity, bound, relation = kinds.pop() if len(kinds) == 1 else ("measured over its bound", 1.0, "<=")
    for cell, (name, number) in found.items():
        measured[cell] = number.value if name == quantity else number.excess
    sign = 1.0 if relation == "<=" else -1.0
    return Map(
        title=f"{entry.title} ({claim})",
        xlabel=xname,
        ylabel=yname or "all",
        quantity=quantity,
        x=x,
        y=y,
        violation=sign * measured,
        threshold=sign * bound,
        xscale=_scale(x),
        yscale=_scale(y),
        scale="linear",
    )


def _scale(axis: Floats) -> Literal["log", "linear"]:
    """Logarithmic where values are positive and spread over more than a factor ten."""
    return "log" if axis[0] > 0 and axis[-1] > 10 * axis[0] else "linear"
