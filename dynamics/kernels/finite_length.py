"""Right-hand side of the mean field of finite sequences, to second order in the fluctuations of the token counts."""

from __future__ import annotations

import math
from typing import NamedTuple

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, Bools, Floats, Ints, kernel
from snapdyn.dynamics.kernels.elementary import (
    add_scaled,
    combine_rows,
    exp_nonpositive,
    normalized_attention,
    row_dots,
    softmax_error,
)
from snapdyn.dynamics.kernels.quotient import attention_of_kind


class FiniteLength(NamedTuple):
    """Arrays of a `Layout`, and the rates; `inverse_length` is 1/(T-1)."""

    num_slots: int
    num_columns: int
    indptr: Ints
    entry_row: Ints
    entry_slot: Ints
    entry_first: Bools
    log_p: Floats
    multiplicity: Floats
    prior: Floats
    column: Ints
    last_multiplicity: float
    eta_Y: float
    eta_Z: float
    inverse_length: float


@kernel(fastmath=EXACT)
def finite_length_mean_field(state, out, layout, work):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the expected loss.

    The step phi of class n depends on the token counts through f only, so it does not change if the counts
    are scaled. With the covariance (diag P - P P^T)/(T-1) of the counts, Euler's identities give

        E phi = phi + sum_k w_k/2 d^2/ds^2 phi(f_k(s)), w_k = f_k^2/((T-1) P_k), f_k(s) = (f + s e_k)/|f + s e_k|.

    Derivatives at s = 0, a = Y^T f, y_k a row of Y, r = e_n - alpha, primes for d/ds along token k:
    f' = e_k - f_k f, f'' = -2 f_k e_k + (3 f_k^2 - 1) f, and the same for a with y_k in place of e_k. Only the
    terms in e_k differ between tokens, the others are multiples of f or a. So the sum over k costs as much as
    a few mean fields.
    `layout` is a FiniteLength; `work` (9, max(entries of a class, columns)) is scratch.
    """
    num_slots, num_columns, indptr, column = layout.num_slots, layout.num_columns, layout.indptr, layout.column
    entry_row, entry_slot, entry_first = layout.entry_row, layout.entry_slot, layout.entry_first
    log_p, multiplicity, prior, last_multiplicity = (
        layout.log_p, layout.multiplicity, layout.prior, layout.last_multiplicity,
    )  # fmt: skip
    eta_Y, eta_Z, inverse_length = layout.eta_Y, layout.eta_Z, layout.inverse_length
    z = state[:num_slots]
    Y = state[num_slots:].reshape((-1, num_columns))
    dz = out[:num_slots]
    dY = out[num_slots:].reshape((-1, num_columns))
    for i in range(num_slots):
        dz[i] = 0.0
    a = work[4, :num_columns]
    r = work[5, :num_columns]
    r_prime = work[6, :num_columns]
    r_first = work[7, :num_columns]  # sum_k w_k f_k r'
    r_mean = work[8, :num_columns]  # factor of all terms of dY that are proportional to f
    loss = 0.0
    for n in range(prior.size):
        start, stop = indptr[n], indptr[n + 1]
        m = stop - start
        rows = entry_row[start:stop]
        slots = entry_slot[start:stop]
        counts = multiplicity[start:stop]
        own = column[n]
        f = work[0, :m]
        f_counted = work[1, :m]
        g = work[2, :m]
        push = work[3, :m]
        normalized_attention(z, slots, log_p[start:stop], counts, f)
        for i in range(m):
            f_counted[i] = f[i] * counts[i]
        combine_rows(Y, rows, f_counted, a)
        # Only differences of logits matter. Differences to the logit of the next token stay accurate at late times.
        origin = a[own]
        for j in range(num_columns):
            a[j] -= origin
            r[j] = a[j]
        loss += prior[n] * softmax_error(r, own, last_multiplicity)
        row_dots(Y, rows, r, last_multiplicity, g)
        b = 0.0  # a . r = f . g
        for i in range(m):
            b += f_counted[i] * g[i]

        for j in range(num_columns):
            r_first[j] = 0.0
            r_mean[j] = 0.0
        b_first = 0.0  # sum_k w_k f_k b'
        b_second = 0.0  # sum_k w_k b''
        f_second = 0.0  # sum_k w_k (3 f_k^2 - 1)
        square_second = 0.0  # sum_k w_k (4 f_k^2 - 1)
        for k in range(m):
            fk = f[k]
            w = inverse_length * fk * fk * math.exp(-log_p[start + k])
            a_second = 3.0 * fk * fk - 1.0
            spread, y_prime, a_prime, a_double = _along_token(
                Y[rows[k]], a, r, own, last_multiplicity, fk, w * counts[k], r_prime, r_mean
            )
            b_prime = g[k] - fk * b + a_prime
            ar_second = -2.0 * fk * g[k] + a_second * b  # a'' . r
            w_counted = w * counts[k]
            loss += 0.5 * prior[n] * w_counted * (spread - ar_second)
            b_first += w_counted * fk * b_prime
            b_second += w_counted * (ar_second + 2.0 * (y_prime - fk * a_prime) + a_double)
            f_second += w_counted * a_second
            square_second += w_counted * (4.0 * fk * fk - 1.0)
            for j in range(num_columns):
                r_first[j] += w_counted * fk * r_prime[j]
                r_prime[j] -= fk * r[j]
            add_scaled(dY[rows[k]], eta_Y * prior[n] * w, r_prime, entry_first[start + k])
            push[k] = w * (y_prime - fk * g[k] - (1.0 - 4.0 * fk * fk) * b - 2.0 * fk * b_prime)
        for j in range(num_columns):
            r_mean[j] = (1.0 + 0.5 * f_second) * r[j] - r_first[j] + 0.5 * r_mean[j]
        b_mean = (1.0 + square_second) * b - 2.0 * b_first + 0.5 * b_second
        row_dots(Y, rows, r_mean, last_multiplicity, g)
        for i in range(m):
            add_scaled(dY[rows[i]], eta_Y * prior[n] * f[i], r_mean, False)
            dz[slots[i]] += eta_Z * prior[n] * (push[i] + f[i] * (g[i] - f[i] * b_mean))
    return loss


@kernel(fastmath=REASSOCIATE)
def _along_token(
    y, a, r, own, last_multiplicity, fk, w_counted, r_prime, r_second_sum
):  # fmt: skip
    """Write r' to `r_prime`, add w r'' to `r_second_sum`; return (Var_alpha a', y . r', a . r', a . r'').

    alpha' = alpha (a' - <a'>), alpha'' = alpha ((a' - <a'>)^2 - Var a' + a'' - <a''>), <.> the mean over
    alpha. Logits are relative to that of the next token, a[own] = 0. The entries `own` of r' and r'' are minus
    the sum of the others, which avoids cancellation when alpha of the next token approaches 1.
    """
    C = a.size
    a_second = 3.0 * fk * fk - 1.0
    mean = 0.0
    square = 0.0
    mean_second = 0.0
    for j in range(C):
        alpha = 0.0 if j == own else -r[j]
        alpha *= last_multiplicity if j == C - 1 else 1.0
        y_j = y[j] - y[own]
        prime = y_j - fk * a[j]
        mean += alpha * prime
        square += alpha * prime * prime
        mean_second += alpha * (-2.0 * fk * y_j + a_second * a[j])
    spread = square - mean * mean
    total = 0.0
    total_second = 0.0
    y_dot = 0.0
    a_dot = 0.0
    a_dot_second = 0.0
    for j in range(C):
        if j == own:
            continue
        y_j = y[j] - y[own]
        prime = y_j - fk * a[j]
        first = r[j] * (prime - mean)
        away = prime - mean
        second = r[j] * (away * away - spread - 2.0 * fk * y_j + a_second * a[j] - mean_second)
        r_prime[j] = first
        r_second_sum[j] += w_counted * second
        count = last_multiplicity if j == C - 1 else 1.0
        total += count * first
        total_second += count * second
        y_dot += count * y_j * first
        a_dot += count * a[j] * first
        a_dot_second += count * a[j] * second
    r_prime[own] = -total
    r_second_sum[own] -= w_counted * total_second
    return spread, y_dot, a_dot, a_dot_second


# On one value for all that stay equal (`kernels/quotient`).


@kernel(fastmath=EXACT, forceinline=True)
def finite_length_quotient(state, out, lists, rates, work, steps):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the expected loss.

    `lists` is a Quotient, rates (eta_Y, eta_Z, 1/(T-1)). Formulas and names are those of `finite_length_mean_field`: k
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
