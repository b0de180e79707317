"""The mean field on one value for all that stay equal: its right-hand side with the loss, and steps of descent."""

from __future__ import annotations

import math
from typing import NamedTuple

from snapdyn.dynamics.kernels.compilation import EXACT, Floats, Ints, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive
from snapdyn.dynamics.kernels.optimizers import is_updated


class Quotient(NamedTuple):
    """What the right-hand side needs, kind by kind; the state is [z of each different logit, different values of Y].

    With N_c classes of kind c and prior p_c, k counts the different tokens of a class, O its different outputs, y the
    value of Y of the pair. With f_k, r_O = delta - alpha_O and g_k as in `kernels/mean_field/dispatch`,

        a_O = sum_k A f_k Y_y,   g_k = sum_O B Y_y r_O,   Y_y' = eta_Y sum_{c,k,O} C f_k r_O,
        z_s' = eta_Z sum_{c,k} D f_k (g_k - f_k (f . g)).

    A is the number of tokens of k, B that of outputs of O; C and D count the classes that drive one value y or one
    logit s, times p_c.
    """

    ranges: Ints  # (kinds, 6) first and last + 1 of the entries, of the outputs and of the terms
    query: Ints  # (kinds,) entry that is the query token with the residual connection, or -1
    share: Floats  # (kinds,) N_c p_c
    entry_slot: Ints  # (entries,) state value of the logit
    entries: Floats  # (3, entries) ln P; A; D
    output_number: Floats  # (outputs,) B; the first output of a kind is its next token
    term_index: Ints  # (3, terms) entry and output within the kind; state value of Y
    terms: Floats  # (3, terms) A, B, C


@kernel(fastmath=EXACT, forceinline=True)
def attention_of_kind(state, entry, contextual, log_p, tokens, entry_slot, f):
    """Write f = c/|c| on the first `contextual` entries of a kind."""
    largest = -math.inf
    for k in range(contextual):
        x = log_p[entry + k] + state[entry_slot[entry + k]]
        f[k] = x
        largest = x if x > largest else largest
    square = 0.0
    for k in range(contextual):
        f[k] = exp_nonpositive(f[k] - largest)
        square += tokens[entry + k] * f[k] * f[k]
    scale = 1.0 / math.sqrt(square)
    for k in range(contextual):
        f[k] *= scale


@kernel(fastmath=EXACT, forceinline=True)
def mean_field_quotient(state, out, lists, rates, work):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    `lists` is a Quotient; rates (eta_Y, eta_Z); `work` (3, W) is scratch: f, g and r, W at least the entries and the
    outputs of a kind.
    """
    f, g, r = work[0], work[1], work[2]
    entry_slot, output_number = lists.entry_slot, lists.output_number
    log_p, tokens, drive = lists.entries[0], lists.entries[1], lists.entries[2]
    A, B, C = lists.terms[0], lists.terms[1], lists.terms[2]
    term_entry, term_output, term_value = lists.term_index[0], lists.term_index[1], lists.term_index[2]
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for c in range(lists.share.size):
        entry, output, first, last = lists.ranges[c, 0], lists.ranges[c, 2], lists.ranges[c, 4], lists.ranges[c, 5]
        m, num_outputs, query = lists.ranges[c, 1] - entry, lists.ranges[c, 3] - output, lists.query[c]
        contextual = m - 1 if query >= 0 else m
        attention_of_kind(state, entry, contextual, log_p, tokens, entry_slot, f)
        shrink = 1.0
        if query >= 0:
            f[query] = 1.0
            shrink = 1.0 / math.sqrt(2.0)

        for j in range(num_outputs):
            r[j] = 0.0
        for i in range(first, last):
            r[term_output[i]] += A[i] * f[term_entry[i]] * state[term_value[i]]
        largest = -math.inf
        for j in range(num_outputs):
            r[j] *= shrink
            largest = r[j] if r[j] > largest else largest
        others = 0.0
        for j in range(num_outputs):
            r[j] = exp_nonpositive(r[j] - largest)
            others += 0.0 if j == 0 else output_number[output + j] * r[j]
        alone = r[0]
        total = 1.0 / (others + alone)
        for j in range(num_outputs):
            r[j] *= -total
        r[0] = others * total  # not 1 - alpha: it keeps its relative accuracy at late times
        loss += lists.share[c] * math.log1p(others / alone)

        for k in range(m):
            g[k] = 0.0
        for i in range(first, last):
            k, step = term_entry[i], r[term_output[i]]
            g[k] += B[i] * step * state[term_value[i]]
            out[term_value[i]] += rates[0] * shrink * C[i] * f[k] * step
        overlap = 0.0
        for k in range(contextual):
            overlap += tokens[entry + k] * f[k] * g[k]
        if query >= 0:  # d = (I - u u^T) g shrink, u = (f + e_q) shrink, f . e_q = 0
            projection = (overlap + g[query]) * shrink
            for k in range(contextual):
                g[k] = (g[k] - projection * shrink * f[k]) * shrink
            overlap = (overlap - projection * shrink) * shrink
        for k in range(contextual):
            out[entry_slot[entry + k]] += rates[1] * drive[entry + k] * f[k] * (g[k] - f[k] * overlap)
    return loss


@kernel(fastmath=EXACT, nogil=True)
def quotient_descent_steps(descent, update, num_slots, rate, steps, record, saved_states, saved_loss, span, arguments):
    """Make updates, saving the state at the steps in `record`; span is (step, stop, number of saves before).

    As `kernels.sgd.sgd_steps`, with the gradient of the expectation over classes from `mean_field_quotient`, whose
    `arguments` after state and out hold rates of 1; `rate` (size,) is scratch. Returns (step, saved, finite).
    """
    state, gradient = descent.state, descent.gradient
    step, stop, saved = span
    while True:
        keep = saved < record.size and record[saved] == step
        if step == stop and not (keep and step == steps):
            return step, saved, True
        loss = mean_field_quotient(state, rate, *arguments)
        if not math.isfinite(loss):
            return step, saved, False
        if keep:
            for i in range(state.size):  # in a loop, as `kernels.sgd.sgd_steps`
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
