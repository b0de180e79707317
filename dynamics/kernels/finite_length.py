"""Right-hand side of the mean field of finite sequences, to second order in the fluctuations of the token counts."""

from __future__ import annotations

import math
from typing import NamedTuple

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, Floats, Ints, kernel
from snapdyn.dynamics.kernels.elementary import add_scaled, exp_shifted
from snapdyn.dynamics.kernels.quotient import attention_of_kind


class FiniteLength(NamedTuple):
    """Arrays of a `Layout`, and the learning rates; `inverse_length` is 1/(T-1)."""

    indptr: Ints
    entry_value: Ints  # first state value of the row of Y
    entry_slot: Ints
    log_p: Floats
    multiplicity: Floats
    prior: Floats
    column: Ints
    number: Floats  # (columns,) outputs that each column stands for
    eta_Y: float
    eta_Z: float
    inverse_length: float


@kernel(fastmath=EXACT)
def finite_length_mean_field(state, out, layout, work, change):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the expected loss.

    The SGD step phi of class n depends on the token counts through f only, so phi does not change if the counts are
    scaled. With the covariance (diag P - P P^T)/(T-1) of the frequencies, Euler's identities give

        E phi = phi + sum_k w_k/2 d^2/ds^2 phi(f_k(s)), w_k = f_k^2/((T-1) P_k), f_k(s) = (f + s e_k)/|f + s e_k|.

    `layout` is a FiniteLength. Scratch: `work` (8, W), where W is at least the number of entries of a class and the
    number of columns; `change`, one number for each pair of an entry of a class and a column.
    """
    indptr, entry_slot, prior, num_columns = layout.indptr, layout.entry_slot, layout.prior, layout.number.size
    log_p, multiplicity = layout.log_p, layout.multiplicity
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for n in range(prior.size):
        start = indptr[n]
        m = indptr[n + 1] - start
        f, push = work[0], work[1]
        attention_of_kind(state, start, m, log_p, multiplicity, entry_slot, f)
        for k in range(m):
            push[k] = layout.inverse_length * f[k] * f[k] * math.exp(-log_p[start + k])
        counts = multiplicity[start : start + m]
        first = layout.entry_value[start : start + m]
        loss += prior[n] * _expected_step(counts, layout.column[n], layout.number, state, first, change, work)
        for k in range(m):
            row = out[first[k] : first[k] + num_columns]
            add_scaled(row, layout.eta_Y * prior[n], change[k * num_columns : (k + 1) * num_columns], False)
            out[entry_slot[start + k]] += layout.eta_Z * prior[n] * push[k]
    return loss


@kernel(fastmath=EXACT, forceinline=True)
def finite_length_quotient(state, out, lists, rates, work, change, y, first_of_row):
    """As `finite_length_mean_field`, with one value in place of all that stay equal (`kernels/quotient`).

    `lists` is a Quotient, `rates` is (eta_Y, eta_Z, 1/(T-1)); `work`, `change`, `y` and `first_of_row` are scratch.
    """
    log_p, tokens, drive = lists.entries[0], lists.entries[1], lists.entries[2]
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for c in range(lists.share.size):
        entry, output, first = lists.ranges[c, 0], lists.ranges[c, 2], lists.ranges[c, 4]
        m, size = lists.ranges[c, 1] - entry, lists.ranges[c, 5] - first
        for i in range(size):
            y[i] = state[lists.value[first + i]]
        f, push = work[0], work[1]
        attention_of_kind(state, entry, m, log_p, tokens, lists.entry_slot, f)
        for k in range(m):
            push[k] = rates[2] * f[k] * f[k] * math.exp(-log_p[entry + k])
            first_of_row[k] = k * (size // m)
        number = lists.output_number[output : lists.ranges[c, 3]]
        loss += lists.share[c] * _expected_step(tokens[entry : entry + m], 0, number, y, first_of_row, change, work)
        for i in range(size):
            out[lists.value[first + i]] += rates[0] * lists.drive[first + i] * change[i]
        for k in range(m):
            out[lists.entry_slot[entry + k]] += rates[1] * drive[entry + k] * push[k]
    return loss


@kernel(fastmath=REASSOCIATE)
def _expected_step(tokens, own, number, values, first, change, work):
    """Write the expected step of the rows of Y of one class to `change`; return its expected loss.

    Row k of Y begins at first[k] in `values`. Each entry stands for as many tokens as `tokens` says, each output for as
    many as `number` says; `own` is the output of the next token. Row 0 of `work` holds f; row 1 holds w, which becomes
    the expected step of z; the others are scratch.

    Let a = Y^T f, y_k a row of Y, r = e_n - alpha, and let a prime be d/ds along token k at s = 0. Then
    f' = e_k - f_k f, f'' = -2 f_k e_k + (3 f_k^2 - 1) f, and the same holds for a with y_k in place of e_k. Only the
    terms in e_k differ between tokens, the others are multiples of f or a. So the sum over k costs as much as a few
    evaluations of the mean field.
    """
    m, C = tokens.size, number.size
    f, push = work[0], work[1]
    a, r, r_prime = work[2, :C], work[3, :C], work[4, :C]
    r_first = work[5, :C]  # sum_k w_k f_k r'
    r_mean = work[6, :C]  # factor of all terms of dY that are proportional to f
    counted = work[7, :C]  # r times the number of outputs, 0 for the next token
    for j in range(C):
        a[j] = 0.0
        r_first[j] = 0.0
        r_mean[j] = 0.0
    for k in range(m):
        share, row = tokens[k] * f[k], values[first[k] : first[k] + C]
        for j in range(C):
            a[j] += share * row[j]
    # Only differences of logits matter. Differences to the logit of the next token stay accurate at late times.
    origin = a[own]
    for j in range(C):
        a[j] -= origin
        r[j] = a[j]
    exp_shifted(r)
    alone = r[own]
    r[own] = 0.0
    others = 0.0
    for j in range(C):
        others += number[j] * r[j]
    scale = 1.0 / (others + alone)
    b = 0.0  # a . r = f . g
    for j in range(C):
        r[j] *= -scale
        counted[j] = number[j] * r[j]
        b += counted[j] * a[j]
    r[own] = others * scale
    loss = math.log1p(others / alone)

    b_first = 0.0  # sum_k w_k f_k b'
    b_second = 0.0  # sum_k w_k b''
    f_second = 0.0  # sum_k w_k (3 f_k^2 - 1)
    square_second = 0.0  # sum_k w_k (4 f_k^2 - 1)
    for k in range(m):
        fk, w, row, target = f[k], push[k], values[first[k] : first[k] + C], change[k * C : (k + 1) * C]
        w_counted = w * tokens[k]
        a_second = 3.0 * fk * fk - 1.0
        g, spread, y_prime, a_prime, a_double = _along_token(row, a, r, counted, own, fk, w_counted, r_prime, r_mean)
        b_prime = g - fk * b + a_prime
        ar_second = -2.0 * fk * g + a_second * b  # a'' . r
        loss += 0.5 * w_counted * (spread - ar_second)
        b_first += w_counted * fk * b_prime
        b_second += w_counted * (ar_second + 2.0 * (y_prime - fk * a_prime) + a_double)
        f_second += w_counted * a_second
        square_second += w_counted * (4.0 * fk * fk - 1.0)
        for j in range(C):
            r_first[j] += w_counted * fk * r_prime[j]
            target[j] = w * (r_prime[j] - fk * r[j])
        push[k] = w * (y_prime - fk * g - (1.0 - 4.0 * fk * fk) * b - 2.0 * fk * b_prime)
    for j in range(C):
        r_mean[j] = (1.0 + 0.5 * f_second) * r[j] - r_first[j] + 0.5 * r_mean[j]
        counted[j] = number[j] * r_mean[j]
    b_mean = (1.0 + square_second) * b - 2.0 * b_first + 0.5 * b_second
    for k in range(m):
        row, target = values[first[k] : first[k] + C], change[k * C : (k + 1) * C]
        dot = 0.0
        for j in range(C):
            dot += counted[j] * row[j]
            target[j] += f[k] * r_mean[j]
        push[k] += f[k] * (dot - f[k] * b_mean)
    return loss


@kernel(fastmath=REASSOCIATE)
def _along_token(y, a, r, counted, own, fk, w_counted, r_prime, r_second_sum):
    """Write r' to `r_prime`, add w r'' to `r_second_sum`; return (y . r, Var_alpha a', y . r', a . r', a . r'').

    alpha' = alpha (a' - <a'>), alpha'' = alpha ((a' - <a'>)^2 - Var a' + a'' - <a''>), <.> the mean over
    alpha. Logits are relative to that of the next token, a[own] = 0. The entries `own` of r' and r'' are minus
    the sum of the others, which avoids cancellation when alpha of the next token approaches 1.
    """
    C, y_own, second_own = a.size, y[own], r_second_sum[own]
    a_second = 3.0 * fk * fk - 1.0
    g = 0.0
    mean = 0.0
    square = 0.0
    mean_second = 0.0
    for j in range(C):
        y_j = y[j] - y_own
        prime = y_j - fk * a[j]
        g += counted[j] * y_j
        mean -= counted[j] * prime
        square -= counted[j] * prime * prime
        mean_second -= counted[j] * (-2.0 * fk * y_j + a_second * a[j])
    spread = square - mean * mean
    total = 0.0
    total_second = 0.0
    y_dot = 0.0
    a_dot = 0.0
    a_dot_second = 0.0
    for j in range(C):
        y_j = y[j] - y_own
        away = y_j - fk * a[j] - mean
        second = away * away - spread - 2.0 * fk * y_j + a_second * a[j] - mean_second
        r_prime[j] = r[j] * away
        r_second_sum[j] += w_counted * r[j] * second
        total += counted[j] * away
        total_second += counted[j] * second
        y_dot += counted[j] * y_j * away
        a_dot += counted[j] * a[j] * away
        a_dot_second += counted[j] * a[j] * second
    r_prime[own] = -total
    r_second_sum[own] = second_own - w_counted * total_second
    return g, spread, y_dot, a_dot, a_dot_second
