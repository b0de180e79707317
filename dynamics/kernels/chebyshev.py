"""One stage of a Runge-Kutta-Chebyshev step, its norms and error estimate; each makes one pass over the state.

The norms are sums in an order that is fixed when they are compiled. Those of a BLAS library depend on the number of its
threads from some 10,000 values on, and with them the steps of a run and all its results.
"""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel


@kernel(fastmath=EXACT)
def stage(rate, f, y, last, before, slope, a, rest, mu, nu):
    """Replace `rate` = f(last) by the next stage, rest y + mu last + nu before + slope (rate - a f)."""
    for i in range(rate.size):
        rate[i] = rest * y[i] + mu * last[i] + nu * before[i] + slope * (rate[i] - a * f[i])


@kernel(fastmath=REASSOCIATE)
def local_error(y, new, f, f_new, h, rtol, atol):
    """Root mean square of (0.8 (y - new) + 0.4 h (f + f_new))/(atol + rtol max(|y|, |new|))."""
    total = 0.0
    for i in range(y.size):
        error = 0.8 * (y[i] - new[i]) + 0.4 * h * (f[i] + f_new[i])
        scaled = error / (atol + rtol * max(abs(y[i]), abs(new[i])))
        total += scaled * scaled
    return math.sqrt(total / y.size)


@kernel(fastmath=REASSOCIATE)
def euclidean_norm(x):
    """Root of the sum of squares of x, (n,)."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
    return math.sqrt(total)


@kernel(fastmath=REASSOCIATE)
def tolerance_norm(x, y, rtol, atol):
    """Root mean square of x/(atol + rtol |y|)."""
    total = 0.0
    for i in range(x.size):
        scaled = x[i] / (atol + rtol * abs(y[i]))
        total += scaled * scaled
    return math.sqrt(total / x.size)
