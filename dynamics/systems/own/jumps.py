"""Times at which a rate stated in sympy jumps or bends, where they follow from time and parameters alone.

The steps of a run stop there and begin anew, so that no step passes over a jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.dynamics.classes.table import Floats

MOST_JUMPS = 100_000  # a stop costs a first step, about 0.1 ms: ten seconds
POINTS, POINTS_BETWEEN = 1000, 8  # at which a condition that is not linear in t is evaluated: in a run, between stops
BESIDE = 2e-14  # relative distance of two more points, on both sides of each stop


class Switch(NamedTuple):
    """An expression g of time and parameters at whose zeros the rate jumps or bends.

    Attributes
    ----------
    at_whole_numbers : bool
        The rate jumps wherever g is a whole number, as floor(g) does, and not only at zeros.
    linear : bool
        Whether g is a t + b.
    function : callable
        (*parameters) -> [a, b] for a linear g, else (t, *parameters) -> g.
    """

    at_whole_numbers: bool
    linear: bool
    function: Any


def jump_times(switches: Sequence[Switch], parameters: Sequence[float], t_end: float) -> Floats:
    """Increasing times in [0, t_end] at which a rate with these switches may jump.

    Those of a linear g are exact. Other zeros are found between the points of a grid, and at local extrema.

    Raises
    ------
    InputError
        More than 100,000 times.
    """
    found = np.zeros(0)
    for switch in switches:
        new = _zeros_of_line(switch, parameters, t_end) if switch.linear else _zeros(switch, parameters, found, t_end)
        found = np.union1d(found, [t for t in new if 0.0 <= t <= t_end])
        _require_few(found.size)
    return found


def _require_few(number: float) -> None:
    if number > MOST_JUMPS:
        raise InputError(
            f"expected a rate that jumps at most {MOST_JUMPS} times in a run, received {number:.6g} jumps; give an "
            "earlier last time, or state the rate by System.from_function"
        )


def _zeros_of_line(switch: Switch, parameters: Sequence[float], t_end: float) -> Sequence[float] | Floats:
    try:
        a, b = switch.function(*parameters)
    except (ArithmeticError, ValueError):  # of parameters for which g is not a number
        return []
    if a == 0.0 or not math.isfinite(a + b):
        return []
    if not switch.at_whole_numbers:
        return [-b / a]
    first, last = sorted((b, a * t_end + b))
    _require_few(last - first)
    return (np.arange(math.ceil(first), math.floor(last) + 1) - b) / a


def _zeros(switch: Switch, parameters: Sequence[float], known: Floats, t_end: float) -> list[float]:
    """Zeros, or crossings of whole numbers, of a function that is smooth between the times `known`."""

    def g(t: float) -> float:
        try:
            return float(switch.function(t, *parameters))
        except (ArithmeticError, ValueError):
            return math.nan

    ends = np.concatenate([[0.0], known, [t_end]])
    grid = [np.linspace(0.0, t_end, POINTS), np.geomspace(1e-12 * t_end, t_end, POINTS)]
    grid += [ends * (1 - BESIDE), ends * (1 + BESIDE)]
    grid += [np.linspace(ends[:-1], ends[1:], POINTS_BETWEEN, endpoint=False).ravel()]
    at = np.unique(np.concatenate(grid))
    at = at[at <= t_end]
    values = np.array([g(t) for t in at])
    zeros: list[float] = []
    for i in range(1, at.size):
        one, other = sorted((values[i - 1], values[i]))
        if not math.isfinite(other - one):
            continue
        if switch.at_whole_numbers:
            _require_few(len(zeros) + other - one)
            levels = range(math.ceil(one), math.floor(other) + 1)
        else:
            levels = range(1) if one <= 0.0 <= other else range(0)
        zeros += [_crossing(g, level, at[i - 1], at[i]) for level in levels]
        if i > 1 and not switch.at_whole_numbers and abs(values[i - 1]) < min(abs(values[i - 2]), abs(values[i])):
            zeros += _zeros_at_extremum(g, at[i - 2], at[i])
    return zeros


def _crossing(g: Callable[[float], float], level: float, left: float, right: float) -> float:
    from scipy.optimize import brentq

    if g(left) == level or g(right) == level:
        return left if g(left) == level else right
    return float(brentq(lambda t: g(t) - level, left, right, xtol=1e-300, rtol=1e-15))


def _zeros_at_extremum(g: Callable[[float], float], left: float, right: float) -> list[float]:
    """Two zeros between the points of the grid, on both sides of an extremum."""
    from scipy.optimize import minimize_scalar

    side = math.copysign(1.0, g(left))
    extremum = float(minimize_scalar(lambda t: side * g(t), bounds=(left, right), method="bounded").x)
    if not side * g(extremum) < 0.0 < side * g(right):
        return []
    return [_crossing(g, 0.0, left, extremum), _crossing(g, 0.0, extremum, right)]
