"""DOP853, the Dormand-Prince method of order 8(5,3) with dense output of order 7: whole trajectories, compiled.

Step control, first step and dense output are those of scipy.integrate.DOP853, and so are the coefficients
(Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, Sec. II.5, II.6, II.10). A large system spends its
time on moving stage vectors, not on its right-hand side; so stages are combined in blocks that stay in the first
cache, each vector is read once per combination, and vectors change names instead of being copied.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.integrate import DOP853

from snapdyn.dynamics.kernels.decoder import frozen_decoder
from snapdyn.dynamics.kernels.elementary import REASSOCIATE
from snapdyn.dynamics.kernels.mean_field import mean_field
from snapdyn.dynamics.kernels.modified_decoder import modified_decoder
from snapdyn.dynamics.kernels.single_common_token import single_common_token
from snapdyn.dynamics.kernels.three_columns import mean_field_rate

STAGES = 12  # of a step; stage 12 is the rate at its end, 13 to 15 serve dense output
ALL_STAGES = 16
POLYNOMIALS = 7  # of the dense output
BLOCK = 256  # numbers: 12 stages of a block are 24 kB

ERROR_EXPONENT = -1.0 / 8.0
SAFETY, SMALLEST_FACTOR, LARGEST_FACTOR = 0.9, 0.2, 10.0

# What `advance` returns.
FINISHED, PAUSED, FULL, TOO_SMALL_STEP, NOT_FINITE = range(5)


def _used_stages(rows: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(number, stages, coefficients) of the nonzero coefficients of each row, filled up to fours with 0 of stage 0."""
    number = -(-np.count_nonzero(rows, axis=1) // 4) * 4
    stages = np.zeros((len(rows), number.max()), dtype=np.int64)
    coefficients = np.zeros(stages.shape)
    for i, row in enumerate(rows):
        nonzero = np.flatnonzero(row)
        stages[i, : nonzero.size], coefficients[i, : nonzero.size] = nonzero, row[nonzero]
    return number, stages, coefficients


def _table() -> NDArray[np.float64]:
    """Coefficients of all 16 stages: row s gives the state at which stage s is evaluated; row 12 is the new state."""
    table = np.zeros((ALL_STAGES, ALL_STAGES))
    table[:STAGES, :STAGES] = DOP853.A
    table[STAGES, :STAGES] = DOP853.B
    table[STAGES + 1 :] = DOP853.A_EXTRA
    return table


STAGE_TIMES = np.concatenate([DOP853.C, [1.0], DOP853.C_EXTRA])
ERROR_5, ERROR_3, DENSE = ALL_STAGES, ALL_STAGES + 1, ALL_STAGES + 2  # rows of the tables below, after the stages
_ROWS = np.zeros((ALL_STAGES + 2 + len(DOP853.D), ALL_STAGES))
_ROWS[:ALL_STAGES] = _table()
_ROWS[ERROR_5, : STAGES + 1] = DOP853.E5
_ROWS[ERROR_3, : STAGES + 1] = DOP853.E3
_ROWS[DENSE:] = DOP853.D
NUMBER, USED, COEFFICIENTS = _used_stages(_ROWS)


class Workspace(NamedTuple):
    """Everything that a run changes, so that it can pause and go on; n values of the state."""

    states: NDArray[np.float64]  # (3, n)
    stages: NDArray[np.float64]  # (16, n); after dense output its polynomials in the places of stages 1 to 7
    where: NDArray[np.int64]  # (3 + 16,): rows of `states` with (state, state before, scratch), then of each stage
    reals: NDArray[np.float64]  # see the names below
    counts: NDArray[np.int64]  # see the names below
    growth: NDArray[np.float64]  # (16,) dt/dtau at each stage
    blocks: NDArray[np.float64]  # (3, BLOCK); the first stays 0


# reals: the integration variable, the same at the step's start, next step, end, tolerances, t_s (0: plain t)
TAU, TAU_OLD, STEP, END, RTOL, ATOL, SCALE = range(7)
# counts: accepted steps, evaluations, saved times, whether the first step is chosen, whether dense output is made
STEPS, EVALUATIONS, SAVED, STARTED, DENSE_MADE = range(5)
STATE, OLD, SCRATCH, STAGE = range(4)  # in `where`


def new_workspace(start: NDArray[np.float64], end: float, rtol: float, atol: float, scale: float | None) -> Workspace:
    """Workspace for a run from `start` (n,) at 0 to `end` (> 0), in log time if a scale t_s is given."""
    states = np.empty((3, start.size))
    states[0] = start
    return Workspace(
        states=states,
        stages=np.empty((ALL_STAGES, start.size)),
        where=np.concatenate([np.arange(3), np.arange(ALL_STAGES)]),
        reals=np.array([0.0, 0.0, 0.0, end, rtol, atol, scale or 0.0]),
        counts=np.zeros(5, dtype=np.int64),
        growth=np.ones(ALL_STAGES),
        blocks=np.zeros((3, BLOCK)),
    )


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _combine(out, base, row, factor, stages, where, growth, start):
    """out = base + factor sum_s a[row, s] growth[s] (stage s)[start:start + n], four stages at once; out, base (n,)."""
    stop = start + out.size
    for first in range(0, NUMBER[row], 4):
        s0, s1, s2, s3 = USED[row, first], USED[row, first + 1], USED[row, first + 2], USED[row, first + 3]
        k0, k1 = stages[where[STAGE + s0]][start:stop], stages[where[STAGE + s1]][start:stop]
        k2, k3 = stages[where[STAGE + s2]][start:stop], stages[where[STAGE + s3]][start:stop]
        w0 = factor * COEFFICIENTS[row, first] * growth[s0]
        w1 = factor * COEFFICIENTS[row, first + 1] * growth[s1]
        w2 = factor * COEFFICIENTS[row, first + 2] * growth[s2]
        w3 = factor * COEFFICIENTS[row, first + 3] * growth[s3]
        if first == 0:
            for i in range(out.size):
                out[i] = base[i] + (w0 * k0[i] + w1 * k1[i] + w2 * k2[i] + w3 * k3[i])
        else:
            for i in range(out.size):
                out[i] += w0 * k0[i] + w1 * k1[i] + w2 * k2[i] + w3 * k3[i]


@njit(cache=True, error_model="numpy")
def _stage_state(target, base, s, h, stages, where, growth):
    """Write the state at which stage s is evaluated, for a step of size h from `base`, to `target`."""
    for start in range(0, target.size, BLOCK):
        stop = min(start + BLOCK, target.size)
        _combine(target[start:stop], base[start:stop], s, h, stages, where, growth, start)


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _error_sums(y, y_new, error_5, error_3, rtol, atol):
    """Sums over components of (error/scale)^2 for both estimates, scale = atol + rtol max(|y|, |y_new|)."""
    sum_5, sum_3 = 0.0, 0.0
    for i in range(y.size):
        a, b = abs(y[i]), abs(y_new[i])
        inverse = 1.0 / (atol + rtol * (a if a > b else b))
        e5, e3 = error_5[i] * inverse, error_3[i] * inverse
        sum_5 += e5 * e5
        sum_3 += e3 * e3
    return sum_5, sum_3


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _zero_if_finite(x):
    """0, or NaN if x holds a value that is not finite."""
    total = 0.0
    for i in range(x.size):
        total += 0.0 * x[i]
    return total


@njit(cache=True, error_model="numpy")
def _new_state(h, work):
    """Write the state at the step's end; return (error norm, of which 1 is the tolerance, whether it is finite)."""
    y, y_new = work.states[work.where[STATE]], work.states[work.where[OLD]]
    rtol, atol = work.reals[RTOL], work.reals[ATOL]
    stages, where, growth = work.stages, work.where, work.growth
    norm_5, norm_3, check = 0.0, 0.0, 0.0
    for start in range(0, y.size, BLOCK):
        stop = min(start + BLOCK, y.size)
        zero = work.blocks[0][: stop - start]
        error_5, error_3 = work.blocks[1][: stop - start], work.blocks[2][: stop - start]
        new = y_new[start:stop]
        _combine(new, y[start:stop], STAGES, h, stages, where, growth, start)
        _combine(error_5, zero, ERROR_5, 1.0, stages, where, growth, start)
        _combine(error_3, zero, ERROR_3, 1.0, stages, where, growth, start)
        sum_5, sum_3 = _error_sums(y[start:stop], new, error_5, error_3, rtol, atol)
        norm_5 += sum_5
        norm_3 += sum_3
        check += _zero_if_finite(new)
    if norm_5 == 0.0 and norm_3 == 0.0:
        return 0.0, check == 0.0
    return h * norm_5 / math.sqrt((norm_5 + 0.01 * norm_3) * y.size), check == 0.0


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _scaled_norm(x, other, y, rtol, atol):
    """Root mean square of (x - other)/(atol + rtol |y|)."""
    total = 0.0
    for i in range(x.size):
        d = (x[i] - other[i]) / (atol + rtol * abs(y[i]))
        total += d * d
    return math.sqrt(total / x.size)


@njit(cache=True, error_model="numpy")
def _set_growth(tau, h, first, last, work):
    """Write dt/dtau at the stages first..last-1: t_s exp(tau) in log time, else the 1 that stands there."""
    if work.reals[SCALE] > 0.0:
        for s in range(first, last):
            work.growth[s] = work.reals[SCALE] * math.exp(tau + STAGE_TIMES[s] * h)


@njit(inline="always")
def _first_step(rate, arguments, work):
    """Evaluate the rate at the start and choose the first step as scipy does (Hairer et al., Sec. II.4)."""
    n = work.states.shape[1]
    y, trial, zero = work.states[work.where[STATE]], work.states[work.where[SCRATCH]], work.states[work.where[OLD]]
    f, f_trial = work.stages[work.where[STAGE]], work.stages[work.where[STAGE + 1]]
    end, rtol, atol = work.reals[END], work.reals[RTOL], work.reals[ATOL]
    rate(y, f, *arguments)
    start_growth = work.reals[SCALE] if work.reals[SCALE] > 0.0 else 1.0
    for i in range(n):
        zero[i] = 0.0
    d0 = _scaled_norm(y, zero, y, rtol, atol)
    d1 = start_growth * _scaled_norm(f, zero, y, rtol, atol)
    h0 = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    h0 = min(h0, end)
    for i in range(n):
        trial[i] = y[i] + h0 * start_growth * f[i]
    rate(trial, f_trial, *arguments)
    if work.reals[SCALE] > 0.0:
        trial_growth = math.exp(h0)
        for i in range(n):
            f_trial[i] *= trial_growth
    d2 = start_growth * _scaled_norm(f_trial, f, y, rtol, atol) / h0
    h1 = max(1e-6, h0 * 1e-3) if d1 <= 1e-15 and d2 <= 1e-15 else (0.01 / max(d1, d2)) ** (1.0 / 8.0)
    h = 100.0 * h0
    if h1 < h:
        h = h1
    work.reals[STEP] = min(h, end)
    work.counts[EVALUATIONS] += 2
    work.counts[STARTED] = 1


@njit(inline="always")
def _step(rate, arguments, work):
    """Make one accepted step; FINISHED when all is well, else TOO_SMALL_STEP or NOT_FINITE."""
    tau, end = work.reals[TAU], work.reals[END]
    smallest = 10.0 * (np.nextafter(tau, np.inf) - tau)
    size = max(work.reals[STEP], smallest)
    rejected = False
    where = work.where
    while True:
        if size < smallest:
            return TOO_SMALL_STEP
        tau_new = min(tau + size, end)
        h = tau_new - tau
        size = h
        _set_growth(tau, h, 0, STAGES + 1, work)
        stages, growth = work.stages, work.growth
        start, scratch = work.states[where[STATE]], work.states[where[SCRATCH]]
        for s in range(1, STAGES):
            _stage_state(scratch, start, s, h, stages, where, growth)
            rate(scratch, stages[where[STAGE + s]], *arguments)
        work.counts[EVALUATIONS] += STAGES - 1
        error, finite = _new_state(h, work)
        if error < 1.0:
            break
        factor = SAFETY * error**ERROR_EXPONENT
        size *= factor if factor > SMALLEST_FACTOR else SMALLEST_FACTOR  # also for NaN
        rejected = True
    factor = LARGEST_FACTOR if error == 0.0 else min(LARGEST_FACTOR, SAFETY * error**ERROR_EXPONENT)
    work.reals[STEP] = size * (min(1.0, factor) if rejected else factor)
    where[STATE], where[OLD] = where[OLD], where[STATE]
    work.reals[TAU_OLD], work.reals[TAU] = tau, tau_new
    if not finite:
        return NOT_FINITE
    rate(work.states[where[STATE]], work.stages[where[STAGE + STAGES]], *arguments)
    work.counts[EVALUATIONS] += 1
    work.counts[STEPS] += 1
    work.counts[DENSE_MADE] = 0
    return FINISHED


@njit(inline="always")
def _make_dense(rate, arguments, work, width):
    """Three more stages, and the polynomials of the dense output of the first `width` components."""
    tau = work.reals[TAU_OLD]
    h = work.reals[TAU] - tau
    where, stages = work.where, work.stages
    _set_growth(tau, h, STAGES + 1, ALL_STAGES, work)
    start, scratch = work.states[where[OLD]], work.states[where[SCRATCH]]
    for s in range(STAGES + 1, ALL_STAGES):
        _stage_state(scratch, start, s, h, stages, where, work.growth)
        rate(scratch, stages[where[STAGE + s]], *arguments)
    work.counts[EVALUATIONS] += ALL_STAGES - STAGES - 1
    _write_polynomials(h, work, width)
    work.counts[DENSE_MADE] = 1


@njit(cache=True, error_model="numpy")
def _write_polynomials(h, work, width):
    where, stages = work.where, work.stages
    # Stages 1 to 4 are not used by the last four polynomials, which take their places; 5 to 7 then go to the others.
    h_first, h_last = h * work.growth[0], h * work.growth[STAGES]
    for start in range(0, width, BLOCK):
        stop = min(start + BLOCK, width)
        zero = work.blocks[0][: stop - start]
        for p in range(POLYNOMIALS - 3):
            target = stages[where[STAGE + 1 + p]][start:stop]
            _combine(target, zero, DENSE + p, h, stages, where, work.growth, start)
        _hermite(
            work.states[where[OLD]][start:stop], work.states[where[STATE]][start:stop],
            stages[where[STAGE]][start:stop], stages[where[STAGE + STAGES]][start:stop], h_first, h_last,
            stages[where[STAGE + 5]][start:stop], stages[where[STAGE + 6]][start:stop],
            stages[where[STAGE + 7]][start:stop],
        )  # fmt: skip


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _hermite(y_old, y, f_old, f, h_first, h_last, p0, p1, p2):
    """The first three polynomials, from states and rates at both ends."""
    for i in range(y.size):
        change, at_first = y[i] - y_old[i], h_first * f_old[i]
        p0[i] = change
        p1[i] = at_first - change
        p2[i] = 2.0 * change - (h_last * f[i] + at_first)


@njit(cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _horner(y_old, p0, p1, p2, p3, p4, p5, p6, x, out):
    """y_old + x (p0 + (1-x) (p1 + x (p2 + ...))), to `out`."""
    left = 1.0 - x
    for i in range(out.size):
        late = x * (p4[i] + left * (p5[i] + x * p6[i]))
        out[i] = y_old[i] + x * (p0[i] + left * (p1[i] + x * (p2[i] + left * (p3[i] + late))))


@njit(cache=True, error_model="numpy")
def dense_state(tau, work, out):
    """Write the first components of the state at `tau` within the last step to `out`; dense output must be made."""
    where, stages, n = work.where, work.stages, out.size
    if tau >= work.reals[TAU]:
        state = work.states[where[STATE]]
        for i in range(n):
            out[i] = state[i]
        return
    x = (tau - work.reals[TAU_OLD]) / (work.reals[TAU] - work.reals[TAU_OLD])
    _horner(
        work.states[where[OLD]][:n], stages[where[STAGE + 5]][:n], stages[where[STAGE + 6]][:n],
        stages[where[STAGE + 7]][:n], stages[where[STAGE + 1]][:n], stages[where[STAGE + 2]][:n],
        stages[where[STAGE + 3]][:n], stages[where[STAGE + 4]][:n], x, out,
    )  # fmt: skip


@njit(inline="always")
def _advance(rate, loss, arguments, work, save_at, saved, losses, most_steps):
    """Body of the functions below, one per right-hand side."""
    counts, where = work.counts, work.where
    if counts[STARTED] == 0:
        _first_step(rate, arguments, work)
    before = counts[SAVED]
    last = counts[STEPS] + most_steps
    while True:
        while counts[SAVED] < save_at.size and save_at[counts[SAVED]] <= work.reals[TAU]:
            row = counts[SAVED] - before
            if row == saved.shape[0] and row > 0:
                return FULL
            tau = save_at[counts[SAVED]]
            if tau < work.reals[TAU] and counts[DENSE_MADE] == 0:
                _make_dense(rate, arguments, work, saved.shape[1])
            if row == saved.shape[0]:
                return FULL
            dense_state(tau, work, saved[row])
            if losses.size > 0:
                losses[row] = loss(saved[row], work.states[where[SCRATCH]], *arguments)
            counts[SAVED] += 1
        if work.reals[TAU] >= work.reals[END]:
            return FINISHED
        if counts[STEPS] == last:
            return PAUSED
        # The old first stage is free, the rate at the step's end becomes the first stage of the next one.
        if counts[STEPS] > 0:
            where[STAGE], where[STAGE + STAGES] = where[STAGE + STAGES], where[STAGE]
        status = _step(rate, arguments, work)
        if status != FINISHED:
            return status


# One function per right-hand side. Each is compiled and cached as a whole: a right-hand side that came in as an
# argument from Python would be called through a pointer, or compiled again in every process.
#
# They integrate until the end (FINISHED), for `most_steps` steps (PAUSED), or until `saved` (rows, width) is full
# (FULL), and can be called again to go on. Row i of `saved` receives the first `width` state values at the i-th time
# after those saved already, and losses[i] the loss there, unless `losses` is empty. `save_at` holds the times in the
# integration variable. With a `saved` of no rows, a call makes the dense output of the step that holds the next time.


@njit(cache=True, nogil=True, error_model="numpy")
def advance_mean_field(arguments, work, save_at, saved, losses, most_steps):
    return _advance(mean_field_rate, mean_field, arguments, work, save_at, saved, losses, most_steps)


@njit(cache=True, nogil=True, error_model="numpy")
def advance_frozen_decoder(arguments, work, save_at, saved, losses, most_steps):
    return _advance(frozen_decoder, frozen_decoder, arguments, work, save_at, saved, losses, most_steps)


@njit(cache=True, nogil=True, error_model="numpy")
def advance_modified_decoder(arguments, work, save_at, saved, losses, most_steps):
    return _advance(modified_decoder, modified_decoder, arguments, work, save_at, saved, losses, most_steps)


@njit(cache=True, nogil=True, error_model="numpy")
def advance_single_common_token(arguments, work, save_at, saved, losses, most_steps):
    return _advance(single_common_token, single_common_token, arguments, work, save_at, saved, losses, most_steps)
