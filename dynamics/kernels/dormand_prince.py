"""DOP853, the Dormand-Prince method of order 8(5,3) with dense output of order 7: whole trajectories, compiled.

Step control, first step, dense output and coefficients are those of scipy.integrate.DOP853 (Hairer, Norsett, Wanner,
Solving Ordinary Differential Equations I, Sec. II.5, II.6, II.10). For a large system the cost is the memory traffic
of the stage vectors, not the right-hand side. So stages are combined in blocks that fit into the first-level cache,
each vector is read once per combination, and vectors exchange their indices instead of being copied.
"""

from __future__ import annotations

import math
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel

STAGES = 12  # stages of a step; stage 12 is the rate at its end, 13 to 15 are for dense output
ALL_STAGES = 16
BLOCK = 256  # numbers: 12 stages of a block are 24 kB

ERROR_EXPONENT = -1.0 / 8.0
SAFETY, SMALLEST_FACTOR, LARGEST_FACTOR = 0.9, 0.2, 10.0

NOTHING, ROWS, DENSE_OUTPUT = range(3)  # what is missing to record a point
# Status that an integrator returns.
FINISHED, PAUSED, FULL, TOO_SMALL_STEP, NOT_FINITE = range(5)


def _coefficients() -> Any:
    """Coefficients of scipy, from their own file: to import scipy.integrate takes a third of a second."""
    scipy = find_spec("scipy")
    for folder in (scipy.submodule_search_locations if scipy else None) or ():
        file = Path(folder) / "integrate" / "_ivp" / "dop853_coefficients.py"
        spec = spec_from_file_location("dop853_coefficients", file) if file.is_file() else None
        if spec and spec.loader:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    from scipy.integrate._ivp import dop853_coefficients

    return dop853_coefficients


DOP853 = _coefficients()


def _used_stages(rows: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(number, stages, coefficients) of the nonzero entries of each row, padded with zeros to a multiple of four."""
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
    table[:STAGES] = DOP853.A[:STAGES]
    table[STAGES, :STAGES] = DOP853.B
    table[STAGES + 1 :] = DOP853.A[STAGES + 1 :]
    return table


STAGE_TIMES = DOP853.C
ERROR_5, ERROR_3, DENSE = ALL_STAGES, ALL_STAGES + 1, ALL_STAGES + 2  # rows of the tables below, after the stages
_ROWS = np.zeros((ALL_STAGES + 2 + len(DOP853.D), ALL_STAGES))
_ROWS[:ALL_STAGES] = _table()
_ROWS[ERROR_5, : STAGES + 1] = DOP853.E5
_ROWS[ERROR_3, : STAGES + 1] = DOP853.E3
_ROWS[DENSE:] = DOP853.D
NUMBER, USED, COEFFICIENTS = _used_stages(_ROWS)


class Workspace(NamedTuple):
    """State of a run, with which it can pause and continue; the system has n values."""

    vectors: NDArray[np.float64]  # (3 + 16, n): three states, then the stages
    where: NDArray[np.int64]  # (3 + 16,): rows of `vectors` with (state, state before, scratch), then each stage
    reals: NDArray[np.float64]  # see the names below
    counts: NDArray[np.int64]  # see the names below
    weights: NDArray[np.float64]  # (12,) weights of the stages in dense output
    shares: NDArray[np.float64] | None  # (n,) share of each value in mean squares, sum 1; None: 1/n


class Rows(NamedTuple):
    """Arrays for states at points `at` of the integration variable, and for their losses unless `losses` is empty."""

    at: NDArray[np.float64]  # (points,)
    states: NDArray[np.float64]  # (rows, width): the first `width` state values
    losses: NDArray[np.float64]  # (rows,) or (0,)


# reals: the integration variable at the end and at the start of the last step, size of the next step, end of the run,
# tolerances, t_s (0: the integration variable is t); of the rate being evaluated: t; the largest step; the first and
# the last t that the rate sees, which lie just inside two neighbouring jumps
TAU, TAU_OLD, STEP, END, RTOL, ATOL, SCALE, NOW, LARGEST, FIRST, LAST = range(11)
# counts: accepted steps, evaluations, saved times, whether the first step is chosen (2: and made), whether dense output
# is made, samples taken
STEPS, EVALUATIONS, SAVED, STARTED, DENSE_MADE, SAMPLED = range(6)
# Samples of a step: dense output is a polynomial of degree 7, which they and the start of the step determine.
SAMPLES = 8
STATE, OLD, SCRATCH, STAGE = range(4)  # in `where`
VECTORS = STAGE + ALL_STAGES
# Templates of a new workspace: copying a template is faster than allocating, which matters for small systems.
START_WHERE, START_COUNTS, START_WEIGHTS = np.arange(VECTORS), np.zeros(6, np.int64), np.zeros(NUMBER[DENSE])


@njit(inline="always")
def _combine(out, base, h, row, weights, start, stop, vectors, where):
    """out = base + h sum_j weights[j] times stage USED[row, j], on components start..stop-1, four stages at once."""
    used = USED[row]
    for j in range(0, NUMBER[row], 4):
        w0, w1, w2, w3 = h * weights[j], h * weights[j + 1], h * weights[j + 2], h * weights[j + 3]
        k0, k1 = vectors[where[STAGE + used[j]]], vectors[where[STAGE + used[j + 1]]]
        k2, k3 = vectors[where[STAGE + used[j + 2]]], vectors[where[STAGE + used[j + 3]]]
        if j == 0:
            for i in range(start, stop):
                out[i] = base[i] + (w0 * k0[i] + w1 * k1[i] + w2 * k2[i] + w3 * k3[i])
        else:
            for i in range(start, stop):
                out[i] += w0 * k0[i] + w1 * k1[i] + w2 * k2[i] + w3 * k3[i]


@njit(inline="always")
def sum_of_eight(w, k):
    """Sum of weights times the eight stages that the new state and both error estimates use."""
    return (w[0] * k[0] + w[1] * k[1] + w[2] * k[2] + w[3] * k[3]) + (
        w[4] * k[4] + w[5] * k[5] + w[6] * k[6] + w[7] * k[7]
    )


@njit(inline="always")
def _end_of_block(start, size):
    return min(start + np.uint64(BLOCK), np.uint64(size))


@kernel(fastmath=REASSOCIATE, forceinline=True)
def stage_state(s, h, base, vectors, where):
    """Write the state at which stage s is evaluated, for a step of size h from row `base`, to the scratch row."""
    out, origin = vectors[where[SCRATCH]], vectors[base]
    start = np.uint64(0)
    while start < np.uint64(out.size):
        stop = _end_of_block(start, out.size)
        _combine(out, origin, h, s, COEFFICIENTS[s], start, stop, vectors, where)
        start = stop


@kernel(fastmath=REASSOCIATE)
def _new_state(h, vectors, where, rtol, atol, shares):
    """Write the state at the step's end; return (error norm, whether the state is finite).

    The norm combines the estimates of order 5 and 3, relative to atol + rtol max(|y|, |y_new|): 1 is the tolerance.
    """
    y, y_new = vectors[where[STATE]], vectors[where[OLD]]
    used, a, b = USED[STAGES], COEFFICIENTS[ERROR_5], COEFFICIENTS[ERROR_3]  # all three use the same eight stages
    k0, k1, k2, k3 = (vectors[where[STAGE + used[0]]], vectors[where[STAGE + used[1]]],
                      vectors[where[STAGE + used[2]]], vectors[where[STAGE + used[3]]])  # fmt: skip
    k4, k5, k6, k7 = (vectors[where[STAGE + used[4]]], vectors[where[STAGE + used[5]]],
                      vectors[where[STAGE + used[6]]], vectors[where[STAGE + used[7]]])  # fmt: skip
    sum_5, sum_3, check, start = 0.0, 0.0, 0.0, np.uint64(0)
    while start < np.uint64(y.size):
        stop = _end_of_block(start, y.size)
        _combine(y_new, y, h, STAGES, COEFFICIENTS[STAGES], start, stop, vectors, where)
        for i in range(start, stop):
            k = k0[i], k1[i], k2[i], k3[i], k4[i], k5[i], k6[i], k7[i]
            e5, e3 = sum_of_eight(a, k), sum_of_eight(b, k)
            before, after = abs(y[i]), abs(y_new[i])
            inverse = 1.0 / (atol + rtol * (before if before > after else after))
            e5, e3 = e5 * inverse, e3 * inverse
            if shares is None:
                sum_5 += e5 * e5
                sum_3 += e3 * e3
            else:
                sum_5 += shares[i] * e5 * e5
                sum_3 += shares[i] * e3 * e3
            check += 0.0 * y_new[i]
        start = stop
    if sum_5 == 0.0 and sum_3 == 0.0:
        return 0.0, check == 0.0
    if shares is None:
        return h * sum_5 / math.sqrt((sum_5 + 0.01 * sum_3) * y.size), check == 0.0
    return h * sum_5 / math.sqrt(sum_5 + 0.01 * sum_3), check == 0.0


@kernel(fastmath=REASSOCIATE)
def _scaled_norm(x, other, y, rtol, atol, shares):
    """Root mean square of (x - other)/(atol + rtol |y|)."""
    total = 0.0
    for i in range(x.size):
        d = (x[i] - other[i]) / (atol + rtol * abs(y[i]))
        if shares is None:
            total += d * d
        else:
            total += shares[i] * d * d
    if shares is None:
        return math.sqrt(total / x.size)
    return math.sqrt(total)


@njit(inline="always")
def _evaluate(rate, arguments, work, state, stage, tau):
    """Write d(state)/dtau at the state in row `state` and at `tau` to a stage; dt/dtau = t_s exp(tau) in log time."""
    out = work.vectors[work.where[STAGE + stage]]
    scale = work.reals[SCALE]
    now = scale * math.expm1(tau) if scale > 0.0 else tau
    work.reals[NOW] = min(max(now, work.reals[FIRST]), work.reals[LAST])  # a rate that depends on time reads it
    rate(work.vectors[state], out, *arguments)
    if scale > 0.0:
        _multiply(out, scale * math.exp(tau))
    work.counts[EVALUATIONS] += 1


@kernel(fastmath=REASSOCIATE)
def _is_finite(x):
    check = 0.0
    for i in range(x.size):
        check += 0.0 * x[i]
    return check == 0.0


@kernel(fastmath=EXACT)
def _multiply(x, factor):
    for i in range(x.size):
        x[i] *= factor


@njit(inline="always")
def _trial_step(work):
    """From the rate at the start, write a state a short step away to the scratch row; return (step, norm of the rate).

    This function and `_choose_first_step` choose the first step as scipy does (Hairer et al., Sec. II.4).
    """
    vectors, where = work.vectors, work.where
    y, trial, zero, f = vectors[where[STATE]], vectors[where[SCRATCH]], vectors[where[OLD]], vectors[where[STAGE]]
    rtol, atol = work.reals[RTOL], work.reals[ATOL]
    for i in range(y.size):
        zero[i] = 0.0
    d0 = _scaled_norm(y, zero, y, rtol, atol, work.shares)
    d1 = _scaled_norm(f, zero, y, rtol, atol, work.shares)
    h0 = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, work.reals[END] - work.reals[TAU])
    for i in range(y.size):
        trial[i] = y[i] + h0 * f[i]
    return h0, d1


@njit(inline="always")
def _choose_first_step(h0, d1, work):
    """Choose the first step from the rates at the start and a step h0 away."""
    vectors, where = work.vectors, work.where
    y, f, f_trial = vectors[where[STATE]], vectors[where[STAGE]], vectors[where[STAGE + 1]]
    d2 = _scaled_norm(f_trial, f, y, work.reals[RTOL], work.reals[ATOL], work.shares) / h0
    h1 = max(1e-6, h0 * 1e-3) if d1 <= 1e-15 and d2 <= 1e-15 else (0.01 / max(d1, d2)) ** (1.0 / 8.0)
    h = 100.0 * h0
    if h1 < h:
        h = h1
    work.reals[STEP] = min(h, work.reals[END] - work.reals[TAU])
    work.counts[STARTED] = 1


@kernel(fastmath=REASSOCIATE)
def dense_state(tau, work, out):
    """Write the state at `tau` within the last step to `out`, as many components as fit, after dense output was made.

    The polynomial y_old + x (p0 + (1-x) (p1 + x (p2 + ...))), x from 0 to 1 in the step, is expanded: the weight of
    each stage is a polynomial in x, and a state costs a sum of twelve stages. (To compute the coefficients p of each
    component first is cheaper only if a step has six saved times or more.)
    """
    where, vectors, weights = work.where, work.vectors, work.weights
    y_old, y = vectors[where[OLD]], vectors[where[STATE]]
    size = np.uint64(out.size)
    if tau >= work.reals[TAU]:
        for i in range(size):
            out[i] = y[i]
        return
    h = work.reals[TAU] - work.reals[TAU_OLD]
    x = (tau - work.reals[TAU_OLD]) / h
    left = 1.0 - x
    p1 = x * left  # from here on: the factors of p1, p2, ...
    p2 = p1 * x
    p3 = p2 * left
    p4 = p3 * x
    p5 = p4 * left
    p6 = p5 * x
    for j in range(weights.size):
        stage = USED[DENSE, j]
        weight = p3 * COEFFICIENTS[DENSE, j] + p4 * COEFFICIENTS[DENSE + 1, j]
        weight += p5 * COEFFICIENTS[DENSE + 2, j] + p6 * COEFFICIENTS[DENSE + 3, j]
        if stage == 0:
            weight += p1 - p2
        elif stage == STAGES:
            weight -= p2
        weights[j] = weight
    change = x - p1 + 2.0 * p2
    start = np.uint64(0)
    while start < size:
        stop = _end_of_block(start, out.size)
        _combine(out, y_old, h, DENSE, weights, start, stop, vectors, where)
        for i in range(start, stop):
            out[i] += change * (y[i] - y_old[i])
        start = stop


@njit(inline="always")
def _accept(work, tau, tau_new, next_step):
    reals, where = work.reals, work.where
    reals[STEP], reals[TAU_OLD], reals[TAU] = next_step, tau, tau_new
    where[STATE], where[OLD] = where[OLD], where[STATE]
    work.counts[DENSE_MADE], work.counts[STARTED] = 0, 2


@njit(inline="always")
def _next_point(work, saves, samples):
    """Return whether the next point is a sample, and the point itself (infinity if no time is left to save)."""
    counts, reals = work.counts, work.reals
    if samples.at.size > 0 and counts[SAMPLED] < SAMPLES * counts[STEPS]:
        number = 1 + counts[SAMPLED] % SAMPLES
        if number == SAMPLES:
            return True, reals[TAU]
        return True, reals[TAU_OLD] + number * ((reals[TAU] - reals[TAU_OLD]) / SAMPLES)
    return False, saves.at[counts[SAVED]] if counts[SAVED] < saves.at.size else math.inf


@njit(inline="always")
def _record_points(loss, arguments, work, saves, samples, before, sampled):
    """Write the states at the points up to the end of the last step; return what the next point needs, or NOTHING.

    `before` and `sampled` count the saves and samples of earlier calls, which the rows of this call do not hold.
    """
    vectors, where, reals, counts = work.vectors, work.where, work.reals, work.counts
    while True:
        sampling, at = _next_point(work, saves, samples)
        if at > reals[TAU]:
            return NOTHING
        rows, row = saves, counts[SAVED] - before
        if sampling:
            rows, row = samples, counts[SAMPLED] - sampled
        if row == rows.states.shape[0]:
            return ROWS
        if at < reals[TAU] and counts[DENSE_MADE] == 0:
            return DENSE_OUTPUT
        dense_state(at, work, rows.states[row])
        if rows.losses.size > 0:
            rows.losses[row] = loss(rows.states[row], vectors[where[SCRATCH]], *arguments)
        if sampling:
            samples.at[row] = at
        counts[SAMPLED if sampling else SAVED] += 1


@njit(inline="always")
def advance(rate, loss, arguments, work, saves, samples, most_steps):
    """Integrate until the end (FINISHED), for `most_steps` steps (PAUSED), or until rows are full (FULL).

    It can be called again to continue. `saves` and `samples` are `Rows`. saves.at holds all times to save at; row i of
    saves.states receives the state at the i-th time that earlier calls have not saved. Unless samples.at is empty,
    `samples` has a multiple of `SAMPLES` rows and receives `SAMPLES` points of every step in order, the last of them
    the end of the step.

    Each round of the loop evaluates consecutive stages: two for the first step, those of an attempted step, or those of
    dense output. So the rate is called, and inlined, at one place only: each further place would compile it again,
    which takes long.
    """
    vectors, where, reals, counts = work.vectors, work.where, work.reals, work.counts
    before, sampled, last = counts[SAVED], counts[SAMPLED], counts[STEPS] + most_steps
    rejected = False
    size, smallest, h0, d1 = 0.0, 0.0, 0.0, 0.0
    while True:
        starts = counts[STARTED] == 0
        dense = False
        if not (starts or rejected):
            missing = _record_points(loss, arguments, work, saves, samples, before, sampled)
            if missing == ROWS:
                return FULL
            dense = missing == DENSE_OUTPUT
            if not dense:
                if reals[TAU] >= reals[END]:
                    return FINISHED
                if counts[STEPS] == last:
                    return PAUSED
                # The old first stage is free, the rate at the step's end becomes the first stage of the next one.
                if counts[STARTED] == 2:
                    where[STAGE], where[STAGE + STAGES] = where[STAGE + STAGES], where[STAGE]
                smallest = 10.0 * (np.nextafter(reals[TAU], np.inf) - reals[TAU])
                size = min(max(reals[STEP], smallest), reals[LARGEST])

        # The stages of this round: a step of size h from row `base` at `tau`.
        tau, tau_new, h, base = reals[TAU], 0.0, 0.0, where[STATE]
        first_stage, end_stage = 1, STAGES + 1
        if starts:
            first_stage, end_stage = 0, 2
        elif dense:
            tau, base = reals[TAU_OLD], where[OLD]
            h = reals[TAU] - tau
            first_stage, end_stage = STAGES + 1, ALL_STAGES
        else:
            if not size >= smallest:  # also a step that is NaN
                return TOO_SMALL_STEP
            tau_new = min(tau + size, reals[END])
            h = tau_new - tau
            size = h
        error, finite = math.inf, True
        for s in range(first_stage, end_stage):
            state, now = SCRATCH, tau + STAGE_TIMES[s] * h
            if starts:
                state, now = (STATE if s == 0 else SCRATCH), tau + h0
            elif s == STAGES:
                error, finite = _new_state(h, vectors, where, reals[RTOL], reals[ATOL], work.shares)
                if not (error < 1.0 and finite):
                    break
                state = OLD
            else:
                stage_state(s, h, base, vectors, where)
            _evaluate(rate, arguments, work, where[state], s, now)
            if starts and s == 0:
                h0, d1 = _trial_step(work)
            elif s == STAGES and not _is_finite(vectors[where[STAGE + STAGES]]):
                error = math.inf  # the step after this one could not begin; scipy rejects it too

        if starts:
            _choose_first_step(h0, d1, work)
        elif dense:
            counts[DENSE_MADE] = 1
        elif not error < 1.0:
            factor = SAFETY * error**ERROR_EXPONENT
            size *= factor if factor > SMALLEST_FACTOR else SMALLEST_FACTOR  # also for NaN
            rejected = True
        else:
            factor = LARGEST_FACTOR if error == 0.0 else min(LARGEST_FACTOR, SAFETY * error**ERROR_EXPONENT)
            _accept(work, tau, tau_new, size * (min(1.0, factor) if rejected else factor))
            if not finite:
                return NOT_FINITE
            rejected = False
            counts[STEPS] += 1


class Integrator(NamedTuple):
    """The integrator for a right-hand side, which is compiled into it or called at its address.

    Attributes
    ----------
    advance : compiled function
        ``advance(arguments, work, saves, samples, most_steps)``, see `advance`.
    knows_loss : bool
        Whether `advance` computes the loss.
    rate : compiled function or None
        The right-hand side that is compiled into it.
    """

    advance: Any
    knows_loss: bool
    rate: Any = None


def integrator_of(rate: Any, loss: Any = None) -> Integrator:
    """Integrator with a right-hand side, compiled and cached on disk as a whole when it is first called.

    A right-hand side passed as an argument from Python would be called through a pointer, which takes up to 1.1 times
    as long, or be compiled again in every process. numba's cache tells functions apart by name and code. Other
    processes can load a function that refers to others as globals, but not one that holds them in a closure. So each
    integrator is a copy of `_compiled` with its own globals and name.

    Parameters
    ----------
    rate : compiled function
        ``rate(state, out, *arguments)``.
    loss : compiled function, optional
        A function as `rate` that also returns the loss; None: there is no loss, or Python computes it.
    """
    copy = FunctionType(_compiled.__code__, {**globals(), "rate": rate, "loss": loss or rate})
    copy.__name__ = copy.__qualname__ = f"advance_{rate.__name__}"
    return Integrator(kernel(nogil=True)(copy), loss is not None, rate)


def _compiled(arguments, work, saves, samples, most_steps):
    return advance(rate, loss, arguments, work, saves, samples, most_steps)  # noqa: F821
