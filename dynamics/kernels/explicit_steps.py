"""Explicit steps of a rate with heavy ball: v <- mu v + rate(x), then x <- x + h m v with multiplier m of the step."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from snapdyn.dynamics.kernels.compilation import Floats, Ints
from snapdyn.dynamics.kernels.dormand_prince import NOW

PASSED = NOW + 1  # place in `reals` of the sum of the multipliers of the steps made; the last one


class Motion(NamedTuple):
    """A run of explicit steps, with which it can pause and continue; the system has n values."""

    state: Floats  # (n,)
    velocity: Floats  # (n,)
    change: Floats  # (n,) scratch
    reals: Floats  # (PASSED + 1,)
    size: float  # step size h
    momentum: float  # mu
    schedule: Floats  # multipliers m of the step size, one for each step; (0,): 1 throughout
    steps: Ints  # (2,) number of steps made, which is counted up, and number of steps at which the next portion ends
    record: Ints  # (N,) steps after which the state is saved; none of them has been made yet
    saved: Floats  # (N, n)


@njit(inline="always")
def explicit_steps(rate, arguments, motion):
    """Body of the functions that make explicit steps; it is compiled once for each rate.

    Parameters
    ----------
    rate : compiled function
        ``rate(state, change, *arguments)``; a rate that depends on time reads reals[NOW].
    arguments : tuple
    motion : Motion

    Returns
    -------
    int
        Number of states saved; the run has ended early, at a state that is not finite, if steps[0] < steps[1].
    """
    state, velocity, change, steps, record = motion.state, motion.velocity, motion.change, motion.steps, motion.record
    filled = 0
    while True:
        check = 0.0
        for i in range(state.size):
            check += 0.0 * state[i]
        if check != 0.0:  # also NaN
            return filled
        if filled < record.size and record[filled] == steps[0]:
            for i in range(state.size):
                motion.saved[filled, i] = state[i]
            filled += 1
        if steps[0] == steps[1]:
            return filled
        multiplier = motion.schedule[steps[0]] if motion.schedule.size > 0 else 1.0
        motion.reals[NOW] = motion.reals[PASSED] * motion.size
        rate(state, change, *arguments)
        for i in range(state.size):
            velocity[i] = motion.momentum * velocity[i] + change[i]
            state[i] += multiplier * motion.size * velocity[i]
        motion.reals[PASSED] += multiplier
        steps[0] += 1
