"""Attention driven by the modified decoder, Eq. (10), on representatives.

The rate needs columns of G^{-1}, G = F^T F. A balanced colouring of the mean field (`colouring`) gives them: matrices
(S, S) that are constant on the colours of the pairs (class k, next token of n) form a linear space. G maps it to
itself, since (G x)_kn sums f_kl Y_ln over the tokens l and Y_ln sums f_kl x_kn over the classes k, which are the sums
of the mean field. The space contains the unit matrix, whose pairs have colours of their own, so it contains G^{-1}. In
the same way G maps vectors that are constant on the colours of classes to such vectors, so sum_j G^{-1}_nj h_j is one.
Y_ln of x = G^{-1} is the pull on token l of class n; the colour of their entry determines it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import first_members, group
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.modified_decoder_lists import modified_decoder_lists
from snapdyn.dynamics.kernels.modified_decoder_quotient import modified_decoder_quotient
from snapdyn.dynamics.memory import scratch
from snapdyn.dynamics.symmetry.colouring import Colouring
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.symmetry.search import MOVING, colouring_of
from snapdyn.dynamics.systems.layout import start_pattern
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder


def reduced_modified_decoder(system: ModifiedDecoder, at_most: float | None) -> ReducedModifiedDecoder | None:
    """The system on representatives, or None; `at_most` as in `search.colouring_of`, of the values and of the work."""
    layout = system.layout
    start, pattern = system.initial_state()[: layout.num_slots], start_pattern(system.z_initial)
    # Without symmetries of (z, Y), classes of equal priors still have one value of h.
    most = None if at_most is None else at_most * layout.size
    colouring = colouring_of(system.classes, (MOVING, False), layout, start, pattern, at_most, most)
    if colouring is None or (at_most is not None and _share_of_work(system, colouring) > at_most):
        return None
    return ReducedModifiedDecoder(system, colouring)


def _share_of_work(system: ModifiedDecoder, colouring: Colouring) -> float:
    """Work for the columns of G^{-1}, r^3/6 for r cells and one class of each colour, over S^3/2, that of all."""
    S = system.classes.num_classes
    x = colouring.output[:, system.layout.column]
    representatives = np.unique(colouring.sequence_class, return_index=True)[1]
    return sum((np.unique(x[:, n]).size / S) ** 3 / 6.0 for n in representatives) / 0.5


class ModifiedDecoderLists(NamedTuple):
    """Lists of `kernels/modified_decoder_quotient`, class by class."""

    ranges: Ints  # (C, 6): first and last + 1 of the entries, of the cells, of the terms of M
    value: Ints  # (C,) state value of V h
    entry_slot: Ints  # (entries,) state value of the logit
    entries: Floats  # (3, entries): ln P; number of tokens; p_n times the number of classes and entries per logit
    cell_class: Ints  # (cells,) number of the colour of its classes
    cell_root: Floats  # (cells,) root of the number of its classes
    gram_index: Ints  # (4, terms of M): two cells within the class, two entries
    gram_weight: Floats  # (terms of M,): number of tokens, times the roots that make M symmetric
    pull_range: Ints  # (entries, 2) first and last + 1 of its terms
    pull_index: Ints  # (2, terms): cell, entry
    pull_number: Floats  # (terms,) classes with the same token


@np.errstate(over="ignore")  # without the JIT: hashes are modulo 2**64 on purpose
def modified_decoder_lists_of(system: ModifiedDecoder, colouring: Colouring, values: Ints) -> ModifiedDecoderLists:
    """The lists; `values` (S,) are the colours of h."""
    L, S = system.layout, system.classes.num_classes
    indptr, slot, classes = L.indptr, colouring.slot, colouring.sequence_class
    slot_number, class_number = np.bincount(slot), np.bincount(classes)
    representatives = np.empty(class_number.size, np.int64)
    first_members(classes, representatives)
    row_begin, by_row = np.empty(L.num_rows + 1, np.int64), np.empty(L.entry_row.size, np.int64)
    group(L.entry_row, row_begin, by_row)
    num_entries = colouring.offset.size
    ranges, pull_range = np.empty((representatives.size, 6), np.int64), np.empty((num_entries, 2), np.int64)
    entry_slot, entries = np.empty(num_entries, np.int64), np.empty((3, num_entries))
    x = np.ascontiguousarray(colouring.output[:, L.column])
    sizes = np.array([100, 1000, 1000])  # rooms; the first round may only count
    while True:
        cells, terms, pulls = rooms = sizes.tolist()
        cell_class, cell_root = np.empty(cells, np.int64), np.empty(cells)
        gram_index, gram_weight = np.empty((4, terms), np.int64), np.empty(terms)
        pull_index, pull_number = np.empty((2, pulls), np.int64), np.empty(pulls)
        modified_decoder_lists(
            representatives, class_number, indptr, L.entry_row, L.entry_slot, L.log_p, L.multiplicity, L.prior,
            row_begin, by_row, np.repeat(np.arange(S), np.diff(indptr)), x, classes,
            colouring.entry, slot, slot_number, sizes, ranges, entry_slot, entries, cell_class, cell_root, gram_index,
            gram_weight, pull_range, pull_index, pull_number,
        )  # fmt: skip
        if all(sizes <= rooms):
            break
    cells, terms, pulls = sizes.tolist()
    return ModifiedDecoderLists(
        ranges, slot_number.size + values[representatives], entry_slot, entries, cell_class[:cells], cell_root[:cells],
        np.ascontiguousarray(gram_index[:, :terms]), gram_weight[:terms], pull_range,
        np.ascontiguousarray(pull_index[:, :pulls]), pull_number[:pulls],
    )  # fmt: skip


class ReducedModifiedDecoder(ReducedSystem):
    """Eq. (10) with one value of z and V h per colour.

    Parameters
    ----------
    full : ModifiedDecoder
    colouring : Colouring
        A balanced colouring of its layout, for the sums of the mean field.
    """

    full: ModifiedDecoder

    compiled = integrator_of(modified_decoder_quotient)

    def __init__(self, full: ModifiedDecoder, colouring: Colouring) -> None:
        prior, of_class = np.unique(full.layout.prior, return_inverse=True)  # the rate of h_n depends on h_n and p_n
        self.num_slots = colouring.num_slots
        super().__init__(full, np.concatenate([colouring.slot, self.num_slots + of_class]))
        self.eta_Z = full.eta_Z
        lists = modified_decoder_lists_of(full, colouring, of_class)
        self._most_cells = int((lists.ranges[:, 3] - lists.ranges[:, 2]).max())
        self._constants = (
            self.num_slots, *lists[:2], prior, *lists[2:], float(full.classes.vocab_size), full.eta_Y, full.eta_Z,
            full.beta == "leading",
        )  # fmt: skip
        self._sizes = lists.entry_slot.size, lists.cell_root.size, lists.value.size
        self._loss_share = np.bincount(of_class) * prior
        self._slot_of_z = colouring.slot[full.layout.slot_of_z]
        self._arguments = self.kernel_arguments()

    def kernel_arguments(self) -> tuple[Any, ...]:
        most = self._most_cells
        return *self._constants, *(scratch(size) for size in self._sizes), scratch(most, most)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(modified_decoder_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        u, V = state[self.num_slots :], self.full.classes.vocab_size
        return float(self._loss_share @ np.log1p((V - 1) * np.exp(-u)))

    @property
    def num_logit_values(self) -> int:
        return self.num_slots

    def z_support(self, state: Floats) -> Floats:
        return state.take(self._slot_of_z, axis=-1)
