"""DOP853 for a large mean field of which only z is saved: `dormand_prince` with `mean_field/factored`.

Steps, step control and dense output are those of `dormand_prince.advance`; sums are taken in another order.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from snapdyn.dynamics.kernels.compilation import REASSOCIATE, kernel
from snapdyn.dynamics.kernels.dormand_prince import (
    ALL_STAGES,
    ATOL,
    COEFFICIENTS,
    DENSE_MADE,
    END,
    ERROR_3,
    ERROR_5,
    ERROR_EXPONENT,
    EVALUATIONS,
    FINISHED,
    FULL,
    LARGEST_FACTOR,
    NOT_FINITE,
    NUMBER,
    OLD,
    PAUSED,
    RTOL,
    SAFETY,
    SAVED,
    SCALE,
    SCRATCH,
    SMALLEST_FACTOR,
    STAGE,
    STAGE_TIMES,
    STAGES,
    STARTED,
    STATE,
    STEP,
    STEPS,
    TAU,
    TAU_OLD,
    TOO_SMALL_STEP,
    USED,
    dense_state,
    stage_state,
)
from snapdyn.dynamics.kernels.mean_field.factored import add_factored_norms, factored_rate, first_norms


@njit(inline="always")
def _evaluate(entries, factors, scratch, work, state, side, stage, number, weights, h, tau):
    """Write the rate at the vector `state`, and at the rows of `side` plus h times `number` weighted stages."""
    scale, where = work.reals[SCALE], work.where
    stages, scaled = scratch[1], scratch[2]
    for j in range(number):
        stages[j] = where[STAGE + USED[stage, j]] - STAGE
        scaled[j] = h * weights[j]
    factored_rate(
        work.vectors[state], work.vectors[where[STAGE + stage]], factors.Y[side], where[STAGE + stage] - STAGE,
        stages[:number], scaled[:number], scale * math.exp(tau) if scale > 0.0 else 1.0, entries, factors, scratch[0],
    )  # fmt: skip
    work.counts[EVALUATIONS] += 1


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _squares(x, other, y, rtol, atol):
    """Sum of the squares of (x - other)/(atol + rtol |y|)."""
    total = 0.0
    for i in range(x.size):
        d = (x[i] - other[i]) / (atol + rtol * abs(y[i]))
        total += d * d
    return total


@njit(inline="always")
def _first_step(entries, factors, scratch, work):
    """As in `dormand_prince`; the rows of one class start at 0."""
    vectors, where = work.vectors, work.where
    y, trial, zero = vectors[where[STATE]], vectors[where[SCRATCH]], vectors[where[OLD]]
    f, f_trial = vectors[where[STAGE]], vectors[where[STAGE + 1]]
    end, rtol, atol = work.reals[END], work.reals[RTOL], work.reals[ATOL]
    n = y.size + factors.Y[0].size
    h0, d1 = 0.0, 0.0
    for s in range(2):
        # At stage 1, the state plus h0 times the first stage.
        _evaluate(
            entries, factors, scratch, work, where[SCRATCH] if s == 1 else where[STATE], factors.side[0], s, 4 * s,
            scratch[3], h0, h0,
        )  # fmt: skip
        if s == 0:
            for i in range(y.size):
                zero[i] = 0.0
            d0 = math.sqrt(_squares(y, zero, y, rtol, atol) / n)
            first = first_norms(atol, where[STAGE] - STAGE, where[STAGE] - STAGE, factors)[0]
            d1 = math.sqrt((_squares(f, zero, y, rtol, atol) + first) / n)
            h0 = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, end)
            for i in range(y.size):
                trial[i] = y[i] + h0 * f[i]
    difference = first_norms(atol, where[STAGE] - STAGE, where[STAGE + 1] - STAGE, factors)[1]
    d2 = math.sqrt((_squares(f_trial, f, y, rtol, atol) + difference) / n) / h0
    h1 = max(1e-6, h0 * 1e-3) if d1 <= 1e-15 and d2 <= 1e-15 else (0.01 / max(d1, d2)) ** (1.0 / 8.0)
    work.reals[STEP] = min(100.0 * h0, h1, end)
    work.counts[STARTED] = 1


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _new_state(h, factors, scratch, work):
    """As in `dormand_prince`."""
    vectors, where, rtol, atol = work.vectors, work.where, work.reals[RTOL], work.reals[ATOL]
    y, y_new = vectors[where[STATE]], vectors[where[OLD]]
    w, a, b = COEFFICIENTS[STAGES], COEFFICIENTS[ERROR_5], COEFFICIENTS[ERROR_3]
    stages, side = scratch[1], factors.side[0]
    for j in range(NUMBER[STAGES]):
        stages[j] = where[STAGE + USED[STAGES, j]] - STAGE
    sum_5, sum_3, check = add_factored_norms(
        factors.Y[side], factors.Y[1 - side], h, stages, w, a, b, rtol, atol, factors
    )
    for i in range(y.size):
        change, e5, e3 = 0.0, 0.0, 0.0
        for j in range(NUMBER[STAGES]):
            k = vectors[where[STAGE + USED[STAGES, j]], i]
            change += w[j] * k
            e5 += a[j] * k
            e3 += b[j] * k
        y_new[i] = y[i] + h * change
        inverse = 1.0 / (atol + rtol * max(abs(y[i]), abs(y_new[i])))
        sum_5 += (e5 * inverse) ** 2
        sum_3 += (e3 * inverse) ** 2
        check += 0.0 * y_new[i]
    if sum_5 == 0.0 and sum_3 == 0.0:
        return 0.0, check == 0.0
    return h * sum_5 / math.sqrt((sum_5 + 0.01 * sum_3) * (y.size + factors.Y[0].size)), check == 0.0


@njit(inline="always")
def _step(entries, factors, scratch, work):
    """As in `dormand_prince`."""
    tau, end = work.reals[TAU], work.reals[END]
    smallest = 10.0 * (np.nextafter(tau, np.inf) - tau)
    size = max(work.reals[STEP], smallest)
    rejected = False
    where, side = work.where, factors.side[0]
    while True:
        if not size >= smallest:  # also a step that is NaN
            return TOO_SMALL_STEP
        tau_new = min(tau + size, end)
        h = tau_new - tau
        size = h
        error, finite = math.inf, True
        for s in range(1, STAGES + 1):
            if s < STAGES:
                stage_state(s, h, where[STATE], work.vectors, where)
            else:
                error, finite = _new_state(h, factors, scratch, work)
                if not (error < 1.0 and finite):
                    break
            inside = s < STAGES
            _evaluate(
                entries, factors, scratch, work, where[SCRATCH] if inside else where[OLD], side if inside else 1 - side,
                s, NUMBER[s] if inside else 0, COEFFICIENTS[s], h, tau + STAGE_TIMES[s] * h,
            )  # fmt: skip
        if error < 1.0:
            break
        factor = SAFETY * error**ERROR_EXPONENT
        size *= factor if factor > SMALLEST_FACTOR else SMALLEST_FACTOR
        rejected = True
    factor = LARGEST_FACTOR if error == 0.0 else min(LARGEST_FACTOR, SAFETY * error**ERROR_EXPONENT)
    work.reals[STEP] = size * (min(1.0, factor) if rejected else factor)
    where[STATE], where[OLD] = where[OLD], where[STATE]
    factors.side[0] = 1 - side
    work.reals[TAU_OLD], work.reals[TAU] = tau, tau_new
    if not finite:
        return NOT_FINITE
    work.counts[STEPS] += 1
    work.counts[DENSE_MADE] = 0
    return FINISHED


@kernel(nogil=True)
def advance_factored_mean_field(entries, factors, scratch, work, save_at, saved, most_steps):
    """As the functions at the end of `dormand_prince`; `saved` (rows, width) receives logits, width <= num_slots.

    `scratch`: four rows of numbers, stages (16,), their weights (16,), and the weights of the first trial step (1,).
    """
    counts, where = work.counts, work.where
    if counts[STARTED] == 0:
        _first_step(entries, factors, scratch, work)
    before = counts[SAVED]
    last = counts[STEPS] + most_steps
    while True:
        while counts[SAVED] < save_at.size and save_at[counts[SAVED]] <= work.reals[TAU]:
            row = counts[SAVED] - before
            if row == saved.shape[0]:
                return FULL
            tau = save_at[counts[SAVED]]
            if tau < work.reals[TAU] and counts[DENSE_MADE] == 0:
                start = work.reals[TAU_OLD]
                h = work.reals[TAU] - start
                for s in range(STAGES + 1, ALL_STAGES):
                    stage_state(s, h, where[OLD], work.vectors, where)
                    _evaluate(
                        entries, factors, scratch, work, where[SCRATCH], 1 - factors.side[0], s, NUMBER[s],
                        COEFFICIENTS[s], h, start + STAGE_TIMES[s] * h,
                    )  # fmt: skip
                counts[DENSE_MADE] = 1
            dense_state(tau, work, saved[row])
            counts[SAVED] += 1
        if work.reals[TAU] >= work.reals[END]:
            return FINISHED
        if counts[STEPS] == last:
            return PAUSED
        if counts[STEPS] > 0:
            where[STAGE], where[STAGE + STAGES] = where[STAGE + STAGES], where[STAGE]
        status = _step(entries, factors, scratch, work)
        if status != FINISHED:
            return status
