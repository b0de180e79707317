"""The system on representatives: what symmetric classes carry, or what a search finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.symmetry.frozen_decoder import reduced_frozen_decoder
from snapdyn.dynamics.symmetry.modified_decoder import reduced_modified_decoder
from snapdyn.dynamics.symmetry.reduced_mean_field import ReducedFiniteLength, ReducedMeanField
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.symmetry.search import MOVING, colouring_of
from snapdyn.dynamics.symmetry.symmetric_mean_field import SymmetricMeanField
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder

# "auto" looks for symmetries in systems of at least this many state values: below, a run takes about as long as the
# search. It keeps a reduction to at most half of the values.
LEAST_SIZE, LARGEST_SHARE = 1000, 0.5
CARRIED = 0.0  # the key of the quotient that symmetric classes carry

Reduced = ReducedMeanField | SymmetricMeanField | ReducedSystem


def _reduced_mean_field(system: MeanField, at_most: float | None) -> ReducedMeanField | None:
    most = system.size - 1.0 if at_most is None else at_most * system.size
    key, start = (MOVING, system.residual), system.initial_logits
    colouring = colouring_of(system.classes, key, system.layout, start, system.start_pattern, at_most, most)
    if colouring is None:
        return None
    return (ReducedFiniteLength if isinstance(system, FiniteLengthMeanField) else ReducedMeanField)(system, colouring)


# For each kind of system: the system on representatives, from the system and the largest share of values that may
# remain. Subclasses are not included: they may change the right-hand side.
SEARCHES: dict[type[System], Callable[[Any, float | None], Reduced | None]] = {
    MeanField: _reduced_mean_field,
    FrozenDecoder: reduced_frozen_decoder,
    ModifiedDecoder: reduced_modified_decoder,
    FiniteLengthMeanField: _reduced_mean_field,
}
REDUCIBLE = tuple(SEARCHES)


def is_reducible(system: System) -> bool:
    """Whether symmetries of this kind of system are looked for."""
    return type(system) in SEARCHES


def is_large(system: System) -> bool:
    """Whether a run takes longer than a search for symmetries."""
    # An evaluation of Eq. (10) works on the inverse of G.
    inverse = system.classes.num_classes**2 if isinstance(system, ModifiedDecoder) else 0
    return max(system.size, inverse) >= LEAST_SIZE


def reduced(system: System, at_most: float | None = None) -> Reduced | None:
    """The system on representatives: what symmetric classes carry, or what a search finds.

    Parameters
    ----------
    system : System
    at_most : float, optional
        Largest share of the state values that may remain. The search then begins only where half of the classes have an
        equivalent one, and where it fits into the free memory.

    Returns
    -------
    ReducedMeanField, SymmetricMeanField, ReducedSystem or None
        None for a system of another type than `REDUCIBLE`, without symmetries, or with too few of them. The answer is
        kept with the system for each `at_most`, so that a second run does not look again.
    """
    if not is_reducible(system):
        return None
    most = system.size - 1.0 if at_most is None else at_most * system.size
    if isinstance(system, MeanField) and system.carries_quotient and isinstance(system.classes, SymmetricClasses):
        if CARRIED not in system.reductions:
            system.reductions[CARRIED] = SymmetricMeanField(system, system.classes)
        carried: SymmetricMeanField = system.reductions[CARRIED]
        return carried if carried.size <= most else None
    if most not in system.reductions:
        small = SEARCHES[type(system)](system, at_most)
        system.reductions[most] = small if small is not None and small.size <= most else None
    found: Reduced | None = system.reductions[most]
    return found
