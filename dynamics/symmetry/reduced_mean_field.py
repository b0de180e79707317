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
        self.classes, self.z_initial, self.parameters = full.classes, full.z_initial, full.parameters
        lists = quotient(full.layout, colouring, full.initial_state()[: full.layout.num_slots])
        super().__init__(lists, _row_sums(full, colouring, lists.num_slots, lists.size), full.eta_Y, full.eta_Z)

    @property
    def name(self) -> str:
        return self.full.name

    def full_state(self, state: Floats) -> Floats:
        num_slots = self.quotient.num_slots
        logits = state[..., :num_slots].take(self.colouring.slot, axis=-1)
        values = state[..., num_slots:].take(self.colouring.value.ravel(), axis=-1)
        return np.concatenate([logits, values], axis=-1)

    @cached_property
    def _slot_of_z(self) -> Ints:
        return np.asarray(self.colouring.slot[self.full.layout.slot_of_z])

    def z_support(self, state: Floats) -> Floats:
        return state.take(self._slot_of_z, axis=-1)

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
    L = full.layout
    columns = np.ones(L.num_columns)
    columns[-1] = L.last_column_multiplicity
    tokens = np.ones(L.num_rows)
    tokens[L.entry_row] = L.multiplicity
    # Rows with equal colours and numbers of outputs have equal sums.
    rows, kind = np.unique(
        mixed(colouring.value.astype(np.uint64)).sum(axis=1), return_index=True, return_inverse=True
    )[1:]
    values = colouring.value[rows] + num_slots
    number = np.repeat(np.arange(rows.size), L.num_columns)
    z = scipy.sparse.coo_array(
        (L.slot_multiplicity, (L.slot_query, colouring.slot)), shape=(int(L.slot_query.max()) + 1, size)
    )
    y = scipy.sparse.coo_array((np.tile(columns, rows.size), (number, values.ravel())), shape=(rows.size, size))
    return RowSums(z.tocsr(), y.tocsr(), np.bincount(kind, tokens).astype(np.float64))
