"""Multisets of whole numbers: hashed by sums modulo 2**64, numbered, and compared by counting."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.kernels.compilation import EXACT, kernel

_STEP, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_30, _27, _31 = (np.uint64(x) for x in (30, 27, 31))


@kernel(fastmath=EXACT, forceinline=True)
def scrambled(x):
    """The finalizer of SplitMix64, one to one on uint64."""
    x = x + _STEP
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@kernel(fastmath=EXACT)
def add_products(owner, first, first_index, second, second_index, number, sums):
    """sums[owner] += number scrambled(first[...] second[...]) over a table of terms (I, J), modulo 2**64.

    `owner`, the indices and `number` (uint64) are (I, J); `first`, `second` and `sums` are flat, uint64.
    """
    for i in range(owner.shape[0]):
        for j in range(owner.shape[1]):
            product = scrambled(first[first_index[i, j]] * second[second_index[i, j]])
            sums[owner[i, j]] += number[i, j] * product


@kernel(fastmath=EXACT)
def number_values(values, keys, numbers, out):
    """Write 0, 1, ... for equal values in order of appearance to `out` (n,); return how many there are.

    `keys` (uint64) and `numbers` (filled with -1) are a hash table, of a power of 2 places. Returns -1 if more than
    half of them are taken.
    """
    mask = np.uint64(keys.size - 1)
    count = 0
    for i in range(values.size):
        place = scrambled(values[i]) & mask
        while numbers[place] >= 0 and keys[place] != values[i]:
            place = (place + np.uint64(1)) & mask
        if numbers[place] < 0:
            if 2 * count >= keys.size:
                return -1
            keys[place] = values[i]
            numbers[place] = count
            count += 1
        out[i] = numbers[place]
    return count


@kernel(fastmath=EXACT)
def group_by_owner(owner, first, first_index, second, second_index, seconds, number, begin, codes, numbers):
    """Group the terms of a table (I, J) by owner: those of owner o end up in begin[o - 1]:begin[o], begin[-1] = 0.

    A term is written as the code seconds first[...] + second[...] to `codes` (uint64) and its number to `numbers`.
    `begin` holds the first place of each owner when called, and the place after its last one at the end.
    """
    for i in range(owner.shape[0]):
        for j in range(owner.shape[1]):
            place = begin[owner[i, j]]
            codes[place] = first[first_index[i, j]] * seconds + second[second_index[i, j]]
            numbers[place] = number[i, j]
            begin[owner[i, j]] = place + 1


@kernel(fastmath=EXACT)
def have_equal_multisets(end, values, number, like, count):
    """Whether the multiset of every owner o, values in end[o - 1]:end[o], equals that of the owner like[o].

    `count` is scratch, zero for every value, and is left so.
    """
    for o in range(end.size):
        other = like[o]
        if other == o:
            continue
        first = end[o - 1] if o > 0 else 0
        other_first = end[other - 1] if other > 0 else 0
        for i in range(first, end[o]):
            count[values[i]] += number[i]
        for i in range(other_first, end[other]):
            count[values[i]] -= number[i]
        equal = True
        for i in range(first, end[o]):
            equal = equal and count[values[i]] == 0
            count[values[i]] = 0
        for i in range(other_first, end[other]):
            equal = equal and count[values[i]] == 0
            count[values[i]] = 0
        if not equal:
            return False
    return True
