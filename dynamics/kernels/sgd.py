"""Finite SGD steps: the attention of drawn sequences, the gradient of a batch, and the loop over steps."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_shifted
from snapdyn.dynamics.kernels.law import Entries, Outputs, Query, Structure, add_gradient, attention, mean_field
from snapdyn.dynamics.kernels.rules import is_updated
from snapdyn.dynamics.kernels.sampling import draw_classes, multinomial

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Classes(NamedTuple):
    """The classes that batches are drawn from, without lumped tokens, and tables of the sampler."""

    lists: Structure  # is_first is false everywhere: gradients are added
    cumulative: Floats  # (S,) cumulative prior
    conditional: Floats  # (entries,) P_i/(P_i + ... + P_last) within the class
    log_q: Floats  # (entries,) ln(1 - min(conditional, 1 - conditional))


class Scratch(NamedTuple):
    """Working memory; m: most tokens of a class; L: number of sequences held at once."""

    drawn: Ints  # (B,) drawn classes; B = 0 stands for the expectation over classes
    places: Ints  # (2, m) slot and first value of the tokens that occur
    counts: Floats  # (m L,)
    f: Floats  # (m L,)
    lanes: Floats  # (3, L)
    work: Floats  # of `law.add_gradient`


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
def _tokens_that_occur(lists, n, f, places, work):
    """Write slot, first value and f of the tokens with f > 0, (m,), to `places` and `work`; return their number and
    the place of the query among them (-1: it does not occur)."""
    start, used, query_position = lists.indptr[n], 0, -1
    for i in range(f.size):
        if f[i] > 0.0:
            if i == lists.query[n, 1]:
                query_position = used
            places[0, used], places[1, used] = lists.slot[start + i], lists.first[start + i]
            work[0, used], work[1, used] = f[i], f[i]
            used += 1
    return used, query_position


@kernel(fastmath=EXACT)
def batch_gradient(stream, state, gradient, classes, seq_len, scratch):
    """Add the gradient of mean J over one batch to `gradient`, [z slots, Y]; return the batch's mean loss -J.

    `seq_len` is the number of contextual tokens, 0 for infinite sequences.
    """
    lists, drawn, places, work = classes.lists, scratch.drawn, scratch.places, scratch.work
    B = drawn.size
    draw_classes(stream, classes.cumulative, drawn)
    loss = 0.0
    i = 0
    while i < (B if B > 0 else lists.share.size):
        n = drawn[i] if B > 0 else i
        same = 1
        while i + same < B and drawn[i + same] == n:
            same += 1
        i += same
        outputs = Outputs(lists.value, lists.own[n], lists.number, lists.columns)
        part = slice(lists.indptr[n], lists.indptr[n + 1])
        slot, m = lists.slot[part], part.stop - part.start
        if seq_len == 0:
            weight = same / B if B > 0 else lists.share[n]
            scale = attention(n, state, lists, work)
            entries = Entries(slot, lists.first[part], lists.is_first[part])
            query = Query(lists.query[n, 0], lists.query[n, 1], False)
            of_class = add_gradient(state, gradient, None, entries, outputs, query, scale, (weight, weight), work)
            loss += weight * of_class
            continue
        while same > 0:
            block = min(same, scratch.lanes.shape[1])
            same -= block
            width = (block + 3) // 4 * 4 if block > 4 else block  # whole vectors; those beyond the block are left out
            counts = scratch.counts[: m * width].reshape((m, width))
            f = scratch.f[: m * width].reshape((m, width))
            conditional, log_q = classes.conditional[part], classes.log_q[part]
            multinomial(stream, seq_len, conditional, log_q, counts, scratch.lanes.reshape(-1))
            counted_attention(state, slot, counts, work[2, :m], scratch.lanes[0, :width], f)
            for a in range(block):
                used, position = _tokens_that_occur(lists, n, f[:, a], places, work)
                entries = Entries(places[0, :used], places[1, :used], lists.is_first[:used])
                query = Query(lists.query[n, 0], position, False)
                loss += add_gradient(state, gradient, None, entries, outputs, query, 1.0, (1.0 / B, 1.0 / B), work) / B
    return loss


@kernel(fastmath=EXACT)
def row_sums(Y, number, sums):
    """sums = sum over all outputs of each row of Y, (rows,)."""
    for i in range(Y.shape[0]):
        total = 0.0
        for j in range(Y.shape[1]):
            total += number[j] * Y[i, j]
        sums[i] = total


@kernel(fastmath=EXACT, nogil=True)
def sgd_steps(stream, descent, record, update, classes, seq_len, scratch, steps, step, stop, saved):
    """Make the updates step..stop-1, in place, saving the state at the steps of the record from index `saved` on.

    `steps` is the last step of the run. Returns (step, saved, finite): finite is False when the loss at `step`, or the
    state after the update to `step`, is not finite.
    """
    state, gradient, num_slots = descent.state, descent.gradient, classes.lists.num_slots
    Y = state[num_slots:].reshape((-1, classes.lists.number.size))
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
                row_sums(Y, classes.lists.number, record.row_sums[saved])
            saved += 1
        if step == stop:
            return step, saved, True
        step += 1
        if not is_updated(descent, update, num_slots, step):
            return step, saved, False


@kernel(fastmath=EXACT, nogil=True)
def descent_steps(descent, update, rate, steps, record, saved_states, saved_loss, span, arguments):
    """Make updates, saving the state at the steps in `record`; `span` is (step, stop, number of saves so far).

    As `sgd_steps`, but with the gradient of the expectation over classes. `law.mean_field` computes this gradient;
    `arguments` are its arguments after state and out, with rates of 1. `rate` (size,) is scratch. Returns (step, saved,
    finite).
    """
    state, gradient, num_slots = descent.state, descent.gradient, arguments[0].num_slots
    step, stop, saved = span
    while True:
        keep = saved < record.size and record[saved] == step
        if step == stop and not (keep and step == steps):
            return step, saved, True
        loss = mean_field(state, rate, *arguments)
        if not math.isfinite(loss):
            return step, saved, False
        if keep:
            for i in range(state.size):  # in a loop, as `sgd_steps`
                saved_states[saved, i] = state[i]
            saved_loss[saved] = loss
            saved += 1
        if step == stop:
            return step, saved, True
        step += 1
        for i in range(state.size):
            gradient[i] += rate[i]
        if not is_updated(descent, update, num_slots, step):
            return step, saved, False
