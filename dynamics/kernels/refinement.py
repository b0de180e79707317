"""Colour refinement of the mean field (`dynamics/symmetry/colouring`): rounds of hash sums, and numbers of colours.

Most rows of Y have one entry only: their token occurs in one class. The rate of such a row is f r^T, so the colour of
its value at an output is that of the pair (entry, output), and the colours of its class hold all that it adds to a sum.
So colours of Y are kept for *shared* rows alone, and a round costs one multiplication per pair of a shared entry and an
output for each of the three sums a = Y^T f, g = Y (e_n - alpha_n) and Y'.
"""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.kernels.compilation import kernel

# Different odd numbers tell the parts of a sum apart: the digits of pi.
SLOT, CLASS, NEXT, QUERY, SUM = (
    np.uint64(0x243F6A8885A308D3),
    np.uint64(0x13198A2E03707345),
    np.uint64(0xA4093822299F31D1),
    np.uint64(0x082EFA98EC4E6C89),
    np.uint64(0x452821E638D01377),
)
EVERY_BIT = np.uint64(2**64 - 1)
SMALLEST_TABLE = 128  # of the numbers of colours
_ONE_BITS = np.uint64(0x3FF0000000000000)  # of the number 1.0
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_MINUS_ZERO = np.uint64(2**63)
_30, _27, _31, _ZERO = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(0)


@kernel(forceinline=True)
def scrambled(x):
    """Scramble 64 bits, one to one (the finalizer of SplitMix64): sums of it tell multisets apart."""
    x = x + _STEP
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@kernel(forceinline=True)
def _labelled(number):
    """Scramble the 64 bits of a number; -0 has those of 0."""
    return scrambled(number if number != _MINUS_ZERO else _ZERO)


@kernel()
def _label(indptr, log_p, multiplicity, query_entry, prior, query_row, start, slot, entry, classes):
    """Write the labels of logits, entries and classes, from the bits of the weights and of the start."""
    log_p, multiplicity = log_p.view(np.uint64), multiplicity.view(np.uint64)
    prior, start = prior.view(np.uint64), start.view(np.uint64)
    for i in range(slot.size):
        slot[i] = _labelled(start[i])
    for n in range(classes.size):
        for i in range(indptr[n], indptr[n + 1]):
            label = _labelled(log_p[i]) + SUM * _labelled(multiplicity[i])
            entry[i] = label + QUERY if i == query_entry[n] else label
        label = _labelled(prior[n])
        classes[n] = label + QUERY if query_row[n] >= 0 else label


@kernel(nogil=True, allocates=True)
def count_equivalent_classes(indptr, slot_of, log_p, multiplicity, query_entry, prior, query_row, start):
    """How many classes have an equivalent one: equal prior, weights and starting logits."""
    slot, entry = np.empty(start.size, np.uint64), np.empty(log_p.size, np.uint64)
    classes, numbers = np.empty(prior.size, np.uint64), np.empty(prior.size, np.int64)
    _label(indptr, log_p, multiplicity, query_entry, prior, query_row, start, slot, entry, classes)
    for n in range(classes.size):
        total = _ZERO
        for i in range(indptr[n], indptr[n + 1]):
            total += scrambled(entry[i] + SLOT * slot[slot_of[i]])
        classes[n] = scrambled(classes[n] + total)
    members = np.zeros(number_colours(classes, numbers, EVERY_BIT, new_table(SMALLEST_TABLE))[0], np.int64)
    for n in range(classes.size):
        members[numbers[n]] += 1
    equivalent = 0
    for number in members:
        if number > 1:
            equivalent += number
    return equivalent


@kernel()
def refine(indptr, shared_row, slot_of, entry_label, slot, value, entry, output, classes, slot_sum, value_sum):
    """Refine all colours once, by the sums that make the rates.

    Colours: slot (num_slots,), value (shared rows, columns), entry (entries,), output (S, columns), classes (S,);
    `shared_row` is -1 for an entry whose row no other entry has, `slot_of` is -1 for the query token of the residual
    connection; `slot_sum` and `value_sum` are scratch.
    """
    shared, columns = value.shape
    for i in range(slot_sum.size):
        slot_sum[i] = _ZERO
    for s in range(shared):
        for j in range(columns):
            value_sum[s, j] = _ZERO
    for n in range(classes.size):
        first, last = indptr[n], indptr[n + 1]
        total = _ZERO
        for i in range(first, last):
            label = entry_label[i] + (SLOT * slot[slot_of[i]] if slot_of[i] >= 0 else _ZERO)
            entry[i] = scrambled(entry[i] + label)
            total += entry[i]
        own = scrambled(classes[n] + total)
        for i in range(first, last):
            entry[i] = scrambled(entry[i] + CLASS * own)

        a = output[n]
        for i in range(first, last):
            if shared_row[i] >= 0:
                y, factor = value[shared_row[i]], entry[i]
                for j in range(columns):
                    a[j] += factor * y[j]
        total = _ZERO
        for j in range(columns):
            a[j] = scrambled(a[j] + CLASS * own)
            total += a[j]
        own = scrambled(own + total)
        for j in range(columns):
            a[j] = scrambled(a[j] + CLASS * own)

        total = _ZERO
        for i in range(first, last):
            g = _ZERO
            if shared_row[i] >= 0:
                y = value[shared_row[i]]
                for j in range(columns):
                    g += a[j] * y[j]
            entry[i] = scrambled(entry[i] + SUM * g + CLASS * own)
            total += entry[i]
        own = scrambled(own + total)
        classes[n] = own
        for i in range(first, last):
            driver = scrambled(entry[i] + CLASS * own)
            entry[i] = driver
            if slot_of[i] >= 0:
                slot_sum[slot_of[i]] += scrambled(driver)
            if shared_row[i] >= 0:
                rate = value_sum[shared_row[i]]
                for j in range(columns):
                    rate[j] += driver * a[j]
    for i in range(slot.size):
        slot[i] = scrambled(slot[i] + SUM * slot_sum[i])
    for s in range(shared):
        for j in range(columns):
            value[s, j] = scrambled(value[s, j] + SUM * value_sum[s, j])


@kernel(nogil=True, allocates=True)
def refine_until_stable(
    indptr, shared_row, slot_of, log_p, multiplicity, query_entry, prior, query_row, column, last_multiplicity, start,
    most, kept, slot_number, value_number, entry_number, output_number, class_number, found,
):  # fmt: skip
    """Refine colours from the start (num_slots,); write the numbers of the colours and how many there are.

    Returns False if z and the shared rows of Y have more than `most` colours. Colours are compared in the bits `kept`.
    """
    slot, slot_sum = np.empty(start.size, np.uint64), np.empty(start.size, np.uint64)
    value, value_sum = np.empty(value_number.shape, np.uint64), np.empty(value_number.shape, np.uint64)
    entry, label = np.empty(log_p.size, np.uint64), np.empty(log_p.size, np.uint64)
    output, classes = np.empty(output_number.shape, np.uint64), np.empty(prior.size, np.uint64)
    _label(indptr, log_p, multiplicity, query_entry, prior, query_row, start, slot, label, classes)
    one, last = scrambled(_ONE_BITS), scrambled(np.full(1, last_multiplicity).view(np.uint64)[0])
    for n in range(classes.size):
        for j in range(output.shape[1]):
            output[n, j] = one
        output[n, output.shape[1] - 1] = last
        output[n, column[n]] += NEXT
    for i in range(entry.size):
        entry[i] = _ZERO
    for s in range(value.shape[0]):
        for j in range(value.shape[1]):
            value[s, j] = one
    before, table = 0, new_table(SMALLEST_TABLE)
    while True:
        refine(indptr, shared_row, slot_of, label, slot, value, entry, output, classes, slot_sum, value_sum)
        found[0], table = number_colours(slot, slot_number, kept, table)
        found[1], table = number_colours(value, value_number, kept, table)
        if found[0] + found[1] > most:
            return False
        found[2], table = number_colours(entry, entry_number, kept, table)
        found[3], table = number_colours(output, output_number, kept, table)
        found[4], table = number_colours(classes, class_number, kept, table)
        total = found.sum()
        if total <= before:  # less: after a collision
            return True
        before = total


@kernel()
def number_shared_rows(row, number, shared_row):
    """Write the number of each entry's row among the rows with several entries, -1 for others; return how many.

    `number` (rows,) is scratch.
    """
    for s in range(number.size):
        number[s] = 0
    for i in range(row.size):
        number[row[i]] += 1
    count = 0
    for s in range(number.size):
        if number[s] > 1:
            number[s] = count
            count += 1
        else:
            number[s] = -1
    for i in range(row.size):
        shared_row[i] = number[row[i]]
    return count


@kernel(allocates=True, forceinline=True)
def new_table(size):
    """An empty hash table: keys (uint64) and their numbers, each (size,), a power of 2."""
    return np.empty(size, np.uint64), np.empty(size, np.int64)


@kernel(allocates=True, forceinline=True)
def number_colours(colours, numbers, kept, table):
    """Write 0, 1, ... for equal colours, in order of appearance; return how many there are, and a table to use next."""
    count = _number_in_table(colours.reshape(colours.size), numbers.reshape(numbers.size), kept, *table)
    while count < 0:  # a larger table until less than half of it is used
        table = new_table(4 * table[0].size)
        count = _number_in_table(colours.reshape(colours.size), numbers.reshape(numbers.size), kept, *table)
    return count, table


@kernel()
def _number_in_table(colours, numbers, kept, keys, found):
    """As `number_colours`; -1 where the table is too small."""
    mask = np.uint64(keys.size - 1)
    half = np.int64(keys.size // 2)
    count, number, before = np.int64(0), np.int64(-1), np.uint64(0)
    for i in range(keys.size):
        found[i] = -1
    for i in range(colours.size):
        key = colours[i] & kept
        if key != before or number < 0:  # equal colours follow each other mostly
            before = key
            at = key & mask
            while found[at] >= 0 and keys[at] != key:
                at = (at + np.uint64(1)) & mask
            number = found[at]
            if number < 0:
                if count == half:
                    return -1
                number = count
                keys[at], found[at] = key, count
                count += 1
        numbers[i] = number
    return count
