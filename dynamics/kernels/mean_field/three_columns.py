"""Right-hand side of the full mean field with three output columns (two next tokens and the rest), without the loss.

For small systems, whose time goes to latencies and instructions, not to memory: each step of the computation runs over
all classes at once, so that exponentials fill vector registers and no class waits for another. With the residual
connection and at large logits it calls the general kernel.
"""

from __future__ import annotations

import math

import numpy as np

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.elementary import exp_any, exp_nonpositive
from snapdyn.dynamics.kernels.mean_field.general import LANES, mean_field_of_three_columns

# Logits are not shifted by the largest one, which would be a latency, but limited to this value. The norm of the
# attention shows when the limit matters (largest logit above 287 or below -115); then the general kernel, which
# shifts, is used.
LARGEST_LOGIT = 300.0
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-100, 1e250
# Unsigned: signed indices cost a test for negative ones each.
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@kernel(fastmath=EXACT, forceinline=True)
def three_column_rate(state, out, entries, weights, classes, prior, constants, work):
    """Write d(state)/dt of the mean field to `out`; arguments as in `dispatch.mean_field`.

    `work` (4, W) holds, for all classes: c; logits and their exponentials; sums of c Y, and 1/|c|. W is at least the
    number of entries, and four numbers per class, rounded up to `LANES`.
    """
    if classes[0, 3] >= 0:  # a residual connection
        mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work)
        return
    last_multiplicity, eta_Y, eta_Z = constants[2], constants[3], constants[4]
    rows, slots, first = entries[0], entries[1], entries[2]
    log_p, multiplicity = weights[0], weights[1]
    c, r, sums = work[0], work[1], work[2]
    number, num_classes = np.uint64(rows.size), np.uint64(prior.size)
    padded = (number + np.uint64(LANES - 1)) // np.uint64(LANES) * np.uint64(LANES)
    slots_are_entries = constants[5] == 1.0
    if slots_are_entries:
        for i in range(number):
            c[i] = log_p[i] + state[i]
    else:
        for i in range(np.uint64(constants[0])):
            out[i] = 0.0
        for i in range(number):
            c[i] = log_p[i] + state[slots[i]]
    for i in range(number, padded):
        c[i] = 0.0
    for i in range(padded):
        x = LARGEST_LOGIT if c[i] > LARGEST_LOGIT else c[i]
        c[i] = exp_any(-LARGEST_LOGIT if x < -LARGEST_LOGIT else x)

    for n in range(num_classes):
        r0, r1, r2, square = 0.0, 0.0, 0.0, 0.0
        for i in range(np.uint64(classes[n, 0]), np.uint64(classes[n, 1])):
            y = rows[i]
            counted = multiplicity[i] * c[i]
            square += counted * c[i]
            r0 += counted * state[y]
            r1 += counted * state[y + _1]
            r2 += counted * state[y + _2]
        if not SMALLEST_SQUARE < square < LARGEST_SQUARE:
            mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work)
            return
        scale = 1.0 / math.sqrt(square)
        largest = r0 if r0 > r1 else r1
        largest = largest if largest > r2 else r2
        k = _4 * n
        sums[k], sums[k + _1], sums[k + _2], sums[k + _3] = r0, r1, r2, scale
        r[k], r[k + _1], r[k + _2] = (r0 - largest) * scale, (r1 - largest) * scale, (r2 - largest) * scale
        r[k + _3] = 0.0
    for k in range(_4 * num_classes):
        r[k] = exp_nonpositive(r[k])

    for n in range(num_classes):
        k = _4 * n
        # As in `prediction_error`: the value at the class's own column is the sum of the other probabilities.
        a0, a1, a2 = r[k], r[k + _1], r[k + _2] * last_multiplicity
        total = 1.0 / (a0 + a1 + a2)
        r0, r1, last = -a0 * total, -a1 * total, -a2 * total
        if classes[n, 2] == 0:
            r0 = (a1 + a2) * total
        elif classes[n, 2] == 1:
            r1 = (a0 + a2) * total
        else:
            last = (a0 + a1) * total
        scale = sums[k + _3]
        pace = eta_Y * prior[n] * scale
        p0, p1, p2 = pace * r0, pace * r1, pace * (last / last_multiplicity)
        pace = eta_Z * prior[n] * scale
        # f . g, over |c|: by the sums of above, since g is Y (e - alpha).
        overlap = (sums[k] * r0 + sums[k + _1] * r1 + sums[k + _2] * last) * scale * scale
        for i in range(np.uint64(classes[n, 0]), np.uint64(classes[n, 1])):
            y, share = rows[i], c[i]
            change = pace * share * (r0 * state[y] + r1 * state[y + _1] + last * state[y + _2] - share * overlap)
            if slots_are_entries:
                out[i] = change
            else:
                out[slots[i]] += change
            if first[i] == 1:
                out[y], out[y + _1], out[y + _2] = share * p0, share * p1, share * p2
            else:
                out[y] += share * p0
                out[y + _1] += share * p1
                out[y + _2] += share * p2
