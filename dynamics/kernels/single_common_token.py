"""Right-hand side of Eq. (13): one logit of the single common token and the growth exponent."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.decoder import scaled_h_rate, speed


@kernel(fastmath=EXACT)
def single_common_token(state, out, num_classes, V, eta_Y, eta_Z, coupling, exponent_share):
    """Write d(state)/dt to `out`; state = [z_c, B, V h], t counts batch-size-1 steps.

    z_c' = -eta_Z gamma coupling exp(4 z_c), B' = -exponent_share z_c', (V h)' from (44) at rate eta_Y/K.
    Printed (13): coupling = K/rho0^4, exponent_share = 1. Consistent with (98)-(100): coupling =
    (K-1)/rho0^4, exponent_share = 1/K.
    """
    fall = eta_Z * speed(state[2], V) * coupling * math.exp(4.0 * state[0])
    out[0] = -fall
    out[1] = exponent_share * fall
    out[2] = scaled_h_rate(state[2], eta_Y / num_classes, V)
    return 0.0
