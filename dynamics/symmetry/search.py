"""The search for symmetries of systems whose sums are given as lists (`dependence`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from snapdyn.dynamics.memory import free_memory, require_memory
from snapdyn.dynamics.symmetry.dependence import Colours, Dependence, coarsest_colouring, has_many_equal
from snapdyn.dynamics.symmetry.finite_length import ReducedFiniteLength, finite_length_dependence
from snapdyn.dynamics.symmetry.frozen_decoder import ReducedFrozenDecoder, frozen_decoder_dependence
from snapdyn.dynamics.symmetry.modified_decoder import (
    ReducedModifiedDecoder,
    modified_decoder_dependence,
    share_of_work,
)
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.layout import start_pattern
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder

BYTES_PER_TERM = 200  # of the search, per term of the longest list; measured


class Search(NamedTuple):
    """The search for one kind of system.

    Attributes
    ----------
    terms : callable
        Length of the longest list of terms of the sums of its rate.
    dependence : callable
        Parts and sums of its rate.
    build : callable
        The system on representatives, from the system and its colours.
    work : callable or None
        Where a smaller state may cost more: the share of the work of one evaluation that remains.
    """

    terms: Callable[[Any], int]
    dependence: Callable[[Any], Dependence]
    build: Callable[[Any, Colours], ReducedSystem]
    work: Callable[[Any, Colours], float] | None = None


SEARCHES: dict[type[System], Search] = {
    FrozenDecoder: Search(
        lambda system: (system.classes.num_classes if system.modified else system.classes.P.nnz) * system.columns.size,
        frozen_decoder_dependence,
        ReducedFrozenDecoder,
    ),
    ModifiedDecoder: Search(
        lambda system: system.layout.entry_row.size * system.classes.num_classes,
        modified_decoder_dependence,
        ReducedModifiedDecoder,
        share_of_work,
    ),
    FiniteLengthMeanField: Search(
        lambda system: system.layout.entry_row.size * system.layout.num_columns,
        finite_length_dependence,
        ReducedFiniteLength,
    ),
}


def reduced_by_lists(system: Any, at_most: float | None = None) -> ReducedSystem | None:
    """The system on representatives.

    Parameters
    ----------
    system : System
        Of a type in `SEARCHES`.
    at_most : float, optional
        Largest share of the state values that may remain. The search then begins only where half of the classes have an
        equivalent one, and where it fits into the free memory.

    Returns
    -------
    ReducedSystem or None
        None without symmetries, or with too few of them.
    """
    search = SEARCHES[type(system)]
    need = BYTES_PER_TERM * search.terms(system)
    if at_most is None:
        require_memory("the search for symmetries", need, "reduce=False")
    elif need > free_memory():
        return None

    def colours_of_system() -> Colours | None:
        dependence = search.dependence(system)
        if at_most is not None and not has_many_equal(dependence, "class"):
            return None
        return coarsest_colouring(dependence, system.size - 1.0 if at_most is None else at_most * system.size)

    # Rates of learning and 1/T are factors of whole sums, so the colours do not depend on them.
    factors = ("eta_Y", "eta_Z", "seq_len")
    other = sorted((name, value) for name, value in system.parameters.items() if name not in factors)
    kind = ("colours", type(system).__name__, system.size, tuple(other), at_most)
    colours = system.classes.kept.take(kind, start_pattern(system.z_initial), colours_of_system)
    if colours is None or (at_most is not None and search.work and search.work(system, colours) > at_most):
        return None
    return search.build(system, colours)


def work_size(system: System) -> int:
    """Size of what an evaluation works on: the state, or the inverse of G where it takes one."""
    return max(system.size, system.classes.num_classes**2 if isinstance(system, ModifiedDecoder) else 0)
