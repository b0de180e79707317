"""Right-hand side of the mean field of finite sequences, of one value per colour, with the expected loss."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive


@kernel(fastmath=EXACT, forceinline=True)
def finite_length_quotient(
    state, out, ranges, classes, share, entry_slot, entries, output_number, term_index, terms, rates, work, steps
):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the expected loss.

    Arguments are the arrays of a `Quotient`, and rates (eta_Y, eta_Z, 1/(T-1)). Formulas and names are those of
    `kernels/finite_length`: k counts entry colours, O output colours; a sum over the terms (k, O, y) of a class stands
    for the sums over its outputs (weights B) and over its tokens (weights A). Scratch: `work` (16, W), W at least the
    entry and the output colours of a class, `steps` (2, most terms of a class): r' and r''.
    """
    log_p, tokens, drive = entries[0], entries[1], entries[2]
    A, B, C = terms[0], terms[1], terms[2]
    term_entry, term_output, term_value = term_index[0], term_index[1], term_index[2]
    f, g, w, y_own, mean, mean_second, spread = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    y_dot, a_dot, a_double = work[7], work[8], work[9]
    a, r, alpha, r_first, r_mean = work[10], work[11], work[12], work[13], work[14]
    own_step, own_second = work[15], mean  # `mean` is no longer needed when r'' of the own output is summed
    for i in range(out.size):
        out[i] = 0.0
    loss = 0.0
    for c in range(share.size):
        entry, output, first, last = ranges[c, 0], ranges[c, 2], ranges[c, 4], ranges[c, 5]
        m, num_outputs, own = ranges[c, 1] - entry, ranges[c, 3] - output, classes[c, 0]
        largest = -math.inf
        for k in range(m):
            f[k] = log_p[entry + k] + state[entry_slot[entry + k]]
            largest = f[k] if f[k] > largest else largest
        square = 0.0
        for k in range(m):
            f[k] = exp_nonpositive(f[k] - largest)
            square += tokens[entry + k] * f[k] * f[k]
        scale = 1.0 / math.sqrt(square)
        for k in range(m):
            f[k] *= scale
            w[k] = rates[2] * f[k] * f[k] * math.exp(-log_p[entry + k])
        for j in range(num_outputs):
            a[j] = 0.0
        for i in range(first, last):
            a[term_output[i]] += A[i] * f[term_entry[i]] * state[term_value[i]]
            if term_output[i] == own:
                y_own[term_entry[i]] = state[term_value[i]]
        origin = a[own]
        largest = -math.inf
        for j in range(num_outputs):
            a[j] -= origin
            largest = a[j] if a[j] > largest else largest
        others = 0.0
        for j in range(num_outputs):
            r[j] = exp_nonpositive(a[j] - largest)
            others += 0.0 if j == own else output_number[output + j] * r[j]
        alone = r[own]
        total = 1.0 / (others + alone)
        for j in range(num_outputs):
            r[j] *= -total
            alpha[j] = 0.0 if j == own else -r[j]
            r_first[j] = 0.0
            r_mean[j] = 0.0
        r[own] = others * total
        loss += share[c] * math.log1p(others / alone)

        for k in range(m):
            g[k] = 0.0
            mean[k] = 0.0
            mean_second[k] = 0.0
            spread[k] = 0.0
            y_dot[k] = 0.0
            a_dot[k] = 0.0
            a_double[k] = 0.0
            own_step[k] = 0.0
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
            if j == own:
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
        for k in range(m):
            own_second[k] = 0.0
        for i in range(first, last):
            own_second[term_entry[i]] -= B[i] * steps[1, i - first]

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
            loss += 0.5 * share[c] * counted * (spread[k] - ar_second)
            b_first += counted * f[k] * b_prime
            b_second += counted * (ar_second + 2.0 * (y_dot[k] - f[k] * a_dot[k]) + a_double[k])
            f_second += counted * a_second
            square_second += counted * (4.0 * f[k] * f[k] - 1.0)
            push = w[k] * (y_dot[k] - f[k] * g[k] - (1.0 - 4.0 * f[k] * f[k]) * b - 2.0 * f[k] * b_prime)
            out[entry_slot[entry + k]] += rates[1] * drive[entry + k] * push
        for i in range(first, last):
            k, j = term_entry[i], term_output[i]
            if j == own:
                steps[0, i - first] = own_step[k]
                steps[1, i - first] = own_second[k]
            r_first[j] += A[i] * w[k] * f[k] * steps[0, i - first]
            r_mean[j] += A[i] * w[k] * steps[1, i - first]
        for j in range(num_outputs):
            r_mean[j] = (1.0 + 0.5 * f_second) * r[j] - r_first[j] + 0.5 * r_mean[j]
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
