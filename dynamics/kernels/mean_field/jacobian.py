"""Jacobian of the full mean field times a vector, for matrix-free implicit solvers; no residual connection."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_shifted, softmax_error

SCRATCH_ROWS = 7


@kernel(fastmath=REASSOCIATE)
def mean_field_jacobian(state, v, out, entries, weights, classes, prior, constants, work):
    """Write J v to `out`, J the derivative of `dispatch.mean_field` at `state`.

    Arguments as there; `work` is (SCRATCH_ROWS, W).

    Its equations differentiated along v = (z., Y.), class by class:
    f. = f (z. - <f^2 z.>), r. = Y.^T f + Y^T f., alpha. = alpha (r. - <alpha r.>), g. = Y. e - Y alpha. with the
    error e = e_n - alpha, and the same for the products f e^T and f o (g - f (f . g)).
    """
    num_slots, num_columns, last = int(constants[0]), int(constants[1]), constants[2]
    eta_Y, eta_Z = constants[3], constants[4]
    f, df, g, dg = work[0], work[1], work[2], work[3]
    error, derror, spare = work[4, :num_columns], work[5, :num_columns], work[6, :num_columns]
    out[:num_slots] = 0.0
    for n in range(prior.size):
        start, end = classes[n, 0], classes[n, 1]
        m = end - start
        rows, slots, first = entries[0, start:end], entries[1, start:end], entries[2, start:end]
        multiplicity = weights[1, start:end]
        for i in range(m):
            f[i] = weights[0, start + i] + state[slots[i]]
        exp_shifted(f[:m])
        square, mean = 0.0, 0.0
        for i in range(m):
            share = multiplicity[i] * f[i] * f[i]
            square += share
            mean += share * v[slots[i]]
        scale, mean = 1.0 / math.sqrt(square), mean / square
        for j in range(num_columns):
            error[j] = 0.0
            derror[j] = 0.0
        for i in range(m):
            f[i] *= scale
            df[i] = f[i] * (v[slots[i]] - mean)
            y, counted, dcounted = rows[i], multiplicity[i] * f[i], multiplicity[i] * df[i]
            for j in range(num_columns):
                error[j] += counted * state[y + j]
                derror[j] += counted * v[y + j] + dcounted * state[y + j]
        # softmax_error turns logits into e_n - alpha; alpha itself is needed for its derivative.
        softmax_error(error, classes[n, 2], last)
        total = 0.0
        for j in range(num_columns):
            spare[j] = (1.0 if j == classes[n, 2] else 0.0) - error[j]
            total += spare[j] * derror[j] * (last if j == num_columns - 1 else 1.0)
        for j in range(num_columns):
            derror[j] = -spare[j] * (derror[j] - total)
        overlap, doverlap = 0.0, 0.0
        pace = eta_Y * prior[n]
        last_error, last_derror = (last - 1.0) * error[num_columns - 1], (last - 1.0) * derror[num_columns - 1]
        for i in range(m):
            y = rows[i]
            dot = last_error * state[y + (num_columns - 1)]
            ddot = last_error * v[y + (num_columns - 1)] + last_derror * state[y + (num_columns - 1)]
            for j in range(num_columns):
                dot += state[y + j] * error[j]
                ddot += v[y + j] * error[j] + state[y + j] * derror[j]
            g[i], dg[i] = dot, ddot
            overlap += multiplicity[i] * f[i] * dot
            doverlap += multiplicity[i] * (df[i] * dot + f[i] * ddot)
            a, b = pace * df[i], pace * f[i]
            if first[i] == 1:
                for j in range(num_columns):
                    out[y + j] = a * error[j] + b * derror[j]
            else:
                for j in range(num_columns):
                    out[y + j] += a * error[j] + b * derror[j]
        pace = eta_Z * prior[n]
        for i in range(m):
            inner = g[i] - f[i] * overlap
            out[slots[i]] += pace * (df[i] * inner + f[i] * (dg[i] - df[i] * overlap - f[i] * doverlap))
