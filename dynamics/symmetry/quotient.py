"""The mean field of one value per colour: what the right-hand side needs of a colouring.

For a class c of each colour (|c| classes of probability p_c), k counts the colours of its entries, O those of its
outputs, y the colours of Y. With f_k, r_O = delta - alpha_O and g_k as in `kernels/mean_field/dispatch`,

    a_O = sum_{k,y} A f_k Y_y,   g_k = sum_{O,y} B Y_y r_O,   Y_y' = eta_Y sum_{c,k,O} C f_k r_O,
    z_s' = eta_Z sum_{c,k} D f_k (g_k - f_k (f . g)).

A counts the entries k that meet one output of O in a value y, weighted by the tokens lumped in them; B counts the
outputs; C and D count the classes that drive one value y or one logit s, times p_c. Every member of a colour has the
same counts (the colouring is balanced), so the sums over all members, divided by their number, give them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import first_members
from snapdyn.dynamics.kernels.quotient_lists import quotient_lists
from snapdyn.dynamics.symmetry.colouring import Colouring
from snapdyn.dynamics.systems.layout import Layout

ROOM = 10_000  # terms for which there is room at first


class Quotient(NamedTuple):
    """Lists of `kernels/mean_field/quotient`, class by class; the state is [z per colour, Y per colour].

    Attributes
    ----------
    ranges : (C, 6) int64 array
        First and last + 1 of the entry colours, the output colours and the terms of each class.
    classes : (C, 3) int64 array
        Its next token's output colour; entry colour that stands for the query token with the residual connection, or
        -1; entry colour of the query token among the contextual ones, or -1. Counted within the class.
    share : (C,) array
        |c| p_c.
    entry_slot : (entry colours,) int64 array
        State value of the logit.
    entries : (3, entry colours) array
        ln P; number of tokens; D.
    output_number : (output colours,) array
        Number of outputs.
    term_index : (3, terms) int64 array
        Entry colour and output colour within the class; state value of Y.
    terms : (3, terms) array
        A, B, C.
    start : (size,) array
        State at t = 0.
    number : (size,) array
        Number of values of the full layout that each state value stands for.
    num_slots : int
        Number of logits, the first of the state values.
    """

    ranges: Ints
    classes: Ints
    share: Floats
    entry_slot: Ints
    entries: Floats
    output_number: Floats
    term_index: Ints
    terms: Floats
    start: Floats
    number: Floats
    num_slots: int

    @property
    def size(self) -> int:
        """Number of state values."""
        return int(self.start.size)


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
