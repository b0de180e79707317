"""Events: zeros of a function of the state, located on the dense output of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectories.run_parts import EventRecord
from snapdyn.errors import InputError, flag, shown

# Points per step at which an event function is evaluated, so that two crossings in one step are both located.
EVENT_SAMPLES = 8


class State:
    """State of a run at one time, the argument of an event function; observables are computed when accessed.

    Parameters
    ----------
    system : System
        The system that is integrated.
    state : (size,) array
        Values of its state.
    """

    def __init__(self, system: System, state: Floats) -> None:
        self._system, self._state = system, state

    @property
    def values(self) -> Floats:
        """Values of the state, (size,)."""
        return self._system.full_state(self._state)

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
        """Loss -sum_n p_n ln alpha_n[next], nats."""
        return self._system.loss(self._state)

    @property
    def extra(self) -> dict[str, Floats]:
        """Quantities that only this kind of system has, such as h per class or B."""
        return self._system.extra(self._state)


@dataclass(frozen=True)
class Event:
    """Zeros of a function of the state, for `integrate` to locate.

    Parameters
    ----------
    function : callable
        ``function(t, state)`` returns a float, with t in batch-size-1 steps and `state` a State.
    direction : int
        -1: falling crossings only; 1: rising crossings only; 0: both.
    terminal : bool
        Stop the run at the first crossing.

    Raises
    ------
    InputError
        If `function` is not callable, or `direction` is not -1, 0 or 1.

    Examples
    --------
    >>> import math
    >>> import snapdyn as sd
    >>> half = sd.Event(lambda t, state: state.loss - math.log(34) / 2, terminal=True)
    >>> run = sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [100.0], events={"half": half})
    >>> run.status, run.events[0].name, round(run.events[0].t, 4)
    ('terminated', 'half', 4.3833)
    """

    function: Callable[[float, State], float]
    direction: int = 0
    terminal: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"expected an event function (t, state) -> float, received {shown(self.function)}")
        if type(self.direction) is not int or self.direction not in (-1, 0, 1):
            raise InputError(f"expected direction -1, 0 or 1 of an event, received {shown(self.direction)}")
        flag("terminal", self.terminal)


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
