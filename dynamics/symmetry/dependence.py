"""What the sums of a rate depend on, as lists, and the coarsest colouring that they leave unchanged.

A rate is declared by its *parts* (logits, attention weights, classes, values of Y, ...), each an array of values, and
by its *sums*: value `owner` of one part takes a sum over values of other parts. A round of the refinement gives every
value a colour made of its colour before and of the multiset of colours that its sums are taken over. It hashes
multisets by sums modulo 2**64 of scrambled colours (`colouring.mixed`). Once the numbers of colours are stable, values
of equal colour have equal sums over equal colours, so that their rates are equal as long as values of equal colour are.
Hashes can collide: `is_balanced` compares the multisets themselves by counting.

`integrate` uses the faster search for the mean field (`search`) for all systems. The lists say what the rate of each
system needs by itself; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.multisets import add_products, group_by_owner, have_equal_multisets, number_values
from snapdyn.dynamics.kernels.refinement import SUM
from snapdyn.dynamics.symmetry.colouring import Hashes, bits, mixed

Colours = dict[str, Ints]


@dataclass(frozen=True)
class Sum:
    """One kind of sum: every value `owner` of a part takes it over the values listed with it.

    Attributes
    ----------
    part : str
        Part that takes the sums.
    owner : Ints
        Number of the value that takes each term, any shape.
    terms : tuple of (str, Ints)
        Factors of a term: a part and the number of its value, in a shape that broadcasts with `owner`.
    number : Floats or None
        How many equal terms each entry of the list stands for, whole numbers; None: one.
    """

    part: str
    owner: Ints
    terms: tuple[tuple[str, Ints], ...]
    number: Floats | None = None


@dataclass(frozen=True)
class Dependence:
    """Parts and sums of a rate.

    Attributes
    ----------
    labels : mapping of str to list of arrays
        For each part, arrays (n,) of what tells its values apart from the start: weights and starts, compared bit by
        bit.
    sums : sequence of Sum
    state : tuple of str
        The parts that are the state.
    """

    labels: Mapping[str, Sequence[NDArray[Any]]]
    sums: Sequence[Sum]
    state: tuple[str, ...]


def coarsest_colouring(dependence: Dependence, most_colours: float | None = None) -> Colours | None:
    """Refine colours until their numbers are stable.

    Parameters
    ----------
    dependence : Dependence
    most_colours : float, optional
        Give up as soon as the state has more colours: their number never falls from round to round.

    Returns
    -------
    dict of str to (n,) array, or None
        Colours 0, 1, ... of every part; None after giving up, or if two different multisets collided.
    """
    colours = _labelled(dependence)
    before: dict[str, int] = {}
    while True:
        number = {part: _numbered(each)[1] for part, each in colours.items()}
        if most_colours is not None and sum(number[part] for part in dependence.state) > most_colours:
            return None
        if number == before:
            break
        if any(number[part] < before.get(part, 0) for part in number):
            return None  # a collision
        before = number
        for each in dependence.sums:
            _refine(each, colours)
    numbered: Colours = {part: _numbered(each)[0] for part, each in colours.items()}
    return numbered if is_balanced(dependence, numbered) else None


def has_many_equal(dependence: Dependence, part: str) -> bool:
    """Whether at least half of the values of a part have one of equal colour after the first sums, over lists of 1-D.

    A cheap filter before the refinement, which misses some symmetric systems.
    """
    colours = _labelled(dependence)
    for each in dependence.sums:
        if each.owner.ndim > 1:
            break
        _refine(each, colours)
    number = np.bincount(_numbered(colours[part])[0])
    return bool(number[number > 1].sum() >= colours[part].size / 2)


def _labelled(dependence: Dependence) -> dict[str, Hashes]:
    colours: dict[str, Hashes] = {}
    for part, labels in dependence.labels.items():
        colours[part] = np.zeros(labels[0].size, np.uint64)
        for label in labels:
            colours[part] = mixed(colours[part] + SUM * mixed(bits(label)))
    return colours


def _refine(each: Sum, colours: dict[str, Hashes]) -> None:
    colours[each.part] = mixed(colours[each.part] + SUM * _hashed(each, colours))


def _hashed(each: Sum, colours: dict[str, Hashes]) -> Hashes:
    """A hash of the multiset of every value of the part."""
    (first, first_index), (second, second_index) = [*each.terms, ("", np.zeros(1, np.int64))][:2]
    sums = np.zeros(colours[each.part].size, np.uint64)
    number = np.ones(1, np.uint64) if each.number is None else each.number.astype(np.uint64)
    tables = [_table(index, each.owner.shape) for index in (each.owner, first_index, second_index, number)]
    other = mixed(colours[second]) if second else np.ones(1, np.uint64)
    with np.errstate(over="ignore"):  # of sums modulo 2**64 without compilation
        add_products(tables[0], mixed(colours[first]), tables[1], other, *tables[2:], sums)
    return sums


def _table(index: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """`index` as a table of terms of two dimensions."""
    table = np.broadcast_to(index, shape)
    return table if table.ndim == 2 else table[None]


def _numbered(values: Hashes) -> tuple[Ints, int]:
    """0, 1, ... for equal values, and how many there are."""
    out = np.empty(values.size, np.int64)
    places = 2**12
    while True:
        with np.errstate(over="ignore"):
            count = number_values(values, np.empty(places, np.uint64), np.full(places, -1), out)
        if count >= 0:
            return out, int(count)
        places *= 16


def _first(colour: Ints) -> Ints:
    """The first value of each colour."""
    first = np.empty(int(colour.max()) + 1, np.int64)
    first[colour[::-1]] = np.arange(colour.size)[::-1]
    return first


def is_balanced(dependence: Dependence, colours: Colours) -> bool:
    """Whether values of each colour have the same labels and the same multisets of colours, by counting.

    Sorted lists are compared, so that nothing depends on hashes.
    """
    for part, labels in dependence.labels.items():
        first = _first(colours[part])
        for label in labels:
            if not np.array_equal(bits(label), bits(label)[first][colours[part]]):
                return False
    return all(_same_multisets(each, colours) for each in dependence.sums)


def _same_multisets(each: Sum, colours: Colours) -> bool:
    colour, owner = colours[each.part], each.owner
    none = ("", np.zeros(1, np.int64))
    (first, first_index), (second, second_index) = [*each.terms, none][:2]
    other = colours[second] if second else none[1]
    number = np.ones(1, np.int64) if each.number is None else each.number.astype(np.int64)
    tables = [_table(index, owner.shape) for index in (owner, first_index, second_index, number)]
    end = np.cumsum(np.bincount(owner.ravel(), minlength=colour.size))
    end[1:], end[0] = end[:-1].copy(), 0  # the first place of each owner, and after the next line the end of its places
    codes, numbers = np.empty(owner.size, np.uint64), np.empty(owner.size, np.int64)
    group_by_owner(
        tables[0], colours[first], tables[1], other, tables[2], int(other.max()) + 1, tables[3], end, codes, numbers
    )
    values, most = _numbered(codes)
    return bool(have_equal_multisets(end, values, numbers, _first(colour)[colour], np.zeros(most, np.int64)))


def entries_of(layout: Any) -> tuple[Ints, Ints, Ints]:
    """Class, row and number in the layout (-1: the query token of the residual) of all entries."""
    L = layout
    of, row = np.repeat(np.arange(L.prior.size), np.diff(L.indptr)), L.entry_row
    number = np.arange(row.size)
    query = np.flatnonzero(L.query_row >= 0)
    if query.size:
        of = np.concatenate([of, query])
        row = np.concatenate([row, L.query_row[query]])
        number = np.concatenate([number, np.full(query.size, -1)])
        order = np.argsort(of, kind="stable")
        of, row, number = of[order], row[order], number[order]
    return of, row, number
