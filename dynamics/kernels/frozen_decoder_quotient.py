"""Right-hand side of the frozen decoder of one value per colour (`dynamics/symmetry/frozen_decoder`)."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive


@kernel(fastmath=EXACT, forceinline=True)
def frozen_decoder_quotient(state, out, ranges, own, rates, value, number, indptr, index, weight, logits):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    Class c has the output colours ranges[c, 0]..ranges[c, 1]; `own` is that of its next token, `rates` (2, C) holds
    eta_Y p_n and the share of all classes of its colour in the loss. For each output colour: its state value, its
    number of outputs, and the row `indptr`, `index`, `weight` of the sums over the mixing matrix. `logits` is scratch.
    """
    loss = 0.0
    for c in range(own.size):
        first, last, mine = ranges[c, 0], ranges[c, 1], own[c]
        largest = -math.inf
        for j in range(first, last):
            total = 0.0
            for i in range(indptr[j], indptr[j + 1]):
                total += weight[i] * state[index[i]]
            logits[j - first] = total
            largest = total if total > largest else largest
        others = 0.0
        for j in range(last - first):
            logits[j] = exp_nonpositive(logits[j] - largest)
            others += 0.0 if first + j == mine else number[first + j] * logits[j]
        alone = logits[mine - first]
        scale = rates[0, c] / (others + alone)
        for j in range(first, last):
            out[value[j]] = others * scale if j == mine else -logits[j - first] * scale
        loss += rates[1, c] * math.log1p(others / alone)
    return loss
