"""The lists of Eq. (10) on representatives (`dynamics/symmetry/modified_decoder`), class by class."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.refinement import scrambled


@kernel(fastmath=EXACT, forceinline=True)
def _place(code, codes, numbers, first):
    """Where `code` is or belongs in a hash table of a power of 2 places; places with numbers below `first` are free."""
    mask = np.uint64(codes.size - 1)
    place = scrambled(np.uint64(code)) & mask
    while numbers[place] >= first and codes[place] != code:
        place = (place + np.uint64(1)) & mask
    return place


@kernel(fastmath=EXACT, nogil=True, allocates=True)
def modified_decoder_lists(
    representatives, class_number, indptr, entry_row, entry_slot, log_p, multiplicity, prior, row_begin, by_row, of,
    x, classes, entry, slot, slot_number, sizes,
    ranges, entry_slots, entries, cell_class, cell_root, gram_index, gram_weight, pull_range, pull_index, pull_number,
):  # fmt: skip
    """Write the lists of a `ModifiedDecoderLists` from `ranges` on; cells and terms beyond their room are only counted.

    `row_begin` and `by_row` list the entries of each row, `of` (entries,) is the class of each. Colours: x (S, S) of
    the pairs (k, n), classes (S,), entry (entries,), slot (num_slots,), of which there are `slot_number`. `sizes` (3,)
    receives the numbers of cells, terms of M and terms of the pulls.
    """
    S = prior.size
    place_of_colour = np.full(entries.shape[1], -1, np.int64)  # in the list, of each colour of entries
    first_entry = np.empty(entries.shape[1], np.int64)
    listed = 0
    for c in range(representatives.size):  # before all terms, which name entries of other classes
        n = representatives[c]
        ranges[c, 0] = listed
        for i in range(indptr[n], indptr[n + 1]):
            k = place_of_colour[entry[i]]
            if k < 0:
                k = place_of_colour[entry[i]] = listed
                first_entry[k], entry_slots[k] = i, slot[entry_slot[i]]
                entries[0, k], entries[1, k], entries[2, k] = log_p[i], 0.0, 0.0
                listed += 1
            entries[1, k] += multiplicity[i]
            entries[2, k] += class_number[c] * prior[n] / slot_number[entry_slots[k]]
        ranges[c, 1] = listed

    most = 1  # pairs of an entry of a class and an entry on the same row
    for n in range(S):
        pairs = 0
        for i in range(indptr[n], indptr[n + 1]):
            pairs += row_begin[entry_row[i] + 1] - row_begin[entry_row[i]]
        most = max(most, pairs)
    places = 2
    while places < 2 * most:
        places *= 2
    codes, numbers = np.empty((2, places), np.int64), np.full((2, places), -1, np.int64)  # of terms of M, of the pulls
    cell_of_colour = np.full(S * S + S, -1, np.int64)
    cell, member, size = np.empty(S, np.int64), np.empty(S, np.int64), np.empty(S)
    cells, terms, pulls = 0, 0, 0
    for c in range(representatives.size):
        n = representatives[c]
        # Cells: the classes k of one colour x[k, n], the class itself last.
        count = 0
        for k in range(S):
            if k != n:
                if cell_of_colour[x[k, n]] < 0:
                    cell_of_colour[x[k, n]] = count
                    member[count], size[count] = k, 0.0
                    count += 1
                cell[k] = cell_of_colour[x[k, n]]
                size[cell[k]] += 1.0
        for k in range(S):
            cell_of_colour[x[k, n]] = -1
        cell[n], member[count], size[count] = count, n, 1.0
        count += 1
        ranges[c, 2], ranges[c, 3], ranges[c, 4] = cells, cells + count, terms
        for X in range(count):
            k = member[X]
            if cells + X < cell_root.size:
                cell_class[cells + X], cell_root[cells + X] = classes[k], np.sqrt(size[X])
            first = terms
            for i in range(indptr[k], indptr[k + 1]):
                for at in range(row_begin[entry_row[i]], row_begin[entry_row[i] + 1]):
                    j = by_row[at]
                    other = cell[of[j]]
                    if other > X:
                        continue
                    mine, theirs = place_of_colour[entry[i]], place_of_colour[entry[j]]
                    code = (other * listed + mine) * listed + theirs
                    place = _place(code, codes[0], numbers[0], first)
                    if numbers[0, place] < first:
                        codes[0, place], numbers[0, place] = code, terms
                        if terms < gram_weight.size:
                            gram_index[0, terms], gram_index[1, terms] = X, other
                            gram_index[2, terms], gram_index[3, terms] = mine, theirs
                            gram_weight[terms] = 0.0
                        terms += 1
                    if numbers[0, place] < gram_weight.size:
                        gram_weight[numbers[0, place]] += multiplicity[i] * np.sqrt(size[X] / size[other])
        ranges[c, 5] = terms
        for e in range(ranges[c, 0], ranges[c, 1]):
            first, row = pulls, entry_row[first_entry[e]]
            for at in range(row_begin[row], row_begin[row + 1]):
                j = by_row[at]
                if of[j] == n:
                    continue
                code = cell[of[j]] * listed + place_of_colour[entry[j]]
                place = _place(code, codes[1], numbers[1], first)
                if numbers[1, place] < first:
                    codes[1, place], numbers[1, place] = code, pulls
                    if pulls < pull_number.size:
                        pull_index[0, pulls] = cells + cell[of[j]]
                        pull_index[1, pulls] = place_of_colour[entry[j]]
                        pull_number[pulls] = 0.0
                    pulls += 1
                if numbers[1, place] < pull_number.size:
                    pull_number[numbers[1, place]] += 1.0
            pull_range[e, 0], pull_range[e, 1] = first, pulls
        cells += count
    sizes[0], sizes[1], sizes[2] = cells, terms, pulls
