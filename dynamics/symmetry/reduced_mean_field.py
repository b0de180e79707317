"""The mean field on representatives: a system of one value per colour that looks like the full one."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.symmetry.colouring import Colouring, mixed
from snapdyn.dynamics.symmetry.quotient import quotient
from snapdyn.dynamics.symmetry.quotient_system import QuotientSystem, RowSums
from snapdyn.dynamics.systems.mean_field import MeanField


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
            ("row sums", self.full.residual, self.full.size),  # with lumped tokens or without
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
    tokens_of_colour = np.bincount(c.entry, p.multiplicity, minlength=c.offset.size)
    number = np.concatenate([np.bincount(kind, tokens), tokens_of_colour[colours]])
    y = scipy.sparse.csr_array(
        (np.tile(columns, number.size), values.ravel(), np.arange(number.size + 1) * L.num_columns),
        shape=(number.size, size),
    )
    z = scipy.sparse.coo_array((L.slot_multiplicity, (L.slot_query, c.slot)), shape=(int(L.slot_query.max()) + 1, size))
    return RowSums(z.tocsr(), y, number)
