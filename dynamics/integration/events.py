"""Events: zeros of a function of the state, located on the dense output of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.request import Event, State
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectories.run_parts import EventRecord
from snapdyn.errors import InputError, shown

# Points per step at which an event function is evaluated, so that two crossings in one step are both located.
EVENT_SAMPLES = 8


class DenseStep:
    """Dense output of the last step, computed only if a time inside the step is needed: it costs evaluations."""

    def __init__(self, solver: Any, clock: Clock) -> None:
        self._solver, self._clock = solver, clock
        self._interpolant: Any = None

    def rows(self, times: Floats) -> Floats:
        """States at `times` inside the step, a new array (number of times, size)."""
        variable = np.array([self._clock.from_time(t) for t in times])
        if variable[0] >= self._solver.t:
            return np.repeat(self._solver.y[None], times.size, axis=0)
        return np.ascontiguousarray(self._interpolate(np.minimum(variable, self._solver.t)).T)

    def at_variable(self, tau: float) -> Floats:
        """State at one value of the integration variable."""
        return self._solver.y if tau >= self._solver.t else self._interpolate(tau)

    def _interpolate(self, tau: float | Floats) -> Floats:
        if self._interpolant is None:
            self._interpolant = self._solver.dense_output()
        return self._interpolant(tau)


class EventWatcher:
    """Detects sign changes of event functions between samples of each step, and locates them on dense output."""

    def __init__(self, system: System, clock: Clock, events: Mapping[str, Event], start: Floats) -> None:
        self._system, self._clock, self._events = system, clock, events
        self.records: list[EventRecord] = []
        self._last = {name: self._value(event, 0.0, start) for name, event in events.items()}

    def _value(self, event: Event, tau: float, state: Floats) -> float:
        value = event.function(self._clock.to_time(tau), State(self._system, state))
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise InputError(f"expected an event function to return a number, received {shown(value)}") from error

    def _root(self, event: Event, dense: DenseStep, left: float, right: float) -> float:
        from scipy.optimize import brentq

        return float(
            brentq(lambda tau: self._value(event, tau, dense.at_variable(tau)), left, right, xtol=1e-14 * right)
        )

    def look(self, solver: Any, dense: DenseStep) -> float | None:
        """Record the crossings of the last step in order of time; return the time of a terminal crossing, or None."""
        samples = np.linspace(solver.t_old, solver.t, EVENT_SAMPLES + 1)[1:]
        crossings: list[tuple[float, str]] = []
        for name, event in self._events.items():
            left, before = solver.t_old, self._last[name]
            for right in samples:
                after = self._value(event, right, dense.at_variable(right))
                rising = before < 0 <= after
                falling = before > 0 >= after
                if (rising and event.direction >= 0) or (falling and event.direction <= 0):
                    crossings.append((self._root(event, dense, left, right), name))
                left, before = right, after
            self._last[name] = before
        for tau, name in sorted(crossings):
            t, state = self._clock.to_time(tau), dense.at_variable(tau)
            if self._system.holds_kinds and isinstance(self._system.classes, SymmetricClasses):
                large = self._system.classes.is_large
                z_support = np.empty(0) if large else self._system.z_support(state)
                z_values = state[: self._system.num_logit_values].copy()
                self.records.append(EventRecord(name, t, z_support, z_values=z_values))
            elif self._system.has_z:
                self.records.append(EventRecord(name, t, self._system.z_support(state).copy()))
            else:
                self.records.append(EventRecord(name, t, np.empty(0), state.copy()))
            if self._events[name].terminal:
                return t
        return None
