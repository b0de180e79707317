"""Finite SGD steps: Eqs. (3)-(4) on drawn sequences, and PyTorch's optimisers."""

from __future__ import annotations

import math

from numba import njit

from snapdyn.dynamics.kernels.elementary import (
    EXACT,
    REASSOCIATE,
    add_scaled,
    combine_rows,
    exp_shifted,
    normalized_attention,
    row_dots,
    softmax_error,
)
from snapdyn.dynamics.kernels.mean_field import through_residual
from snapdyn.dynamics.kernels.sampling import draw_classes, multinomial, multinomial_4


@njit(cache=True, fastmath=EXACT, error_model="numpy")
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


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _combine_rows_4(Y, rows, f, r):
    """r[a] = sum_i f[a, i] Y[rows[i], :] for four sequences a, two rows at a time."""
    r0, r1, r2, r3 = r[0], r[1], r[2], r[3]
    C = r0.size
    for j in range(C):
        r0[j] = 0.0
        r1[j] = 0.0
        r2[j] = 0.0
        r3[j] = 0.0
    i = 0
    while i < rows.size:
        k = i + 1 if i + 1 < rows.size else i
        y, x = Y[rows[i]], Y[rows[k]]
        f0, f1, f2, f3 = f[0, i], f[1, i], f[2, i], f[3, i]
        e0, e1, e2, e3 = f[0, k], f[1, k], f[2, k], f[3, k]
        if k == i:
            e0 = e1 = e2 = e3 = 0.0
        for j in range(C):
            r0[j] += f0 * y[j] + e0 * x[j]
            r1[j] += f1 * y[j] + e1 * x[j]
            r2[j] += f2 * y[j] + e2 * x[j]
            r3[j] += f3 * y[j] + e3 * x[j]
        i += 2


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _dots_and_add_4(y, dy, r, s0, s1, s2, s3, last_multiplicity):
    """dy += sum_a s_a r[a]; return y . r[a] for four sequences, the last column counted several times."""
    r0, r1, r2, r3 = r[0], r[1], r[2], r[3]
    last = r0.size - 1
    extra = (last_multiplicity - 1.0) * y[last]
    g0 = g1 = g2 = g3 = 0.0
    for j in range(r0.size):
        g0 += y[j] * r0[j]
        g1 += y[j] * r1[j]
        g2 += y[j] * r2[j]
        g3 += y[j] * r3[j]
        dy[j] += s0 * r0[j] + s1 * r1[j] + s2 * r2[j] + s3 * r3[j]
    return g0 + extra * r0[last], g1 + extra * r1[last], g2 + extra * r2[last], g3 + extra * r3[last]


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _add_gradient_4(
    Y, dz, dY, rows, slots, f, lanes, weight, column, query_row, query_position, last_multiplicity, g, r, scales
):  # fmt: skip
    """`_add_gradient` of `lanes` <= 4 sequences of one class at once; return the sum of their losses.

    Each row of Y is read twice for all of them. f (4, m) is 0 in the unused lanes, so that they add nothing;
    g (4, m), r (4, columns) and scales (4,) are scratch.
    """
    _combine_rows_4(Y, rows, f, r)
    loss = 0.0
    for a in range(4):
        scales[a] = weight
        if query_row >= 0:
            f_query = f[a, query_position] if query_position >= 0 else 0.0
            scales[a] = weight / math.sqrt(2.0 + 2.0 * f_query)
            y_query = Y[query_row]
            for j in range(r.shape[1]):
                r[a, j] = (r[a, j] + y_query[j]) * (scales[a] / weight)
        lane_loss = softmax_error(r[a], column, last_multiplicity)
        if a < lanes:
            loss += lane_loss
    for i in range(rows.size):
        g[0, i], g[1, i], g[2, i], g[3, i] = _dots_and_add_4(
            Y[rows[i]], dY[rows[i]], r, scales[0] * f[0, i], scales[1] * f[1, i], scales[2] * f[2, i],
            scales[3] * f[3, i], last_multiplicity,
        )  # fmt: skip
    for a in range(lanes):
        f_a, g_a = f[a], g[a]
        if query_row >= 0:
            add_scaled(dY[query_row], scales[a], r[a], False)
            through_residual(Y, query_row, query_position, r[a], last_multiplicity, scales[a] / weight, f_a, f_a, g_a)
        overlap = 0.0
        for i in range(rows.size):
            overlap += f_a[i] * g_a[i]
        for i in range(rows.size):
            dz[slots[i]] += weight * f_a[i] * (g_a[i] - f_a[i] * overlap)
    return loss


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _counted_attention(e, occurrences, f):
    """f = q/|q| with q = occurrences e; return False when q underflows."""
    total = 0.0
    for i in range(f.size):
        f[i] = occurrences[i] * e[i]
        total += f[i] * f[i]
    if not total > 1e-200:
        return False
    scale = 1.0 / math.sqrt(total)
    for i in range(f.size):
        f[i] *= scale
    return True


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _rare_attention(z, slots, occurrences, f):
    """f = q/|q| of a sequence whose tokens have a far lower logit than others of its block."""
    largest = -math.inf
    for i in range(f.size):
        if occurrences[i] > 0:
            largest = max(largest, z[slots[i]])
    total = 0.0
    for i in range(f.size):
        f[i] = occurrences[i] * math.exp(z[slots[i]] - largest) if occurrences[i] > 0 else 0.0
        total += f[i] * f[i]
    scale = 1.0 / math.sqrt(total)
    for i in range(f.size):
        f[i] *= scale


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def batch_gradient(
    stream, state, gradient, num_slots, num_columns, indptr, entry_row, entry_slot, log_p, ones, prior, column,
    query_row, query_entry, last_multiplicity, seq_len, drawn, cumulative, conditional, log_q, counts, places, f, g, r,
):  # fmt: skip
    """Add the gradient of mean J over one batch to `gradient`, [z slots, Y]; return the batch's mean loss -J.

    drawn (B,) receives the classes; B = 0 stands for the expectation over classes. seq_len = contextual
    tokens, 0 for infinite. Scratch, with the largest support m: counts (4, m) and places (2, m) ints, f and g
    (5, m), r (4, columns).
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
            normalized_attention(z, entry_slot[part], log_p[part], ones[part], f[0, :m])
            position = query_entry[n] - part.start if query_entry[n] >= 0 else -1
            loss += weight * _add_gradient(
                Y, dz, dY, entry_row[part], entry_slot[part], f[0, :m], weight, column[n], query_row[n], position,
                last_multiplicity, g[0, :m], r[0],
            )  # fmt: skip
            continue
        while same > 0:
            lanes = min(same, 4)
            same -= lanes
            if lanes == 1:
                multinomial(stream, seq_len, conditional[part], log_q[part], counts[0, :m])
                counts[1:, :m] = 0
            else:
                multinomial_4(stream, seq_len, lanes, conditional[part], log_q[part], counts[:, :m])
            used = 0
            position = -1
            for k in range(m):
                if counts[0, k] + counts[1, k] + counts[2, k] + counts[3, k] > 0:
                    if part.start + k == query_entry[n]:
                        position = used
                    places[0, used] = entry_row[part.start + k]
                    places[1, used] = entry_slot[part.start + k]
                    f[4, used] = z[places[1, used]]
                    for a in range(4):
                        counts[a, used] = counts[a, k]
                    used += 1
            rows, slots, e = places[0, :used], places[1, :used], f[4, :used]
            exp_shifted(e)
            for a in range(4):
                if a >= lanes:
                    f[a, :used] = 0.0
                elif not _counted_attention(e, counts[a, :used], f[a, :used]):
                    _rare_attention(z, slots, counts[a, :used], f[a, :used])
            if lanes == 1:
                loss += _add_gradient(
                    Y, dz, dY, rows, slots, f[0, :used], 1.0 / B, column[n], query_row[n], position,
                    last_multiplicity, g[0, :used], r[0],
                ) / B  # fmt: skip
            else:
                loss += _add_gradient_4(
                    Y, dz, dY, rows, slots, f[:, :used], lanes, 1.0 / B, column[n], query_row[n], position,
                    last_multiplicity, g[:, :used], r, g[4],
                ) / B  # fmt: skip
    return loss


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _sgd_update(x, gradient, velocity, rate, momentum, weight_decay):
    """torch.optim.SGD on the loss -J (no dampening, not Nesterov), gradient cleared; NaN if x is not finite."""
    check = 0.0
    for i in range(x.size):
        d = weight_decay * x[i] - gradient[i]
        gradient[i] = 0.0
        velocity[i] = momentum * velocity[i] + d
        x[i] -= rate * velocity[i]
        check += 0.0 * x[i]
    return check


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _plain_update(x, gradient, rate):
    """x += rate gradient, gradient cleared; NaN if x is not finite."""
    check = 0.0
    for i in range(x.size):
        x[i] += rate * gradient[i]
        gradient[i] = 0.0
        check += 0.0 * x[i]
    return check


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
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


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def row_sums(Y, last_multiplicity, sums):
    """sums = sum over all outputs of each row of Y, (rows,)."""
    for i in range(Y.shape[0]):
        total = (last_multiplicity - 1.0) * Y[i, Y.shape[1] - 1]
        for j in range(Y.shape[1]):
            total += Y[i, j]
        sums[i] = total


@njit(cache=True, fastmath=EXACT, error_model="numpy", nogil=True)
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
            elif momentum == 0.0 and weight_decay == 0.0:
                check += _plain_update(state[part], gradient[part], rate)
            else:
                check += _sgd_update(state[part], gradient[part], first_moment[part], rate, momentum, weight_decay)
        if check != 0.0:  # it is 0 or NaN
            return step, saved, False
