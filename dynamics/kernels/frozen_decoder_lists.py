"""The lists of the frozen decoder on representatives (`dynamics/symmetry/frozen_decoder`), class by class."""

from __future__ import annotations

from snapdyn.dynamics.kernels.compilation import kernel


@kernel(nogil=True)
def frozen_decoder_lists(
    representatives, C, next_column, columns, mixing, place, ranges, own, value, number, begin, index, weight
):  # fmt: skip
    """Write the lists of `kernels/frozen_decoder_quotient` from `ranges` on; return the number of terms.

    `C` (S, columns) are colours, `mixing` (S, S) the weights of C_k in the logits of class n. Terms beyond the room in
    `index` and `weight` are only counted. `place` (2, colours) is scratch, -1 before and after.
    """
    listed, terms = 0, 0
    for c in range(representatives.size):
        n = representatives[c]
        ranges[c, 0] = listed
        for o in range(C.shape[1]):
            colour = C[n, o]
            if place[0, colour] < 0:
                place[0, colour] = listed
                value[listed], number[listed], begin[listed] = colour, 0.0, terms
                for k in range(C.shape[0]):
                    if mixing[n, k] != 0.0:
                        other = C[k, o]
                        if place[1, other] < 0:
                            place[1, other] = terms
                            if terms < index.size:
                                index[terms], weight[terms] = other, 0.0
                            terms += 1
                        if place[1, other] < index.size:
                            weight[place[1, other]] += mixing[n, k]
                for k in range(C.shape[0]):
                    place[1, C[k, o]] = -1
                listed += 1
            number[place[0, colour]] += columns[o]
        own[c] = place[0, C[n, next_column[n]]]
        for o in range(C.shape[1]):
            place[0, C[n, o]] = -1
        ranges[c, 1] = listed
    begin[listed] = terms
    return terms
