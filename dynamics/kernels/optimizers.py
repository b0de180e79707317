"""Updates of PyTorch's optimisers, for the loss -J."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import REASSOCIATE, kernel


@kernel(fastmath=REASSOCIATE, forceinline=True)
def sgd_update(x, gradient, rate, momentum, weight_decay):
    """torch.optim.SGD on the loss -J (no dampening, not Nesterov); NaN if x is not finite.

    The gradient of the next batch is added to what this leaves in `gradient`, momentum times the velocity: one
    array less to read and write.
    """
    check = 0.0
    for i in range(x.size):
        velocity = gradient[i] - weight_decay * x[i]
        gradient[i] = momentum * velocity
        x[i] += rate * velocity
        check += 0.0 * x[i]
    return check


@kernel(fastmath=REASSOCIATE, forceinline=True)
def adam_update(x, gradient, first, second, step, rate, beta_1, beta_2, eps, weight_decay):
    """torch.optim.Adam on the loss -J, step counted from 1, gradient cleared; NaN if x is not finite."""
    step_size = rate / (1.0 - beta_1**step)
    root_correction = 1.0 / math.sqrt(1.0 - beta_2**step)
    check = 0.0
    for i in range(x.size):
        d = weight_decay * x[i] - gradient[i]
        gradient[i] = 0.0
        first[i] = beta_1 * first[i] + (1.0 - beta_1) * d
        second[i] = beta_2 * second[i] + (1.0 - beta_2) * d * d
        x[i] -= step_size * first[i] / (math.sqrt(second[i]) * root_correction + eps)
        check += 0.0 * x[i]
    return check
