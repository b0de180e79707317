"""Reduced systems, with one value in place of all that stay equal: for declared kinds, or kinds found in the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.core.memory import affords
from snapdyn.dynamics.classes.kinds import Kinds, recognised
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder

# "auto" looks for kinds in systems of at least this many state values: below, a run takes about as long as the search.
# It keeps a reduction to at most half of the values and of the classes.
LEAST_SIZE, LARGEST_SHARE = 1000, 0.5


def is_reducible(system: System) -> bool:
    """Whether the class of a system declares itself `reducible`; a subclass may change the right-hand side."""
    return bool(vars(type(system)).get("reducible"))


def is_large(system: System) -> bool:
    """Whether a run takes longer than a search for kinds."""
    # An evaluation of Eq. (10) works on the inverse of G.
    inverse = system.classes.num_classes**2 if isinstance(system, ModifiedDecoder) else 0
    return max(system.size, inverse) >= LEAST_SIZE


def reduced(system: Any, asked: bool = True) -> System | None:
    """The system with one value in place of all values that stay equal.

    Parameters
    ----------
    system : System
    asked : bool
        Whether the user asked for it. Otherwise only a system that `is_large` is reduced, to at most half of its values
        and of its classes (for a ModifiedDecoder, to at most half of the work for the inverse of G).

    Returns
    -------
    System or None
        A system of the same observables, whose `on_kinds` made it.
        None for a system whose class is not `reducible`, and for one with no symmetries or too few. The result is
        kept with the system, so that a second run does not search again.

    Raises
    ------
    InputError
        With `asked`: the arrays of the kinds do not fit into memory.
    """
    if not is_reducible(system) or not (asked or is_large(system)):
        return None
    if isinstance(system, FrozenDecoder) and system.modified:
        return None
    if asked not in system.reductions:
        system.reductions[asked] = _found(system, asked)
    kept: System | None = system.reductions[asked]
    return kept


def _found(system: Any, asked: bool) -> System | None:
    classes, residual = system.classes, system.residual
    if residual and np.isin(classes.queries, classes.P.indices).any():
        return None
    most, S = system.size - 1.0 if asked else LARGEST_SHARE * system.size, classes.num_classes
    most_kinds = S - 1.0 if asked else S * LARGEST_SHARE ** (1 / 3 if isinstance(system, ModifiedDecoder) else 1)
    kinds: Kinds | None
    if isinstance(classes, SymmetricClasses) and not system.start_key:
        kinds = classes.exchangeable
    else:
        kinds = classes.kept.get_or_make(
            ("kinds", most_kinds),
            system.start_key,
            lambda: recognised(classes, system.z_initial, most_kinds, asked),
        )
    if kinds is None or kinds.number.size > most_kinds:
        return None
    what = f"the values of {kinds.number.size} kinds of classes"
    if not affords(what, kinds.bytes_of_quotient(residual), "reduce=False", asked):
        return None
    small: System = system.on_kinds(kinds)
    return small if small.size <= most else None
