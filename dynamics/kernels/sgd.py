"""Finite SGD steps: the gradient of a drawn batch, and the loop over steps."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.counted_attention import counted_attention, tokens_that_occur
from snapdyn.dynamics.kernels.elementary import normalized_attention
from snapdyn.dynamics.kernels.four_sequences import add_gradient_4
from snapdyn.dynamics.kernels.optimizers import adam_update, sgd_update
from snapdyn.dynamics.kernels.sampling import draw_classes, multinomial
from snapdyn.dynamics.kernels.sequence_gradient import add_gradient


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
            loss += weight * add_gradient(
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
            counted_attention(z, entry_slot[part], counts, g[0, :m], lane_values[0, :drawn_width], f)
            f[:, block:] = 0.0
            for first in range(0, block, 4):
                lanes = min(block - first, 4)
                used, position = tokens_that_occur(
                    f, first, part.start, entry_row, entry_slot, query_entry[n], places, used_f
                )
                rows, slots = places[0, :used], places[1, :used]
                if lanes == 1:
                    for k in range(used):
                        g[0, k] = used_f[k, 0]
                    loss += add_gradient(
                        Y, dz, dY, rows, slots, g[0, :used], 1.0 / B, column[n], query_row[n], position,
                        last_multiplicity, g[1, :used], r[0],
                    ) / B  # fmt: skip
                else:
                    loss += add_gradient_4(
                        Y, dz, dY, rows, slots, used_f[:used], lanes, 1.0 / B, column[n], query_row[n], position,
                        last_multiplicity, g[0, :used], r, lane_values,
                    ) / B  # fmt: skip
    return loss


@kernel(fastmath=EXACT)
def row_sums(Y, last_multiplicity, sums):
    """sums = sum over all outputs of each row of Y, (rows,)."""
    for i in range(Y.shape[0]):
        total = (last_multiplicity - 1.0) * Y[i, Y.shape[1] - 1]
        for j in range(Y.shape[1]):
            total += Y[i, j]
        sums[i] = total


@kernel(fastmath=EXACT, nogil=True)
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
            for i in range(num_slots):  # in loops: compiling the assignment of an array takes more than a second
                saved_z[saved, i] = state[i]
            saved_loss[saved] = loss
            if saved_Y.shape[0] > 0:
                for i in range(Y.shape[0]):
                    for j in range(num_columns):
                        saved_Y[saved, i, j] = Y[i, j]
            if saved_row_sums.shape[0] > 0:
                row_sums(Y, last_multiplicity, saved_row_sums[saved])
            saved += 1
        if step == stop:
            return step, saved, True
        step += 1
        check = 0.0
        for part, rate in ((slice(0, num_slots), eta_Z), (slice(num_slots, state.size), eta_Y)):
            if adam:
                check += adam_update(
                    state[part], gradient[part], first_moment[part], second_moment[part], step, rate, beta_1, beta_2,
                    eps, weight_decay,
                )  # fmt: skip
            else:
                check += sgd_update(state[part], gradient[part], rate, momentum, weight_decay)
        if check != 0.0:  # it is 0 or NaN
            return step, saved, False
