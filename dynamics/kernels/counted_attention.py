"""Attention of drawn sequences, which are given by the counts of their tokens."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_shifted


@kernel(fastmath=REASSOCIATE, forceinline=True)
def counted_attention(z, slots, counts, e, total, f):
    """f[:, a] = q/|q| of each sequence a, q = counts exp(z); counts and f (m, sequences), e and total scratch."""
    for i in range(slots.size):
        e[i] = z[slots[i]]
    exp_shifted(e)
    for a in range(total.size):
        total[a] = 0.0
    for i in range(slots.size):
        weight, counts_i, f_i = e[i], counts[i], f[i]
        for a in range(total.size):
            f_i[a] = counts_i[a] * weight
            total[a] += f_i[a] * f_i[a]
    for a in range(total.size):
        if not total[a] > 1e-200:
            total[a] = _rare_attention(z, slots, counts, f, a)
    for a in range(total.size):
        total[a] = 1.0 / math.sqrt(total[a])
    for i in range(slots.size):
        f_i = f[i]
        for a in range(total.size):
            f_i[a] *= total[a]


@kernel(fastmath=EXACT, forceinline=True)
def _rare_attention(z, slots, counts, f, a):
    """Write q to f[:, a], return |q|^2, for a sequence whose tokens have a far lower logit than others of its class."""
    largest = -math.inf
    for i in range(slots.size):
        if counts[i, a] > 0.0:
            largest = max(largest, z[slots[i]])
    total = 0.0
    for i in range(slots.size):
        f[i, a] = counts[i, a] * math.exp(z[slots[i]] - largest) if counts[i, a] > 0.0 else 0.0
        total += f[i, a] * f[i, a]
    return total


@kernel(fastmath=EXACT, forceinline=True)
def tokens_that_occur(f, first, start, entry_row, entry_slot, query_entry, places, used_f):
    """Write rows, slots and f of the tokens in sequences first..first+3; return their number, the query's place.

    f (m, sequences) belongs to the entries from `start` on; places (2, >= m + 3), used_f (>= m + 3, 4). Tokens that
    add nothing fill up to a multiple of four; the query's place is -1 where it does not occur.
    """
    used, query_position = 0, -1
    for i in range(f.shape[0]):
        f0, f1, f2, f3 = f[i, first], f[i, first + 1], f[i, first + 2], f[i, first + 3]
        if f0 + f1 + f2 + f3 > 0.0:
            if start + i == query_entry:
                query_position = used
            places[0, used] = entry_row[start + i]
            places[1, used] = entry_slot[start + i]
            used_f[used, 0], used_f[used, 1], used_f[used, 2], used_f[used, 3] = f0, f1, f2, f3
            used += 1
    while used % 4:
        places[0, used], places[1, used] = places[0, 0], places[1, 0]
        used_f[used] = 0.0
        used += 1
    return used, query_position
