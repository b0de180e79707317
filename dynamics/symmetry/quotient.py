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

from dataclasses import dataclass

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import class_terms
from snapdyn.dynamics.symmetry.colouring import Colouring
from snapdyn.dynamics.systems.layout import Layout


@dataclass(frozen=True)
class Quotient:
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
    L, colours, p = layout, colouring, colouring.pairs
    num_slots = int(colours.slot.max()) + 1
    number = np.zeros(colours.size)
    number[:num_slots] = np.bincount(colours.slot)
    shared = np.bincount(colours.shared.ravel())
    number[num_slots : num_slots + shared.size] = shared
    members = np.bincount(colours.entry)  # entries of each colour
    representatives, class_number = np.unique(colours.sequence_class, return_index=True, return_counts=True)[1:]

    most = int(np.diff(p.indptr).max())
    scratch, of_colour = np.empty(most * L.num_columns, np.int64), np.empty(members.size, np.int64)
    firsts, weights = np.empty(most, np.int64), np.empty((4, max(most, L.num_columns)))
    index, terms = np.empty((4, most * L.num_columns), np.int64), np.empty((2, most * L.num_columns))
    lists = []
    for n in representatives:
        m, outputs, length = class_terms(
            p.indptr[n], p.indptr[n + 1], L.last_column_multiplicity, p.multiplicity, p.shared_row, colours.shared,
            colours.offset, colours.local, colours.entry, colours.output[n], scratch, of_colour, firsts, weights,
            index, terms,
        )  # fmt: skip
        at = firsts[:m].copy()
        lists.append((at, weights[:2, :m].copy(), weights[2:, :outputs].copy(), index[:3, :length].copy(),
                      terms[:, :length].copy()))  # fmt: skip
        for i in at[p.shared_row[at] < 0]:
            k = colours.entry[i]
            number[num_slots + colours.offset[k] :][:outputs] = members[k] * weights[2, :outputs]

    ranges, classes, entry_slot, entries, output_number, term_index, all_terms = [], [], [], [], [], [], []
    begin = np.zeros(3, np.int64)
    for n, count, (at, of_entry, of_output, index, terms) in zip(representatives, class_number, lists, strict=True):
        slots = np.where(p.slot[at] < 0, 0, colours.slot[p.slot[at]])
        drive = np.where(p.slot[at] < 0, 0.0, count * L.prior[n] / number[slots] * of_entry[0])
        query = at.size - 1 if L.query_row[n] >= 0 else -1  # the query token is the last entry
        query_entry = -1
        if p.query_entry[n] >= 0:
            query_entry = int(np.flatnonzero(colours.entry[at] == colours.entry[p.query_entry[n]])[0])
        values = index[2] + num_slots
        all_terms.append(np.stack([
            terms[0] / of_output[1][index[1]],
            terms[0] / of_entry[1][index[0]],
            count * L.prior[n] * terms[1] / number[values],
        ]))  # fmt: skip
        term_index.append(np.stack([index[0], index[1], values]))
        entry_slot.append(slots)
        entries.append(np.stack([p.log_p[at], of_entry[1], drive]))
        output_number.append(of_output[1])
        end = begin + np.array([at.size, of_output.shape[1], values.size])
        ranges.append(np.column_stack([begin, end]).ravel())
        classes.append((colours.local[colours.output[n, L.column[n]]], query, query_entry))
        begin = end

    first_slot = np.unique(colours.slot, return_index=True)[1]
    return Quotient(
        ranges=np.array(ranges),
        classes=np.array(classes, dtype=np.int64),
        share=class_number * L.prior[representatives],
        entry_slot=np.concatenate(entry_slot).astype(np.int64),
        entries=np.concatenate(entries, axis=1),
        output_number=np.concatenate(output_number),
        term_index=np.concatenate(term_index, axis=1).astype(np.int64),
        terms=np.concatenate(all_terms, axis=1),
        start=np.concatenate([start[first_slot], np.zeros(number.size - num_slots)]),
        number=number,
        num_slots=num_slots,
    )
