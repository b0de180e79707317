"""Right-hand side of the full mean field class by class: any classes, with the loss; equations in `dispatch`."""

from __future__ import annotations

import math

from numba import njit

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive

LANES = 4  # numbers in a vector register


@kernel(fastmath=EXACT)
def mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work):
    """Two next tokens and the shared column: loops of a known length take half the time."""
    return _rate(3, state, out, entries, weights, classes, prior, constants, work)


@kernel(fastmath=REASSOCIATE)
def mean_field_of_any_columns(state, out, entries, weights, classes, prior, constants, work):
    """Any number of output columns."""
    return _rate(int(constants[1]), state, out, entries, weights, classes, prior, constants, work)


@njit(inline="always")
def _rate(num_columns, state, out, entries, weights, classes, prior, constants, work):
    """Write the rate and return the loss; compiled once for three columns and once for any number of them."""
    last_multiplicity, eta_Y, eta_Z = constants[2], constants[3], constants[4]
    rows, slots, first = entries[0], entries[1], entries[2]
    log_p, multiplicity = weights[0], weights[1]
    c, c_counted, g = work[0], work[1], work[2]
    r = work[3, :num_columns]
    for i in range(int(constants[0])):
        out[i] = 0.0
    loss = 0.0
    for n in range(prior.size):
        start, column, query = classes[n, 0], classes[n, 2], classes[n, 3]
        query_entry = classes[n, 4] - start
        m = classes[n, 1] - start
        largest = -math.inf
        for i in range(m):
            x = log_p[start + i] + state[slots[start + i]]
            c[i] = x
            largest = x if x > largest else largest
        padded = (m + LANES - 1) // LANES * LANES
        for i in range(m, padded):  # whole vectors: a remainder one by one takes as long as the rest
            c[i] = largest
        for i in range(padded):
            c[i] = exp_nonpositive(c[i] - largest)
        # A loop that sums and also stores would be vectorised only where its arrays are seen to lie apart: the last
        # bits of the sum would depend on where they are in memory.
        for i in range(m):
            c_counted[i] = multiplicity[start + i] * c[i]
        square = 0.0
        for i in range(m):
            square += c_counted[i] * c[i]
        # f = c/|c|; the factor is put in late, so that nothing waits for the square root.
        scale = 1.0 / math.sqrt(square)

        for j in range(num_columns):
            r[j] = 0.0
        for i in range(m):
            y = rows[start + i]
            share = c_counted[i]
            for j in range(num_columns):
                r[j] += share * state[y + j]
        for j in range(num_columns):
            r[j] *= scale
        shrink = 1.0
        if query >= 0:
            shrink = 1.0 / math.sqrt(2.0 + (2.0 * scale * c[query_entry] if query_entry >= 0 else 0.0))
            for j in range(num_columns):
                r[j] = (r[j] + state[query + j]) * shrink
        loss += prior[n] * _softmax_error(num_columns, r, column, last_multiplicity)

        last = (last_multiplicity - 1.0) * r[num_columns - 1]
        overlap = 0.0
        pace = eta_Y * prior[n] * shrink
        for i in range(m):
            y = rows[start + i]
            dot = last * state[y + (num_columns - 1)]
            for j in range(num_columns):
                dot += state[y + j] * r[j]
            g[i] = dot
            overlap += c_counted[i] * dot
            change = pace * scale * c[i]
            if first[start + i] == 1:
                for j in range(num_columns):
                    out[y + j] = change * r[j]
            else:
                for j in range(num_columns):
                    out[y + j] += change * r[j]
        overlap *= scale
        if query >= 0:
            dot = last * state[query + (num_columns - 1)]
            for j in range(num_columns):
                dot += state[query + j] * r[j]
                out[query + j] = (0.0 if classes[n, 5] == 1 else out[query + j]) + pace * r[j]
            overlap = _through_residual(m, query_entry, scale, shrink, dot, overlap, c, g)

        pace = eta_Z * prior[n] * scale
        for i in range(m):
            out[slots[start + i]] += pace * c[i] * (g[i] - scale * c[i] * overlap)
    return loss


@njit(inline="always")
def _softmax_error(num_columns, r, column, last_multiplicity):
    """As `softmax_error`, compiled with the number of columns: turn logits r into e_n - alpha_n, return the loss."""
    largest = r[0]
    for j in range(1, num_columns):
        largest = r[j] if r[j] > largest else largest
    for j in range(num_columns):
        r[j] = exp_nonpositive(r[j] - largest)
    own = r[column]
    r[column] = 0.0
    others = (last_multiplicity - 1.0) * r[num_columns - 1]
    for j in range(num_columns):
        others += r[j]
    scale = 1.0 / (others + own)
    for j in range(num_columns):
        r[j] *= -scale
    r[column] = others * scale
    return math.log1p(others / own)


@kernel(fastmath=EXACT)
def _through_residual(m, query_entry, scale, shrink, g_query, overlap, c, g):
    """Replace g on the entries by d = (I - u u^T) g shrink, u = (f + e_q) shrink; return f . d, given f . g."""
    f_query = scale * c[query_entry] if query_entry >= 0 else 0.0
    projection = (overlap + g_query) * shrink
    for i in range(m):
        g[i] = (g[i] - projection * shrink * scale * c[i]) * shrink
    if query_entry >= 0:
        g[query_entry] -= projection * shrink * shrink
    return (overlap - projection * shrink * (1.0 + f_query)) * shrink
