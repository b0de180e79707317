"""The checked arguments of `integrate`, events, log-spaced times, and the problem that a solver solves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    InputError,
    choice,
    flag,
    flag_or,
    function,
    instance,
    optional_function,
    positive,
    real,
    shown,
    time_array,
    whole,
)
from snapdyn.dynamics.classes.table import Floats, dense_logits
from snapdyn.dynamics.kernels.dormand_prince import Integrator
from snapdyn.dynamics.systems.base import System

# A run to t has steps of up to t. Explicit methods square the error estimate of a step before they multiply it by the
# step h: numbers of about error/h, relative to the tolerance. The step control tells errors apart down to
# (10/0.9)**-8 = 4e-9, below which a step always grows tenfold. So (4e-9/h)**2 must be a normal number, above 2.2e-308:
# h < 2.7e145. At 1e176 the estimate of the mean field underflowed to 0, and a step was accepted that led to z = 1e81.
LATEST_TIME = 1e145


METHODS = ("compiled", "DOP853", "RK45", "RK23", "LSODA", "BDF", "Radau", "CVODE", "RKC")
SMALLEST_RTOL = 100 * float(np.finfo(np.float64).eps)  # scipy raises smaller ones to this
MOST_TIMES = 10_000_000


def log_times(first: float, last: float, count: int = 100) -> Floats:
    """Log-spaced times from `first` to `last`, both exact.

    Parameters
    ----------
    first : float
        First time in batch-size-1 steps, above 0.
    last : float
        Last time in batch-size-1 steps, above `first`.
    count : int
        Number of times, at least 2.

    Returns
    -------
    (count,) array
        Times in batch-size-1 steps; the ratio of neighbours is constant.

    Raises
    ------
    InputError
        A time that is not positive, a last time that is not after the first, or fewer than 2 times.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.log_times(0.1, 1000.0, 5)
    array([1.e-01, 1.e+00, 1.e+01, 1.e+02, 1.e+03])
    """
    first, last = positive("first", first), positive("last", last)
    if last <= first:
        raise InputError(f"expected the last time after the first, received {first:g} and {last:g}")
    times = np.geomspace(first, last, whole("count", count, 2, MOST_TIMES))
    times[0], times[-1] = first, last
    return times


def _checked_times(t_eval: ArrayLike) -> Floats:
    """Return the times as a new float array after checking that they are finite, at least 0 and increasing."""
    # Beyond the latest time float64 does not resolve the error of a step.
    times = time_array("t_eval", t_eval, ("N",), at_most=LATEST_TIME, increasing=True)
    whole("the number of times in t_eval", times.size, 1, MOST_TIMES)
    return times


class State:
    """State of a run at one time, the argument of an event function; observables are computed when accessed.

    Parameters
    ----------
    system : System
        The system that is integrated.
    state : (size,) or (N, size) array
        Values of the system's state; at N times if the event function is vectorized.
    loss : float or (N,) array, optional
        Loss at these times, if it is known.
    """

    def __init__(self, system: System, state: Floats, loss: Any = None) -> None:
        self._system, self._state, self._loss = system, state, loss

    @property
    def values(self) -> Floats:
        """Values of the state, (..., size)."""
        return self._system.full_state(self._state)

    @property
    def z_support(self) -> Floats:
        """Attention logits on classes.z_coordinates, (..., nz)."""
        return self._system.z_support(self._state)

    @property
    def z(self) -> Floats:
        """Attention logits, (..., Q, M)."""
        z_support, start = self.z_support, self._system.z_initial
        if start is None:
            raise InputError(f"expected a system with z_initial, received {self._system.name}, which has none")
        return dense_logits(start, self._system.classes, z_support)

    @property
    def loss(self) -> Any:
        """Loss -sum_n p_n ln alpha_n[next], nats: a float, or (N,)."""
        if self._loss is None:
            losses = [self._system.loss(state) for state in np.atleast_2d(self._state)]
            self._loss = np.array(losses) if self._state.ndim > 1 else losses[0]
        return self._loss

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
        ``function(t, state)`` returns a finite number, with t in batch-size-1 steps and `state` a State. The event is
        where its sign changes; a bool, None or NaN is an InputError.
    direction : int
        -1: falling crossings only; 1: rising crossings only; 0: both.
    terminal : bool
        Stop the run at the first crossing.
    vectorized : bool
        Whether the function takes many times at once, which is faster. It then receives t (N,) and a State whose
        quantities have N rows (loss (N,), z (N, Q, M)), and returns N numbers, (N,).

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

    function: Callable[[Any, State], Any]
    direction: int = 0
    terminal: bool = False
    vectorized: bool = False

    def __post_init__(self) -> None:
        function("the function of an event", self.function, "(t, state) -> float")
        if type(self.direction) is not int or self.direction not in (-1, 0, 1):
            raise InputError(f"expected direction -1, 0 or 1 of an event, received {shown(self.direction)}")
        flag("terminal", self.terminal)
        flag("vectorized", self.vectorized)


class Watching(TypedDict, total=False):
    """What watches a run."""

    events: Mapping[str, Event] | None
    progress: Callable[[float, float], None] | None


@dataclass(frozen=True)
class Request:
    """Arguments of `integrate` except the system, with the same defaults; checked at construction.

    Attributes
    ----------
    times : (N,) array
        The checked `t_eval`.
    """

    t_eval: ArrayLike
    method: str = "auto"
    rtol: float = 1e-8
    atol: float = 1e-10
    log_time: bool | None = None
    save_decoder: bool = False
    z_only: bool = False
    most_evaluations: int | None = None
    reduce: bool | str = "auto"
    max_step: float | None = None
    dense: bool = False
    events: Mapping[str, Event] | None = None
    progress: Callable[[float, float], None] | None = None
    times: Floats = field(init=False)

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "times": _checked_times(self.t_eval),
            "rtol": real("rtol", self.rtol, at_least=SMALLEST_RTOL, below=1.0, advice="1e-8 is usual"),
            "atol": positive("atol", self.atol),
        }
        events = {} if self.events is None else self.events
        checked["events"] = dict(instance("events", events, Mapping, "write {name: Event(function)}"))
        for name, event in events.items():
            instance(f"event {shown(name)}", event, Event, "write Event(function)")
        if self.log_time is not None:
            checked["log_time"] = flag("log_time", self.log_time)
        for name in ("save_decoder", "z_only", "dense"):
            checked[name] = flag(name, getattr(self, name))
        if self.most_evaluations is not None:
            checked["most_evaluations"] = whole("most_evaluations", self.most_evaluations, 1)
        if self.max_step is not None:
            checked["max_step"] = positive("max_step", self.max_step)
            if self.log_time:
                raise InputError(
                    "expected max_step, which is in units of t, without log_time, received both; leave one out"
                )
        checked["reduce"] = flag_or("reduce", self.reduce, "auto")
        optional_function("progress", self.progress, "(t, fraction)")
        choice("method", self.method, ("auto", *METHODS))
        for name, value in checked.items():
            object.__setattr__(self, name, value)


# BDF and Radau form a dense Jacobian by finite differences, n extra evaluations and n^2 numbers each time.
LARGEST_DENSE_JACOBIAN = 3000


@dataclass(frozen=True)
class Clock:
    """Integration variable: t itself, or tau = log(1 + t/scale).

    Attributes
    ----------
    scale : float or None
        The time scale t_s in batch-size-1 steps; None: the variable is t itself.
    """

    scale: float | None

    def to_time(self, tau: Any) -> Any:
        """Time, or times (N,), in batch-size-1 steps at values of the integration variable."""
        return tau if self.scale is None else self.scale * np.expm1(tau)

    def from_time(self, t: float) -> float:
        """Value of the integration variable at a time in batch-size-1 steps."""
        return t if self.scale is None else float(np.log1p(t / self.scale))

    def slope(self, tau: float) -> float:
        """dt/dtau."""
        return 1.0 if self.scale is None else float(self.scale * np.exp(tau))


@dataclass(frozen=True)
class Problem:
    """A system that runs from t = 0 to the last time of a request.

    Attributes
    ----------
    system : System
        The system that is integrated: the one given, or its reduction to one value in place of all that stay equal.
    request : Request
    method : str
        Name of the method.
    clock : Clock
        The integration variable.
    integrator : Integrator or None
        The compiled code that makes the steps; None: they are made from Python.
    jumps : (k,) array
        Increasing times within the run at which the rate jumps, where that is known.
    first, last : float
        The rate sees no earlier and no later times than these, which lie just inside two neighbouring jumps of it.
    """

    system: System
    request: Request
    method: str
    clock: Clock
    integrator: Integrator | None
    jumps: Floats
    first: float = 0.0
    last: float = math.inf

    @property
    def t_end(self) -> float:
        """Last time in batch-size-1 steps."""
        return float(self.request.times[-1])

    def rate_time(self, tau: float) -> float:
        """Time at which the rate is evaluated at a value of the integration variable."""
        return min(max(self.clock.to_time(tau), self.first), self.last)

    def in_variable(self, write: Callable[..., Any]) -> Callable[..., None]:
        """Function (tau, *arrays) for one (t, *arrays) that writes d/dt to its last array: it writes d/dtau."""

        def write_in_variable(tau: float, *arrays: Floats) -> None:
            write(self.rate_time(tau), *arrays)
            arrays[-1][:] *= self.clock.slope(tau)

        return write_in_variable

    def derivative(self, tau: float, state: Floats) -> Floats:
        """Right-hand side d(state)/dtau, a new array."""
        return self.system.derivative(self.rate_time(tau), state) * self.clock.slope(tau)

    def jacobian(self, tau: float, state: Floats) -> Floats:
        """Jacobian of `derivative` in the state, (n, n), of a system that `has_jacobian`."""
        state = np.ascontiguousarray(state)
        columns, vector = np.empty((state.size, state.size)), np.zeros(state.size)
        write = self.in_variable(self.system.write_jacobian_product)
        for i in range(state.size):
            vector[i] = 1.0
            write(tau, state, vector, columns[i])
            vector[i] = 0.0
        return columns.T
