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
def mean_field(
    state, out, num_slots, num_columns, indptr, entry_row, entry_slot, entry_first, log_p, multiplicity, prior,
    column, query_row, query_entry, query_first, last_multiplicity, eta_Y, eta_Z, work,
):  # fmt: skip
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    Y'   = eta_Y sum_n p_n u_n (e_n - alpha_n)^T, alpha_n = softmax(Y^T u_n)
    z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (d_n - f_n (f_n . d_n)), d_n = dJ_n/df_n

    With g_n = Y (e_n - alpha_n): u = f and d = g; with the residual connection (query_row >= 0)
    u = (f + e_q)/|f + e_q| and d = (I - u u^T) g/|f + e_q|, |f + e_q|^2 = 2 + 2 f_q (q masked from itself,
    f_q the share of the query token among the contextual ones).
    `work` (4, max(entries of a class, columns)) is scratch: f, f times multiplicity, g, logits.
    """
    z = state[:num_slots]
    Y = state[num_slots:].reshape((-1, num_columns))
    dz = out[:num_slots]
    dY = out[num_slots:].reshape((-1, num_columns))
    for i in range(num_slots):
        dz[i] = 0.0
    r = work[3, :num_columns]
    loss = 0.0
    for n in range(prior.size):
        start, stop = indptr[n], indptr[n + 1]
        m = stop - start
        rows = entry_row[start:stop]
        slots = entry_slot[start:stop]
        counts = multiplicity[start:stop]
        f = work[0, :m]
        f_counted = work[1, :m]
        g = work[2, :m]
        normalized_attention(z, slots, log_p[start:stop], counts, f)
        for i in range(m):
            f_counted[i] = f[i] * counts[i]
        combine_rows(Y, rows, f_counted, r)

        residual = query_row[n] >= 0
        scale = 1.0
        if residual:
            f_query = f[query_entry[n] - start] if query_entry[n] >= 0 else 0.0
            scale = 1.0 / math.sqrt(2.0 + 2.0 * f_query)
            y_query = Y[query_row[n]]
            for j in range(num_columns):
                r[j] = (r[j] + y_query[j]) * scale
        loss += prior[n] * softmax_error(r, column[n], last_multiplicity)

        row_dots(Y, rows, r, last_multiplicity, g)
        for i in range(m):
            add_scaled(dY[rows[i]], eta_Y * prior[n] * scale * f[i], r, entry_first[start + i])
        if residual:
            add_scaled(dY[query_row[n]], eta_Y * prior[n] * scale, r, query_first[n])
            _through_residual(Y, query_row[n], query_entry[n] - start, r, last_multiplicity, scale, f_counted, f, g)

        overlap = 0.0
        for i in range(m):
            overlap += f_counted[i] * g[i]
        for i in range(m):
            dz[slots[i]] += eta_Z * prior[n] * f[i] * (g[i] - f[i] * overlap)
    return loss


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _through_residual(
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
