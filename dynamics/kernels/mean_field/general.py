"""Right-hand side of the full mean field class by class: Eqs. (3)-(5) in expectation, T infinite.

| caller | three output columns | any other number of columns |
|---|---|---|
| steps from Python, with the loss | `mean_field_of_three_columns` | `tiled` where faster, else `..._of_any_columns` |
| compiled integrator, without the loss | `three_column_rate` | `mean_field_of_any_columns` |
| compiled integrator, the loss at a save | `mean_field_of_three_columns` | `mean_field_of_any_columns` |

The tiles need threads, which the compiled integrator cannot start, so it never uses them. Where the number of columns
is known in Python, Python chooses the kernel, so that the other kernel is not compiled.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_any, exp_nonpositive

LANES = 4  # numbers in a vector register

# In `three_column_rate` logits are not shifted by the largest one, which would be a latency, but limited to this value.
# The norm of the attention shows when the limit matters (largest logit above 287 or below -115); then the general
# kernel, which shifts, is used.
LARGEST_LOGIT = 300.0
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-100, 1e250
# Unsigned: signed indices cost a test for negative ones each.
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@kernel(fastmath=EXACT)
def mean_field(state, out, entries, weights, classes, prior, constants, work):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    Y'   = eta_Y sum_n p_n u_n (e_n - alpha_n)^T, alpha_n = softmax(Y^T u_n)
    z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (d_n - f_n (f_n . d_n)), d_n = dJ_n/df_n

    Let g_n = Y (e_n - alpha_n). Without residual connection u = f and d = g. With it (query >= 0),
    u = (f + e_q)/|f + e_q| and d = (I - u u^T) g/|f + e_q|. In this case |f + e_q|^2 = 2 + 2 f_q, where f_q is the
    entry of f for the query token q as a contextual token (the last token does not attend to itself).

    The arrays of a `Layout` are stacked, since a call from Python costs 0.1 microseconds per argument:
    entries (3, nnz) uint32: where the row of Y starts in the state, slot of z, whether the entry is the first to touch
    the row (unsigned, since each signed index costs a test for negative values); weights (2, nnz): ln P, multiplicity;
    classes (S, 6): first entry, end of entries, output column, start of the query token's row, query_entry, whether the
    class is the first to touch that row; constants: slots, columns, multiplicity of the last column, eta_Y, eta_Z,
    whether slot i is entry i. `work` (4, W) is scratch for c, c times multiplicity, g and logits; W is at least the
    number of columns, and the number of entries of a class rounded up to `LANES`.
    """
    if constants[1] == 3.0:
        return mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work)
    return mean_field_of_any_columns(state, out, entries, weights, classes, prior, constants, work)


@kernel(fastmath=EXACT)
def mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work):
    """Three output columns, two next tokens and the shared column: loops of a known length take half the time."""
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
        scale = attention(start, m, state, slots, log_p, multiplicity, c, c_counted)

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
def attention(start, m, state, slots, log_p, multiplicity, c, c_counted):
    """Write c, and c times multiplicity, on the m entries of a class; return 1/|c|.

    f = c/|c|, but callers multiply by 1/|c| as late as possible, so that nothing waits for the square root.
    """
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
    # A loop that sums and also stores would be vectorised only where its arrays are seen to lie apart: the last bits of
    # the sum would depend on where they are in memory.
    for i in range(m):
        c_counted[i] = multiplicity[start + i] * c[i]
    square = 0.0
    for i in range(m):
        square += c_counted[i] * c[i]
    return 1.0 / math.sqrt(square)


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


@kernel(fastmath=EXACT, forceinline=True)
def three_column_rate(state, out, entries, weights, classes, prior, constants, work):
    """Write d(state)/dt with three output columns to `out`, without the loss; arguments as in `mean_field`.

    This kernel is for small systems, whose time goes to latencies and instructions, not to memory: each step of the
    computation runs over all classes at once, so that exponentials fill vector registers and no class waits for
    another. It takes 0.6 of the time of `mean_field_of_three_columns` (Syn-Small to t = 1e4). With the residual
    connection, and at large logits, it calls that kernel.

    `work` (4, W) holds, for all classes: c; logits and their exponentials; sums of c Y, and 1/|c|. W is at least the
    number of entries and four times the number of classes, rounded up to `LANES`.
    """
    if classes[0, 3] >= 0:  # a residual connection
        mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work)
        return
    last_multiplicity, eta_Y, eta_Z = constants[2], constants[3], constants[4]
    rows, slots, first = entries[0], entries[1], entries[2]
    log_p, multiplicity = weights[0], weights[1]
    c, r, sums = work[0], work[1], work[2]
    number, num_classes = np.uint64(rows.size), np.uint64(prior.size)
    padded = (number + np.uint64(LANES - 1)) // np.uint64(LANES) * np.uint64(LANES)
    slots_are_entries = constants[5] == 1.0
    if slots_are_entries:
        for i in range(number):
            c[i] = log_p[i] + state[i]
    else:
        for i in range(np.uint64(constants[0])):
            out[i] = 0.0
        for i in range(number):
            c[i] = log_p[i] + state[slots[i]]
    for i in range(number, padded):
        c[i] = 0.0
    for i in range(padded):
        x = LARGEST_LOGIT if c[i] > LARGEST_LOGIT else c[i]
        c[i] = exp_any(-LARGEST_LOGIT if x < -LARGEST_LOGIT else x)

    for n in range(num_classes):
        r0, r1, r2, square = 0.0, 0.0, 0.0, 0.0
        for i in range(np.uint64(classes[n, 0]), np.uint64(classes[n, 1])):
            y = rows[i]
            counted = multiplicity[i] * c[i]
            square += counted * c[i]
            r0 += counted * state[y]
            r1 += counted * state[y + _1]
            r2 += counted * state[y + _2]
        if not SMALLEST_SQUARE < square < LARGEST_SQUARE:
            mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work)
            return
        scale = 1.0 / math.sqrt(square)
        largest = r0 if r0 > r1 else r1
        largest = largest if largest > r2 else r2
        k = _4 * n
        sums[k], sums[k + _1], sums[k + _2], sums[k + _3] = r0, r1, r2, scale
        r[k], r[k + _1], r[k + _2] = (r0 - largest) * scale, (r1 - largest) * scale, (r2 - largest) * scale
        r[k + _3] = 0.0
    for k in range(_4 * num_classes):
        r[k] = exp_nonpositive(r[k])

    for n in range(num_classes):
        k = _4 * n
        # As in `prediction_error`: the value at the class's own column is the sum of the other probabilities.
        a0, a1, a2 = r[k], r[k + _1], r[k + _2] * last_multiplicity
        total = 1.0 / (a0 + a1 + a2)
        r0, r1, last = -a0 * total, -a1 * total, -a2 * total
        if classes[n, 2] == 0:
            r0 = (a1 + a2) * total
        elif classes[n, 2] == 1:
            r1 = (a0 + a2) * total
        else:
            last = (a0 + a1) * total
        scale = sums[k + _3]
        pace = eta_Y * prior[n] * scale
        p0, p1, p2 = pace * r0, pace * r1, pace * (last / last_multiplicity)
        pace = eta_Z * prior[n] * scale
        # f . g, over |c|: by the sums of above, since g is Y (e - alpha).
        overlap = (sums[k] * r0 + sums[k + _1] * r1 + sums[k + _2] * last) * scale * scale
        for i in range(np.uint64(classes[n, 0]), np.uint64(classes[n, 1])):
            y, share = rows[i], c[i]
            change = pace * share * (r0 * state[y] + r1 * state[y + _1] + last * state[y + _2] - share * overlap)
            if slots_are_entries:
                out[i] = change
            else:
                out[slots[i]] += change
            if first[i] == 1:
                out[y], out[y + _1], out[y + _2] = share * p0, share * p1, share * p2
            else:
                out[y] += share * p0
                out[y + _1] += share * p1
                out[y + _2] += share * p2
