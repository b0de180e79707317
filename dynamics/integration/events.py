"""Events: zeros of a function of the state, located on the dense output of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectory import EventRecord
from snapdyn.errors import InputError, flag

# Points per step at which an event function is looked at, so that two crossings in one step are both found.
EVENT_SAMPLES = 8


class State:
    """What an event function receives: the state at one time, and its observables on demand."""

    def __init__(self, system: System, state: Floats) -> None:
        self._system, self._state = system, state

    @property
    def values(self) -> Floats:
        """The state values themselves, (size,)."""
        return self._state

    @property
    def z_support(self) -> Floats:
        """Attention logits on classes.z_coordinates, (nz,)."""
        return self._system.z_support(self._state)

    @property
    def z(self) -> Floats:
        """Attention logits, (Q, M)."""
        z_support, start = self.z_support, self._system.z_initial
        if start is None:
            raise InputError(f"expected a system with z_initial, received {self._system.name}, which has none")
        z = start.copy()
        coordinates = self._system.classes.z_coordinates if self._system.classes else (np.zeros(1, int),) * 2
        z[coordinates] = z_support
        return z

    @property
    def loss(self) -> float:
        """-sum_n p_n ln alpha_n[next], nats."""
        return self._system.loss(self._state)

    @property
    def extra(self) -> dict[str, Floats]:
        """Quantities of this system only: h per class, B."""
        return self._system.extra(self._state)


@dataclass(frozen=True)
class Event:
    """A zero of `function(t, state)` to be located.

    Parameters
    ----------
    function : callable (t, State) -> float
        t in batch-size-1 steps.
    direction : -1, 0 or 1
        Only falling, all, or only rising crossings.
    terminal : bool
        Stop the run at the first crossing.
    """

    function: Callable[[float, State], float]
    direction: int = 0
    terminal: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"expected an event function (t, state) -> float, received {self.function!r}")
        if self.direction not in (-1, 0, 1):
            raise InputError(f"expected direction -1, 0 or 1 of an event, received {self.direction!r}")
        flag("terminal", self.terminal)


class DenseStep:
    """Dense output of the last step, made only when a time inside it is asked for (it costs evaluations)."""

    def __init__(self, solver: Any, clock: Clock) -> None:
        self._solver, self._clock = solver, clock
        self._interpolant: Any = None

    def rows(self, times: Floats) -> Floats:
        """States at `times` inside the step, a fresh array (number of times, size)."""
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
    """Looks for sign changes at samples of each step and refines them on dense output."""

    def __init__(self, system: System, clock: Clock, events: dict[str, Event], start: Floats) -> None:
        self._system, self._clock, self._events = system, clock, events
        self.records: list[EventRecord] = []
        self._last = {name: self._value(event, 0.0, start) for name, event in events.items()}

    def _value(self, event: Event, tau: float, state: Floats) -> float:
        value = event.function(self._clock.to_time(tau), State(self._system, state))
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise InputError(f"expected an event function to return a number, received {value!r:.60}") from error

    def _root(self, event: Event, dense: DenseStep, left: float, right: float) -> float:
        from scipy.optimize import brentq

        return float(
            brentq(lambda tau: self._value(event, tau, dense.at_variable(tau)), left, right, xtol=1e-14 * right)
        )

    def look(self, solver: Any, dense: DenseStep) -> float | None:
        """Record the crossings of the last step in order of time; the time of a terminal one, else None."""
        samples = np.linspace(solver.t_old, solver.t, EVENT_SAMPLES + 1)[1:]
        found: list[tuple[float, str]] = []
        for name, event in self._events.items():
            left, before = solver.t_old, self._last[name]
            for right in samples:
                after = self._value(event, right, dense.at_variable(right))
                rising = before < 0 <= after
                falling = before > 0 >= after
                if (rising and event.direction >= 0) or (falling and event.direction <= 0):
                    found.append((self._root(event, dense, left, right), name))
                left, before = right, after
            self._last[name] = before
        for tau, name in sorted(found):
            t, state = self._clock.to_time(tau), dense.at_variable(tau)
            if self._system.has_z:
                self.records.append(EventRecord(name, t, self._system.z_support(state).copy()))
            else:
                self.records.append(EventRecord(name, t, np.empty(0), state.copy()))
            if self._events[name].terminal:
                return t
        return None
