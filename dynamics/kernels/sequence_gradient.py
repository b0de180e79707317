"""Gradient of one sequence: Eqs. (3)-(4)."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.elementary import add_scaled, combine_rows, row_dots, softmax_error


@kernel(fastmath=EXACT)
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


@kernel(fastmath=EXACT)
def add_gradient(
    Y, dz, dY, rows, slots, f, weight, column, query_row, query_position, last_multiplicity, g, r
):  # fmt: skip
    """Add weight dJ/d(z, Y) of one sequence to dz, dY; return -J = -ln alpha[column] (Eqs. 3-4).

    f, (m,), is q/|q| on the tokens that occur. With the residual connection (query_row >= 0) the decoder
    input is u = (f + e_q)/|f + e_q|; query_position is the query token's place among the tokens, or -1.
    g (m,) and r (columns,) are scratch.
    """
    combine_rows(Y, rows, f, r)
    scale = 1.0
    if query_row >= 0:
        f_query = f[query_position] if query_position >= 0 else 0.0
        scale = 1.0 / math.sqrt(2.0 + 2.0 * f_query)
        y_query = Y[query_row]
        for j in range(r.size):
            r[j] = (r[j] + y_query[j]) * scale
    loss = softmax_error(r, column, last_multiplicity)

    row_dots(Y, rows, r, last_multiplicity, g)
    for i in range(f.size):
        add_scaled(dY[rows[i]], weight * scale * f[i], r, False)
    if query_row >= 0:
        add_scaled(dY[query_row], weight * scale, r, False)
        _through_residual(Y, query_row, query_position, r, last_multiplicity, scale, f, f, g)

    overlap = 0.0
    for i in range(f.size):
        overlap += f[i] * g[i]
    for i in range(f.size):
        dz[slots[i]] += weight * f[i] * (g[i] - f[i] * overlap)
    return loss
