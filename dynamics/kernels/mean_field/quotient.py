"""Right-hand side of the mean field of one value per colour (`dynamics/symmetry/quotient`), with the loss."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive


@kernel(fastmath=EXACT, forceinline=True)
def mean_field_quotient(
    state, out, ranges, classes, share, entry_slot, entries, output_number, term_index, terms, rates, work
):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    Arguments are the arrays of a `Quotient`; rates (eta_Y, eta_Z); `work` (3, W) is scratch: f, g and r, W at least the
    entry and the output colours of a class.
    """
    f, g, r = work[0], work[1], work[2]
    log_p, tokens, drive = entries[0], entries[1], entries[2]
    A, B, C = terms[0], terms[1], terms[2]
    term_entry, term_output, term_value = term_index[0], term_index[1], term_index[2]
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for c in range(share.size):
        entry, output, first, last = ranges[c, 0], ranges[c, 2], ranges[c, 4], ranges[c, 5]
        m, num_outputs = ranges[c, 1] - entry, ranges[c, 3] - output
        own, query, query_entry = classes[c, 0], classes[c, 1], classes[c, 2]
        contextual = m - 1 if query >= 0 else m
        largest = -math.inf
        for k in range(contextual):
            x = log_p[entry + k] + state[entry_slot[entry + k]]
            f[k] = x
            largest = x if x > largest else largest
        square = 0.0
        for k in range(contextual):
            f[k] = exp_nonpositive(f[k] - largest)
            square += tokens[entry + k] * f[k] * f[k]
        scale = 1.0 / math.sqrt(square)
        for k in range(contextual):
            f[k] *= scale
        shrink = 1.0
        if query >= 0:
            f[query] = 1.0
            shrink = 1.0 / math.sqrt(2.0 + (2.0 * f[query_entry] if query_entry >= 0 else 0.0))

        for j in range(num_outputs):
            r[j] = 0.0
        for i in range(first, last):
            r[term_output[i]] += A[i] * f[term_entry[i]] * state[term_value[i]]
        largest = -math.inf
        for j in range(num_outputs):
            r[j] *= shrink
            largest = r[j] if r[j] > largest else largest
        others = 0.0
        for j in range(num_outputs):
            r[j] = exp_nonpositive(r[j] - largest)
            others += 0.0 if j == own else output_number[output + j] * r[j]
        alone = r[own]
        total = 1.0 / (others + alone)
        for j in range(num_outputs):
            r[j] *= -total
        r[own] = others * total  # not 1 - alpha: it keeps its relative accuracy at late times
        loss += share[c] * math.log1p(others / alone)

        for k in range(m):
            g[k] = 0.0
        for i in range(first, last):
            k, step = term_entry[i], r[term_output[i]]
            g[k] += B[i] * step * state[term_value[i]]
            out[term_value[i]] += rates[0] * shrink * C[i] * f[k] * step
        overlap = 0.0
        for k in range(contextual):
            overlap += tokens[entry + k] * f[k] * g[k]
        if query >= 0:  # d = (I - u u^T) g shrink, u = (f + e_q) shrink
            projection = (overlap + g[query]) * shrink
            for k in range(contextual):
                g[k] = (g[k] - projection * shrink * f[k]) * shrink
            f_query = 0.0
            if query_entry >= 0:
                f_query = f[query_entry]
                g[query_entry] -= projection * shrink * shrink
            overlap = (overlap - projection * shrink * (1.0 + f_query)) * shrink
        for k in range(contextual):
            out[entry_slot[entry + k]] += rates[1] * drive[entry + k] * f[k] * (g[k] - f[k] * overlap)
    return loss
