"""Gradient of J = -loss for one drawn sequence, or for four of one class, one per vector lane; Eqs. (3)-(4).

Four sequences at once are 1.7 times faster (Syn-Small, and Syn-Medium with one query, in batches of 128).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import (
    add_scaled,
    combine_rows,
    exp_nonpositive,
    maximum,
    row_dots,
    softmax_error,
)

Floats = NDArray[np.float64]


class Logits(NamedTuple):
    """Decoder logits Y, and the gradient of J with respect to Y and to the logits z of attention."""

    Y: Floats  # (rows, columns)
    dY: Floats
    dz: Floats  # (slots,)


class Target(NamedTuple):
    """What the sequences of a class predict."""

    column: int  # of the next token
    last_multiplicity: float  # outputs that share the last column
    query_row: int  # row of the query token, which the residual connection adds; -1 without


@kernel(fastmath=EXACT)
def _through_residual(Y, target, query_position, r, scale, f, g):
    """Replace g on the entries by (I - u u^T) g scale, u = (f + e_q) scale."""
    query_row, C = target.query_row, r.size
    projection = (target.last_multiplicity - 1.0) * r[C - 1] * Y[query_row, C - 1]
    for j in range(C):
        projection += Y[query_row, j] * r[j]
    for i in range(f.size):
        projection += f[i] * g[i]
    projection *= scale
    for i in range(f.size):
        u = f[i] * scale
        if i == query_position:
            u += scale
        g[i] = (g[i] - u * projection) * scale


@kernel(fastmath=EXACT)
def add_gradient(logits, rows, slots, f, weight, target, query_position, g, r):
    """Add weight dJ/d(z, Y) of one sequence to dz, dY; return -J = -ln alpha[column] (Eqs. 3-4).

    f, (m,), is q/|q| on the tokens that occur, q = counts exp(z). With the residual connection the decoder input is
    u = (f + e_q)/|f + e_q|; query_position is the query token's place among the tokens, or -1. g (m,) and
    r (columns,) are scratch.
    """
    Y, dY, query_row = logits.Y, logits.dY, target.query_row
    combine_rows(Y, rows, f, r)
    scale = 1.0
    if query_row >= 0:
        f_query = f[query_position] if query_position >= 0 else 0.0
        scale = 1.0 / math.sqrt(2.0 + 2.0 * f_query)
        y_query = Y[query_row]
        for j in range(r.size):
            r[j] = (r[j] + y_query[j]) * scale
    loss = softmax_error(r, target.column, target.last_multiplicity)

    row_dots(Y, rows, r, target.last_multiplicity, g)
    for i in range(f.size):
        add_scaled(dY[rows[i]], weight * scale * f[i], r, False)
    if query_row >= 0:
        add_scaled(dY[query_row], weight * scale, r, False)
        _through_residual(Y, target, query_position, r, scale, f, g)

    overlap = 0.0
    for i in range(f.size):
        overlap += f[i] * g[i]
    for i in range(f.size):
        logits.dz[slots[i]] += weight * f[i] * (g[i] - f[i] * overlap)
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _combine_rows_4(Y, rows, f, r):
    """r[a] = sum_i f[i, a] Y[rows[i], :] for four sequences a; the number of rows is a multiple of four."""
    for a in (0, 2):
        r0, r1 = r[a], r[a + 1]
        for j in range(r0.size):
            r0[j] = 0.0
            r1[j] = 0.0
        for i in range(0, rows.size, 4):
            y0, y1, y2, y3 = Y[rows[i]], Y[rows[i + 1]], Y[rows[i + 2]], Y[rows[i + 3]]
            f0, f1, f2, f3 = f[i, a], f[i + 1, a], f[i + 2, a], f[i + 3, a]
            e0, e1, e2, e3 = f[i, a + 1], f[i + 1, a + 1], f[i + 2, a + 1], f[i + 3, a + 1]
            for j in range(r0.size):
                r0[j] += f0 * y0[j] + f1 * y1[j] + f2 * y2[j] + f3 * y3[j]
                r1[j] += e0 * y0[j] + e1 * y1[j] + e2 * y2[j] + e3 * y3[j]


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _softmax_error_4(r, column, last_multiplicity, shifted, overlap, odds):
    """Turn logits r (4, columns) into errors e_n - alpha_n; write logits . error to `overlap` and odds to `odds`, (4,).

    odds[a] = (1 - alpha_n)/alpha_n, so that the loss is ln(1 + odds). shifted (4 columns,) is a work array.
    """
    C = r.shape[1]
    for a in range(4):
        r_a = r[a]
        largest = maximum(r_a)
        for j in range(C):
            shifted[a * C + j] = r_a[j] - largest
    for j in range(4 * C):
        shifted[j] = exp_nonpositive(shifted[j])
    for a in range(4):
        r_a, power = r[a], shifted[a * C : (a + 1) * C]
        own, own_logit = power[column], r_a[column]
        power[column] = 0.0
        others = (last_multiplicity - 1.0) * power[C - 1]
        dot = others * (r_a[C - 1] - own_logit)  # errors sum to 0: any shift of the logits gives the same
        for j in range(C):
            others += power[j]
            dot += power[j] * (r_a[j] - own_logit)
        scale = 1.0 / (others + own)
        for j in range(C):
            r_a[j] = -scale * power[j]
        r_a[column] = others * scale
        overlap[a] = -dot * scale
        odds[a] = others / own


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _add_rows_4(Y, dY, rows, f, r, last_multiplicity, g):
    """dY[rows[i]] += d_i = sum_a f[i, a] r[a] and g[i] = Y[rows[i]] . d_i; the number of rows is even.

    The last column of the dot product counts last_multiplicity times.
    """
    r0, r1, r2, r3 = r[0], r[1], r[2], r[3]
    last = r0.size - 1
    for i in range(0, rows.size, 2):
        y, x, dy, dx = Y[rows[i]], Y[rows[i + 1]], dY[rows[i]], dY[rows[i + 1]]
        f0, f1, f2, f3 = f[i, 0], f[i, 1], f[i, 2], f[i, 3]
        e0, e1, e2, e3 = f[i + 1, 0], f[i + 1, 1], f[i + 1, 2], f[i + 1, 3]
        y_dot = (last_multiplicity - 1.0) * y[last] * (f0 * r0[last] + f1 * r1[last] + f2 * r2[last] + f3 * r3[last])
        x_dot = (last_multiplicity - 1.0) * x[last] * (e0 * r0[last] + e1 * r1[last] + e2 * r2[last] + e3 * r3[last])
        for j in range(r0.size):
            y_part = f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j]
            x_part = e0 * r0[j] + e1 * r1[j] + e2 * r2[j] + e3 * r3[j]
            y_dot += y[j] * y_part
            x_dot += x[j] * x_part
            dy[j] += y_part
            dx[j] += x_part
        g[i] = y_dot
        g[i + 1] = x_dot


@kernel(fastmath=EXACT, forceinline=True)
def add_gradient_4(logits, rows, slots, f, lanes, weight, target, query_position, g, r, lane_values):
    """`add_gradient` of `lanes` <= 4 sequences of one class at once; return the sum of their losses.

    f (m, 4), m a multiple of 4, is 0 in the unused lanes and rows, so that they add nothing. With u the decoder input
    and r the error, f . g and u . g follow from (Y^T u) . r, and sum_a f_a g_a from the same sum over sequences that dY
    needs, so that no product of each sequence with each row is computed. g (m,), r (8, columns) and lane_values (3, 4)
    are scratch.
    """
    Y, dY, dz, query_row = logits.Y, logits.dY, logits.dz, target.query_row
    error, shifted = r[:4], r[4:].reshape(-1)
    scale, overlap, odds = lane_values[0], lane_values[1], lane_values[2]
    _combine_rows_4(Y, rows, f, error)
    for a in range(4):
        scale[a] = 1.0
        if query_row >= 0:
            f_query = f[query_position, a] if query_position >= 0 else 0.0
            scale[a] = 1.0 / math.sqrt(2.0 + 2.0 * f_query)
            for j in range(error.shape[1]):
                error[a, j] = (error[a, j] + Y[query_row, j]) * scale[a]
    _softmax_error_4(error, target.column, target.last_multiplicity, shifted, overlap, odds)
    loss = 0.0
    for a in range(lanes):
        loss += math.log1p(odds[a])
    if query_row >= 0:
        # dJ/df = scale (g - u (u . g)) and u = scale (f + e_query): what multiplies f, and what the query adds.
        for a in range(lanes):
            last = error.shape[1] - 1
            g_query = (target.last_multiplicity - 1.0) * Y[query_row, last] * error[a, last]
            for j in range(error.shape[1]):
                g_query += Y[query_row, j] * error[a, j]
            add_scaled(dY[query_row], weight * scale[a], error[a], False)
            pull = 0.0
            if query_position >= 0:
                pull = scale[a] * scale[a] * f[query_position, a] * overlap[a]
                dz[slots[query_position]] -= weight * pull
            overlap[a] -= scale[a] * g_query + pull
    for a in range(4):
        for j in range(error.shape[1]):
            error[a, j] *= weight * scale[a]
    _add_rows_4(Y, dY, rows, f, error, target.last_multiplicity, g)
    for i in range(rows.size):
        pulled = 0.0
        for a in range(4):
            pulled += f[i, a] * f[i, a] * overlap[a]
        dz[slots[i]] += g[i] - weight * pulled
    return loss
