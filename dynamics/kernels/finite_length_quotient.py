"""The mean field of finite sequences on one value for all that stay equal: right-hand side and expected loss."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive
from snapdyn.dynamics.kernels.quotient import attention_of_kind


@kernel(fastmath=EXACT, forceinline=True)
def finite_length_quotient(state, out, lists, rates, work, steps):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the expected loss.

    `lists` is a Quotient, rates (eta_Y, eta_Z, 1/(T-1)). Formulas and names are those of `kernels/finite_length`: k
    counts entries, O outputs; a sum over the terms (k, O, y) of a kind stands for the sums over its outputs (weights B)
    and over its tokens (weights A). Scratch: `work` (16, W), W at least the entries and the outputs of a kind, `steps`
    (2, most terms of a kind): r' and r''.
    """
    log_p, tokens, drive = lists.entries[0], lists.entries[1], lists.entries[2]
    entry_slot = lists.entry_slot
    B, C = lists.terms[1], lists.terms[2]
    term_entry, term_output, term_value = lists.term_index[0], lists.term_index[1], lists.term_index[2]
    f, g, w, spread = work[0], work[1], work[2], work[6]
    y_dot, a_dot, a_double = work[7], work[8], work[9]
    r, r_mean = work[11], work[14]
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for c in range(lists.share.size):
        entry, first, last = lists.ranges[c, 0], lists.ranges[c, 4], lists.ranges[c, 5]
        m = lists.ranges[c, 1] - entry
        attention_of_kind(state, entry, m, log_p, tokens, entry_slot, f)
        for k in range(m):
            w[k] = rates[2] * f[k] * f[k] * math.exp(-log_p[entry + k])
        loss += lists.share[c] * _errors(state, lists, c, work)
        _steps_along_tokens(state, lists, c, work, steps)

        b = 0.0
        for k in range(m):
            b += tokens[entry + k] * f[k] * g[k]
        b_first = 0.0
        b_second = 0.0
        f_second = 0.0
        square_second = 0.0
        for k in range(m):
            a_second = 3.0 * f[k] * f[k] - 1.0
            b_prime = g[k] - f[k] * b + a_dot[k]
            ar_second = -2.0 * f[k] * g[k] + a_second * b
            counted = w[k] * tokens[entry + k]
            loss += 0.5 * lists.share[c] * counted * (spread[k] - ar_second)
            b_first += counted * f[k] * b_prime
            b_second += counted * (ar_second + 2.0 * (y_dot[k] - f[k] * a_dot[k]) + a_double[k])
            f_second += counted * a_second
            square_second += counted * (4.0 * f[k] * f[k] - 1.0)
            push = w[k] * (y_dot[k] - f[k] * g[k] - (1.0 - 4.0 * f[k] * f[k]) * b - 2.0 * f[k] * b_prime)
            out[entry_slot[entry + k]] += rates[1] * drive[entry + k] * push
        _mean_errors(lists, c, f_second, work, steps)
        b_mean = (1.0 + square_second) * b - 2.0 * b_first + 0.5 * b_second
        for k in range(m):
            g[k] = 0.0
        for i in range(first, last):
            k, j, y = term_entry[i], term_output[i], term_value[i]
            g[k] += B[i] * state[y] * r_mean[j]
            out[y] += rates[0] * C[i] * (w[k] * (steps[0, i - first] - f[k] * r[j]) + f[k] * r_mean[j])
        for k in range(m):
            out[entry_slot[entry + k]] += rates[1] * drive[entry + k] * f[k] * (g[k] - f[k] * b_mean)
    return loss


@kernel(fastmath=EXACT, forceinline=True)
def _errors(state, lists, c, work):
    """Write the logits a of kind c relative to its next token, r = e_n - alpha, alpha and y_own; return the loss."""
    f, y_own, a, r, alpha = work[0], work[3], work[10], work[11], work[12]
    A = lists.terms[0]
    term_entry, term_output, term_value = lists.term_index[0], lists.term_index[1], lists.term_index[2]
    output = lists.ranges[c, 2]
    num_outputs = lists.ranges[c, 3] - output
    for j in range(num_outputs):
        a[j] = 0.0
    for i in range(lists.ranges[c, 4], lists.ranges[c, 5]):
        a[term_output[i]] += A[i] * f[term_entry[i]] * state[term_value[i]]
        if term_output[i] == 0:
            y_own[term_entry[i]] = state[term_value[i]]
    origin = a[0]
    largest = -math.inf
    for j in range(num_outputs):
        a[j] -= origin
        largest = a[j] if a[j] > largest else largest
    others = 0.0
    for j in range(num_outputs):
        r[j] = exp_nonpositive(a[j] - largest)
        others += 0.0 if j == 0 else lists.output_number[output + j] * r[j]
    alone = r[0]
    total = 1.0 / (others + alone)
    for j in range(num_outputs):
        r[j] *= -total
        alpha[j] = 0.0 if j == 0 else -r[j]
    r[0] = others * total
    return math.log1p(others / alone)


@kernel(fastmath=EXACT, forceinline=True)
def _steps_along_tokens(state, lists, c, work, steps):
    """Write g, the variance of a', y . r', a . r' and a . r'' along each token, and r' and r'' to `steps`.

    The steps of the next token, minus the sum of the others, go to rows 15 and 5 of `work`.
    """
    f, g, y_own, mean, mean_second, spread = work[0], work[1], work[3], work[4], work[5], work[6]
    y_dot, a_dot, a_double, a, r, alpha, own_step = work[7], work[8], work[9], work[10], work[11], work[12], work[15]
    B = lists.terms[1]
    term_entry, term_output, term_value = lists.term_index[0], lists.term_index[1], lists.term_index[2]
    m, first, last = lists.ranges[c, 1] - lists.ranges[c, 0], lists.ranges[c, 4], lists.ranges[c, 5]
    for row in (1, 4, 5, 6, 7, 8, 9, 15):
        for k in range(m):
            work[row, k] = 0.0
    for i in range(first, last):
        k, j = term_entry[i], term_output[i]
        g[k] += B[i] * state[term_value[i]] * r[j]
        y = state[term_value[i]] - y_own[k]
        prime = y - f[k] * a[j]
        mean[k] += B[i] * alpha[j] * prime
        spread[k] += B[i] * alpha[j] * prime * prime
        mean_second[k] += B[i] * alpha[j] * (-2.0 * f[k] * y + (3.0 * f[k] * f[k] - 1.0) * a[j])
    for k in range(m):
        spread[k] -= mean[k] * mean[k]
    for i in range(first, last):
        k, j = term_entry[i], term_output[i]
        y = state[term_value[i]] - y_own[k]
        away = y - f[k] * a[j] - mean[k]
        if j == 0:
            steps[0, i - first] = 0.0
            steps[1, i - first] = 0.0
            continue
        a_second = 3.0 * f[k] * f[k] - 1.0
        step = r[j] * away
        second = r[j] * (away * away - spread[k] - 2.0 * f[k] * y + a_second * a[j] - mean_second[k])
        steps[0, i - first] = step
        steps[1, i - first] = second
        own_step[k] -= B[i] * step
        y_dot[k] += B[i] * y * step
        a_dot[k] += B[i] * a[j] * step
        a_double[k] += B[i] * a[j] * second
    own_second = mean_second  # no longer needed
    for k in range(m):
        own_second[k] = 0.0
    for i in range(first, last):
        own_second[term_entry[i]] -= B[i] * steps[1, i - first]


@kernel(fastmath=EXACT, forceinline=True)
def _mean_errors(lists, c, f_second, work, steps):
    """Put the steps of the next token in place, and write r_mean, the factor of all changes of Y along f."""
    f, w, r, r_first, r_mean, own_step, own_second = work[0], work[2], work[11], work[13], work[14], work[15], work[5]
    A, term_entry, term_output = lists.terms[0], lists.term_index[0], lists.term_index[1]
    num_outputs, first = lists.ranges[c, 3] - lists.ranges[c, 2], lists.ranges[c, 4]
    for j in range(num_outputs):
        r_first[j] = 0.0
        r_mean[j] = 0.0
    for i in range(first, lists.ranges[c, 5]):
        k, j = term_entry[i], term_output[i]
        if j == 0:
            steps[0, i - first] = own_step[k]
            steps[1, i - first] = own_second[k]
        r_first[j] += A[i] * w[k] * f[k] * steps[0, i - first]
        r_mean[j] += A[i] * w[k] * steps[1, i - first]
    for j in range(num_outputs):
        r_mean[j] = (1.0 + 0.5 * f_second) * r[j] - r_first[j] + 0.5 * r_mean[j]
