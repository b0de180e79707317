"""Right-hand side of the full mean field: Eqs. (3)-(5) in expectation, T infinite, nothing frozen."""

from __future__ import annotations

import math

from numba import njit

from snapdyn.dynamics.kernels.elementary import (
    EXACT,
    add_scaled,
    combine_rows,
    normalized_attention,
    row_dots,
    softmax_error,
)


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def mean_field(state, out, entries, weights, classes, prior, constants, work):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    Y'   = eta_Y sum_n p_n u_n (e_n - alpha_n)^T, alpha_n = softmax(Y^T u_n)
    z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (d_n - f_n (f_n . d_n)), d_n = dJ_n/df_n

    With g_n = Y (e_n - alpha_n): u = f and d = g; with the residual connection (query_row >= 0)
    u = (f + e_q)/|f + e_q| and d = (I - u u^T) g/|f + e_q|, |f + e_q|^2 = 2 + 2 f_q (q masked from itself,
    f_q the share of the query token among the contextual ones).

    The arrays of a `Layout` are stacked, since a call from Python costs 0.1 microseconds per argument:
    entries (3, nnz): row of Y, slot of z, first touch of the row; weights (2, nnz): ln P, multiplicity;
    classes (S, 6): first entry, end of entries, output column, query_row, query_entry, first touch of it;
    constants: slots, columns, multiplicity of the last column, eta_Y, eta_Z.
    `work` (4, max(entries of a class, columns)) is scratch: f, f times multiplicity, g, logits.
    """
    num_slots, num_columns = int(constants[0]), int(constants[1])
    last_multiplicity, eta_Y, eta_Z = constants[2], constants[3], constants[4]
    z = state[:num_slots]
    Y = state[num_slots:].reshape((-1, num_columns))
    dz = out[:num_slots]
    dY = out[num_slots:].reshape((-1, num_columns))
    for i in range(num_slots):
        dz[i] = 0.0
    r = work[3, :num_columns]
    loss = 0.0
    for n in range(prior.size):
        start, stop = classes[n, 0], classes[n, 1]
        column, query_row, query_entry = classes[n, 2], classes[n, 3], classes[n, 4] - start
        m = stop - start
        rows = entries[0, start:stop]
        slots = entries[1, start:stop]
        first = entries[2, start:stop]
        counts = weights[1, start:stop]
        f = work[0, :m]
        f_counted = work[1, :m]
        g = work[2, :m]
        normalized_attention(z, slots, weights[0, start:stop], counts, f)
        for i in range(m):
            f_counted[i] = f[i] * counts[i]
        combine_rows(Y, rows, f_counted, r)

        residual = query_row >= 0
        scale = 1.0
        if residual:
            f_query = f[query_entry] if query_entry >= 0 else 0.0
            scale = 1.0 / math.sqrt(2.0 + 2.0 * f_query)
            y_query = Y[query_row]
            for j in range(num_columns):
                r[j] = (r[j] + y_query[j]) * scale
        loss += prior[n] * softmax_error(r, column, last_multiplicity)

        row_dots(Y, rows, r, last_multiplicity, g)
        for i in range(m):
            add_scaled(dY[rows[i]], eta_Y * prior[n] * scale * f[i], r, first[i] == 1)
        if residual:
            add_scaled(dY[query_row], eta_Y * prior[n] * scale, r, classes[n, 5] == 1)
            through_residual(Y, query_row, query_entry, r, last_multiplicity, scale, f_counted, f, g)

        overlap = 0.0
        for i in range(m):
            overlap += f_counted[i] * g[i]
        for i in range(m):
            dz[slots[i]] += eta_Z * prior[n] * f[i] * (g[i] - f[i] * overlap)
    return loss


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def through_residual(
    Y, query_row, query_entry, r, last_multiplicity, scale, f_counted, f, g
):  # fmt: skip
    """Replace g on the entries by (I - u u^T) g scale, u = (f + e_q) scale."""
    C = r.size
    g_query = (last_multiplicity - 1.0) * r[C - 1] * Y[query_row, C - 1]
    for j in range(C):
        g_query += Y[query_row, j] * r[j]
    projection = g_query
    for i in range(f.size):
        projection += f_counted[i] * g[i]
    projection *= scale
    for i in range(f.size):
        u = f[i] * scale
        if i == query_entry:
            u += scale
        g[i] = (g[i] - u * projection) * scale
