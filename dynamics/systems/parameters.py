"""Parameters of a system by which trajectories are differentiated: their checks, and systems with other values."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.dynamics.systems.base import System
from snapdyn.errors import InputError, finite_array, shown

# Rows of a direction in P sum to 0 within this share of their absolute values.
ROW_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Direction:
    """A parameter: one by name, or a change of P or of the initial logits along an array.

    Attributes
    ----------
    kind : str
        "P", "z_initial", or the name of a parameter of the system.
    values : array or None
        Change of P (S, M) or of the initial logits (Q, M) per unit of the parameter; None for a parameter by name.
    """

    kind: str
    values: Floats | None = None


def checked_directions(system: System, wrt: Any) -> list[Direction]:
    """Return the parameters `wrt` of `sensitivity` after checking them.

    Parameters
    ----------
    system : System
    wrt : str, or iterable of str and of pairs (str, array)

    Returns
    -------
    list of Direction

    Raises
    ------
    InputError
        An unknown parameter, one that is no real number, a name twice, or a direction of another shape.
    """
    entries = [wrt] if isinstance(wrt, str) else list(wrt) if isinstance(wrt, Iterable) else []
    if not entries:
        raise InputError(f"expected wrt with at least one parameter, received {shown(wrt)}; write ('eta_Y', 'eta_Z')")
    found = [_checked_direction(system, entry) for entry in entries]
    names = [direction.kind for direction in found if direction.values is None]
    if len(set(names)) < len(names):
        raise InputError(f"expected each parameter of wrt once, received {shown(names)}; remove the repetition")
    return found


def _checked_direction(system: System, entry: Any) -> Direction:
    if isinstance(entry, str):
        value = system.parameters.get(entry)
        if isinstance(value, bool) or not isinstance(value, (float, np.floating)):
            known = [name for name, each in system.parameters.items() if isinstance(each, float)]
            raise InputError(
                f"expected wrt to name a real parameter of {system.name} ({', '.join(known) or 'it has none'}), or a "
                f"pair ('P', array) or ('z_initial', array), received {shown(entry)}; correct the name"
            )
        return Direction(entry)
    pair = tuple(entry) if isinstance(entry, (tuple, list)) and len(entry) == 2 else (None, None)
    if pair[0] not in ("P", "z_initial"):
        raise InputError(
            f"expected each entry of wrt as a name or a pair ('P', array) or ('z_initial', array), received "
            f"{shown(entry)}; write the name in quotes"
        )
    classes = system.classes
    if classes is None:
        raise InputError(f"expected a system with sequence classes for wrt {pair[0]!r}, received {system.name}")
    values = finite_array(f"the direction of {pair[0]}", pair[1])
    if pair[0] == "z_initial":
        return Direction("z_initial", classes.check_z(values))
    return Direction("P", _checked_change_of_P(classes, values))


def _checked_change_of_P(classes: SequenceClasses, change: Floats) -> Floats:
    if change.shape != classes.P.shape:
        raise InputError(
            f"expected a direction of P of shape (S, M) = {classes.P.shape}, received shape {change.shape}; give one "
            "row per class"
        )
    outside = change.copy()
    outside[classes.class_of_entry, classes.P.indices] = 0.0
    if outside.any():
        n, l = np.argwhere(outside)[0]
        raise InputError(
            f"expected a direction of P that is 0 where P is 0, received {change[n, l]:g} for class {n}, token {l}; "
            "the dynamics are not differentiable there"
        )
    sums = np.abs(change.sum(axis=1))
    if (sums > ROW_SUM_TOLERANCE * np.abs(change).sum(axis=1)).any():
        n = int(sums.argmax())
        raise InputError(
            f"expected a direction of P whose rows sum to 0, received a row of class {n} with sum "
            f"{change[n].sum():g}; take away from one token what another one gains"
        )
    return change


def with_parameter(system: System, name: str, value: float) -> System:
    """Return the system with another value of one parameter.

    A constructor with an argument of that name builds it anew; else a copy gets other `parameters`.

    Parameters
    ----------
    system : System
    name : str
        A key of `system.parameters`.
    value : float

    Returns
    -------
    System

    Raises
    ------
    InputError
        The constructor has an argument that is neither in `parameters` nor an attribute of its name.
    """
    signature = inspect.signature(type(system))
    if name not in signature.parameters:
        changed = copy.copy(system)
        changed.parameters = {**system.parameters, name: value}
        return changed
    arguments: dict[str, Any] = {}
    for argument, declared in signature.parameters.items():
        if argument in system.parameters:
            arguments[argument] = system.parameters[argument]
        elif hasattr(system, argument):
            arguments[argument] = getattr(system, argument)
        elif declared.default is inspect.Parameter.empty:
            raise InputError(
                f"expected {system.name} to keep its argument {argument} in parameters or as an attribute, received "
                "neither; store it in the constructor"
            )
    arguments[name] = value
    return type(system)(**arguments)
