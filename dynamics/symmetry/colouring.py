"""Which values of (z, Y) stay equal for all times: the coarsest balanced colouring, by refinement.

Two values of one colour have equal rates as long as values of equal colour are equal, so they stay equal. Colours are
64-bit numbers. A round of the refinement takes the sums of the right-hand side (`kernels/mean_field/dispatch`) over
colours in place of numbers, in arithmetic modulo 2**64: the entries of a class give its f, rows of Y give a = Y^T f,
outputs give g = Y (e_n - alpha_n), and their sums over the classes give the rates. Weights (priors, P, multiplicities,
the start) enter as their bits, so that only exactly equal weights count as equal. Unequal sums may collide, if rarely;
`is_balanced` therefore counts the neighbours of every value at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.systems.layout import Layout

Hashes = NDArray[np.uint64]
NUMBERS_AT_ONCE = 4_000_000  # of temporary arrays (32 MB)
# Different odd numbers tell the parts of a sum apart: the digits of pi.
_PARTS = np.array(
    [0x243F6A8885A308D3, 0x13198A2E03707345, 0xA4093822299F31D1, 0x082EFA98EC4E6C89, 0x452821E638D01377],
    dtype=np.uint64,
)
SLOT, CLASS, NEXT, QUERY, SUM = _PARTS


@dataclass(frozen=True)
class Colouring:
    """Colours 0, 1, ... of the state of a `Layout` and of what its rates are made of."""

    slot: Ints  # (num_slots,)
    value: Ints  # (num_rows, num_columns), of Y
    entry: Ints  # (entries,), of the pairs (class, row)
    output: Ints  # (S, num_columns), of the pairs (class, output)
    sequence_class: Ints  # (S,)

    @property
    def size(self) -> int:
        """Number of colours of the state."""
        return int(self.slot.max()) + int(self.value.max()) + 2


def has_equivalent_classes(layout: Layout, start: Floats) -> bool:
    """Whether at least half of the classes have an equivalent one: equal prior, weights and starting logits.

    A cheap filter before the refinement, which misses some symmetric systems.
    """
    classes = _Refinement(layout, start).class_labels()
    _, number = np.unique(classes, return_counts=True)
    return bool(number[number > 1].sum() >= classes.size / 2)


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
    refinement = _Refinement(layout, start)
    number = 0
    while True:
        before, number = number, refinement.count()
        if most_colours is not None and number > most_colours:
            return None
        if number <= before:  # less: after a collision
            break
        refinement.refine()
    colouring = refinement.colouring()
    return colouring if is_balanced(layout, colouring, start) else None


class _Refinement:
    def __init__(self, layout: Layout, start: Floats) -> None:
        L = self.layout = layout
        self.class_of_entry = np.repeat(np.arange(L.prior.size), np.diff(L.indptr))
        self.slot_order = np.argsort(L.entry_slot, kind="stable")
        self.first_of_slot = np.searchsorted(L.entry_slot[self.slot_order], np.arange(L.num_slots))
        columns = np.ones(L.num_columns)
        columns[-1] = L.last_column_multiplicity
        self.column_label = mixed(bits(columns))
        self.entry_label = mixed(bits(L.log_p)) + SUM * mixed(bits(L.multiplicity))
        self.has_query = L.query_row >= 0
        is_query = np.zeros(L.entry_row.size, dtype=bool)
        is_query[L.query_entry[L.query_entry >= 0]] = True
        self.entry_label += is_query * QUERY
        self.class_label = mixed(bits(L.prior)) + self.has_query * QUERY
        self.slot: Hashes = mixed(bits(start))
        self.value: Hashes = np.ones((L.num_rows, L.num_columns), np.uint64)

    def count(self) -> int:
        return np.unique(self.slot).size + np.unique(self.value).size

    def entry_labels(self) -> Hashes:
        """Colours of the entries (entries,) from their weights and logits alone."""
        return mixed(self.entry_label + SLOT * self.slot[self.layout.entry_slot])

    def class_labels(self) -> Hashes:
        """Colours of the classes (S,) from those of their entries alone."""
        return mixed(self.class_label + np.add.reduceat(self.entry_labels(), self.layout.indptr[:-1]))

    def parts(self) -> tuple[Hashes, Hashes, Hashes]:
        """Colours of classes (S,), entries (entries,) and outputs (S, num_columns), from those of the state."""
        L, of = self.layout, self.class_of_entry
        entry, classes = self.entry_labels(), self.class_labels()
        entry = mixed(entry + CLASS * classes[of])
        value = mixed(self.value)
        # a = Y^T f of each class.
        output = self._by_class(entry) @ value
        output[self.has_query] += QUERY * value[L.query_row[self.has_query]]
        output += self.column_label
        output[np.arange(L.prior.size), L.column] += NEXT
        output = mixed(output)
        classes = mixed(classes + output.sum(axis=1))
        output = mixed(output + CLASS * classes[:, None])
        # g = Y (e_n - alpha_n) on each entry, and f . g.
        entry = mixed(entry + SUM * self._row_sums(L.entry_row, of, output, value) + CLASS * classes[of])
        total = np.add.reduceat(entry, L.indptr[:-1])
        query = np.flatnonzero(self.has_query)
        total[query] += QUERY * self._row_sums(L.query_row[query], query, output, value)
        classes = mixed(classes + total)
        return classes, mixed(entry + CLASS * classes[of]), mixed(output + CLASS * classes[:, None])

    def refine(self) -> None:
        """Colours of the state from the sums that make its rates."""
        L = self.layout
        _, entry, output = self.parts()
        sums = np.add.reduceat(mixed(entry)[self.slot_order], self.first_of_slot)
        self.slot = mixed(self.slot + SUM * sums)
        rates = self._by_class(entry).T.tocsr() @ output
        for n in np.flatnonzero(self.has_query):
            rates[L.query_row[n]] += QUERY * output[n]
        self.value = mixed(self.value + SUM * rates)

    def colouring(self) -> Colouring:
        classes, entry, output = self.parts()
        numbered = [np.unique(each, return_inverse=True)[1].reshape(each.shape)
                    for each in (self.slot, self.value, entry, output, classes)]  # fmt: skip
        return Colouring(*numbered)

    def _by_class(self, entry: Hashes) -> scipy.sparse.csr_array:
        """Numbers of the entries as a matrix (S, num_rows)."""
        L = self.layout
        return scipy.sparse.csr_array((entry, L.entry_row, L.indptr), shape=(L.prior.size, L.num_rows))

    def _row_sums(self, rows: Ints, classes: Ints, output: Hashes, value: Hashes) -> Hashes:
        """Sum over the outputs of the colours of (class, output) times those of (row, output)."""
        sums = np.empty(rows.size, np.uint64)
        at_once = max(1, NUMBERS_AT_ONCE // self.layout.num_columns)
        for i in range(0, rows.size, at_once):
            part = slice(i, i + at_once)
            sums[part] = np.einsum("ij,ij->i", value[rows[part]], output[classes[part]])
        return sums


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
        (c.entry, [L.log_p, L.multiplicity, c.slot[L.entry_slot], c.sequence_class[of], is_query]),
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
        (of, c.sequence_class, c.entry),
        (pairs // L.num_columns, c.sequence_class, c.output),
        (pairs[of], c.output.ravel(), code(c.entry[:, None], c.value[L.entry_row])),
        (entries, c.entry, code(c.output[of], c.value[L.entry_row])),
        (L.entry_slot, c.slot, c.entry),
        (rows[L.entry_row], c.value.ravel(), c.entry[:, None] * num_outputs + c.output[of]),
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
