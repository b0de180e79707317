"""DOP853 for a large mean field of which only z is saved: stage derivatives of most rows of Y are held as factors.

The rate of a row of Y whose token occurs in one class n is eta_Y p_n f_l (e_n - alpha_n): the product of a number and
of a row that all tokens of the class share. So the state of such a row at a stage is its value at the start of the step
plus a sum of such products over earlier stages, and neither the stage states nor the stage derivatives of these rows
are ever written. A step then reads Y once per stage and writes it once.

The vectors of the integrator hold z and the rows of tokens that several classes share. Steps, step control and dense
output are those of `dormand_prince`, except for the order of sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from snapdyn.dynamics.kernels.compilation import REASSOCIATE, kernel
from snapdyn.dynamics.kernels.dormand_prince import (
    AT_STAGE,
    ATOL,
    BASE,
    COEFFICIENTS,
    ERROR_3,
    ERROR_5,
    NOW,
    NUMBER,
    OLD,
    RTOL,
    SCALE,
    SIZE,
    STAGE,
    STAGES,
    STARTED,
    STATE,
    USED,
    integrator_of,
    sum_of_eight,
)
from snapdyn.dynamics.kernels.elementary import softmax_error
from snapdyn.dynamics.kernels.mean_field.general import attention


class Entries(NamedTuple):
    """The pairs (class, row of Y) with P > 0, called entries, class by class."""

    indptr: NDArray[np.int64]  # (S+1,)
    slot: NDArray[np.int64]  # logit in the vectors
    shared: NDArray[np.int64]  # where the row begins in the vectors; -1: no other class has it
    alone: NDArray[np.int64]  # number of the row among those of one class; -1 for others
    log_p: NDArray[np.float64]
    multiplicity: NDArray[np.float64]  # tokens lumped into the row
    column: NDArray[np.int64]  # (S,) output of the class
    prior: NDArray[np.float64]  # (S,)
    constants: NDArray[np.float64]  # multiplicity of the last column, eta_Y, eta_Z


class Factors(NamedTuple):
    """Rows of Y whose token occurs in one class only, and the factors of their stage derivatives."""

    Y: NDArray[np.float64]  # (2, rows, columns): at the start of the step and at its end, as where[STATE], where[OLD]
    pace: NDArray[np.float64]  # (16, rows)
    error: NDArray[np.float64]  # (16, S, columns): e_n - alpha_n
    class_of: NDArray[np.int64]  # (rows,)
    rows: NDArray[np.int64]  # (S+1,) rows of class n are rows[n]:rows[n+1]
    share: NDArray[np.float64]  # (rows,) scratch
    work: NDArray[np.float64]  # (4, W) scratch, W at least `ALL_STAGES`, and the entries of a class and `LANES`
    stages: NDArray[np.int64]  # (16,) scratch: stages that the state is made of
    weights: NDArray[np.float64]  # (16,) scratch: what they are multiplied by


@njit(inline="always")
def _stages_of(work, factors):
    """Write the stages and weights whose sum leads from the start of the step to the state where the rate is evaluated.

    Return the number of stages: 0, 4, 8 or 12.
    """
    s, h, where = work.counts[AT_STAGE], work.reals[SIZE], work.where
    if s in (0, STAGES):
        return 0
    starts = work.counts[STARTED] == 0  # then it is the state a first step away
    number = 4 if starts else NUMBER[s]
    for j in range(number):
        factors.stages[j] = where[STAGE + USED[s, j]] - STAGE
        weight = COEFFICIENTS[s, j]
        if starts:
            weight = 1.0 if j == 0 else 0.0
        factors.weights[j] = h * weight
    return number


@njit(inline="always")
def _logits(n, r, state, Y, stages, weights, entries, factors):
    """Write the sum over the entries of class n of c times the row of Y, at the current stage, to `r`."""
    counted, dots, of_row, error, pace = factors.work[1], factors.work[3], factors.share, factors.error, factors.pace
    start, num_columns = entries.indptr[n], r.size
    for j in range(num_columns):
        r[j] = 0.0
    for i in range(entries.indptr[n + 1] - start):
        row, share = entries.alone[start + i], counted[i]
        if row >= 0:
            of_row[row] = share
            y = Y[row]
            for j in range(num_columns):
                r[j] += share * y[j]
        else:
            shared = state[entries.shared[start + i] : entries.shared[start + i] + num_columns]
            for j in range(num_columns):
                r[j] += share * shared[j]
    # Rows of one class are numbered in the order of the entries.
    first_row, end_row = factors.rows[n], factors.rows[n + 1]
    for s in range(0, stages.size, 4):
        for k in range(s, s + 4):
            total = 0.0
            for row in range(first_row, end_row):
                total += of_row[row] * pace[stages[k], row]
            dots[k] = weights[k] * total
        w0, w1, w2, w3 = dots[s], dots[s + 1], dots[s + 2], dots[s + 3]
        r0, r1, r2, r3 = (error[stages[s], n], error[stages[s + 1], n],
                          error[stages[s + 2], n], error[stages[s + 3], n])  # fmt: skip
        for j in range(num_columns):
            r[j] += (w0 * r0[j] + w1 * r1[j]) + (w2 * r2[j] + w3 * r3[j])


@kernel(fastmath=REASSOCIATE, forceinline=True)
def factored_rate(state, out, entries, factors, work):
    """Write the rate of z and of rows of shared tokens to `out`; the rate of all other rows to `factors`."""
    number = _stages_of(work, factors)
    stages, weights = factors.stages[:number], factors.weights[:number]
    stage = work.where[STAGE + work.counts[AT_STAGE]] - STAGE
    Y = factors.Y[work.where[OLD] if work.counts[AT_STAGE] == STAGES else work.counts[BASE]]
    factor = work.reals[SCALE] + work.reals[NOW] if work.reals[SCALE] > 0.0 else 1.0  # dt/dtau
    pace, error, num_columns = factors.pace, factors.error, Y.shape[1]
    last_multiplicity, eta_Y, eta_Z = entries.constants[0], entries.constants[1], entries.constants[2]
    c, counted, g, dots = factors.work[0], factors.work[1], factors.work[2], factors.work[3]
    for i in range(out.size):
        out[i] = 0.0
    for n in range(entries.prior.size):
        start = entries.indptr[n]
        m = entries.indptr[n + 1] - start
        scale = attention(start, m, state, entries.slot, entries.log_p, entries.multiplicity, c, counted)
        r = error[stage, n]
        _logits(n, r, state, Y, stages, weights, entries, factors)
        for j in range(num_columns):
            r[j] *= scale
        softmax_error(r, entries.column[n], last_multiplicity)

        last = (last_multiplicity - 1.0) * r[num_columns - 1]
        for s in range(number):
            earlier = error[stages[s], n]
            dot = last * earlier[num_columns - 1]
            for j in range(num_columns):
                dot += earlier[j] * r[j]
            dots[s] = weights[s] * dot
        overlap = 0.0
        speed = eta_Y * entries.prior[n] * scale
        for i in range(m):
            row = entries.alone[start + i]
            change = speed * c[i]
            if row >= 0:
                y = Y[row]
                dot = last * y[num_columns - 1]
                for j in range(num_columns):
                    dot += y[j] * r[j]
                for s in range(number):
                    dot += dots[s] * pace[stages[s], row]
                pace[stage, row] = factor * change
            else:
                at = entries.shared[start + i]
                shared, driven = state[at : at + num_columns], out[at : at + num_columns]
                dot = last * shared[num_columns - 1]
                for j in range(num_columns):
                    dot += shared[j] * r[j]
                    driven[j] += change * r[j]
            g[i] = dot
            overlap += counted[i] * dot
        overlap *= scale
        speed = eta_Z * entries.prior[n] * scale
        for i in range(m):
            out[entries.slot[start + i]] += speed * c[i] * (g[i] - scale * c[i] * overlap)
    return 0.0


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _rows_at_end(h, work, arguments):
    """Write the rows in `factors` at the end of a step; see `at_end` of `dormand_prince._advance`."""
    factors = arguments[1]
    Y, Y_new = factors.Y[work.where[STATE]], factors.Y[work.where[OLD]]
    rtol, atol = work.reals[RTOL], work.reals[ATOL]
    stages = factors.stages
    for j in range(8):  # those that the new state and both estimates use
        stages[j] = work.where[STAGE + USED[STAGES, j]] - STAGE
    w, a, b = COEFFICIENTS[STAGES], COEFFICIENTS[ERROR_5], COEFFICIENTS[ERROR_3]
    sum_5, sum_3, check = 0.0, 0.0, 0.0
    error = factors.error
    for row in range(Y.shape[0]):
        n = factors.class_of[row]
        p0, p1, p2, p3 = (factors.pace[stages[0], row], factors.pace[stages[1], row],
                          factors.pace[stages[2], row], factors.pace[stages[3], row])  # fmt: skip
        p4, p5, p6, p7 = (factors.pace[stages[4], row], factors.pace[stages[5], row],
                          factors.pace[stages[6], row], factors.pace[stages[7], row])  # fmt: skip
        r0, r1, r2, r3 = error[stages[0], n], error[stages[1], n], error[stages[2], n], error[stages[3], n]
        r4, r5, r6, r7 = error[stages[4], n], error[stages[5], n], error[stages[6], n], error[stages[7], n]
        y, y_new = Y[row], Y_new[row]
        for j in range(y.size):
            k = p0 * r0[j], p1 * r1[j], p2 * r2[j], p3 * r3[j], p4 * r4[j], p5 * r5[j], p6 * r6[j], p7 * r7[j]
            value = y[j] + h * sum_of_eight(w, k)
            e5, e3 = sum_of_eight(a, k), sum_of_eight(b, k)
            before, after = abs(y[j]), abs(value)
            inverse = 1.0 / (atol + rtol * (before if before > after else after))
            e5, e3 = e5 * inverse, e3 * inverse
            sum_5 += e5 * e5
            sum_3 += e3 * e3
            check += 0.0 * value
            y_new[j] = value
    return sum_5, sum_3, check, Y.size


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _rows_at_start(h, work, arguments):
    """Sums over the rows in `factors`, which are 0 at the start; see `at_start` of `dormand_prince._advance`."""
    factors, atol = arguments[1], work.reals[ATOL]
    first, second = work.where[STAGE] - STAGE, work.where[STAGE + 1] - STAGE
    error, pace = factors.error, factors.pace
    of_first, of_difference = 0.0, 0.0
    for row in range(factors.class_of.size):
        n = factors.class_of[row]
        x, y = error[first, n], error[second, n]
        p, q = pace[first, row] / atol, pace[second, row] / atol
        for j in range(x.size):
            of_first += (p * x[j]) ** 2
            of_difference += (q * y[j] - p * x[j]) ** 2
    return of_first, of_difference, 0.0, factors.Y[0].size


FACTORED = integrator_of(factored_rate, at_start=_rows_at_start, at_end=_rows_at_end)
