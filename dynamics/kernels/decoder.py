"""Right-hand sides with frozen attention: original flow, Eq. (7), modified flow, Eqs. (8) and (26), and h, Eq. (44)."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.elementary import softmax_error


@kernel(fastmath=EXACT)
def frozen_decoder(
    state, out, mixing, prior, own, number, eta_Y, logits
):  # fmt: skip
    """Write dC/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    With the decoder inputs f_n, the columns of F, fixed and Y(0) = 0, Y = F B C, where C (S, columns) has rows
    C_n' = eta_Y p_n (e_n - alpha_n). Let G = F^T F. In the original flow B = I, and the logits are W = F^T Y = G C. In
    the modified flow B = I - E' = G^{-1}, and the logits are C. `mixing` (S, S) is G in the original flow and I in the
    modified flow; `own` (S,) are the outputs of the next tokens, `number` (columns,) says how many outputs a column
    stands for; `logits` (columns,) is scratch.
    """
    C = state.reshape((-1, number.size))
    dC = out.reshape((-1, number.size))
    loss = 0.0
    for n in range(prior.size):
        for j in range(number.size):
            logits[j] = 0.0
        for k in range(prior.size):
            weight = mixing[n, k]
            if weight != 0.0:
                row = C[k]
                for j in range(number.size):
                    logits[j] += weight * row[j]
        loss += prior[n] * softmax_error(logits, own[n], number)
        rate = eta_Y * prior[n]
        target = dC[n]
        for j in range(number.size):
            target[j] = rate * logits[j]
    return loss


@kernel(fastmath=EXACT)
def scaled_h_rate(u, rate, V):
    """d(V h)/dt = rate V/(V - 1 + exp(V h)), Eq. (44), for u = V h; overflow-free."""
    decay = math.exp(-u)
    return rate * V * decay / ((V - 1.0) * decay + 1.0)


@kernel(fastmath=EXACT)
def speed(u, V):
    """gamma = (V-1)^2 h/(V - 1 + exp(V h)), Eq. (85), for u = V h; overflow-free."""
    decay = math.exp(-u)
    return (V - 1.0) ** 2 * (u / V) * decay / ((V - 1.0) * decay + 1.0)
