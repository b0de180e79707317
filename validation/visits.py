"""Decoder logits by visits of a class: the recursion (33), its lead over h, and SGD on classes without overlap."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.compilation import cached_njit

# Attention frozen in SGD: this rate times any gradient changes no logit.
FROZEN = 1e-300


@cached_njit()
def recursion(vocab_size: float, eta_Y: float, visits: NDArray[np.int64], others: float, exponent: float) -> Floats:
    """u after each of the increasing numbers of `visits`, by u += V eta_Y/(others + exp(exponent u)), u = 0 at first.

    (33) for u = V h* has others = V-1 and exponent 1; other values are wrong theories. The sum is compensated: each of
    up to 1e8 steps adds about 1/s to a number of order 20, so that plain sums would lose what is measured.
    """
    out = np.empty(visits.size)
    u = lost = 0.0
    step = 0
    for i in range(visits.size):
        while step < visits[i]:
            decay = math.exp(-exponent * u)
            increment = vocab_size * eta_Y * decay / (others * decay + 1) - lost
            total = u + increment
            lost = (total - u) - increment
            u = total
            step += 1
        out[i] = u
    return out


def discrete_logits(vocab_size: float, eta_Y: float, visits: NDArray[np.int64]) -> Floats:
    """u = V h* after each of the increasing numbers of `visits`, by the recursion (33)."""
    return np.asarray(recursion(float(vocab_size), float(eta_Y), visits, float(vocab_size) - 1, 1.0))


def visits_of(u: Floats, eta_Y: float | Floats, vocab_size: float | Floats) -> Floats:
    """Visits s at which V h(s) = u, by (45) solved for s."""
    return np.asarray((np.expm1(u) + (vocab_size - 1) * u) / (vocab_size * eta_Y))


def single_token_classes(num_classes: int, vocab_size: int) -> SequenceClasses:
    """Return K classes of one token each, all different: E = 0, so that the original flow is the modified one."""
    return SequenceClasses(np.eye(num_classes), np.zeros(num_classes, dtype=int), vocab_size=vocab_size)


def own_lead(run: Trajectory) -> Floats:
    """w_n[n] - w_n[other] (N, K) of an SGD run on `single_token_classes`, V > K, saved with its decoder."""
    assert run.Y is not None
    assert run.decoder_rows is not None
    W = run.Y[:, run.decoder_rows]
    own = np.arange(W.shape[1])
    return np.asarray(W[:, own, own] - W[:, :, -1])


def late_lag(vocab_size: Floats, eta_Y: Floats, visits: Floats, start: int = 10_000) -> Floats:
    """Return X(s), h*(s) = h(s + X(s)), at late `visits` (N,) up to 1e12 and beyond, for cases (n,): (N, n).

    One step of the recursion is worth 1 + r visits of h, r = exp(u) (expm1(d) - d)/(V eta_Y) with its increment
    d = V eta_Y/(V-1+exp(u)), by (45). The recursion itself runs to `start`; from there the sum of r is its integral
    and half the difference of its ends (Euler-Maclaurin), to r'(start)/12 = 1/(24 start^2).
    """
    from scipy.integrate import solve_ivp

    V, eta = vocab_size, eta_Y

    def excess(s: float | Floats, lag: Floats) -> Floats:
        u = V * analytic.h(s + lag, eta, V)
        d = V * eta / (V - 1 + np.exp(u))
        # expm1(d) - d by its series: d is 1/s here, and the difference would keep no digits.
        return np.asarray(np.exp(u) / (V * eta) * d**2 / 2 * (1 + d / 3 * (1 + d / 4)))

    def rate(log_s: float, lag: Floats) -> Floats:
        return math.exp(log_s) * excess(math.exp(log_s), lag)

    u = np.array([discrete_logits(*case, np.array([start]))[0] for case in zip(V, eta, strict=True)])
    lag = visits_of(u, eta, V) - start
    lag += excess(float(start), lag) / 2
    times = np.log(visits)
    run = solve_ivp(rate, (math.log(start), times[-1]), lag, method="DOP853", t_eval=times, rtol=1e-11, atol=1e-13)
    return np.asarray(run.y.T - excess(visits[:, None], run.y.T) / 2)
