"""Building blocks of the kernels: vectorisable exp, maximum, sums and row operations."""

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


@kernel(fastmath=REASSOCIATE)
def weighted_square_sum(x, weight):
    """Sum of weight x**2."""
    total = 0.0
    for i in range(x.size):
        total += weight[i] * x[i] * x[i]
    return total


@kernel(fastmath=REASSOCIATE)
def combine_rows(Y, rows, coefficients, out):
    """out = sum_i coefficients[i] Y[rows[i], :]; four rows at a time save three passes over `out`."""
    C = out.size
    for j in range(C):
        out[j] = 0.0
    m = rows.size
    i = 0
    while i + 3 < m:
        c0 = coefficients[i]
        c1 = coefficients[i + 1]
        c2 = coefficients[i + 2]
        c3 = coefficients[i + 3]
        y0 = Y[rows[i]]
        y1 = Y[rows[i + 1]]
        y2 = Y[rows[i + 2]]
        y3 = Y[rows[i + 3]]
        for j in range(C):
            out[j] += c0 * y0[j] + c1 * y1[j] + c2 * y2[j] + c3 * y3[j]
        i += 4
    while i < m:
        c0 = coefficients[i]
        y0 = Y[rows[i]]
        for j in range(C):
            out[j] += c0 * y0[j]
        i += 1


@kernel(fastmath=REASSOCIATE)
def row_dots(Y, rows, r, last_multiplicity, out):
    """out[i] = Y[rows[i], :] . r, in which the last column counts `last_multiplicity` times."""
    C = r.size
    extra = (last_multiplicity - 1.0) * r[C - 1]
    m = rows.size
    i = 0
    while i + 1 < m:
        y0 = Y[rows[i]]
        y1 = Y[rows[i + 1]]
        s0 = 0.0
        s1 = 0.0
        for j in range(C):
            s0 += y0[j] * r[j]
            s1 += y1[j] * r[j]
        out[i] = s0 + extra * y0[C - 1]
        out[i + 1] = s1 + extra * y1[C - 1]
        i += 2
    if i < m:
        y0 = Y[rows[i]]
        s0 = 0.0
        for j in range(C):
            s0 += y0[j] * r[j]
        out[i] = s0 + extra * y0[C - 1]


@kernel(fastmath=REASSOCIATE)
def add_scaled(target, scale, r, overwrite):
    """target += scale r, or target = scale r if `overwrite`."""
    if overwrite:
        for j in range(r.size):
            target[j] = scale * r[j]
    else:
        for j in range(r.size):
            target[j] += scale * r[j]


@kernel(fastmath=REASSOCIATE)
def prediction_error(r, column, last_multiplicity):
    """Turn exp-shifted logits r into e_n - alpha_n in place and return -ln alpha_n[column].

    The entry at `column` is computed as the sum of the other probabilities and not as 1 - alpha, so it keeps
    its relative accuracy at late times.
    """
    C = r.size
    own = r[column]
    r[column] = 0.0
    others = 0.0
    for j in range(C):
        others += r[j]
    others += (last_multiplicity - 1.0) * r[C - 1]
    scale = 1.0 / (others + own)
    for j in range(C):
        r[j] *= -scale
    r[column] = others * scale
    return math.log1p(others / own)


@kernel(fastmath=EXACT)
def softmax_error(r, column, last_multiplicity):
    """Turn logits r into e_n - alpha_n in place; return the loss -ln alpha_n[column]."""
    exp_shifted(r)
    return prediction_error(r, column, last_multiplicity)


@kernel(fastmath=EXACT)
def normalized_attention(z, slots, log_p, multiplicity, f):
    """f = c_n / |c_n| on the entries of one class: exp(ln P + z) over its 2-norm."""
    for i in range(f.size):
        f[i] = log_p[i] + z[slots[i]]
    exp_shifted(f)
    scale = 1.0 / math.sqrt(weighted_square_sum(f, multiplicity))
    for i in range(f.size):
        f[i] *= scale
