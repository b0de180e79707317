"""Finite SGD steps: the attention of drawn sequences, the gradient of a batch, and the loop over steps."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_shifted, normalized_attention
from snapdyn.dynamics.kernels.optimizers import is_updated
from snapdyn.dynamics.kernels.sampling import draw_classes, multinomial
from snapdyn.dynamics.kernels.sequence_gradient import Logits, Target, add_gradient, add_gradient_4

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Classes(NamedTuple):
    """The classes that batches are drawn from, as `systems.layout.Layout` has them, and tables of the sampler."""

    num_slots: int
    num_columns: int
    last_multiplicity: float  # outputs that share the last column
    indptr: Ints  # (S+1,) entries of class n are indptr[n]:indptr[n+1]
    row: Ints  # (entries,) row of Y
    slot: Ints  # (entries,) slot of z
    log_p: Floats  # (entries,) ln P(l|n)
    ones: Floats  # (entries,) tokens of a row: no tokens are lumped
    prior: Floats  # (S,)
    column: Ints  # (S,) output column of the next token
    query_row: Ints  # (S,) row of the query token with the residual connection, else -1
    query_entry: Ints  # (S,) entry that is the query token itself, else -1
    cumulative: Floats  # (S,) cumulative prior
    conditional: Floats  # (entries,) P_i/(P_i + ... + P_last) within the class
    log_q: Floats  # (entries,) ln(1 - min(conditional, 1 - conditional))


class Scratch(NamedTuple):
    """Working memory; m: most tokens of a class; L: number of sequences held at once, a multiple of 4."""

    drawn: Ints  # (B,) drawn classes; B = 0 stands for the expectation over classes
    places: Ints  # (2, m + 3)
    counts: Floats  # (m L,)
    f: Floats  # (m L,)
    used_f: Floats  # (m + 3, 4)
    g: Floats  # (2, m + 3)
    r: Floats  # (8, columns)
    lanes: Floats  # (3, L)


class Record(NamedTuple):
    """Steps at which the state is saved, and what is saved; arrays with no rows are not written."""

    steps: Ints  # (N,)
    z: Floats  # (N, slots)
    loss: Floats  # (N,) of the batch drawn next
    Y: Floats  # (N, rows, columns)
    row_sums: Floats  # (N, rows)


@kernel(fastmath=REASSOCIATE, forceinline=True)
def counted_attention(z, slots, counts, e, total, f):
    """f[:, a] = q/|q| for each sequence a, q = counts exp(z); counts and f are (m, sequences), e and total scratch."""
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
    """Write a multiple of q, whose logits may be far below others of its class, to f[:, a]; return its squared norm."""
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
def _tokens_that_occur(classes, n, f, first, places, used_f):
    """Write rows, slots and f of the tokens in sequences first..first+3; return their number and the query's place.

    f (m, sequences) belongs to class n; places is (2, >= m + 3), used_f is (>= m + 3, 4). Tokens with f = 0 are added
    until the number is a multiple of four; the query's place is -1 where the query does not occur.
    """
    start, used, query_position = classes.indptr[n], 0, -1
    for i in range(f.shape[0]):
        f0, f1, f2, f3 = f[i, first], f[i, first + 1], f[i, first + 2], f[i, first + 3]
        if f0 + f1 + f2 + f3 > 0.0:
            if start + i == classes.query_entry[n]:
                query_position = used
            places[0, used] = classes.row[start + i]
            places[1, used] = classes.slot[start + i]
            used_f[used, 0], used_f[used, 1], used_f[used, 2], used_f[used, 3] = f0, f1, f2, f3
            used += 1
    while used % 4:
        places[0, used], places[1, used] = places[0, 0], places[1, 0]
        used_f[used] = 0.0
        used += 1
    return used, query_position


@kernel(fastmath=EXACT)
def batch_gradient(stream, state, gradient, classes, seq_len, scratch):
    """Add the gradient of mean J over one batch to `gradient`, [z slots, Y]; return the batch's mean loss -J.

    `seq_len` is the number of contextual tokens, 0 for infinite sequences.
    """
    drawn, places, used_f, g, r = scratch.drawn, scratch.places, scratch.used_f, scratch.g, scratch.r
    num_slots, columns = classes.num_slots, classes.num_columns
    z = state[:num_slots]
    dY = gradient[num_slots:].reshape((-1, columns))
    logits = Logits(state[num_slots:].reshape((-1, columns)), dY, gradient[:num_slots])
    B = drawn.size
    draw_classes(stream, classes.cumulative, drawn)
    loss = 0.0
    i = 0
    while i < (B if B > 0 else classes.prior.size):
        n = drawn[i] if B > 0 else i
        same = 1
        while i + same < B and drawn[i + same] == n:
            same += 1
        i += same
        target = Target(classes.column[n], classes.last_multiplicity, classes.query_row[n])
        part = slice(classes.indptr[n], classes.indptr[n + 1])
        row, slot, m = classes.row[part], classes.slot[part], part.stop - part.start
        if seq_len == 0:
            weight = same / B if B > 0 else classes.prior[n]
            normalized_attention(z, slot, classes.log_p[part], classes.ones[part], g[0, :m])
            position = classes.query_entry[n] - part.start if classes.query_entry[n] >= 0 else -1
            loss += weight * add_gradient(logits, row, slot, g[0, :m], weight, target, position, g[1, :m], r[0])
            continue
        while same > 0:
            block = min(same, scratch.lanes.shape[1])
            same -= block
            # Contiguous columns in fours, for vectors: sequences drawn beyond the block get no weight.
            width = (block + 3) // 4 * 4
            drawn_width = width if block > 4 else block
            counts = scratch.counts[: m * drawn_width].reshape((m, drawn_width))
            f = scratch.f[: m * width].reshape((m, width))
            conditional, log_q = classes.conditional[part], classes.log_q[part]
            multinomial(stream, seq_len, conditional, log_q, counts, scratch.lanes.reshape(-1))
            counted_attention(z, slot, counts, g[0, :m], scratch.lanes[0, :drawn_width], f)
            f[:, block:] = 0.0
            for first in range(0, block, 4):
                lanes = min(block - first, 4)
                used, position = _tokens_that_occur(classes, n, f, first, places, used_f)
                rows, slots, weight = places[0, :used], places[1, :used], 1.0 / B
                if lanes == 1:
                    for k in range(used):
                        g[0, k] = used_f[k, 0]
                    of_lanes = add_gradient(
                        logits, rows, slots, g[0, :used], weight, target, position, g[1, :used], r[0]
                    )
                else:
                    of_lanes = add_gradient_4(
                        logits,
                        rows,
                        slots,
                        used_f[:used],
                        lanes,
                        weight,
                        target,
                        position,
                        g[0, :used],
                        r,
                        scratch.lanes,
                    )
                loss += of_lanes / B
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
def sgd_steps(stream, descent, record, update, classes, seq_len, scratch, steps, step, stop, saved):
    """Make the updates step..stop-1, in place, saving the state at the steps of the record from index `saved` on.

    `steps` is the last step of the run. Returns (step, saved, finite): finite is False when the loss at `step`, or the
    state after the update to `step`, is not finite.
    """
    state, gradient, num_slots = descent.state, descent.gradient, classes.num_slots
    Y = state[num_slots:].reshape((-1, classes.num_columns))
    while True:
        keep = saved < record.steps.size and record.steps[saved] == step
        if step == stop and not (keep and step == steps):
            return step, saved, True
        loss = batch_gradient(stream, state, gradient, classes, seq_len, scratch)
        if not math.isfinite(loss):
            return step, saved, False
        if keep:
            for i in range(num_slots):  # in loops: compiling the assignment of an array takes more than a second
                record.z[saved, i] = state[i]
            record.loss[saved] = loss
            if record.Y.shape[0] > 0:
                for i in range(Y.shape[0]):
                    for j in range(Y.shape[1]):
                        record.Y[saved, i, j] = Y[i, j]
            if record.row_sums.shape[0] > 0:
                row_sums(Y, classes.last_multiplicity, record.row_sums[saved])
            saved += 1
        if step == stop:
            return step, saved, True
        step += 1
        if not is_updated(descent, update, num_slots, step):
            return step, saved, False
