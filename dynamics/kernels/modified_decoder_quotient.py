"""Right-hand side of Eq. (10) of one value per colour (`dynamics/symmetry/modified_decoder`)."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.decoder import scaled_h_rate, speed
from snapdyn.dynamics.kernels.elementary import exp_nonpositive


@kernel(fastmath=EXACT)
def own_column_of_inverse(M, r):
    """Replace M[r - 1, :r] by the last column of M^{-1}, for a symmetric positive definite M[:r, :r] (lower half).

    If M is not positive definite, the result is NaN, which the integrator reports.
    """
    for i in range(r):
        for j in range(i + 1):
            total = M[i, j]
            for k in range(j):
                total -= M[i, k] * M[j, k]
            if i == j:
                M[i, i] = math.sqrt(total) if total > 0.0 else math.nan
            else:
                M[i, j] = total / M[j, j]
    # L^T x = e/L[last, last]; x[j] replaces L[last, j] once that is used.
    last = r - 1
    M[last, last] = 1.0 / (M[last, last] * M[last, last])
    for i in range(last - 1, -1, -1):
        total = -M[last, i] * M[last, last]
        for k in range(i + 1, last):
            total -= M[k, i] * M[last, k]
        M[last, i] = total / M[i, i]


@kernel(fastmath=EXACT)
def modified_decoder_quotient(
    state, out, num_slots, ranges, value, prior, entry_slot, entries, cell_class, cell_root, gram_index, gram_weight,
    pull_range, pull_index, pull_number, V, eta_Y, eta_Z, leading, f, x, total, M,
):  # fmt: skip
    """Write d(state)/dt to `out`; state = [z per colour, V h per colour], t counts batch-size-1 steps.

    The lists are those of a `ModifiedDecoderLists`. For the class c, cells X are the classes that stay equal as seen
    from c, the last of them c itself, so that column c of I - E' = G^{-1} has one value x_X per cell: sum_X' M_XX' x_X'
    is 1 for X = c, else 0, with M_XX' the sum of G_kk' over the classes k' in X', k in X. Scratch: f (entries,),
    x (cells,), total (C,), M (most cells, most cells).
    """
    log_p, tokens, drive = entries[0], entries[1], entries[2]
    q0 = -V / (V - 1.0) ** 2
    q1 = V / (V - 1.0)
    for i in range(prior.size):
        out[num_slots + i] = scaled_h_rate(state[num_slots + i], eta_Y * prior[i], V)
    for i in range(num_slots):
        out[i] = 0.0
    for c in range(value.size):
        largest = -math.inf
        for e in range(ranges[c, 0], ranges[c, 1]):
            f[e] = log_p[e] + state[entry_slot[e]]
            largest = f[e] if f[e] > largest else largest
        square = 0.0
        for e in range(ranges[c, 0], ranges[c, 1]):
            f[e] = exp_nonpositive(f[e] - largest)
            square += tokens[e] * f[e] * f[e]
        scale = 1.0 / math.sqrt(square)
        for e in range(ranges[c, 0], ranges[c, 1]):
            f[e] *= scale
    for c in range(value.size):
        first, r = ranges[c, 2], ranges[c, 3] - ranges[c, 2]
        for i in range(r):
            for j in range(i + 1):
                M[i, j] = 0.0
        for i in range(ranges[c, 4], ranges[c, 5]):
            M[gram_index[0, i], gram_index[1, i]] += gram_weight[i] * f[gram_index[2, i]] * f[gram_index[3, i]]
        own_column_of_inverse(M, r)
        total[c] = 0.0
        for i in range(r):
            x[first + i] = M[r - 1, i] / cell_root[first + i]
            total[c] += cell_root[first + i] * M[r - 1, i] * state[value[cell_class[first + i]]] / V
    for c in range(value.size):
        u = state[value[c]]
        gamma = speed(u, V)
        decay = math.exp(-u)
        factor = (V - 1.0) ** 2 * decay / ((V - 1.0) * decay + 1.0)
        for i in range(ranges[c, 2], ranges[c, 3]):  # gradient coefficients, as in kernels/modified_decoder
            if leading:
                x[i] *= gamma
            else:
                x[i] = factor * q0 * total[cell_class[i]] + (q1 - q0) * gamma * x[i]
        overlap = 0.0
        for e in range(ranges[c, 0], ranges[c, 1]):
            pull = 0.0
            for i in range(pull_range[e, 0], pull_range[e, 1]):
                pull += pull_number[i] * x[pull_index[0, i]] * f[pull_index[1, i]]
            overlap += tokens[e] * f[e] * pull
            out[entry_slot[e]] += eta_Z * drive[e] * f[e] * pull
        for e in range(ranges[c, 0], ranges[c, 1]):
            out[entry_slot[e]] -= eta_Z * drive[e] * f[e] * f[e] * overlap
    return 0.0
