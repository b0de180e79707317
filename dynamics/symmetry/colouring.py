"""Which values of (z, Y) stay equal for all times: the coarsest balanced colouring, by refinement.

Two values of one colour have equal rates as long as values of equal colour are equal, so they stay equal. Colours are
64-bit numbers. A round of the refinement takes the sums of the right-hand side (`kernels/mean_field/general`) over
colours in place of numbers, in arithmetic modulo 2**64 (`kernels/refinement`): the entries of a class give its f, rows
of Y give a = Y^T f, outputs give g = Y (e_n - alpha_n), and their sums over the classes give the rates. Weights
(priors, P, multiplicities, the start) enter as their bits, so that only exactly equal weights count as equal. Unequal
sums may collide, if rarely; the neighbours of every value are therefore counted at the end (`kernels/balance`, and
`is_balanced` where its tables do not suffice).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import BALANCED, NOT_BALANCED, is_balanced_by_tables
from snapdyn.dynamics.kernels.refinement import (
    EVERY_BIT,
    count_equivalent_classes,
    refine_until_stable,
)
from snapdyn.dynamics.symmetry.pairs import Incidence, Pairs, pairs

Hashes = NDArray[np.uint64]
KEPT_BITS = EVERY_BIT  # of a colour; fewer in tests, for collisions


@dataclass(frozen=True)
class Colouring:
    """Colours 0, 1, ... of the state of a `Layout` and of what its rates are made of.

    A row of Y with one entry has a colour for each pair of the colours of its entry and of an output: these follow
    those of the shared rows.
    """

    pairs: Pairs
    slot: Ints  # (num_slots,)
    shared: Ints  # (shared rows, num_columns), of their values of Y
    entry: Ints  # (entries of `pairs`,)
    output: Ints  # (S, num_columns), of the pairs (class, output)
    sequence_class: Ints  # (S,)
    local: Ints  # (output colours,) number of an output colour within its class
    offset: Ints  # (entry colours,) first colour of a row with this entry alone, -1 for entries of shared rows
    num_slots: int  # colours of z
    num_values: int  # colours of Y

    @property
    def size(self) -> int:
        """Number of colours of the state."""
        return self.num_slots + self.num_values

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


@np.errstate(over="ignore")  # without the JIT: sums are modulo 2**64 on purpose
def has_equivalent_classes(layout: Incidence, start: Floats) -> bool:
    """Whether at least half of the classes have an equivalent one: equal prior, weights and starting logits.

    A cheap filter before the refinement, which misses some symmetric systems.
    """
    L = layout
    equivalent = count_equivalent_classes(
        L.indptr, L.entry_slot, L.log_p, L.multiplicity, L.query_entry, L.prior, L.query_row, start
    )
    return bool(equivalent >= L.prior.size / 2)


@np.errstate(over="ignore")
def balanced_colouring(layout: Incidence, start: Floats, most_colours: float | None = None) -> Colouring | None:
    """Refine colours until their number is stable.

    Parameters
    ----------
    layout : Incidence
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
    shapes: list[tuple[int, ...]] = [start.shape, (p.num_shared, L.num_columns), p.row.shape]
    shapes += [(L.prior.size, L.num_columns), L.prior.shape]
    numbers = [np.empty(shape, np.int64) for shape in shapes]
    found = np.empty(len(shapes), np.int64)
    few = refine_until_stable(
        p.indptr, p.shared_row, p.slot, p.log_p, p.multiplicity, p.query_entry, L.prior, L.query_row, L.column,
        L.last_column_multiplicity, start, math.inf if most_colours is None else most_colours, KEPT_BITS,
        *numbers, found,
    )  # fmt: skip
    if not few:
        return None
    answer, colouring = counted(L, p, start, numbers, found.tolist())
    if answer == NOT_BALANCED or (most_colours is not None and colouring.size > most_colours):
        return None
    return colouring if answer == BALANCED or is_balanced(L, colouring, start) else None


def counted(layout: Incidence, p: Pairs, start: Floats, numbers: list[Ints], found: list[int]) -> tuple[int, Colouring]:
    """The colouring of the numbers of `Colouring.slot` to `.sequence_class`, and BALANCED, NOT_BALANCED or UNDECIDED.

    `found` holds how many colours each of them has. Nothing depends on hashes. A colouring that is NOT_BALANCED
    may hold anything.
    """
    L = layout
    slot, shared, entry, output, classes = numbers
    local, offset = np.empty(found[3], np.int64), np.empty(found[2], np.int64)
    answer, num_values = is_balanced_by_tables(
        p.indptr, p.shared_row, p.slot, p.log_p, p.multiplicity, p.query_entry, L.prior, L.query_row, L.column,
        L.last_column_multiplicity == 1.0, start, *numbers, *found, local, offset,
    )  # fmt: skip
    return answer, Colouring(p, slot, shared, entry, output, classes, local, offset, found[0], num_values)


def mixed(x: Hashes) -> Hashes:
    """Scramble each number, one to one (the finalizer of SplitMix64): sums of it tell multisets apart."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def is_balanced(layout: Incidence, colouring: Colouring, start: Floats) -> bool:
    """Whether members of each colour have the same start and the same neighbours, counted by colour.

    Compared are sorted lists, so that nothing depends on hashes: of a class its entries and outputs, of (class, output)
    the values of Y over the entries, of an entry the values of Y over the outputs, of a logit and of a value of Y the
    entries and outputs that drive it.
    """
    L, c, p = layout, colouring, colouring.pairs
    of = np.repeat(np.arange(L.prior.size), np.diff(p.indptr))
    columns = np.ones(L.num_columns)
    columns[-1] = L.last_column_multiplicity
    is_query = np.isin(np.arange(of.size), p.query_entry)
    is_own = np.arange(L.num_columns) == L.column[:, None]
    contextual = p.slot >= 0
    num_values, num_outputs = int(c.value.max()) + 1, int(c.output.max()) + 1

    # Labels: equal within a colour.
    labels: list[tuple[Ints, list[NDArray[Any]]]] = [
        (c.slot, [start]),
        (c.sequence_class, [L.prior, L.query_row >= 0]),
        (c.entry, [p.log_p, p.multiplicity, np.where(contextual, c.slot[p.slot], -1), c.sequence_class[of], is_query]),
        (c.output.ravel(), [np.tile(columns, L.prior.size), np.repeat(c.sequence_class, columns.size), is_own.ravel()]),
    ]
    if not all(_constant(colour, each) for colour, several in labels for each in several):
        return False

    # Neighbours: (owner, colour of the owner, code of the neighbour).
    outputs = np.arange(L.prior.size * L.num_columns).reshape(L.prior.size, L.num_columns)
    values = np.arange(L.num_rows * L.num_columns).reshape(L.num_rows, L.num_columns)
    entries, value = np.arange(of.size)[:, None], c.value[p.row]
    neighbours = [
        (of, c.sequence_class, c.entry),
        (outputs // L.num_columns, c.sequence_class, c.output),
        (outputs[of], c.output.ravel(), c.entry[:, None] * num_values + value),
        (entries, c.entry, c.output[of] * num_values + value),
        (p.slot[contextual], c.slot, c.entry[contextual]),
        (values[p.row], c.value.ravel(), c.entry[:, None] * num_outputs + c.output[of]),
    ]
    return all(_same_lists(*each) for each in neighbours)


def _constant(colour: Ints, label: NDArray[Any]) -> bool:
    """Whether the label is the same for all of a colour."""
    _, first, colour = np.unique(colour, return_index=True, return_inverse=True)
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
    _, first, number = np.unique(colour_of_owner, return_index=True, return_inverse=True)
    like = first[number]  # the first owner of the same colour
    if not np.array_equal(length, length[like]):
        return False
    position = np.arange(owner.size) - begin[owner]
    return bool(np.array_equal(code, code[begin[like[owner]] + position]))
