"""Building blocks of the kernels: vectorisable exp, maximum, softmax."""

from __future__ import annotations

import math

import numpy as np

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer held in the low bits
_SMALLEST = -708.0


@kernel(fastmath=EXACT)
def exp_any(x):
    """exp(x) for |x| <= 708, to 1 ulp, in a form that the compiler vectorises (it does not vectorise libm's exp).

    Cody-Waite reduction x = k ln 2 + r, Taylor polynomial of degree 13 in |r| <= ln(2)/2 (remainder below
    2e-17) by Estrin's scheme (its partial sums are independent), 2**k set in the exponent bits. NaN gives NaN.
    """
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (0.008333333333333333 * r + 0.041666666666666664) * r2 + (0.16666666666666666 * r + 0.5)
    middle = (2.7557319223985893e-06 * r + 2.48015873015873e-05) * r2 + (
        0.0001984126984126984 * r + 0.001388888888888889
    )
    high = (1.6059043836821613e-10 * r + 2.08767569878681e-09) * r2 + (
        2.505210838544172e-08 * r + 2.755731922398589e-07
    )
    p = ((high * r4 + middle) * r4 + low) * r2 + r + 1.0
    power = (np.float64(shifted).view(np.int64) + 1023) << 52
    return p * np.int64(power).view(np.float64)


@kernel(fastmath=EXACT)
def exp_nonpositive(x):
    """exp(x) for x <= 0, to 1 ulp; exp(-708), about 3e-308, for x below -708; NaN gives NaN."""
    return exp_any(_SMALLEST if x < _SMALLEST else x)


@kernel(fastmath={"reassoc", "nsz"})
def maximum(x):
    """Largest value of x, (n,)."""
    largest = x[0]
    for i in range(1, x.size):
        largest = x[i] if x[i] > largest else largest
    return largest


@kernel(fastmath=EXACT)
def exp_shifted(x):
    """Replace x by exp(x - max x), in place."""
    largest = maximum(x)
    for i in range(x.size):
        x[i] = exp_nonpositive(x[i] - largest)


@kernel(fastmath=REASSOCIATE, forceinline=True)
def softmax_error(r, own, number):
    """Turn logits r (C,) into e_n - alpha_n in place; return the loss -ln alpha_n[own], nats.

    Each output stands for as many as `number` (C,) says; e_n is 1 at `own`. The entry there is computed as the sum of
    the other probabilities and not as 1 - alpha, so it keeps its relative accuracy at late times.
    """
    largest = maximum(r)
    for j in range(r.size):
        r[j] = exp_nonpositive(r[j] - largest)
    alone = r[own]
    r[own] = 0.0
    others = 0.0
    for j in range(r.size):
        others += number[j] * r[j]
    scale = 1.0 / (others + alone)
    for j in range(r.size):
        r[j] *= -scale
    r[own] = others * scale
    return math.log1p(others / alone)
