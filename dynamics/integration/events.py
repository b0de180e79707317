"""Events: zeros of a function of the state, located on the dense output of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError, shown
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.request import Event, State
from snapdyn.dynamics.kernels.dormand_prince import SAMPLES
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectories.run_parts import EventRecord

# Barycentric weights of the polynomial through the start of a step and its equally spaced samples.
WEIGHTS = np.array([(-1.0) ** k * math.comb(SAMPLES, k) for k in range(SAMPLES + 1)])


class DenseStep:
    """Dense output of the last step, computed only if a time inside the step is needed, since it costs evaluations."""

    def __init__(self, solver: Any, clock: Clock) -> None:
        self._solver, self._clock = solver, clock
        self._interpolant: Any = None

    def rows(self, times: Floats) -> Floats:
        """States at `times` inside the step, a new array (number of times, size)."""
        return self.at(np.array([self._clock.from_time(t) for t in times]))

    def at(self, variable: Floats) -> Floats:
        """States at values of the integration variable, (N,), a new array (N, size)."""
        if variable[0] >= self._solver.t:
            return np.repeat(self._solver.y[None], variable.size, axis=0)
        if self._interpolant is None:
            self._interpolant = self._solver.dense_output()
        return np.ascontiguousarray(self._interpolant(np.minimum(variable, self._solver.t)).T)

    def samples(self) -> Floats:
        """`SAMPLES` values of the integration variable, the last of them the end of the step."""
        return np.linspace(self._solver.t_old, self._solver.t, SAMPLES + 1)[1:]


def _as_array(found: Any) -> NDArray[Any]:
    try:
        return np.asarray(found)
    except ValueError:  # of rows of several lengths
        return np.array(None)


class EventWatcher:
    """Finds sign changes of event functions between samples of the steps, and locates the zeros.

    Parameters
    ----------
    system : System
    clock : Clock
    events : mapping of str to Event
    start : (size,) array
        State at t = 0.
    """

    def __init__(self, system: System, clock: Clock, events: Mapping[str, Event], start: Floats) -> None:
        self._system, self._clock, self._events = system, clock, events
        self.records: list[EventRecord] = []
        self._tau, self._state = 0.0, start.copy()  # where the last look ended
        self._last = {name: self._values(event, np.zeros(1), start[None])[0] for name, event in events.items()}

    def _values(self, event: Event, at: Floats, states: Floats, losses: Floats | None = None) -> Floats:
        """Values of an event function, (N,), at values `at` of the integration variable."""
        t = self._clock.to_times(at)
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
            values = _as_array(each)
            expected = t.shape if event.vectorized else ()
            if values.dtype.kind not in "fiu" or values.shape != expected or not np.isfinite(values).all():
                raise InputError(
                    f"expected an event function to return {kind} whose sign changes at the event, received "
                    f"{shown(each)}; return for example state.values[0] - 0.5"
                )
        return np.array(found, dtype=float)

    def look(
        self, at: Floats, states: Floats, losses: Floats | None, interpolate: Callable[[Floats], Floats] | None = None
    ) -> float | None:
        """Record the crossings since the last call, in order of time; return the time of a terminal one, or None.

        Parameters
        ----------
        at : (N,) array
            Increasing values of the integration variable, `SAMPLES` in each step; the last of these is the end of the
            step.
        states : (N, size) array
        losses : (N,) array or None
            Losses of these states, if they are known.
        interpolate : callable, optional
            States (n, size) at values (n,) of the integration variable; None: dense output is a polynomial of degree
            `SAMPLES` - 1 in each step, which the samples determine.
        """
        states_at = interpolate or partial(self._between, at, states)
        left = np.append(self._tau, at[:-1])
        crossings: list[tuple[float, str]] = []
        for name, event in self._events.items():
            after = self._values(event, at, states, losses)
            before = np.append(self._last[name], after[:-1])
            rising, falling = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
            for i in np.flatnonzero((rising & (event.direction >= 0)) | (falling & (event.direction <= 0))):
                crossings.append((self._root(event, states_at, left[i], at[i]), name))
            self._last[name] = after[-1]
        stop = None
        for tau, name in sorted(crossings):
            t, state = self._clock.to_time(tau), states_at(np.array([tau]))[0]
            self._record(name, t, state)
            if self._events[name].terminal:
                stop = t
                break
        self._tau, self._state = float(at[-1]), states[-1].copy()
        return stop

    def _between(self, at: Floats, states: Floats, tau: Floats) -> Floats:
        """States (n, size) at values (n,) after the last sample of the previous call, from the samples of the steps."""
        found = np.empty((tau.size, states.shape[1]))
        for row, each in zip(found, tau, strict=True):
            first = SAMPLES * (int(np.searchsorted(at, each)) // SAMPLES)
            begin, start = (self._tau, self._state) if first == 0 else (at[first - 1], states[first - 1])
            end = at[first + SAMPLES - 1]
            distance = (each - begin) / (end - begin) * SAMPLES - np.arange(SAMPLES + 1)
            nodes = np.concatenate([start[None], states[first : first + SAMPLES]])
            nearest = int(np.argmin(np.abs(distance)))
            if distance[nearest] == 0.0:
                row[:] = nodes[nearest]
            else:
                weights = WEIGHTS / distance
                row[:] = weights @ nodes / weights.sum()
        return found

    def _root(self, event: Event, states_at: Callable[[Floats], Floats], left: float, right: float) -> float:
        from scipy.optimize import brentq

        def value(tau: float) -> float:
            at = np.array([tau])
            return float(self._values(event, at, states_at(at))[0])

        return float(brentq(value, left, right, xtol=1e-14 * right))

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
