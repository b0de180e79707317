"""States anywhere within a run, from samples of its steps: dense output is a polynomial in each step."""

from __future__ import annotations

import math

import numpy as np

from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.kernels.dormand_prince import SAMPLES
from snapdyn.dynamics.systems.base import System

# Barycentric weights of the polynomial through the start of a step and its equally spaced samples.
WEIGHTS = np.array([(-1.0) ** k * math.comb(SAMPLES, k) for k in range(SAMPLES + 1)])


def states_between(at: Floats, states: Floats, wanted: Floats) -> Floats:
    """States (n, size) at values (n,) of the integration variable.

    Parameters
    ----------
    at : (1 + SAMPLES * steps,) array
        Values of the integration variable: the start of the first step, and `SAMPLES` equally spaced ones in each step,
        the last of these at its end.
    states : (1 + SAMPLES * steps, size) array
        States at `at`.
    wanted : (n,) array
        Values between the first and the last of `at`.
    """
    found = np.empty((wanted.size, states.shape[1]))
    for row, each in zip(found, wanted, strict=True):
        first = SAMPLES * max(0, (int(np.searchsorted(at, each)) - 1) // SAMPLES)
        nodes = states[first : first + SAMPLES + 1]
        step = at[first + SAMPLES] - at[first]
        distance = (each - at[first]) / step * SAMPLES - np.arange(SAMPLES + 1)
        nearest = int(np.argmin(np.abs(distance)))
        if distance[nearest] == 0.0:
            row[:] = nodes[nearest]
        else:
            weights = WEIGHTS / distance
            row[:] = weights @ nodes / weights.sum()
    return found


class DenseOutput:
    """States at any times within a run, in the order that the system documents.

    Parameters
    ----------
    system : System
        The system that is integrated.
    clock : Clock
    start : (size,) array
        State at t = 0.
    """

    def __init__(self, system: System, clock: Clock, start: Floats) -> None:
        self._system, self._clock = system, clock
        self._at, self._states = [np.zeros(1)], [start[None].copy()]
        self._numbers = start.size

    def add(self, at: Floats, states: Floats) -> None:
        """Keep the samples of the next steps."""
        self._numbers += states.size
        require_memory(
            "dense output of every step", 16.0 * self._numbers, "an earlier last time, or times in t_eval without dense"
        )
        self._at.append(at.copy())
        self._states.append(states.copy())

    def __call__(self, times: Floats) -> Floats:
        """States (n, size of the system) at times (n,) within the run, batch-size-1 steps."""
        if len(self._at) > 1:
            self._at, self._states = [np.concatenate(self._at)], [np.concatenate(self._states)]
        wanted = np.minimum([self._clock.from_time(t) for t in times], self._at[0][-1])
        if self._at[0].size == 1:  # a run to t = 0
            return self._system.full_state(np.repeat(self._states[0], times.size, axis=0))
        return self._system.full_state(states_between(self._at[0], self._states[0], wanted))
