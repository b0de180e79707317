"""Finite SGD steps: Eqs. (3)-(4) on drawn sequences, and PyTorch's optimisers."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import (
    add_scaled,
    combine_rows,
    exp_nonpositive,
    exp_shifted,
    maximum,
    normalized_attention,
    row_dots,
    softmax_error,
)
from snapdyn.dynamics.kernels.sampling import draw_classes, multinomial


@kernel(fastmath=EXACT)
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


@kernel(fastmath=EXACT)
def _add_gradient(
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
        through_residual(Y, query_row, query_position, r, last_multiplicity, scale, f, f, g)

    overlap = 0.0
    for i in range(f.size):
        overlap += f[i] * g[i]
    for i in range(f.size):
        dz[slots[i]] += weight * f[i] * (g[i] - f[i] * overlap)
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _combine_rows_4(Y, rows, f, r):
    """r[a] = sum_i f[i, a] Y[rows[i], :] for four sequences a; rows come in fours."""
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
    """Turn logits r (4, columns) into errors e_n - alpha_n; write (logits . error) and others/own to (4,) arrays.

    odds[a] = (sum of the other probabilities)/alpha_n, so that the loss is ln(1 + odds). shifted (4 columns,)
    is scratch.
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
    """dY[rows[i]] += d_i = sum_a f[i, a] r[a] and g[i] = Y[rows[i]] . d_i; rows come in pairs.

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
def _add_gradient_4(
    Y, dz, dY, rows, slots, f, lanes, weight, column, query_row, query_position, last_multiplicity, g, r, lane_values
):  # fmt: skip
    """`_add_gradient` of `lanes` <= 4 sequences of one class at once; return the sum of their losses.

    f (m, 4), m a multiple of 4, is 0 in the unused lanes and rows, so that they add nothing. With u the decoder
    input and r the error, f . g and u . g follow from (Y^T u) . r, and sum_a f_a g_a from the same sum over
    sequences that dY needs: no product of each sequence with each row is left. g (m,), r (8, columns) and
    lane_values (3, 4) are scratch.
    """
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
    _softmax_error_4(error, column, last_multiplicity, shifted, overlap, odds)
    loss = 0.0
    for a in range(lanes):
        loss += math.log1p(odds[a])
    if query_row >= 0:
        # dJ/df = scale (g - u (u . g)) and u = scale (f + e_query): what multiplies f, and what the query adds.
        for a in range(lanes):
            g_query = (last_multiplicity - 1.0) * Y[query_row, error.shape[1] - 1] * error[a, error.shape[1] - 1]
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
    _add_rows_4(Y, dY, rows, f, error, last_multiplicity, g)
    for i in range(rows.size):
        pulled = 0.0
        for a in range(4):
            pulled += f[i, a] * f[i, a] * overlap[a]
        dz[slots[i]] += g[i] - weight * pulled
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _counted_attention(z, slots, counts, e, total, f):
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
def _tokens_that_occur(f, first, start, entry_row, entry_slot, query_entry, places, used_f):
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


@kernel(fastmath=EXACT)
def batch_gradient(
    stream, state, gradient, num_slots, num_columns, indptr, entry_row, entry_slot, log_p, ones, prior, column,
    query_row, query_entry, last_multiplicity, seq_len, drawn, cumulative, conditional, log_q, places, count_values,
    f_values, used_f, g, r, lane_values,
):  # fmt: skip
    """Add the gradient of mean J over one batch to `gradient`, [z slots, Y]; return the batch's mean loss -J.

    drawn (B,) receives the classes; B = 0 stands for the expectation over classes. seq_len = contextual
    tokens, 0 for infinite. Scratch, with the largest support m and L sequences at once, a multiple of 4: places
    (2, m + 3) ints, count_values and f_values (m L,), used_f (m + 3, 4), g (2, m + 3), r (8, columns),
    lane_values (3, L).
    """
    z = state[:num_slots]
    Y = state[num_slots:].reshape((-1, num_columns))
    dz = gradient[:num_slots]
    dY = gradient[num_slots:].reshape((-1, num_columns))
    B = drawn.size
    draw_classes(stream, cumulative, drawn)
    loss = 0.0
    i = 0
    while i < (B if B > 0 else prior.size):
        n = drawn[i] if B > 0 else i
        same = 1
        while i + same < B and drawn[i + same] == n:
            same += 1
        i += same
        part = slice(indptr[n], indptr[n + 1])
        m = part.stop - part.start
        if seq_len == 0:
            weight = same / B if B > 0 else prior[n]
            normalized_attention(z, entry_slot[part], log_p[part], ones[part], g[0, :m])
            position = query_entry[n] - part.start if query_entry[n] >= 0 else -1
            loss += weight * _add_gradient(
                Y, dz, dY, entry_row[part], entry_slot[part], g[0, :m], weight, column[n], query_row[n], position,
                last_multiplicity, g[1, :m], r[0],
            )  # fmt: skip
            continue
        while same > 0:
            block = min(same, lane_values.shape[1])
            same -= block
            # Contiguous columns in fours, for vectors: sequences drawn beyond the block get no weight.
            width = (block + 3) // 4 * 4
            drawn_width = width if block > 4 else block
            counts = count_values[: m * drawn_width].reshape((m, drawn_width))
            f = f_values[: m * width].reshape((m, width))
            multinomial(stream, seq_len, conditional[part], log_q[part], counts, lane_values.reshape(-1))
            _counted_attention(z, entry_slot[part], counts, g[0, :m], lane_values[0, :drawn_width], f)
            f[:, block:] = 0.0
            for first in range(0, block, 4):
                lanes = min(block - first, 4)
                used, position = _tokens_that_occur(
                    f, first, part.start, entry_row, entry_slot, query_entry[n], places, used_f
                )
                rows, slots = places[0, :used], places[1, :used]
                if lanes == 1:
                    for k in range(used):
                        g[0, k] = used_f[k, 0]
                    loss += _add_gradient(
                        Y, dz, dY, rows, slots, g[0, :used], 1.0 / B, column[n], query_row[n], position,
                        last_multiplicity, g[1, :used], r[0],
                    ) / B  # fmt: skip
                else:
                    loss += _add_gradient_4(
                        Y, dz, dY, rows, slots, used_f[:used], lanes, 1.0 / B, column[n], query_row[n], position,
                        last_multiplicity, g[0, :used], r, lane_values,
                    ) / B  # fmt: skip
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _sgd_update(x, gradient, rate, momentum, weight_decay):
    """torch.optim.SGD on the loss -J (no dampening, not Nesterov); NaN if x is not finite.

    The gradient of the next batch is added to what this leaves in `gradient`, momentum times the velocity: one
    array less to read and write.
    """
    check = 0.0
    for i in range(x.size):
        velocity = gradient[i] - weight_decay * x[i]
        gradient[i] = momentum * velocity
        x[i] += rate * velocity
        check += 0.0 * x[i]
    return check


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _adam_update(x, gradient, first, second, step, rate, beta_1, beta_2, eps, weight_decay):
    """torch.optim.Adam on the loss -J, step counted from 1, gradient cleared; NaN if x is not finite."""
    step_size = rate / (1.0 - beta_1**step)
    root_correction = 1.0 / math.sqrt(1.0 - beta_2**step)
    check = 0.0
    for i in range(x.size):
        d = weight_decay * x[i] - gradient[i]
        gradient[i] = 0.0
        first[i] = beta_1 * first[i] + (1.0 - beta_1) * d
        second[i] = beta_2 * second[i] + (1.0 - beta_2) * d * d
        x[i] -= step_size * first[i] / (math.sqrt(second[i]) * root_correction + eps)
        check += 0.0 * x[i]
    return check


@kernel(fastmath=EXACT)
def row_sums(Y, last_multiplicity, sums):
    """sums = sum over all outputs of each row of Y, (rows,)."""
    for i in range(Y.shape[0]):
        total = (last_multiplicity - 1.0) * Y[i, Y.shape[1] - 1]
        for j in range(Y.shape[1]):
            total += Y[i, j]
        sums[i] = total


@kernel(fastmath=EXACT, nogil=True, allocates=True)  # numba allocates where one slice is assigned to another
def sgd_steps(
    stream, state, gradient, first_moment, second_moment, step, stop, steps, saved, record, saved_z, saved_loss,
    saved_Y, saved_row_sums, adam, eta_Y, eta_Z, momentum, beta_1, beta_2, eps, weight_decay, batch,
):  # fmt: skip
    """Make the updates step..stop-1, in place, saving the state at the steps in `record` from number `saved` on.

    The state at step i is saved with the loss of the batch drawn next. Returns (step, saved, finite): finite
    is False when the loss at `step`, or the state after the update to `step`, is not finite. Save arrays with
    no rows are not written. `batch` holds the arguments of `batch_gradient` after `gradient`.
    """
    num_slots, num_columns, last_multiplicity = batch[0], batch[1], batch[11]
    Y = state[num_slots:].reshape((-1, num_columns))
    while True:
        keep = saved < record.size and record[saved] == step
        if step == stop and not (keep and step == steps):
            return step, saved, True
        loss = batch_gradient(stream, state, gradient, *batch)
        if not math.isfinite(loss):
            return step, saved, False
        if keep:
            saved_z[saved] = state[:num_slots]
            saved_loss[saved] = loss
            if saved_Y.shape[0] > 0:
                saved_Y[saved] = Y
            if saved_row_sums.shape[0] > 0:
                row_sums(Y, last_multiplicity, saved_row_sums[saved])
            saved += 1
        if step == stop:
            return step, saved, True
        step += 1
        check = 0.0
        for part, rate in ((slice(0, num_slots), eta_Z), (slice(num_slots, state.size), eta_Y)):
            if adam:
                check += _adam_update(
                    state[part], gradient[part], first_moment[part], second_moment[part], step, rate, beta_1, beta_2,
                    eps, weight_decay,
                )  # fmt: skip
            else:
                check += _sgd_update(state[part], gradient[part], rate, momentum, weight_decay)
        if check != 0.0:  # it is 0 or NaN
            return step, saved, False
