"""The mean field of finite sequences: the law's correction to second order in the fluctuations of the token counts."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import softmax_error
from snapdyn.dynamics.kernels.law import attention, place

FINITE_LENGTH_ROWS = 8


@kernel(fastmath=REASSOCIATE, forceinline=True)
def finite_length(state, out, lists, rates, work, change):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the expected loss.

    The SGD step phi of class n depends on the token counts through f only, so phi does not change if the counts are
    scaled. With the covariance (diag P - P P^T)/(T-1) of the frequencies, Euler's identities give

        E phi = phi + sum_k w_k/2 d^2/ds^2 phi(f_k(s)), w_k = f_k^2/((T-1) P_k), f_k(s) = (f + s e_k)/|f + s e_k|.

    `lists` is a `law.Structure` without residual connection, `rates` is (eta_Y, eta_Z, 1/(T-1)). Scratch: `work`
    (FINITE_LENGTH_ROWS, W), W as in `law.mean_field`; `change`, one number for each pair of an entry of a class and an
    output.
    """
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for n in range(lists.share.size):
        f, push, share = work[0], work[1], lists.share[n]
        scale = attention(n, state, lists, work)
        start, m = lists.indptr[n], lists.indptr[n + 1] - lists.indptr[n]
        for k in range(m):
            f[k] *= scale
            push[k] = rates[2] * f[k] * f[k] * math.exp(-lists.log_p[start + k])
        first, slot, tokens = lists.first[start:], lists.slot[start:], lists.tokens[start : start + m]
        seen = slice(lists.output[n, 0], lists.output[n, 1])
        number, columns = lists.number[seen], lists.columns[seen]
        loss += share * _expected_step(state, lists.value, first, tokens, lists.own[n], number, change, work)
        C = number.size
        for k in range(m):
            for j in range(C):
                out[place(lists.value, first[k] + j)] += rates[0] * share * columns[j] * change[k * C + j]
            out[slot[k]] += rates[1] * share * push[k]
    for i in range(lists.copies.size):
        out[i] /= lists.copies[i]
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _expected_step(state, value, first, tokens, own, number, change, work):
    """Write the expected step of the rows of Y of one class to `change`; return its expected loss.

    Entry k stands for tokens[k] tokens, output j for number[j] outputs; `own` is the output of the next token. Row 0 of
    `work` holds f; row 1 holds w, which becomes the expected step of z; the others are scratch.

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
        share = tokens[k] * f[k]
        for j in range(C):
            a[j] += share * state[place(value, first[k] + j)]
    # Only differences of logits matter. Differences to the logit of the next token stay accurate at late times.
    origin = a[own]
    for j in range(C):
        a[j] -= origin
        r[j] = a[j]
    loss = softmax_error(r, own, number)
    b = 0.0  # a . r = f . g
    for j in range(C):
        counted[j] = 0.0 if j == own else number[j] * r[j]
        b += counted[j] * a[j]

    b_first = 0.0  # sum_k w_k f_k b'
    b_second = 0.0  # sum_k w_k b''
    f_second = 0.0  # sum_k w_k (3 f_k^2 - 1)
    square_second = 0.0  # sum_k w_k (4 f_k^2 - 1)
    for k in range(m):
        fk, w, target = f[k], push[k], change[k * C : (k + 1) * C]
        w_counted = w * tokens[k]
        a_second = 3.0 * fk * fk - 1.0
        g, spread, y_prime, a_prime, a_double = _along_token(
            state, value, first[k], a, r, counted, own, fk, w_counted, r_prime, r_mean
        )
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
        target, dot = change[k * C : (k + 1) * C], 0.0
        for j in range(C):
            dot += counted[j] * state[place(value, first[k] + j)]
            target[j] += f[k] * r_mean[j]
        push[k] += f[k] * (dot - f[k] * b_mean)
    return loss


@kernel(fastmath=REASSOCIATE)
def _along_token(state, value, first, a, r, counted, own, fk, w_counted, r_prime, r_second_sum):
    """Write r' to `r_prime`, add w r'' to `r_second_sum`; return (y . r, Var_alpha a', y . r', a . r', a . r'').

    y is the row of Y that begins at `first`. alpha' = alpha (a' - <a'>),
    alpha'' = alpha ((a' - <a'>)^2 - Var a' + a'' - <a''>), <.> the mean over
    alpha. Logits are relative to that of the next token, a[own] = 0. The entries `own` of r' and r'' are minus
    the sum of the others, which avoids cancellation when alpha of the next token approaches 1.
    """
    C, y_own, second_own = a.size, state[place(value, first + own)], r_second_sum[own]
    a_second = 3.0 * fk * fk - 1.0
    g = 0.0
    mean = 0.0
    square = 0.0
    mean_second = 0.0
    for j in range(C):
        y_j = state[place(value, first + j)] - y_own
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
        y_j = state[place(value, first + j)] - y_own
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
