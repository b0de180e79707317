"""The mean field with one value in place of all that stay equal: right-hand side with the loss, and descent steps."""

from __future__ import annotations

import math
from typing import NamedTuple

from snapdyn.dynamics.kernels.compilation import EXACT, Floats, Ints, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive
from snapdyn.dynamics.kernels.optimizers import is_updated


class Quotient(NamedTuple):
    """Arguments of the right-hand side, kind by kind; the state is [z of each different logit, different values of Y].

    Kind c has N_c classes of prior p_c. Index k runs over the different tokens of a class, O over its different
    outputs, and y is the index of the value of Y for (k, O). With f_k, g_k and the error r_O = delta_O - alpha_O (delta
    is 1 for the next token, else 0) as in `kernels/mean_field/general`,

        a_O = sum_k A f_k Y_y,   g_k = sum_O B Y_y r_O,   Y_y' = eta_Y sum_{c,k,O} C f_k r_O,
        z_s' = eta_Z sum_{c,k} D f_k (g_k - f_k (f . g)).

    A is the number of tokens that k stands for, B the number of outputs that O stands for. C is p_c times the number of
    classes that contribute to the rate of one value y, D is p_c times the number of those that contribute to the rate
    of one logit s.

    With the residual connection the last entry is the query token q, and u = (f + e_q)/sqrt(2) replaces f. The logits
    then follow z_s' = eta_Z sum_{c,k} D u_k (g_k - 2 u_k sum_k A u_k g_k), both sums without k = q: on the tokens other
    than q, what LN projects out is a multiple of f, which attention projects out anyway.
    """

    ranges: Ints  # (kinds, 6) first and last + 1 of the entries, of the outputs and of the pairs
    residual: bool  # whether the last entry of a kind is the query token
    share: Floats  # (kinds,) N_c p_c
    entry_slot: Ints  # (entries,) state value of the logit
    entries: Floats  # (3, entries) ln P; A; D
    output_number: Floats  # (outputs,) B; the first output of a kind is its next token
    value: Ints  # (pairs,) state value of Y, all outputs of an entry after each other
    drive: Floats  # (pairs,) C


@kernel(fastmath=EXACT, forceinline=True)
def attention_of_kind(state, entry, m, log_p, tokens, entry_slot, f):
    """Write f = c/|c| on the m entries of a kind."""
    largest = -math.inf
    for k in range(m):
        x = log_p[entry + k] + state[entry_slot[entry + k]]
        f[k] = x
        largest = x if x > largest else largest
    square = 0.0
    for k in range(m):
        f[k] = exp_nonpositive(f[k] - largest)
        square += tokens[entry + k] * f[k] * f[k]
    scale = 1.0 / math.sqrt(square)
    for k in range(m):
        f[k] *= scale


@kernel(fastmath=EXACT, forceinline=True)
def mean_field_quotient(state, out, lists, rates, work):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    `lists` is a Quotient; `rates` is (eta_Y, eta_Z); `work` (3, W) is scratch for f, g and r, with W at least the
    number of entries and of outputs of a kind.
    """
    f, g, r = work[0], work[1], work[2]
    entry_slot, output_number, value, C = lists.entry_slot, lists.output_number, lists.value, lists.drive
    log_p, tokens, drive = lists.entries[0], lists.entries[1], lists.entries[2]
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for c in range(lists.share.size):
        entry, output, first = lists.ranges[c, 0], lists.ranges[c, 2], lists.ranges[c, 4]
        m, num_outputs = lists.ranges[c, 1] - entry, lists.ranges[c, 3] - output
        contextual = m - 1 if lists.residual else m
        attention_of_kind(state, entry, contextual, log_p, tokens, entry_slot, f)
        if lists.residual:
            f[contextual] = 1.0
            for k in range(m):
                f[k] *= math.sqrt(0.5)

        for j in range(num_outputs):
            r[j] = 0.0
        for k in range(m):
            share, y = tokens[entry + k] * f[k], first + k * num_outputs
            for j in range(num_outputs):
                r[j] += share * state[value[y + j]]
        largest = -math.inf
        for j in range(num_outputs):
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
            dot, y = 0.0, first + k * num_outputs
            for j in range(num_outputs):
                dot += output_number[output + j] * r[j] * state[value[y + j]]
                out[value[y + j]] += rates[0] * C[y + j] * f[k] * r[j]
            g[k] = dot
        overlap = 0.0
        for k in range(contextual):
            overlap += tokens[entry + k] * f[k] * g[k]
        if lists.residual:
            overlap *= 2.0
        for k in range(contextual):
            out[entry_slot[entry + k]] += rates[1] * drive[entry + k] * f[k] * (g[k] - f[k] * overlap)
    return loss


@kernel(fastmath=EXACT, nogil=True)
def quotient_descent_steps(descent, update, num_slots, rate, steps, record, saved_states, saved_loss, span, arguments):
    """Make updates, saving the state at the steps in `record`; `span` is (step, stop, number of saves so far).

    As `kernels.sgd.sgd_steps`, but with the gradient of the expectation over classes. `mean_field_quotient` computes
    this gradient; `arguments` are its arguments after state and out, with rates of 1. `rate` (size,) is scratch.
    Returns (step, saved, finite).
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
