"""Which values of (z, Y) stay equal for all times: the coarsest balanced colouring, by refinement.

Two values of one colour have equal rates as long as values of equal colour are equal, so they stay equal. Colours are
64-bit numbers. A round of the refinement takes the sums of the right-hand side (`kernels/mean_field/dispatch`) over
colours in place of numbers, in arithmetic modulo 2**64 (`kernels/refinement`): the entries of a class give its f, rows
of Y give a = Y^T f, outputs give g = Y (e_n - alpha_n), and their sums over the classes give the rates. Weights
(priors, P, multiplicities, the start) enter as their bits, so that only exactly equal weights count as equal. Unequal
sums may collide, if rarely; the neighbours of every value are therefore counted at the end (`kernels/balance`, and
`is_balanced` where its tables do not suffice).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import BALANCED, NOT_BALANCED, is_balanced_by_tables
from snapdyn.dynamics.kernels.refinement import NEXT, label_entries, number_colours, refine, refine_classes
from snapdyn.dynamics.symmetry.pairs import Pairs, pairs
from snapdyn.dynamics.systems.layout import Layout

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Colouring:
    """Colours 0, 1, ... of the state of a `Layout` and of what its rates are made of.

    A row of Y with one entry has a colour for each pair of the colours of its entry and of an output: these follow those
    of the shared rows.
    """

    pairs: Pairs
    slot: Ints  # (num_slots,)
    shared: Ints  # (shared rows, num_columns), of their values of Y
    entry: Ints  # (entries of `pairs`,)
    output: Ints  # (S, num_columns), of the pairs (class, output)
    sequence_class: Ints  # (S,)
    local: Ints  # (output colours,) number of an output colour within its class
    offset: Ints  # (entry colours,) first colour of a row with this entry alone, -1 for entries of shared rows
    num_values: int  # colours of Y

    @property
    def size(self) -> int:
        """Number of colours of the state."""
        return int(self.slot.max()) + 1 + self.num_values

    @cached_property
    def value(self) -> Ints:
        """Colours of Y, (num_rows, num_columns)."""
        p = self.pairs
        values = np.empty((int(p.row.max()) + 1, self.output.shape[1]), np.int64)
        is_shared = p.shared_row >= 0
        values[p.row[is_shared]] = self.shared[p.shared_row[is_shared]]
        alone = np.flatnonzero(~is_shared)
        classes = np.repeat(np.arange(p.indptr.size - 1), np.diff(p.indptr))[alone]
        values[p.row[alone]] = self.offset[self.entry[alone], None] + self.local[self.output][classes]
        return values


def has_equivalent_classes(layout: Layout, start: Floats) -> bool:
    """Whether at least half of the classes have an equivalent one: equal prior, weights and starting logits.

    A cheap filter before the refinement, which misses some symmetric systems.
    """
    L = layout
    slot, entry, classes = bits(start), np.empty(L.entry_row.size, np.uint64), np.empty(L.prior.size, np.uint64)
    label_entries(
        L.indptr, bits(L.log_p), bits(L.multiplicity), L.query_entry, bits(L.prior), L.query_row, slot, entry, classes
    )
    refine_classes(L.indptr, L.entry_slot, slot, entry, classes)
    numbers = np.empty(classes.size, np.int64)
    number_colours(classes, numbers)
    members = np.bincount(numbers)
    return bool(members[members > 1].sum() >= classes.size / 2)


def balanced_colouring(layout: Layout, start: Floats, most_colours: float | None = None) -> Colouring | None:
    """Refine colours until their number is stable.

    Parameters
    ----------
    layout : Layout
    start : (num_slots,) array
        Logits at t = 0; Y(0) = 0.
    most_colours : float, optional
        Give up as soon as there are more colours: their number never falls from round to round.

    Returns
    -------
    Colouring or None
        None after giving up, or if two different sums collided.
    """
    L, p = layout, pairs(layout)
    slot, entry_label, classes = bits(start), np.empty(p.row.size, np.uint64), np.empty(L.prior.size, np.uint64)
    label_entries(
        p.indptr, bits(p.log_p), bits(p.multiplicity), p.query_entry, bits(L.prior), L.query_row, slot, entry_label,
        classes,
    )  # fmt: skip
    columns = np.ones(L.num_columns)
    columns[-1] = L.last_column_multiplicity
    output = np.empty((L.prior.size, L.num_columns), np.uint64)
    output[:] = mixed(bits(columns))
    output[np.arange(L.prior.size), L.column] += NEXT
    value = np.ones((p.num_shared, L.num_columns), np.uint64)
    entry, scratch = np.zeros_like(entry_label), (np.empty_like(slot), np.empty_like(value))
    colours = slot, value, entry, output, classes
    numbers = [np.empty(each.shape, np.int64) for each in colours]
    before: list[int] = []
    while True:
        refine(p.indptr, p.shared_row, p.slot, entry_label, *colours, *scratch)
        found = [number_colours(each.ravel(), number.ravel()) for each, number in zip(colours, numbers, strict=True)]
        if most_colours is not None and found[0] + found[1] > most_colours:
            return None
        if found == before or sum(found) < sum(before):  # less: after a collision
            break
        before = found
    local, offset = np.empty(found[3], np.int64), np.empty(found[2], np.int64)
    answer, num_values = is_balanced_by_tables(
        p.indptr, p.shared_row, p.slot, p.log_p, p.multiplicity, p.query_entry, L.prior, L.query_row, L.column,
        L.last_column_multiplicity == 1.0, start, *numbers, *found, local, offset,
    )  # fmt: skip
    if answer == NOT_BALANCED:
        return None
    colouring = Colouring(p, *numbers, local, offset, num_values)
    if most_colours is not None and colouring.size > most_colours:
        return None
    return colouring if answer == BALANCED or is_balanced(L, colouring, start) else None


def bits(numbers: Floats) -> Hashes:
    """The 64 bits of each number; -0 has those of 0."""
    return (np.ascontiguousarray(numbers, dtype=np.float64) + 0.0).view(np.uint64)


def mixed(x: Hashes) -> Hashes:
    """Scramble each number, one to one (the finalizer of SplitMix64): sums of it tell multisets apart."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def is_balanced(layout: Layout, colouring: Colouring, start: Floats) -> bool:
    """Whether members of each colour have the same start and the same neighbours, counted by colour.

    Compared are sorted lists, so that nothing depends on hashes: of a class its entries and outputs, of (class, output)
    the values of Y over the entries, of an entry the values of Y over the outputs, of a logit and of a value of Y the
    entries and outputs that drive it.
    """
    L, c = layout, colouring
    entry = c.entry[c.pairs.contextual]
    of = np.repeat(np.arange(L.prior.size), np.diff(L.indptr))
    columns = np.ones(L.num_columns)
    columns[-1] = L.last_column_multiplicity
    is_query = np.zeros(L.entry_row.size)
    is_query[L.query_entry[L.query_entry >= 0]] = 1
    num_values = int(c.value.max()) + 1

    # Labels: equal within a colour.
    own = c.output[np.arange(L.prior.size), L.column]
    class_of_output = np.repeat(c.sequence_class, L.num_columns)
    labels: list[tuple[Ints, list[NDArray[Any]]]] = [
        (c.slot, [start]),
        (c.sequence_class, [L.prior, L.query_row >= 0, own]),
        (entry, [L.log_p, L.multiplicity, c.slot[L.entry_slot], c.sequence_class[of], is_query]),
        (c.output.ravel(), [np.tile(columns, L.prior.size), class_of_output]),
    ]
    if not all(_constant(colour, each) for colour, several in labels for each in several):
        return False

    # Neighbours: (owner, colour of the owner, code of the neighbour).
    pairs = np.arange(L.prior.size * L.num_columns).reshape(L.prior.size, L.num_columns)
    rows = np.arange(L.num_rows * L.num_columns).reshape(L.num_rows, L.num_columns)
    entries = np.arange(of.size)[:, None]
    num_outputs = int(c.output.max()) + 1

    def code(first: Ints, second: Ints) -> Ints:
        return np.asarray(first, np.int64) * num_values + second

    neighbours = [
        (of, c.sequence_class, entry),
        (pairs // L.num_columns, c.sequence_class, c.output),
        (pairs[of], c.output.ravel(), code(entry[:, None], c.value[L.entry_row])),
        (entries, entry, code(c.output[of], c.value[L.entry_row])),
        (L.entry_slot, c.slot, entry),
        (rows[L.entry_row], c.value.ravel(), entry[:, None] * num_outputs + c.output[of]),
    ]
    query = np.flatnonzero(L.query_row >= 0)
    if query.size:
        its = L.query_row[query]
        neighbours += [
            (pairs[query], c.output.ravel(), c.value[its]),
            (pairs[query] // L.num_columns, c.sequence_class, code(c.output[query], c.value[its])),
            (rows[its], c.value.ravel(), c.output[query]),
        ]
    return all(_same_lists(*each) for each in neighbours)


def _constant(colour: Ints, label: NDArray[Any]) -> bool:
    """Whether the label is the same for all of a colour."""
    first = np.unique(colour, return_index=True)[1]
    return bool(np.array_equal(label, label[first][colour]))


def _same_lists(owner: Ints, colour_of_owner: Ints, code: Ints) -> bool:
    """Whether owners of one colour have the same sorted list of codes."""
    owner, code = np.broadcast_arrays(owner, code)
    most = int(code.max()) + 1
    if colour_of_owner.size * most < 2**62:  # one sort of both
        key = np.sort(owner.ravel() * most + code.ravel())
        owner, code = np.divmod(key, most)
    else:
        order = np.lexsort((code.ravel(), owner.ravel()))
        owner, code = owner.ravel()[order], code.ravel()[order]
    length = np.bincount(owner, minlength=colour_of_owner.size)
    begin = np.concatenate([[0], np.cumsum(length)])[:-1]
    first = np.unique(colour_of_owner, return_index=True)[1]
    like = first[colour_of_owner]  # the first owner of the same colour
    if not np.array_equal(length, length[like]):
        return False
    position = np.arange(owner.size) - begin[owner]
    return bool(np.array_equal(code, code[begin[like[owner]] + position]))
