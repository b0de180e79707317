"""The mean field with its derivatives with respect to parameters."""

from __future__ import annotations

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.explicit_steps import explicit_steps
from snapdyn.dynamics.kernels.law import mean_field, tangent


@kernel(fastmath=EXACT)
def sensitivity(state, out, size, lists, rates, work, log_p_changes, of_rates):
    """Write the rates of [x, dx/dp_1, dx/dp_2, ...] to `out`, x the `size` values of the mean field; return the loss.

    d(dx/dp)/dt = J dx/dp + dF/dp, with F the rate of x. Each of the k parameters changes ln P on the entries by
    log_p_changes (k, entries), and the logarithms of eta_Y and eta_Z by of_rates (k, 2): F is proportional to eta_Y in
    the rows of Y, and to eta_Z in z. `work` is (TANGENT_ROWS, W).
    """
    x, rate = state[:size], out[:size]
    loss = mean_field(x, rate, lists, rates, work)
    slots = lists.num_slots
    for k in range(of_rates.shape[0]):
        start = (k + 1) * size
        change = out[start : start + size]
        tangent(x, state[start : start + size], change, lists, rates, work, log_p_changes[k])
        for i in range(slots):
            change[i] += of_rates[k, 1] * rate[i]
        for i in range(slots, size):
            change[i] += of_rates[k, 0] * rate[i]
    return loss


@kernel(fastmath=EXACT, nogil=True)
def sensitivity_steps(arguments, state, velocity, change, reals, size, momentum, schedule, steps, record, saved):
    """As `explicit_steps`, for `sensitivity`; `arguments` are its arguments after out, and `reals`."""
    return explicit_steps(
        sensitivity, arguments[:-1], state, velocity, change, reals, size, momentum, schedule, steps, record, saved
    )
