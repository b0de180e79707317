"""The lists of a `Quotient` (`dynamics/symmetry/quotient`), class by class."""

from __future__ import annotations

from snapdyn.dynamics.kernels.compilation import kernel


@kernel()
def class_terms(
    first, last, last_multiplicity, multiplicity, shared_row, shared, offset, local, entry, output, begin,
    number, firsts, weights, index, terms,
):  # fmt: skip
    """Write the terms of a class: triples of an entry colour, an output colour and a value of Y, and their sums.

    Entry colours are numbered by their first appearance: `number` (entry colours,) receives these numbers, `firsts` an
    entry of each; `weights` (4, .): of each entry colour the entries and their tokens, of each output colour the
    columns and their outputs; index (4, .) and terms (2, .): entry, output and value of each term, then the term
    before of the same pair; tokens times outputs, and number of pairs. `begin` is scratch. Returns the numbers of entry
    colours, output colours and terms.
    """
    columns = output.size
    num_entries, num_outputs, num_terms = 0, 0, 0
    for i in range(first, last):
        number[entry[i]] = -1
    for i in range(first, last):
        if number[entry[i]] < 0:
            number[entry[i]] = num_entries
            firsts[num_entries] = i
            weights[0, num_entries] = weights[1, num_entries] = 0.0
            num_entries += 1
        weights[0, number[entry[i]]] += 1.0
        weights[1, number[entry[i]]] += multiplicity[i]
    for j in range(columns):
        if local[output[j]] >= num_outputs:
            num_outputs = local[output[j]] + 1
    for o in range(num_outputs):
        weights[2, o] = weights[3, o] = 0.0
    for j in range(columns):
        weights[2, local[output[j]]] += 1.0
        weights[3, local[output[j]]] += last_multiplicity if j == columns - 1 else 1.0
    for c in range(num_entries * num_outputs):
        begin[c] = -1
    for i in range(first, last):
        k = number[entry[i]]
        alone = shared_row[i] < 0
        for j in range(num_outputs if alone else columns):
            o = j if alone else local[output[j]]
            value = offset[entry[i]] + o if alone else shared[shared_row[i], j]
            term = begin[k * num_outputs + o]
            while term >= 0 and index[2, term] != value:
                term = index[3, term]
            if term < 0:
                term = num_terms
                num_terms += 1
                index[0, term], index[1, term], index[2, term] = k, o, value
                index[3, term] = begin[k * num_outputs + o]
                begin[k * num_outputs + o] = term
                terms[0, term] = terms[1, term] = 0.0
            if alone:
                terms[0, term] += multiplicity[i] * weights[3, o]
                terms[1, term] += weights[2, o]
            else:
                terms[0, term] += multiplicity[i] * (last_multiplicity if j == columns - 1 else 1.0)
                terms[1, term] += 1.0
    return num_entries, num_outputs, num_terms


@kernel(nogil=True)
def quotient_lists(
    representatives, class_number, indptr, prior, query_row, query_entry, column, log_p, multiplicity, shared_row,
    slot_of, last_multiplicity, num_slots, slot, shared, offset, local, entry, output, members, number,
    begin, of_colour, firsts, weights, index, sums,
    sizes, ranges, classes, share, entry_slot, entries, output_number, term_index, terms,
):  # fmt: skip
    """Write the lists from `ranges` on; terms beyond the room in `terms` are only counted in `sizes`.

    `sizes` (3,) receives the numbers of entry colours, output colours and terms.

    `members` (entry colours,) counts the entries of each colour, `number` (size,) the values of each state value: those
    of logits and shared rows are given, the others written. The third line of arguments is scratch, as in
    `class_terms`.
    """
    sizes[0] = sizes[1] = sizes[2] = 0
    for c in range(representatives.size):
        n = representatives[c]
        m, outputs, length = class_terms(
            indptr[n], indptr[n + 1], last_multiplicity, multiplicity, shared_row, shared, offset, local, entry,
            output[n], begin, of_colour, firsts, weights, index, sums,
        )  # fmt: skip
        e, o, t = sizes[0], sizes[1], sizes[2]
        sizes[0], sizes[1], sizes[2] = e + m, o + outputs, t + length
        if sizes[2] > terms.shape[1]:
            continue
        weight = class_number[c] * prior[n]
        share[c] = weight
        ranges[c, 0], ranges[c, 1], ranges[c, 2] = e, e + m, o
        ranges[c, 3], ranges[c, 4], ranges[c, 5] = o + outputs, t, t + length
        classes[c, 0] = local[output[n, column[n]]]
        classes[c, 1] = m - 1 if query_row[n] >= 0 else -1  # the query token is the last entry
        classes[c, 2] = of_colour[entry[query_entry[n]]] if query_entry[n] >= 0 else -1
        for k in range(m):
            i = firsts[k]
            entries[0, e + k], entries[1, e + k], entries[2, e + k] = log_p[i], weights[1, k], 0.0
            entry_slot[e + k] = 0
            if slot_of[i] >= 0:
                s = slot[slot_of[i]]
                entry_slot[e + k], entries[2, e + k] = s, weight / number[s] * weights[0, k]
            if shared_row[i] < 0:
                for j in range(outputs):
                    number[num_slots + offset[entry[i]] + j] = members[entry[i]] * weights[2, j]
        for j in range(outputs):
            output_number[o + j] = weights[3, j]
        for i in range(length):
            k, j, value = index[0, i], index[1, i], num_slots + index[2, i]
            term_index[0, t + i], term_index[1, t + i], term_index[2, t + i] = k, j, value
            terms[0, t + i], terms[1, t + i] = sums[0, i] / weights[3, j], sums[0, i] / weights[1, k]
            terms[2, t + i] = weight * sums[1, i] / number[value]
