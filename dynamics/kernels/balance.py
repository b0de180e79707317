"""Whether a colouring of the mean field is balanced, by counting.

The names are those of `dynamics/symmetry/pairs`: entries are (class, row of Y) pairs, the query token of the residual
connection included; shared rows have several entries.
"""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.kernels.compilation import kernel

BALANCED, NOT_BALANCED, UNDECIDED = range(3)
LARGEST_TABLE = 50_000_000  # numbers; larger ones are left to the slower check


@kernel()
def group(keys, begin, members):
    """Sort the indices of `keys` (-1: none) by key: those of key k are members[begin[k]:begin[k+1]]."""
    for k in range(begin.size):
        begin[k] = 0
    for i in range(keys.size):
        if keys[i] >= 0:
            begin[keys[i] + 1] += 1
    for k in range(begin.size - 1):
        begin[k + 1] += begin[k]
    for i in range(keys.size):
        if keys[i] >= 0:
            members[begin[keys[i]]] = i
            begin[keys[i]] += 1
    for k in range(begin.size - 1, 0, -1):
        begin[k] = begin[k - 1]
    begin[0] = 0


@kernel(forceinline=True)
def _same_colours(colours, mine, theirs, count):
    """Whether two lists of indices have equal colours up to order; `count` is 0 before and after."""
    if mine.size != theirs.size:
        return False
    for i in range(mine.size):
        count[colours[mine[i]]] += 1
        count[colours[theirs[i]]] -= 1
    same = True
    for i in range(mine.size):
        if count[colours[mine[i]]] != 0:
            same = False
        count[colours[mine[i]]] = 0
        count[colours[theirs[i]]] = 0
    return same


@kernel(forceinline=True)
def _add_runs(colours, sign, count):
    """Add sign to count[c] for every c in `colours`."""
    length = np.int64(0)
    for j in range(colours.size):
        length += 1
        if j + 1 == colours.size or colours[j + 1] != colours[j]:
            count[colours[j]] += sign * length
            length = np.int64(0)


@kernel(forceinline=True)
def _same_runs(mine, theirs, count):
    """Whether two rows of colours are equal up to order; `count` is 0 before, and after if they are."""
    _add_runs(mine, 1, count)
    _add_runs(theirs, -1, count)
    same = True
    for j in range(mine.size):
        same &= count[mine[j]] == 0
    return same


@kernel()
def first_members(colours, first):
    """Write the first member of each colour to `first`."""
    for c in range(first.size):
        first[c] = -1
    for i in range(colours.size):
        if first[colours[i]] < 0:
            first[colours[i]] = i


@kernel(forceinline=True)
def labels_are_constant(
    indptr, shared_row, slot_of, log_p, multiplicity, query_entry, prior, query_row, column, last_is_one,
    start, slot, entry, output, classes, first_slot, first_entry, first_output, first_class,
):  # fmt: skip
    """Whether members of a colour have the same start, weights, class, and kind of output."""
    columns = output.shape[1]
    for i in range(slot.size):
        if start[i] != start[first_slot[slot[i]]]:
            return False
    for n in range(classes.size):
        like = first_class[classes[n]]
        if prior[n] != prior[like] or (query_row[n] >= 0) != (query_row[like] >= 0):
            return False
        for i in range(indptr[n], indptr[n + 1]):
            k = first_entry[entry[i]]
            if not indptr[like] <= k < indptr[like + 1]:
                return False
            if log_p[i] != log_p[k] or multiplicity[i] != multiplicity[k]:
                return False
            if (i == query_entry[n]) != (k == query_entry[like]) or (shared_row[i] < 0) != (shared_row[k] < 0):
                return False
            if (slot_of[i] < 0) != (slot_of[k] < 0) or (slot_of[i] >= 0 and slot[slot_of[i]] != slot[slot_of[k]]):
                return False
        before = -1
        for j in range(columns):
            own, last = j == column[n], not last_is_one and j == columns - 1
            o = output[n, j]
            if o != before or own or last:  # runs of equal colours are mostly long, here and below
                there = first_output[o] - like * columns  # a column of the class `like`
                if not 0 <= there < columns or own != (there == column[like]):
                    return False
                if last != (not last_is_one and there == columns - 1):
                    return False
                before = -1 if own or last else o
    return True


@kernel(nogil=True, allocates=True)
def is_balanced_by_tables(
    indptr, shared_row, slot_of, log_p, multiplicity, query_entry, prior, query_row, column, last_is_one,
    start, slot, shared, entry, output, classes, num_slots, num_values, num_entries, num_outputs, num_classes,
    local, offset,
):  # fmt: skip
    """Whether members of each colour have the same labels and neighbours, and the number of colours of Y.

    UNDECIDED where one colour of a shared entry and one of an output of the class meet in several values of Y (or the
    tables become large): the lists of neighbours may then be equal in another order. Writes the number of each output
    colour within its class to `local`, and where the colours of the rows of an entry colour begin to `offset`, for
    entries whose row is not shared.
    """
    columns = output.shape[1]
    first_slot, first_entry = np.empty(num_slots, np.int64), np.empty(num_entries, np.int64)
    first_output, first_class = np.empty(num_outputs, np.int64), np.empty(num_classes, np.int64)
    first_members(slot, first_slot)
    first_members(entry, first_entry)
    first_members(output.ravel(), first_output)
    first_members(classes, first_class)
    if not labels_are_constant(
        indptr, shared_row, slot_of, log_p, multiplicity, query_entry, prior, query_row, column, last_is_one,
        start, slot, entry, output, classes, first_slot, first_entry, first_output, first_class,
    ):  # fmt: skip
        return NOT_BALANCED, 0

    # Entries and outputs of a class.
    count = np.zeros(num_entries, np.int64)
    every_entry = np.arange(entry.size)
    count_output = np.zeros(num_outputs, np.int64)
    for n in range(classes.size):
        like = first_class[classes[n]]
        mine, theirs = every_entry[indptr[n] : indptr[n + 1]], every_entry[indptr[like] : indptr[like + 1]]
        if not _same_colours(entry, mine, theirs, count):
            return NOT_BALANCED, 0
        if n != like and not _same_runs(output[n], output[like], count_output):
            return NOT_BALANCED, 0
    # Entries of a logit.
    begin, members = np.empty(slot.size + 1, np.int64), np.empty(entry.size, np.int64)
    group(slot_of, begin, members)
    for i in range(slot.size):
        like = first_slot[slot[i]]
        mine, theirs = members[begin[i] : begin[i + 1]], members[begin[like] : begin[like + 1]]
        if not _same_colours(entry, mine, theirs, count):
            return NOT_BALANCED, 0

    # Numbers of output colours within their class, and of the colours of rows that are not shared.
    in_class = np.zeros(num_classes, np.int64)
    most = 0
    for o in range(num_outputs):
        c = classes[first_output[o] // columns]
        local[o] = in_class[c]
        in_class[c] += 1
        most = max(most, in_class[c])
    total = num_values
    shared_entries = 0
    table_row = np.empty(num_entries, np.int64)
    for n in range(classes.size):
        if first_class[classes[n]] == n:
            for i in range(indptr[n], indptr[n + 1]):
                k = entry[i]
                if first_entry[k] == i:
                    if shared_row[i] < 0:
                        offset[k] = total
                        total += in_class[classes[n]]
                    else:
                        offset[k] = -1
                        table_row[k] = shared_entries
                        shared_entries += 1

    # Values of Y of a shared entry at the outputs of its class.
    codes = shared_entries * most
    if codes > LARGEST_TABLE:
        return UNDECIDED, total
    table = np.full(codes, -1, np.int64)
    for n in range(classes.size):
        for i in range(indptr[n], indptr[n + 1]):
            if shared_row[i] >= 0:
                y, at, a = shared[shared_row[i]], table_row[entry[i]] * most, output[n]
                for j in range(columns):
                    if j > 0 and a[j] == a[j - 1] and y[j] == y[j - 1]:
                        continue
                    code = at + local[a[j]]
                    if table[code] < 0:
                        table[code] = y[j]
                    elif table[code] != y[j]:
                        return UNDECIDED, total

    # Pairs (entry, output) that drive a value of Y: of a row, numbers of each code at each output.
    group_of_row, entries_of_row = np.empty(shared.shape[0] + 1, np.int64), np.empty(entry.size, np.int64)
    group(shared_row, group_of_row, entries_of_row)
    class_of = np.empty(entry.size, np.int64)
    for n in range(classes.size):
        for i in range(indptr[n], indptr[n + 1]):
            class_of[i] = n
    row_code = np.full(codes, -1, np.int64)  # of this row: number of each code
    code_of = np.empty(codes, np.int64)
    reference = np.full((num_values, 2), -1, np.int64)  # of each value: where its codes are listed, how many entries
    listed_code, listed_count = np.empty(1024, np.int64), np.empty(1024, np.int64)
    listed = 0
    for s in range(shared.shape[0]):
        mine = entries_of_row[group_of_row[s] : group_of_row[s + 1]]
        different = 0
        for i in mine:
            at = table_row[entry[i]] * most
            a = output[class_of[i]]
            for j in range(columns):
                if j > 0 and a[j] == a[j - 1]:
                    continue
                code = at + local[a[j]]
                if row_code[code] < 0:
                    row_code[code] = different
                    code_of[different] = code
                    different += 1
        if different * columns > LARGEST_TABLE:
            return UNDECIDED, total
        numbers = np.zeros((columns, different), np.int64)
        for i in mine:
            at = table_row[entry[i]] * most
            a = output[class_of[i]]
            for j in range(columns):
                numbers[j, row_code[at + local[a[j]]]] += 1
        for j in range(columns):
            v = shared[s, j]
            if reference[v, 0] < 0:
                reference[v, 0], reference[v, 1] = listed, mine.size
                if listed + different + 1 > listed_code.size:
                    more = np.empty((2, 2 * (listed + different + 1)), np.int64)
                    for c in range(listed):  # in a loop: compiling the assignment of an array takes more than a second
                        more[0, c], more[1, c] = listed_code[c], listed_count[c]
                    listed_code, listed_count = more[0], more[1]
                for c in range(different):
                    if numbers[j, c] > 0:
                        listed_code[listed], listed_count[listed] = code_of[c], numbers[j, c]
                        listed += 1
                listed_code[listed] = -1  # end of the list
                listed += 1
            else:
                if reference[v, 1] != mine.size:
                    return NOT_BALANCED, 0
                at = reference[v, 0]
                while listed_code[at] >= 0:
                    c = row_code[listed_code[at]]
                    if c < 0 or numbers[j, c] != listed_count[at]:
                        return NOT_BALANCED, 0
                    at += 1
        for c in range(different):
            row_code[code_of[c]] = -1
    return BALANCED, total
