"""Random draws: numpy's SFC64 stream, binomial by inversion or rejection, multinomial, class by inversion."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from snapdyn.dynamics.kernels.elementary import EXACT, exp_nonpositive

# Below these means the inversion's loop, alone and interleaved, takes less than rejection, which is valid from 10 on.
_LARGEST_INVERSION_MEAN = 16.0
_LARGEST_INVERSION_MEAN_4 = 24.0
_SMALLEST_REJECTION_MEAN = 10.0

_11 = np.uint64(11)
_3 = np.uint64(3)
_24 = np.uint64(24)
_40 = np.uint64(40)
_1 = np.uint64(1)
_DOUBLE = 2.0**-53


@njit(cache=True)
def random(stream):
    """Uniform double in [0, 1): the same numbers as numpy's Generator(SFC64).random().

    `stream` (4,) uint64 is the state of numpy.random.SFC64 and moves on. Inlined here because a call of a
    Generator from compiled code costs four times as much, and binomials need little else.
    """
    result = stream[0] + stream[1] + stream[3]
    stream[3] += _1
    stream[0] = stream[1] ^ (stream[1] >> _11)
    stream[1] = stream[2] + (stream[2] << _3)
    stream[2] = ((stream[2] << _24) | (stream[2] >> _40)) + result
    return np.float64(result >> _11) * _DOUBLE


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _stirling_tail(k):
    """ln k! minus Stirling's approximation ln(sqrt(2 pi)) + (k + 1/2) ln(k + 1) - (k + 1)."""
    if k < 10.0:
        return math.lgamma(k + 1.0) - (0.9189385332046728 + (k + 0.5) * math.log(k + 1.0) - (k + 1.0))
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - 1.0 / 1680 / square) / square) / square) / (k + 1.0)


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _mass_ratio(k, mode, n, odds):
    """Binomial mass at k over that at the mode, by recursion, odds = p/(1-p)."""
    up = down = 1.0
    for i in range(int(min(k, mode)) + 1, int(max(k, mode)) + 1):
        up *= odds * (n + 1.0 - i)
        down *= i
    return up / down if k > mode else down / up


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _log_mass_ratio(k, mode, n, odds):
    """ln of the binomial mass at k over that at the mode, odds = p/(1-p)."""
    return (
        (mode + 0.5) * math.log((mode + 1.0) / (odds * (n - mode + 1.0)))
        + (n + 1.0) * math.log((n - mode + 1.0) / (n - k + 1.0))
        + (k + 0.5) * math.log(odds * (n - k + 1.0) / (k + 1.0))
        + (_stirling_tail(mode) + _stirling_tail(n - mode) - _stirling_tail(k) - _stirling_tail(n - k))
    )


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _first_trial(stream, n, p):
    """(k, u, v) of one trial of `_binomial_rejection`; k = -1 where its squeeze does not accept at once."""
    u = random(stream) - 0.5
    v = random(stream)
    b = 1.15 + 2.53 * math.sqrt(n * p * (1.0 - p))
    us = 0.5 - abs(u)
    k = np.floor((2.0 * (-0.0873 + 0.0248 * b + 0.01 * p) / us + b) * u + (n * p + 0.5))
    return (k if (us >= 0.07) & (v * b <= 0.92 * b - 4.2) else -1.0), u, v


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _binomial_rejection(stream, n, p, u, v):
    """Binomial(n, p) for n p >= 10, p <= 1/2, at a cost independent of n, first trial with the given u, v.

    Transformed rejection with squeeze, algorithm BTRS of W. Hoermann, "The generation of binomial random
    variates", J. Stat. Comput. Simul. 46 (1993); before the exact ratio of masses its bounds of V.
    Kachitvichyanukul and B. Schmeiser, "Binomial random variate generation", Commun. ACM 31 (1988).
    """
    variance = n * p * (1.0 - p)
    deviation = math.sqrt(variance)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    mode = np.floor((n + 1.0) * p)
    odds = p / (1.0 - p)
    while True:
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + (n * p + 0.5))
        if us >= 0.07 and v * b <= 0.92 * b - 4.2:
            return k
        if 0.0 <= k <= n and v > 0.0:
            v *= (2.83 * b + 5.1) * deviation * us * us / (b * (a + b * us * us))
            distance = abs(k - mode)
            if distance <= 20.0:
                if v <= _mass_ratio(k, mode, n, odds):
                    return k
            else:
                log_v = math.log(v)
                close, slack = 0.0, math.inf
                if distance < 0.5 * variance - 1.0:
                    close = -0.5 * distance * distance / variance
                    slack = distance / variance * ((distance * (distance / 3.0 + 0.625) + 1.0 / 6.0) / variance + 0.5)
                if log_v < close - slack:
                    return k
                if log_v <= close + slack and log_v <= _log_mass_ratio(k, mode, n, odds):
                    return k
        u = random(stream) - 0.5
        v = random(stream)


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def binomial(stream, n, p, log_q):
    """Binomial(n, p) for p <= 1/2, log_q = ln(1 - p)."""
    if n * p >= _LARGEST_INVERSION_MEAN:
        u = random(stream) - 0.5
        return np.int64(_binomial_rejection(stream, n, p, u, random(stream)))
    odds = p / (1.0 - p)
    at_zero = exp_nonpositive(n * log_q)
    while True:
        u = random(stream)
        mass = at_zero
        k = 0.0
        while u >= mass and k <= n:
            u -= mass
            k += 1.0
            mass *= odds * (n + 1.0) / k - odds
        if k <= n:  # else the last bits of the masses' sum were missed: draw again
            return np.int64(k)


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def multinomial(stream, n, conditional, log_q, counts):
    """Write Multinomial(n, p) to counts, (m,), as binomials of what is left; cost independent of n.

    conditional[i] = p_i / (p_i + ... + p_{m-1}), log_q[i] = ln(1 - min(conditional[i], 1 - conditional[i])).
    """
    left = np.int64(n)
    last = counts.size - 1
    for i in range(last):
        if left == 0:
            counts[i] = 0
            continue
        p = conditional[i]
        drawn = binomial(stream, left, p, log_q[i]) if p <= 0.5 else left - binomial(stream, left, 1.0 - p, log_q[i])
        counts[i] = drawn
        left -= drawn
    counts[last] = left


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _inversion_4(stream, n, p, log_q, k):
    """Write Binomial(n[a], p), p <= 1/2, to k[a] for four sequences, in one loop over the masses.

    A single inversion waits for its own last sum in every round; four interleaved hide that from each other.
    """
    odds = p / (1.0 - p)
    n0, n1, n2, n3 = n[0], n[1], n[2], n[3]
    a0, a1, a2, a3 = odds * (n0 + 1.0), odds * (n1 + 1.0), odds * (n2 + 1.0), odds * (n3 + 1.0)
    mass0, mass1 = exp_nonpositive(n0 * log_q), exp_nonpositive(n1 * log_q)
    mass2, mass3 = exp_nonpositive(n2 * log_q), exp_nonpositive(n3 * log_q)
    below0, below1, below2, below3 = mass0, mass1, mass2, mass3
    u0, u1, u2, u3 = random(stream), random(stream), random(stream), random(stream)
    k0 = k1 = k2 = k3 = 0
    longest = max(max(n0, n1), max(n2, n3))
    i = 0
    while True:
        above0, above1, above2, above3 = u0 >= below0, u1 >= below1, u2 >= below2, u3 >= below3
        if i == longest or not (above0 | above1 | above2 | above3):
            break
        k0 += above0
        k1 += above1
        k2 += above2
        k3 += above3
        i += 1
        share = 1.0 / i
        mass0 *= a0 * share - odds
        mass1 *= a1 * share - odds
        mass2 *= a2 * share - odds
        mass3 *= a3 * share - odds
        below0 += mass0
        below1 += mass1
        below2 += mass2
        below3 += mass3
    k[0], k[1], k[2], k[3] = min(k0, n0), min(k1, n1), min(k2, n2), min(k3, n3)


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _rejection_4(stream, n, p, k):
    """Write Binomial(n[a], p), n[a] p >= 10, p <= 1/2, to k[a] for four sequences; most need one trial."""
    n0, n1, n2, n3 = n[0], n[1], n[2], n[3]
    k0, u0, v0 = _first_trial(stream, n0, p)
    k1, u1, v1 = _first_trial(stream, n1, p)
    k2, u2, v2 = _first_trial(stream, n2, p)
    k3, u3, v3 = _first_trial(stream, n3, p)
    k[0] = k0 if k0 >= 0.0 else _binomial_rejection(stream, n0, p, u0, v0)
    k[1] = k1 if k1 >= 0.0 else _binomial_rejection(stream, n1, p, u1, v1)
    k[2] = k2 if k2 >= 0.0 else _binomial_rejection(stream, n2, p, u2, v2)
    k[3] = k3 if k3 >= 0.0 else _binomial_rejection(stream, n3, p, u3, v3)


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def multinomial_4(stream, n, lanes, conditional, log_q, counts):
    """Write Multinomial(n, p) to each of the first `lanes` rows of counts (4, m), zeros to the others.

    Tables as in `multinomial`; token by token, four sequences at once (the unused ones are thrown away).
    """
    last = counts.shape[1] - 1
    left = counts[:, last]  # what is left is the last token's count in the end
    left[:] = n
    for i in range(last):
        p = conditional[i]
        small = p if p <= 0.5 else 1.0 - p
        drawn = counts[:, i]
        if small * max(max(left[0], left[1]), max(left[2], left[3])) < _LARGEST_INVERSION_MEAN_4:
            _inversion_4(stream, left, small, log_q[i], drawn)
        elif small * min(min(left[0], left[1]), min(left[2], left[3])) >= _SMALLEST_REJECTION_MEAN:
            _rejection_4(stream, left, small, drawn)
        else:
            for a in range(4):
                drawn[a] = binomial(stream, left[a], small, log_q[i])
        for a in range(4):
            if p > 0.5:
                drawn[a] = left[a] - drawn[a]
            left[a] -= drawn[a]
    counts[lanes:] = 0


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def draw_classes(stream, cumulative, drawn):
    """Write independent classes with the prior whose cumulative sums are given to `drawn`, in increasing order."""
    last = cumulative.size - 1
    for i in range(drawn.size):
        u = random(stream)
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            if u < cumulative[middle]:
                high = middle
            else:
                low = middle + 1
        drawn[i] = low
    drawn.sort()
