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
from snapdyn.dynamics.systems.quotient import bytes_of_quotient

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


def kinds_of(system: Any, most: float, asked: bool) -> Kinds | None:
    """Kinds of the classes for the start of a system, kept with the classes; None if there are more than `most`."""
    classes = system.classes
    if getattr(system, "residual", False) and np.isin(classes.queries, classes.P.indices).any():
        return None
    if isinstance(classes, SymmetricClasses) and not system.start_key:
        return classes.exchangeable if classes.exchangeable.number.size <= most else None
    found: Kinds | None = classes.kept.get_or_make(
        ("kinds", most), system.start_key, lambda: recognised(classes, system.z_initial, most, asked)
    )
    return found


def reduced(system: System, at_most: float | None = None) -> System | None:
    """The system with one value in place of all values that stay equal.

    Parameters
    ----------
    system : System
    at_most : float, optional
        Largest allowed ratio of the number of state values to that of the full system, and of the number of kinds to
        that of classes (for a ModifiedDecoder, of the work for the inverse of G). None: there must be fewer state
        values, and fewer kinds than classes.

    Returns
    -------
    System or None
        A system of the same observables, whose `on_kinds` made it.
        None for a system whose class is not `reducible`, and for one with no symmetries or too few. The result is
        kept with the system for each `at_most`, so that a second run does not search again.

    Raises
    ------
    InputError
        Without `at_most`: the arrays of the kinds do not fit into memory.
    """
    if not is_reducible(system) or (isinstance(system, FrozenDecoder) and system.modified):
        return None
    if at_most not in system.reductions:
        found = _found(system, at_most)
        most = system.size - 1.0 if at_most is None else at_most * system.size
        system.reductions[at_most] = found if found is not None and found.size <= most else None
    kept: System | None = system.reductions[at_most]
    return kept


def _found(system: Any, at_most: float | None) -> System | None:
    asked, S = at_most is None, system.classes.num_classes
    most = S - 1.0 if at_most is None else S * at_most
    if isinstance(system, ModifiedDecoder) and at_most is not None:
        most = S * at_most ** (1 / 3)
    kinds = kinds_of(system, most, asked)
    if kinds is None:
        return None
    what = f"the values of {kinds.number.size} kinds of classes"
    if not affords(what, bytes_of_quotient(kinds, getattr(system, "residual", False)), "reduce=False", asked):
        return None
    small: System = system.on_kinds(kinds)
    return small
