"""Which systems are integrated on one value of all that stay equal, and when that is worth it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from snapdyn.dynamics.memory import free_memory, require_memory
from snapdyn.dynamics.symmetry.colouring import balanced_colouring, has_equivalent_classes
from snapdyn.dynamics.symmetry.dependence import Colours, Dependence, coarsest_colouring, has_many_equal
from snapdyn.dynamics.symmetry.finite_length import ReducedFiniteLength, finite_length_dependence
from snapdyn.dynamics.symmetry.frozen_decoder import ReducedFrozenDecoder, frozen_decoder_dependence
from snapdyn.dynamics.symmetry.modified_decoder import (
    ReducedModifiedDecoder,
    modified_decoder_dependence,
    share_of_work,
)
from snapdyn.dynamics.symmetry.reduced_mean_field import ReducedMeanField
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder

# "auto" looks for symmetries in systems of at least this many state values: below, a run takes about as long as the
# search. It keeps a reduction to at most half of the values.
LEAST_SIZE, LARGEST_SHARE = 1000, 0.5
BYTES_PER_PAIR = 160  # of the search, per pair of an output and a class, row or entry; measured
BYTES_PER_TERM = 160  # of the search for the other systems, per term of their longest list; measured


class _Search(NamedTuple):
    """The search for one kind of system.

    Attributes
    ----------
    pairs : callable
        Length of the longest list of terms of the sums of its rate.
    dependence : callable
        Parts and sums of its rate.
    build : callable
        The system on representatives, from the system and its colours.
    work : callable or None
        Where a smaller state may cost more: the share of the work of one evaluation that remains.
    """

    pairs: Callable[[Any], int]
    dependence: Callable[[Any], Dependence]
    build: Callable[[Any, Colours], System]
    work: Callable[[Any, Colours], float] | None = None


_SEARCHES: dict[type[System], _Search] = {
    FrozenDecoder: _Search(
        lambda system: (1 if system.modified else system.classes.P.nnz) * system.columns.size,
        frozen_decoder_dependence,
        ReducedFrozenDecoder,
    ),
    ModifiedDecoder: _Search(
        lambda system: system.layout.entry_row.size * system.classes.num_classes,
        modified_decoder_dependence,
        ReducedModifiedDecoder,
        share_of_work,
    ),
    FiniteLengthMeanField: _Search(
        lambda system: system.layout.entry_row.size * system.layout.num_columns,
        finite_length_dependence,
        ReducedFiniteLength,
    ),
}
REDUCIBLE: tuple[type[System], ...] = (MeanField, *_SEARCHES)


def is_reducible(system: System) -> bool:
    """Whether symmetries of this kind of system are looked for. Subclasses may change the right-hand side."""
    return type(system) in REDUCIBLE


def is_large(system: System) -> bool:
    """Whether a run takes longer than a search for symmetries; the work of a ModifiedDecoder is the inverse of G."""
    return max(system.size, system.classes.num_classes**2 if isinstance(system, ModifiedDecoder) else 0) >= LEAST_SIZE


def reduced(system: System, at_most: float | None = None) -> System | None:
    """The system on representatives.

    Parameters
    ----------
    system : System
    at_most : float, optional
        Largest share of the state values that may remain. The search then begins only where half of the classes have an
        equivalent one, and where it fits into the free memory.

    Returns
    -------
    System or None
        None for a system that is not of one of `REDUCIBLE`, without symmetries, or with too few of them. The answer is
        kept with the system for each `at_most`, so that a second run does not look again.
    """
    if not is_reducible(system):
        return None
    most = system.size - 1.0 if at_most is None else at_most * system.size
    if most not in system.reductions:
        system.reductions[most] = (
            _reduced(system, at_most, most) if type(system) in _SEARCHES else _reduced_mean_field(system, at_most, most)
        )
    return system.reductions[most]


def _reduced_mean_field(system: Any, at_most: float | None, most: float) -> ReducedMeanField | None:
    layout, start = system.layout, system.initial_state()[: system.layout.num_slots]
    need = BYTES_PER_PAIR * layout.num_columns * max(layout.prior.size, layout.num_rows, layout.entry_row.size)
    if at_most is None:
        require_memory("the search for symmetries", need, "reduce=False")
    likely = at_most is None or (need < free_memory() and has_equivalent_classes(layout, start))
    colouring = balanced_colouring(layout, start, most) if likely else None
    return None if colouring is None else ReducedMeanField(system, colouring)


def _reduced(system: System, at_most: float | None, most: float) -> System | None:
    search = _SEARCHES[type(system)]
    need = BYTES_PER_TERM * search.pairs(system)
    if at_most is None:
        require_memory("the search for symmetries", need, "reduce=False")
    elif need > free_memory():
        return None
    dependence = search.dependence(system)
    if at_most is not None and not has_many_equal(dependence, "class"):
        return None
    colours = coarsest_colouring(dependence, most)
    if colours is None or (at_most is not None and search.work and search.work(system, colours) > at_most):
        return None
    return search.build(system, colours)
