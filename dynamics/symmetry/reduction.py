"""The mean field on representatives: a system of one value per colour that looks like the full one."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.memory import fits, require_memory
from snapdyn.dynamics.symmetry.colouring import Colouring, balanced_colouring, has_equivalent_classes, mixed
from snapdyn.dynamics.symmetry.quotient import quotient
from snapdyn.dynamics.symmetry.quotient_system import QuotientSystem, RowSums
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.symmetry.search import SEARCHES, reduced_by_lists, work_size
from snapdyn.dynamics.symmetry.symmetric_mean_field import SymmetricMeanField
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import MeanField

# "auto" looks for symmetries in systems of at least this many state values: below, a run takes about as long as the
# search. It keeps a reduction to at most half of the values.
LEAST_SIZE, LARGEST_SHARE = 1000, 0.5
CARRIED = 0.0  # the key of the quotient that symmetric classes carry
BYTES_PER_PAIR = 160  # of the search, per pair of an output and a class, row or entry; measured


class ReducedMeanField(QuotientSystem):
    """The mean field of one value per colour; observables are those of the full system, lifted.

    Parameters
    ----------
    full : MeanField
    colouring : Colouring
        A balanced colouring of its state.
    """

    def __init__(self, full: MeanField, colouring: Colouring) -> None:
        self.full, self.colouring = full, colouring
        self.classes, self.parameters = full.classes, full.parameters
        lists = quotient(full.layout, colouring, full.initial_logits)
        super().__init__(lists, self._shared_row_sums, full.eta_Y, full.eta_Z)

    def _shared_row_sums(self) -> RowSums:
        return self.full.classes.kept.take(
            ("row sums", self.full.residual),
            self.full.start_pattern,
            lambda: _row_sums(self.full, self.colouring, self.quotient.num_slots, self.size),
        )

    @property
    def name(self) -> str:
        return self.full.name

    @property
    def z_initial(self) -> Floats:  # type: ignore[override]  # (Q, M) numbers, made when they are read
        return self.full.z_initial

    def full_state(self, state: Floats) -> Floats:
        num_slots = self.quotient.num_slots
        logits = state[..., :num_slots].take(self.colouring.slot, axis=-1)
        values = state[..., num_slots:].take(self.colouring.value.ravel(), axis=-1)
        return np.concatenate([logits, values], axis=-1)

    @cached_property
    def value_of_z(self) -> Ints:
        """State value of every logit in classes.z_coordinates, (nz,)."""
        return np.asarray(self.colouring.slot[self.full.layout.slot_of_z])

    def z_support(self, state: Floats) -> Floats:
        return state.take(self.value_of_z, axis=-1)

    def decoder(self, state: Floats) -> Floats:
        return state[..., self.quotient.num_slots :].take(self.colouring.value, axis=-1)

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.full.decoder_ids()

    def value_name(self, index: int) -> str:
        num_slots, L = self.quotient.num_slots, self.full.layout
        if index < num_slots:
            return self.full.value_name(int(np.flatnonzero(self.colouring.slot == index)[0]))
        first = int(np.flatnonzero(self.colouring.value.ravel() == index - num_slots)[0])
        return self.full.value_name(L.num_slots + first)


def _row_sums(full: MeanField, colouring: Colouring, num_slots: int, size: int) -> RowSums:
    L, c, p = full.layout, colouring, colouring.pairs
    columns = np.ones(L.num_columns)
    columns[-1] = L.last_column_multiplicity
    # Rows with equal colours and numbers of outputs have equal sums: shared rows, and those of one entry by its colour.
    tokens = np.ones(p.num_shared)
    is_shared = p.shared_row >= 0
    tokens[p.shared_row[is_shared]] = p.multiplicity[is_shared]
    rows, kind = np.unique(mixed(c.shared.astype(np.uint64)).sum(axis=1), return_index=True, return_inverse=True)[1:]
    colours, entries = np.unique(c.entry[~is_shared], return_index=True)
    entries = np.flatnonzero(~is_shared)[entries]
    classes = np.searchsorted(p.indptr, entries, side="right") - 1
    values = np.concatenate([c.shared[rows], c.offset[colours, None] + c.local[c.output[classes]]]) + num_slots
    number = np.concatenate([
        np.bincount(kind, tokens),
        np.bincount(c.entry, p.multiplicity, minlength=c.offset.size)[colours],
    ])  # fmt: skip
    y = scipy.sparse.csr_array(
        (np.tile(columns, number.size), values.ravel(), np.arange(number.size + 1) * L.num_columns),
        shape=(number.size, size),
    )
    z = scipy.sparse.coo_array((L.slot_multiplicity, (L.slot_query, c.slot)), shape=(int(L.slot_query.max()) + 1, size))
    return RowSums(z.tocsr(), y, number)


REDUCIBLE: tuple[type[System], ...] = (MeanField, *SEARCHES)


def is_reducible(system: System) -> bool:
    """Whether symmetries of this kind of system are looked for. Subclasses may change the right-hand side."""
    return type(system) in REDUCIBLE


def is_large(system: System) -> bool:
    """Whether a run takes longer than a search for symmetries."""
    return work_size(system) >= LEAST_SIZE


def reduced(
    system: System, at_most: float | None = None
) -> ReducedMeanField | SymmetricMeanField | ReducedSystem | None:
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
    most = system.size - 1.0 if at_most is None else at_most * system.size
    if type(system) in SEARCHES and most not in system.reductions:
        system.reductions[most] = reduced_by_lists(system, at_most)
    if type(system) is not MeanField:
        return system.reductions.get(most)
    if system.carries_quotient and isinstance(system.classes, SymmetricClasses):
        if CARRIED not in system.reductions:
            system.reductions[CARRIED] = SymmetricMeanField(system, system.classes)
        carried = system.reductions[CARRIED]
        return carried if carried.size <= most else None
    if most not in system.reductions:
        colouring = _colouring(system, at_most, most)
        system.reductions[most] = None if colouring is None else ReducedMeanField(system, colouring)
    return system.reductions[most]


def _colouring(system: MeanField, at_most: float | None, most: float) -> Colouring | None:
    """The colouring of at most `most` colours, found once for all systems of the same classes and pattern of starts."""
    layout, start = system.layout, system.initial_logits
    need = BYTES_PER_PAIR * layout.num_columns * max(layout.prior.size, layout.num_rows, layout.entry_row.size)
    if at_most is None:
        require_memory("the search for symmetries", need, "reduce=False")
    elif not fits(need):
        return None

    def search() -> Colouring | None:
        likely = at_most is None or has_equivalent_classes(layout, start)
        return balanced_colouring(layout, start, most) if likely else None

    return system.classes.kept.take(("colouring", system.residual, most), system.start_pattern, search)
