"""Explicit steps of a rate with heavy ball: v <- mu v + rate(x), then x <- x + h m v with multiplier m of the step."""

from __future__ import annotations

from numba import njit

from snapdyn.dynamics.kernels.dormand_prince import NOW

PASSED = NOW + 1  # place in `reals` of the sum of the multipliers of the steps made; the last one


@njit(inline="always")
def explicit_steps(rate, arguments, state, velocity, change, reals, size, momentum, schedule, steps, record, saved):
    """Body of the functions that make explicit steps; it is compiled once for each rate.

    Parameters
    ----------
    rate : compiled function
        ``rate(state, change, *arguments)``; a rate that depends on time reads reals[NOW].
    state, velocity, change : (n,) arrays
        State and velocity, with which a run can pause and continue; `change` is scratch.
    reals : (PASSED + 1,) array
    size : float
        Step size h.
    momentum : float
        mu.
    schedule : array
        Multipliers m of the step size, one for each step; (0,): 1 throughout.
    steps : (2,) array of int
        Number of steps made, which this function counts up, and number of steps at which it ends.
    record : (N,) array of int
        Steps after which the state is saved; none of them has been made yet.
    saved : (N, n) array

    Returns
    -------
    int
        Number of states saved; the run has ended early, at a state that is not finite, if steps[0] < steps[1].
    """
    filled = 0
    while True:
        check = 0.0
        for i in range(state.size):
            check += 0.0 * state[i]
        if check != 0.0:  # also NaN
            return filled
        if filled < record.size and record[filled] == steps[0]:
            for i in range(state.size):
                saved[filled, i] = state[i]
            filled += 1
        if steps[0] == steps[1]:
            return filled
        multiplier = schedule[steps[0]] if schedule.size > 0 else 1.0
        reals[NOW] = reals[PASSED] * size
        rate(state, change, *arguments)
        for i in range(state.size):
            velocity[i] = momentum * velocity[i] + change[i]
            state[i] += multiplier * size * velocity[i]
        reals[PASSED] += multiplier
        steps[0] += 1
