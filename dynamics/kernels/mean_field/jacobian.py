"""Derivatives of the full mean field: Jacobian times a vector, and sensitivities; no residual connection."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_shifted, softmax_error
from snapdyn.dynamics.kernels.explicit_steps import explicit_steps
from snapdyn.dynamics.kernels.mean_field.general import mean_field

SCRATCH_ROWS = 7


@kernel(fastmath=REASSOCIATE)
def mean_field_jacobian(state, v, out, entries, weights, classes, prior, constants, work, log_p_change=None):
    """Write J v to `out`, J the derivative of `general.mean_field` at `state`; return the derivative of the loss.

    Arguments as in `general.mean_field`; `work` is (SCRATCH_ROWS, W). `log_p_change` (nnz,) changes ln P as well: the
    attention of an entry depends on ln P + z, so it is added to the change of the entry's logit.

    The equations of `general.mean_field` are differentiated class by class along v = (z., Y.), where a dot after a
    symbol marks its change, x. is the change of ln P + z, and <.> is a sum over entries or columns:
    f. = f (x. - <f^2 x.>), r. = Y.^T f + Y^T f., alpha. = alpha (r. - <alpha r.>), g. = Y. e - Y alpha. with the error
    e = e_n - alpha.
    The product rule gives the changes of f e^T and of f o (g - f (f . g)). The loss changes by -e . r.
    """
    num_slots, num_columns, last = int(constants[0]), int(constants[1]), constants[2]
    eta_Y, eta_Z = constants[3], constants[4]
    f, df, g, dg = work[0], work[1], work[2], work[3]
    error, derror, spare = work[4, :num_columns], work[5, :num_columns], work[6, :num_columns]
    out[:num_slots] = 0.0
    dloss = 0.0
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
            mean += share * (v[slots[i]] if log_p_change is None else v[slots[i]] + log_p_change[start + i])
        scale, mean = 1.0 / math.sqrt(square), mean / square
        for j in range(num_columns):
            error[j] = 0.0
            derror[j] = 0.0
        for i in range(m):
            f[i] *= scale
            change = v[slots[i]] if log_p_change is None else v[slots[i]] + log_p_change[start + i]
            df[i] = f[i] * (change - mean)
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
            dloss -= prior[n] * error[j] * derror[j] * (last if j == num_columns - 1 else 1.0)
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
    return dloss


@kernel(fastmath=EXACT)
def mean_field_jacobian_columns(state, v, columns, entries, weights, classes, prior, constants, work):
    """Write every column of J to a row of `columns` (n, n); `v` (n,) is scratch."""
    v[:] = 0.0
    for i in range(v.size):
        v[i] = 1.0
        mean_field_jacobian(state, v, columns[i], entries, weights, classes, prior, constants, work)
        v[i] = 0.0


@kernel(fastmath=EXACT)
def mean_field_sensitivity(
    state, out, size, entries, weights, classes, prior, constants, work, spare, log_p_changes, of_rates
):
    """Write the rates of [x, dx/dp_1, dx/dp_2, ...] to `out`, x the `size` values of the mean field; return the loss.

    d(dx/dp)/dt = J dx/dp + dF/dp, with F the rate of x. Each of the k parameters changes ln P on the entries by
    log_p_changes (k, nnz), and the logarithms of eta_Y and eta_Z by of_rates (k, 2): F is proportional to eta_Y in the
    rows of Y, and to eta_Z in z. `work` is the scratch of the mean field, `spare` that of its Jacobian.
    """
    x, rate = state[:size], out[:size]
    loss = mean_field(x, rate, entries, weights, classes, prior, constants, work)
    slots = int(constants[0])
    for k in range(of_rates.shape[0]):
        start = (k + 1) * size
        change = out[start : start + size]
        mean_field_jacobian(
            x, state[start : start + size], change, entries, weights, classes, prior, constants, spare, log_p_changes[k]
        )
        for i in range(slots):
            change[i] += of_rates[k, 1] * rate[i]
        for i in range(slots, size):
            change[i] += of_rates[k, 0] * rate[i]
    return loss


@kernel(fastmath=EXACT, nogil=True)
def mean_field_sensitivity_steps(arguments, state, velocity, change, reals, size, momentum, steps, record, saved):
    """As `explicit_steps`, for `mean_field_sensitivity`; `arguments` are its arguments after out, and `reals`."""
    return explicit_steps(
        mean_field_sensitivity, arguments[:-1], state, velocity, change, reals, size, momentum, steps, record, saved
    )
