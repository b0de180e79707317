"""Solvers with the interface of scipy: LSODA with a limit in one step, and Runge-Kutta-Chebyshev (RKC).

RKC is an explicit method of second order for large problems with real negative eigenvalues.

The mean field is a gradient ascent, so its Jacobian has real eigenvalues. Frequent words make the largest eigenvalues
far larger than those of rare classes, whose transition comes last in a run. A method is stable while step times
eigenvalue stays on an interval of the negative real axis. With s stages, the length of this interval is 0.65 s^2 for
RKC and about s/2 for an ordinary explicit method. RKC keeps seven copies of the state, DOP853 sixteen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel

DAMPING = 2.0 / 13.0  # keeps the stability polynomial inside the unit circle between its ripples
MOST_STAGES = 500
EVALUATIONS_PER_RADIUS = 60  # after which the spectral radius, about three more, is estimated again
MOST_POWER_ITERATIONS = 20
RADIUS_MARGIN = 1.2  # the power method comes from below, and stops within a tenth
MOST_EVALUATIONS_OF_A_STEP = 10_000  # LSODA takes one to some tens
SAFETY, SHRINK, GROWTH = 0.8, 0.1, 5.0  # of the step-size controller


class LSODA(scipy.integrate.LSODA):
    """scipy's LSODA with a limit on the evaluations in one step, which fails where the time stands still.

    Where rounding keeps the equations of a step from being solved, LSODA would repeat the step for ever, inside one
    call, without this limit.
    """

    def __init__(self, rate: Callable[[float, Floats], Floats], *arguments: Any, **options: Any) -> None:
        self._made = 0

        def limited(tau: float, state: Floats) -> Floats:
            self._made += 1
            if self._made > MOST_EVALUATIONS_OF_A_STEP:
                raise ValueError(f"LSODA evaluated the right-hand side {MOST_EVALUATIONS_OF_A_STEP} times in one step")
            return rate(tau, state)

        super().__init__(limited, *arguments, **options)

    def _step_impl(self) -> Any:
        self._made, before = 0, self.t
        success, message = super()._step_impl()
        # At a blow-up LSODA reports steps that are below the spacing of numbers as successes, for ever.
        return (False, self.TOO_SMALL_STEP) if success and self.t == before else (success, message)


class RKC(scipy.integrate.OdeSolver):
    """Second-order Runge-Kutta-Chebyshev method, a scipy OdeSolver for `integrate(method="RKC")`.

    Parameters
    ----------
    fun, t0, y0, t_bound
        As in scipy.integrate.OdeSolver.
    rtol, atol : float
        Local error tolerances, root mean square over the components.
    max_step : float
        Largest step.

    Notes
    -----
    The coefficients, the error estimate 0.8 (y_n - y_{n+1}) + 0.4 h (f_n + f_{n+1}), and the non-linear
    power method for the spectral radius are those of B. P. Sommeijer, L. F. Shampine, J. G. Verwer, "RKC: an explicit
    solver for parabolic PDEs", J. Comput. Appl. Math. 88 (1998). Order and stability are verified in
    tests/dynamics/integration/test_scipy_solvers.py.
    """

    t: float
    y: Floats
    t_bound: float

    def __init__(
        self,
        fun: Callable[[float, Floats], Floats],
        t0: float,
        y0: Floats,
        t_bound: float,
        rtol: float = 1e-3,
        atol: float = 1e-6,
        max_step: float = np.inf,
    ) -> None:
        super().__init__(fun, t0, y0, t_bound, False)
        self.max_step = max_step
        self.rtol, self.atol = rtol, atol
        self.y_old: Floats = self.y
        self.f_old: Floats
        self.f: Floats = self.fun(self.t, self.y)
        self._direction_of_radius: Floats = self.f
        self._steps_since_radius = self._evaluations_at_radius = 0
        self.spectral_radius = self._estimated_radius()
        self.h = self._first_step()
        self._accepted: tuple[float, float] | None = None  # length and error of the step before

    def _first_step(self) -> float:
        """First step, chosen so that the change of the derivative over it meets the tolerance."""
        h = min(self.t_bound - self.t, 1.0 / self.spectral_radius if self.spectral_radius > 0 else np.inf)
        change = (self.fun(self.t + h, self.y + h * self.f) - self.f) / (self.atol + self.rtol * np.abs(self.y))
        change = h * _euclidean_norm(change) / math.sqrt(self.y.size)
        return min(self.t_bound - self.t, 0.1 * h / math.sqrt(change) if change > 0.01 else h)

    def _estimated_radius(self) -> float:
        """Largest absolute eigenvalue of the Jacobian, by the power method on differences of the derivative.

        The estimate is the growth over two iterations: at Y = 0, where runs start, eigenvalues come in pairs of
        opposite signs, and the growth over a single iteration would alternate for ever.
        """
        v = self._direction_of_radius
        length = float(_euclidean_norm(v))
        if length == 0.0:
            return 0.0
        distance = math.sqrt(np.finfo(np.float64).eps) * max(float(_euclidean_norm(self.y)), 1.0)
        radius = growth = 0.0
        for _ in range(MOST_POWER_ITERATIONS):
            difference = self.fun(self.t, self.y + (distance / length) * v) - self.f
            length = float(_euclidean_norm(difference))
            before, growth_before, growth = radius, growth, length / distance
            if not 0.0 < length < np.inf:
                radius = growth
                break
            v = difference
            radius = math.sqrt(growth * growth_before)
            if growth_before > 0.0 and abs(radius - before) <= 0.1 * radius:
                break
        self._direction_of_radius = v
        self._steps_since_radius, self._evaluations_at_radius = 0, self.nfev
        return RADIUS_MARGIN * radius

    def _step_impl(self) -> tuple[bool, str | None]:
        if self.nfev - self._evaluations_at_radius >= EVALUATIONS_PER_RADIUS:
            self.spectral_radius = self._estimated_radius()
        rejected = False
        while True:
            largest = 0.653 * (MOST_STAGES**2 - 1) / self.spectral_radius if self.spectral_radius > 0 else np.inf
            h = min(self.h, self.t_bound - self.t, largest, self.max_step)
            if h < 10.0 * abs(np.nextafter(self.t, np.inf) - self.t):
                return False, self.TOO_SMALL_STEP
            stages = max(2, 1 + math.ceil(math.sqrt(1.0 + h * self.spectral_radius / 0.653)))
            t_new = self.t_bound if h == self.t_bound - self.t else self.t + h
            new = _chebyshev_step(self.fun, self.t, self.y, self.f, h, stages)
            f_new = self.fun(t_new, new)
            error = _local_error(self.y, new, self.f, f_new, h, self.rtol, self.atol)
            if error <= 1.0:
                break
            rejected = True
            self.h = h * (max(SHRINK, SAFETY * error ** (-1.0 / 3.0)) if np.isfinite(error) else SHRINK)
            if self._steps_since_radius:
                self.spectral_radius = self._estimated_radius()
        growth = GROWTH if error == 0.0 else min(GROWTH, SAFETY * error ** (-1.0 / 3.0))
        if self._accepted and error > 0.0 and not rejected:  # the trend of the last two steps goes on
            h_before, error_before = self._accepted
            growth = min(GROWTH, max(growth, growth * h / h_before * (error_before / error) ** (1.0 / 3.0)))
        self._accepted = None if rejected else (h, error)
        # A last step that was cut short says nothing against the step before.
        self.h = h * (min(1.0, growth) if rejected else max(SHRINK, growth))
        self._steps_since_radius += 1
        self.y_old, self.f_old = self.y, self.f
        self.t, self.y, self.f = t_new, new, f_new
        return True, None

    def dense_output(self) -> Callable[[float | Floats], Floats]:
        """States inside the last step, (n,) or (n, N): the cubic through states and derivatives at both ends."""
        from scipy.interpolate import CubicHermiteSpline

        # Over [0, 1], since the squares of very short steps are 0.
        start, h = self.t_old, self.t - self.t_old
        cubic = CubicHermiteSpline([0.0, 1.0], [self.y_old, self.y], [h * self.f_old, h * self.f])
        return lambda t: cubic((t - start) / h).T


def _chebyshev_step(
    fun: Callable[[float, Floats], Floats], t: float, y: Floats, f: Floats, h: float, stages: int
) -> Floats:
    """State after one step of length h with `stages` >= 2 stages; one evaluation per stage after the first."""
    w0 = 1.0 + DAMPING / stages**2
    # Chebyshev polynomials T_j(w0) and their first two derivatives.
    T, dT, d2T = np.ones(stages + 1), np.zeros(stages + 1), np.zeros(stages + 1)
    T[1], dT[1] = w0, 1.0
    for j in range(2, stages + 1):
        T[j] = 2 * w0 * T[j - 1] - T[j - 2]
        dT[j] = 2 * T[j - 1] + 2 * w0 * dT[j - 1] - dT[j - 2]
        d2T[j] = 4 * dT[j - 1] + 2 * w0 * d2T[j - 1] - d2T[j - 2]
    w1 = dT[stages] / d2T[stages]
    b = np.empty(stages + 1)
    b[2:] = d2T[2:] / dT[2:] ** 2
    b[:2] = b[2]
    a = 1.0 - b * T
    c = np.empty(stages + 1)  # times of the stages
    c[2:] = w1 * d2T[2:] / dT[2:]
    c[1] = c[2] / dT[2]
    before, last = y, y + (b[1] * w1 * h) * f
    for j in range(2, stages + 1):
        mu, nu = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2]
        slope = 2 * b[j] * w1 / b[j - 1] * h
        new = fun(t + c[j - 1] * h, last)
        _stage(new, f, y, last, before, slope, a[j - 1], 1.0 - mu - nu, mu, nu)
        before, last = last, new
    return last


# Each makes one pass over the state. The norms are sums in an order that is fixed when they are compiled. Those of a
# BLAS library depend on the number of its threads from some 10,000 values on, and with them the steps of a run.


@kernel(fastmath=EXACT)
def _stage(
    rate: Floats, f: Floats, y: Floats, last: Floats, before: Floats,
    slope: float, a: float, rest: float, mu: float, nu: float,
) -> None:  # fmt: skip
    """Replace `rate` = f(last) by the next stage, rest y + mu last + nu before + slope (rate - a f)."""
    for i in range(rate.size):
        rate[i] = rest * y[i] + mu * last[i] + nu * before[i] + slope * (rate[i] - a * f[i])


@kernel(fastmath=REASSOCIATE)
def _local_error(y: Floats, new: Floats, f: Floats, f_new: Floats, h: float, rtol: float, atol: float) -> float:
    """Root mean square of (0.8 (y - new) + 0.4 h (f + f_new))/(atol + rtol max(|y|, |new|))."""
    total = 0.0
    for i in range(y.size):
        error = 0.8 * (y[i] - new[i]) + 0.4 * h * (f[i] + f_new[i])
        scaled = error / (atol + rtol * max(abs(y[i]), abs(new[i])))
        total += scaled * scaled
    return math.sqrt(total / y.size)


@kernel(fastmath=REASSOCIATE)
def _euclidean_norm(x: Floats) -> float:
    """Root of the sum of squares of x, (n,)."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
    return math.sqrt(total)
