"""Updates of PyTorch's optimisers, for the loss -J."""

from __future__ import annotations

import math
from typing import NamedTuple

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, Floats, kernel

# Adam's decay rates of the moments, and its addition to the root of the second one: PyTorch's defaults.
BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8


class Descent(NamedTuple):
    """The state [z slots, Y] that the steps change, its gradient, and the moments of Adam."""

    state: Floats
    gradient: Floats
    first_moment: Floats  # (0,) but for Adam
    second_moment: Floats


class Update(NamedTuple):
    """Settings of an update rule."""

    adam: bool
    eta_Y: float
    eta_Z: float
    momentum: float
    schedule: Floats  # (steps,) multipliers of both rates; (0,): 1 throughout


@kernel(fastmath=REASSOCIATE, forceinline=True)
def sgd_update(x, gradient, rate, momentum):
    """torch.optim.SGD on the loss -J (no dampening, not Nesterov); return NaN if x is not finite, else 0.

    On return, `gradient` holds momentum times the velocity. The gradient of the next batch is added to this, so that no
    array is needed for the velocity.
    """
    check = 0.0
    for i in range(x.size):
        velocity = gradient[i]
        gradient[i] = momentum * velocity
        x[i] += rate * velocity
        check += 0.0 * x[i]
    return check


@kernel(fastmath=REASSOCIATE, forceinline=True)
def adam_update(x, gradient, first, second, step, rate):
    """torch.optim.Adam on the loss -J, `step` from 1 on; clear `gradient`; return NaN if x is not finite, else 0."""
    step_size = rate / (1.0 - BETA_1**step)
    root_correction = 1.0 / math.sqrt(1.0 - BETA_2**step)
    check = 0.0
    for i in range(x.size):
        d = -gradient[i]
        gradient[i] = 0.0
        first[i] = BETA_1 * first[i] + (1.0 - BETA_1) * d
        second[i] = BETA_2 * second[i] + (1.0 - BETA_2) * d * d
        x[i] -= step_size * first[i] / (math.sqrt(second[i]) * root_correction + EPS)
        check += 0.0 * x[i]
    return check


@kernel(fastmath=EXACT, forceinline=True)
def is_updated(descent, update, num_slots, step):
    """Make update number `step` of z and Y, in place; return whether the state is finite."""
    state, gradient, check = descent.state, descent.gradient, 0.0
    multiplier = update.schedule[step - 1] if update.schedule.size > 0 else 1.0
    for part, eta in ((slice(0, num_slots), update.eta_Z), (slice(num_slots, state.size), update.eta_Y)):
        rate = multiplier * eta
        if update.adam:
            check += adam_update(
                state[part], gradient[part], descent.first_moment[part], descent.second_moment[part], step, rate
            )  # fmt: skip
        else:
            check += sgd_update(state[part], gradient[part], rate, update.momentum)
    return check == 0.0  # else it is NaN
