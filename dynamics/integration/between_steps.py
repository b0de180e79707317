"""Between the steps of a run: states by a polynomial in each step (dense output), and zeros of event functions.

Both read samples of the steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError, shown
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.request import Event, Problem, State
from snapdyn.dynamics.kernels.dormand_prince import SAMPLES
from snapdyn.dynamics.trajectories.run_parts import EventRecord

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
    problem : Problem
    start : (size,) array
        State at t = 0.
    """

    def __init__(self, problem: Problem, start: Floats) -> None:
        self._system, self._clock = problem.system, problem.clock
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


class EventWatcher:
    """Finds sign changes of event functions between samples of the steps, and locates the zeros.

    Parameters
    ----------
    problem : Problem
    start : (size,) array
        State at t = 0.
    """

    def __init__(self, problem: Problem, start: Floats) -> None:
        self._system, self._clock, self._events = problem.system, problem.clock, problem.request.events or {}
        self.records: list[EventRecord] = []
        self._tau, self._state = 0.0, start.copy()  # where the last look ended
        self._last = {name: self._values(event, np.zeros(1), start[None])[0] for name, event in self._events.items()}

    def _values(self, event: Event, at: Floats, states: Floats, losses: Floats | None = None) -> Floats:
        """Values of an event function, (N,), at values `at` of the integration variable."""
        t = self._clock.to_time(at)
        found: Any
        if event.vectorized:
            found = event.function(t, State(self._system, states, losses))
        else:
            given = [None] * len(t) if losses is None else losses
            found = [
                event.function(float(time), State(self._system, state, loss))
                for time, state, loss in zip(t, states, given, strict=True)
            ]
        kind = f"{t.size} numbers for {t.size} times" if event.vectorized else "a number"
        for each in [found] if event.vectorized else found:
            try:
                values = np.asarray(each)
            except ValueError:  # of rows of several lengths
                values = np.array(None)
            expected = t.shape if event.vectorized else ()
            if values.dtype.kind not in "fiu" or values.shape != expected or not np.isfinite(values).all():
                raise InputError(
                    f"expected an event function to return {kind} whose sign changes at the event, received "
                    f"{shown(each)}; return for example state.values[0] - 0.5"
                )
        return np.array(found, dtype=float)

    def look(self, at: Floats, states: Floats, losses: Floats) -> float:
        """Record the crossings since the last call, in order of time; return the time of a terminal one, or inf.

        Parameters
        ----------
        at : (N,) array
            Increasing values of the integration variable, `SAMPLES` in each step; the last of these is the end of the
            step.
        states : (N, size) array
        losses : (N,) or (0,) array
            Losses of these states, if they are known.
        """
        places, known = np.append(self._tau, at), np.concatenate([self._state[None], states])
        crossings: list[tuple[float, str]] = []
        for name, event in self._events.items():
            after = self._values(event, at, states, losses if losses.size else None)
            before = np.append(self._last[name], after[:-1])
            rising, falling = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
            for i in np.flatnonzero((rising & (event.direction >= 0)) | (falling & (event.direction <= 0))):
                crossings.append((self._root(event, places, known, int(i)), name))
            self._last[name] = after[-1]
        stop = math.inf
        for tau, name in sorted(crossings):
            t, state = self._clock.to_time(tau), states_between(places, known, np.array([tau]))[0]
            self._record(name, t, state)
            if self._events[name].terminal:
                stop = t
                break
        self._tau, self._state = float(at[-1]), states[-1].copy()
        return stop

    def _root(self, event: Event, places: Floats, known: Floats, i: int) -> float:
        """Value of the integration variable, between samples i and i + 1, at which the event function is 0."""
        from scipy.optimize import brentq

        def value(tau: float) -> float:
            at = np.array([tau])
            return float(self._values(event, at, states_between(places, known, at))[0])

        return float(brentq(value, places[i], places[i + 1], xtol=1e-14 * places[i + 1]))

    def _record(self, name: str, t: float, state: Floats) -> None:
        system = self._system
        if system.holds_kinds and isinstance(system.classes, SymmetricClasses):
            z_support = np.empty(0) if system.classes.is_large else system.z_support(state)
            z_values = state[: system.num_logit_values].copy()
            self.records.append(EventRecord(name, t, z_support, z_values=z_values))
        elif system.has_z:
            self.records.append(EventRecord(name, t, system.z_support(state).copy()))
        else:
            self.records.append(EventRecord(name, t, np.empty(0), state.copy()))
