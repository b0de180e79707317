"""Finite steps of gradient descent on the mean field of one value per colour."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.mean_field.quotient import mean_field_quotient
from snapdyn.dynamics.kernels.optimizers import adam_update, sgd_update


@kernel(fastmath=EXACT, nogil=True)
def quotient_descent_steps(
    state, velocity, rate, first_moment, second_moment, step, stop, steps, saved, record, saved_states, saved_loss,
    adam, num_slots, eta_Y, eta_Z, momentum, beta_1, beta_2, eps, weight_decay, arguments,
):  # fmt: skip
    """Make the updates step..stop-1, in place, saving the state at the steps in `record` from number `saved` on.

    As `kernels.sgd.sgd_steps`, with the gradient of the expectation over classes from `mean_field_quotient`, whose
    `arguments` hold rates of 1; `rate` (size,) is scratch. Returns (step, saved, finite).
    """
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
            velocity[i] += rate[i]
        check = 0.0
        for part, size in ((slice(0, num_slots), eta_Z), (slice(num_slots, state.size), eta_Y)):
            if adam:
                check += adam_update(
                    state[part], velocity[part], first_moment[part], second_moment[part], step, size, beta_1, beta_2,
                    eps, weight_decay,
                )  # fmt: skip
            else:
                check += sgd_update(state[part], velocity[part], size, momentum, weight_decay)
        if check != 0.0:  # it is 0 or NaN
            return step, saved, False
