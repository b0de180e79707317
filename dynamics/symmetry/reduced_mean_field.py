"""The mean field on representatives, of long and of finite sequences: one value per colour, looks like the full one."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import first_members
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.finite_length_quotient import finite_length_quotient
from snapdyn.dynamics.kernels.quotient_lists import quotient_lists
from snapdyn.dynamics.memory import scratch
from snapdyn.dynamics.symmetry.colouring import Colouring, mixed
from snapdyn.dynamics.symmetry.quotient import Quotient, RowSums
from snapdyn.dynamics.symmetry.quotient_system import COMPILED, QuotientSystem
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.layout import Layout
from snapdyn.dynamics.systems.mean_field import MeanField

ROOM = 10_000  # terms for which there is room at first


class ReducedMeanField(QuotientSystem):
    """The mean field of one value per colour; observables are those of the full system, lifted.

    Parameters
    ----------
    full : MeanField
    colouring : Colouring
        A balanced colouring of its state.
    """

    compiled = COMPILED

    def __init__(self, full: MeanField, colouring: Colouring) -> None:
        self.full, self.colouring = full, colouring
        self.classes, self.parameters = full.classes, full.parameters
        lists = quotient(full.layout, colouring, full.initial_logits)
        super().__init__(lists, self._shared_row_sums, full.eta_Y, full.eta_Z)

    def _shared_row_sums(self) -> RowSums:
        return self.full.classes.kept.get_or_make(
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


class ReducedFiniteLength(ReducedMeanField):
    """The mean field of finite sequences, of one value per colour.

    The rate takes the sums of the mean field and those of its second order (`kernels/finite_length`): over the outputs,
    of functions of a token's attention, its values of Y and the errors of the class; and over the tokens, of the same
    functions. A balanced colouring of the mean field serves it: there entries of one colour meet the same pairs of
    colours of an output and of its value of Y, and outputs of one colour those of an entry and of its value of Y.

    Parameters
    ----------
    full : FiniteLengthMeanField
    colouring : Colouring
        A balanced colouring of its state, for the sums of the mean field.
    """

    full: FiniteLengthMeanField

    compiled = integrator_of(finite_length_quotient, finite_length_quotient)

    def kernel_arguments(self) -> tuple[Any, ...]:
        lengths = self.quotient.ranges[:, 1::2] - self.quotient.ranges[:, ::2]
        width, most_terms = int(lengths[:, :2].max()), int(lengths[:, 2].max())
        *lists, rates = self._constants
        rates = np.append(rates, self.full.inverse_length)
        return *lists, rates, scratch(16, width), scratch(2, most_terms)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(finite_length_quotient(state, out, *self._arguments))

    def extra(self, state: Floats) -> dict[str, Floats]:
        noise = self.full.count_noise(self.z_support(state))
        self.full.warn_outside(noise, [self.loss(each) for each in state.reshape(-1, self.size)])
        return {"count_noise": noise}


def quotient(layout: Layout, colouring: Colouring, start: Floats) -> Quotient:
    """Build the lists of a balanced colouring; `start` (num_slots,) holds the logits at t = 0."""
    L, c, p = layout, colouring, colouring.pairs
    of_slot, of_shared = np.bincount(c.slot), np.bincount(c.shared.ravel())
    num_slots, size = of_slot.size, c.size
    number = np.zeros(size)
    number[:num_slots] = of_slot
    number[num_slots : num_slots + of_shared.size] = of_shared
    class_number = np.bincount(c.sequence_class)
    num_classes = class_number.size
    representatives, first_slot = np.empty(num_classes, np.int64), np.empty(num_slots, np.int64)
    first_members(c.sequence_class, representatives)
    first_members(c.slot, first_slot)
    state = np.zeros(size)
    state[:num_slots] = start[first_slot]

    most = int((p.indptr[1:] - p.indptr[:-1]).max())
    pairs_of_class = most * L.num_columns
    scratch = (
        np.empty(pairs_of_class, np.int64), np.empty(c.offset.size, np.int64), np.empty(most, np.int64),
        np.empty((4, max(most, L.num_columns))), np.empty((4, pairs_of_class), np.int64), np.empty((2, pairs_of_class)),
    )  # fmt: skip
    num_entries, num_outputs = c.offset.size, c.local.size
    ranges, classes = np.empty((num_classes, 6), np.int64), np.empty((num_classes, 3), np.int64)
    share, entry_slot, entries = np.empty(num_classes), np.empty(num_entries, np.int64), np.empty((3, num_entries))
    output_number = np.empty(num_outputs)
    # Mostly one term for an entry colour and an output colour of the same class; the first round may only count.
    sizes = np.array([0, 0, min(num_entries * num_outputs, ROOM)])
    while True:
        term_index, terms = np.empty((3, sizes[2]), np.int64), np.empty((3, sizes[2]))
        quotient_lists(
            representatives, class_number, p.indptr, L.prior, L.query_row, p.query_entry, L.column, p.log_p,
            p.multiplicity, p.shared_row, p.slot, L.last_column_multiplicity, num_slots, c.slot, c.shared, c.offset,
            c.local, c.entry, c.output, np.bincount(c.entry), number, *scratch, sizes, ranges, classes, share,
            entry_slot, entries, output_number, term_index, terms,
        )  # fmt: skip
        if sizes[2] <= terms.shape[1]:
            break
    term_index, terms = term_index[:, : sizes[2]], terms[:, : sizes[2]]
    return Quotient(
        ranges, classes, share, entry_slot, entries, output_number, term_index, terms, state, number, num_slots
    )


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
