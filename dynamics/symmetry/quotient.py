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
    L, colours = layout, colouring
    num_slots = int(colours.slot.max()) + 1
    number = np.concatenate([np.bincount(colours.slot), np.bincount(colours.value.ravel())]).astype(np.float64)
    multiplicity = np.ones(L.num_columns)
    multiplicity[-1] = L.last_column_multiplicity
    representatives, class_number = np.unique(colours.sequence_class, return_index=True, return_counts=True)[1:]

    ranges, classes, entry_slot, entries, output_number, term_index, terms = [], [], [], [], [], [], []
    begin = np.zeros(3, np.int64)
    for n, count in zip(representatives, class_number, strict=True):
        of_class = slice(L.indptr[n], L.indptr[n + 1])
        rows, tokens, query = L.entry_row[of_class], L.multiplicity[of_class], L.query_row[n]
        first, k = np.unique(colours.entry[of_class], return_index=True, return_inverse=True)[1:]
        O = np.unique(colours.output[n], return_inverse=True)[1]
        number_k, number_O = np.bincount(k, tokens), np.bincount(O, multiplicity)
        slots = colours.slot[L.entry_slot[of_class][first]]
        drive = count * L.prior[n] / number[slots] * np.bincount(k)
        log_p, query_colour, query_entry = L.log_p[of_class][first], -1, -1
        if query >= 0:  # the query token is one more entry, with no logit
            query_colour = first.size
            query_entry = k[L.query_entry[n] - L.indptr[n]] if L.query_entry[n] >= 0 else -1
            rows, tokens, k = np.append(rows, query), np.append(tokens, 1.0), np.append(k, query_colour)
            slots, drive, log_p = np.append(slots, 0), np.append(drive, 0.0), np.append(log_p, -np.inf)
            number_k = np.append(number_k, 1.0)
        values = colours.value[rows] + num_slots
        index = np.stack(np.broadcast_arrays(k[:, None], O, values)).reshape(3, -1)
        index, term = np.unique(index, axis=1, return_inverse=True)
        weight = np.bincount(term.ravel(), (tokens[:, None] * multiplicity).ravel())
        pairs = np.bincount(term.ravel())
        terms.append(np.stack([
            weight / number_O[index[1]],
            weight / number_k[index[0]],
            count * L.prior[n] * pairs / number[index[2]],
        ]))  # fmt: skip
        term_index.append(index)
        entry_slot.append(slots)
        entries.append(np.stack([log_p, number_k, drive]))
        output_number.append(number_O)
        end = begin + np.array([slots.size, number_O.size, index.shape[1]])
        ranges.append(np.column_stack([begin, end]).ravel())
        classes.append((O[L.column[n]], query_colour, query_entry))
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
        terms=np.concatenate(terms, axis=1),
        start=np.concatenate([start[first_slot], np.zeros(number.size - num_slots)]),
        number=number,
        num_slots=num_slots,
    )
