"""Integration variable of a run: the time t in batch-size-1 steps, or its logarithm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snapdyn.dynamics.classes.table import Floats

if TYPE_CHECKING:
    from snapdyn.dynamics.systems.base import System

# A run to t has steps of up to t. Explicit methods square the error estimate of a step before they multiply it by the
# step h: numbers of about error/h, relative to the tolerance. The step control tells errors apart down to
# (10/0.9)**-8 = 4e-9, below which a step always grows tenfold. So (4e-9/h)**2 must be a normal number, above 2.2e-308:
# h < 2.7e145. At 1e176 the estimate of the mean field underflowed to 0, and a step was accepted that led to z = 1e81.
LATEST_TIME = 1e145


@dataclass(frozen=True)
class Clock:
    """Integration variable: t itself, or tau = log(1 + t/scale).

    Attributes
    ----------
    scale : float or None
        The time scale t_s in batch-size-1 steps; None: the variable is t itself.
    first, last : float
        The rate sees no earlier and no later times than these, which lie just inside two neighbouring jumps of it.
    """

    scale: float | None
    first: float = 0.0
    last: float = math.inf

    def to_time(self, tau: float) -> float:
        """Time in batch-size-1 steps at a value of the integration variable."""
        return tau if self.scale is None else float(self.scale * np.expm1(tau))

    def to_times(self, tau: Floats) -> Floats:
        """Times in batch-size-1 steps, (N,), at values of the integration variable."""
        return tau if self.scale is None else self.scale * np.expm1(tau)

    def from_time(self, t: float) -> float:
        """Value of the integration variable at a time in batch-size-1 steps."""
        return t if self.scale is None else float(np.log1p(t / self.scale))

    def rate_time(self, tau: float) -> float:
        """Time at which the rate is evaluated at a value of the integration variable."""
        return min(max(self.to_time(tau), self.first), self.last)

    def derivative(self, system: System) -> Callable[[float, Floats], Floats]:
        """Right-hand side (tau, state) -> d(state)/dtau in this variable."""
        if self.scale is None:
            return lambda t, state: system.derivative(self.rate_time(t), state)
        scale = self.scale

        def in_log_time(tau: float, state: Floats) -> Floats:
            growth = scale * np.exp(tau)  # dt/dtau
            out = system.derivative(min(max(growth - scale, self.first), self.last), state)
            out *= growth
            return out

        return in_log_time

    def jacobian(self, system: System) -> Callable[[float, Floats], Floats]:
        """Jacobian of `derivative` in the state, (tau, state) -> (n, n), for a system that `has_jacobian`."""

        def matrix(tau: float, state: Floats) -> Floats:
            state = np.ascontiguousarray(state)
            columns = np.empty((state.size, state.size))
            t, vector = self.rate_time(tau), np.zeros(state.size)
            for i in range(state.size):
                vector[i] = 1.0
                system.write_jacobian_product(t, state, vector, columns[i])
                vector[i] = 0.0
            if self.scale is not None:
                columns *= self.scale * np.exp(tau)
            return columns.T

        return matrix


TIME_ITSELF = Clock(None)
