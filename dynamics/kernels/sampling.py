"""Random draws: numpy's SFC64 stream, binomial by inversion or rejection, multinomial, class by inversion.

For each way to draw a binomial there is a case in which whole runs of SGD are faster with it than with the other ways:
inversion of several sequences in one loop 3.3 times (Syn-Small, batches of 128), inversion one by one 1.9 times
(classes with hundreds of tokens, of which a batch has few sequences), rejection 2.0 times (Syn-Medium, T-1 = 1000; 3.5
at 1e5), the quick acceptance in rejection 3.3 times.
"""

from __future__ import annotations

import math

import numpy as np

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive, maximum

# Below this variance inversion, whose loop grows with the mean, is faster than rejection, which is valid from 9 on.
_LEAST_VARIANCE = 12.0
# Bounds on ln(binomial mass/mass of the proposals) of `_rejections`, times the variance: above, and below at normal g.
_EXCESS, _SHORT, _SHORT_4 = 0.13, 0.3, 0.03
_12TH = 1.0 / 12.0  # variance that rounding to integers adds
# Fewer sequences than this are drawn one by one, because calls for arrays then cost more than they save.
_FEWEST_TOGETHER = 4

_11 = np.uint64(11)
_3 = np.uint64(3)
_24 = np.uint64(24)
_40 = np.uint64(40)
_1 = np.uint64(1)
_8 = np.uint64(8)
_255 = np.uint64(255)
_DOUBLE = 2.0**-53
# The ziggurat of 256 layers of one area under exp(-x^2/2) begins its tail here, so that the last layer ends at 0.
_TAIL = 3.6541528853610088


def _ziggurat():
    """(width of each layer/2^53, 2^53 times the width of the layer above over this width, heights (257,))."""
    area = _TAIL * math.exp(-0.5 * _TAIL**2) + math.sqrt(math.pi / 2.0) * math.erfc(_TAIL * math.sqrt(0.5))
    edge = np.zeros(257)
    edge[0], edge[1] = area * math.exp(0.5 * _TAIL**2), _TAIL
    for i in range(2, 256):
        edge[i] = math.sqrt(-2.0 * math.log(area / edge[i - 1] + math.exp(-0.5 * edge[i - 1] ** 2)))
    return edge[:256] * _DOUBLE, edge[1:] / edge[:256] / _DOUBLE, np.exp(-0.5 * edge**2)


_WIDTH, _INNER, _HEIGHT = _ziggurat()


@kernel(forceinline=True)
def _advance(a, b, c, d):
    """The next 64 bits of SFC64, and its state after them."""
    result = a + b + d
    return result, b ^ (b >> _11), c + (c << _3), ((c << _24) | (c >> _40)) + result, d + _1


@kernel()
def random(stream):
    """Uniform double in [0, 1): the same numbers as numpy's Generator(SFC64).random().

    `stream` (4,) uint64 is the state of numpy.random.SFC64; the draw advances it. The generator is written out here,
    because calling numpy's from compiled code takes four times as long, and drawing binomials takes little other time.
    """
    result, stream[0], stream[1], stream[2], stream[3] = _advance(stream[0], stream[1], stream[2], stream[3])
    return np.float64(result >> _11) * _DOUBLE


@kernel(fastmath=EXACT)
def _uniforms(stream, out):
    """Fill `out` with the next numbers of `random`."""
    a, b, c, d = stream[0], stream[1], stream[2], stream[3]
    for i in range(out.size):
        result, a, b, c, d = _advance(a, b, c, d)
        out[i] = np.float64(result >> _11) * _DOUBLE
    stream[0], stream[1], stream[2], stream[3] = a, b, c, d


@kernel(fastmath=EXACT)
def _inversion(stream, n, p, log_q):
    """Binomial(n, p) for p <= 1/2, log_q = ln(1 - p), by summing masses from 0 on."""
    odds = p / (1.0 - p)
    u = random(stream)
    mass = exp_nonpositive(n * log_q)
    k = 0.0
    while u >= mass and k < n:
        u -= mass
        k += 1.0
        mass *= odds * (n + 1.0) / k - odds
    return k


@kernel(fastmath=REASSOCIATE)
def _inversions(u, n, p, log_q, mass, k):
    """Write Binomial(n[a], p), p <= 1/2, to k[a] for uniform u[a], all in one loop over the masses."""
    odds = p / (1.0 - p)
    longest = maximum(n)
    for a in range(k.size):
        mass[a] = exp_nonpositive(n[a] * log_q)
        u[a] -= mass[a]
        k[a] = 0.0
    i = 0.0
    above = 1.0
    while above > 0.0 and i < longest:
        i += 1.0
        share = odds / i
        above = 0.0
        for a in range(k.size):
            step = 1.0 if u[a] >= 0.0 else 0.0
            above += step
            k[a] += step
            mass[a] *= (n[a] + 1.0) * share - odds
            u[a] -= mass[a]
    for a in range(k.size):
        k[a] = min(k[a], n[a])


@kernel(fastmath=EXACT)
def _outside_inner_box(stream, layer, x):
    """Return the proposal x, which is outside the inner box of its layer, and whether it is accepted; in the lowest
    layer a proposal from the tail replaces x (Marsaglia 1964)."""
    if layer == 0:
        while True:
            beyond = -math.log(1.0 - random(stream)) / _TAIL
            if -2.0 * math.log(1.0 - random(stream)) > beyond * beyond:
                return _TAIL + beyond, True
    height = _HEIGHT[layer] + (_HEIGHT[layer + 1] - _HEIGHT[layer]) * random(stream)
    return x, height < math.exp(-0.5 * x * x)


@kernel(fastmath=EXACT)
def normals(stream, out):
    """Fill `out` with standard normals: the ziggurat (G. Marsaglia, W. W. Tsang, J. Stat. Softw. 5(8), 2000)."""
    a, b, c, d = stream[0], stream[1], stream[2], stream[3]
    i = 0
    while i < out.size:
        result, a, b, c, d = _advance(a, b, c, d)
        # 53 bits for the place, 8 of the others for the layer, one for the sign.
        layer = np.int64(result & _255)
        place = np.float64(result >> _11)
        x = place * _WIDTH[layer]
        accepted = place < _INNER[layer]
        if not accepted:
            stream[0], stream[1], stream[2], stream[3] = a, b, c, d
            x, accepted = _outside_inner_box(stream, layer, x)
            a, b, c, d = stream[0], stream[1], stream[2], stream[3]
        out[i] = x * (1.0 - 2.0 * np.float64((result >> _8) & _1))
        i += accepted
    stream[0], stream[1], stream[2], stream[3] = a, b, c, d


@kernel(fastmath=EXACT)
def _proposal(g, n, p):
    """Normal number g, transformed to the mean, variance and skewness of Binomial(n, p), and rounded."""
    mean = n * p
    return np.floor(mean + math.sqrt(mean * (1.0 - p) - _12TH) * g + (1.0 - 2.0 * p) / 6.0 * (g * g - 1.0) + 0.5)


@kernel(fastmath=EXACT)
def _propose(g, v, n, p, k, surplus):
    """Write the proposal from each normal g[a] to k[a]; surplus[a] is >= 0 where uniform v[a] surely accepts it."""
    for a in range(k.size):
        k[a] = _proposal(g[a], n[a], p)
        square = g[a] * g[a]
        surplus[a] = (1.0 - v[a]) * (n[a] * p * (1.0 - p)) - (_SHORT + _SHORT_4 * square * square)


@kernel(fastmath=EXACT)
def _stirling_error(k):
    """ln k! - ln(sqrt(2 pi k) (k/e)^k) for k >= 1."""
    if k < 16.0:
        return math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2.0 * math.pi)
    square = 1.0 / (k * k)
    return (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0))) / k


@kernel(fastmath=EXACT)
def log_mass(k, n, p):
    """ln of Binomial(n, p)'s mass at k in 0..n, without cancellation (C. Loader, 2000)."""
    other = n - k
    if k == 0.0:
        return n * math.log1p(-p)
    if other == 0.0:
        return n * math.log(p)
    far = n * p - k  # n (1 - p) - other = -far
    deviance = (far - k * math.log1p(far / k)) + (-far - other * math.log1p(-far / other))
    errors = _stirling_error(n) - _stirling_error(k) - _stirling_error(other)
    return errors - deviance - 0.5 * math.log(2.0 * math.pi * k * (other / n))


@kernel(fastmath=EXACT)
def acceptance(k, n, p):
    """Probability to accept proposal k: (binomial mass of k)/(mass of the proposals at k)/exp(_EXCESS/variance)."""
    if not 0.0 <= k <= n:
        return 0.0
    mean = n * p
    deviation = math.sqrt(mean * (1.0 - p) - _12TH)
    skew = (1.0 - 2.0 * p) / (6.0 * deviation)
    # The normals between which k is proposed solve skew (g^2 - 1) + g = x at x = k - 1/2 and k + 1/2, standardised.
    low, high = (k - 0.5 - mean) / deviation + skew, (k + 0.5 - mean) / deviation + skew
    low = 2.0 * low / (1.0 + math.sqrt(max(1.0 + 4.0 * skew * low, 0.0)))
    high = 2.0 * high / (1.0 + math.sqrt(max(1.0 + 4.0 * skew * high, 0.0)))
    if low > 0.0:
        low, high = -high, -low
    proposed = 0.5 * (math.erfc(-high * math.sqrt(0.5)) - math.erfc(-low * math.sqrt(0.5)))
    return math.exp(log_mass(k, n, p) - _EXCESS / (mean * (1.0 - p))) / proposed


@kernel(fastmath=EXACT)
def _rejections(stream, n, p, k, values):
    """Write Binomial(n[a], p), n p (1 - p) >= _LEAST_VARIANCE, p <= 1/2, to k[a].

    `values` (3 sequences,) is scratch.

    Rejection: the proposals are normals, transformed to the binomial's mean, variance and skewness, and rounded. On the
    integers the binomial's mass differs from the proposals' by a relative O(1/variance): at large variance the
    logarithm of the ratio, times the variance, tends to a polynomial in the normal g, which is -(g^4 - 6 g^2 + 3)/48 at
    p = 1/2. The bounds _EXCESS (above) and _SHORT + _SHORT_4 g^4 (below) hold from _LEAST_VARIANCE on, so that 97 to
    100 % of the proposals are accepted without computing the mass.
    """
    g, v, surplus = values[: k.size], values[k.size : 2 * k.size], values[2 * k.size : 3 * k.size]
    normals(stream, g)
    _uniforms(stream, v)
    _propose(g, v, n, p, k, surplus)
    for a in range(k.size):
        if surplus[a] < 0.0:
            while v[a] >= acceptance(k[a], n[a], p):
                normals(stream, g[a : a + 1])
                k[a] = _proposal(g[a], n[a], p)
                v[a] = random(stream)


@kernel(fastmath=EXACT)
def multinomial(stream, n, conditional, log_q, counts, values):
    """Write Multinomial(n, p) to each column of counts (m, sequences), floats; the cost does not depend on n.

    Token by token, for all sequences at once, the count of token i is drawn from Binomial(number of draws left,
    conditional[i]), conditional[i] = p_i/(p_i + ... + p_{m-1}). log_q[i] is
    ln(1 - min(conditional[i], 1 - conditional[i])); values (>= 3 sequences,) is scratch.
    """
    last = counts.shape[0] - 1
    left = counts[last]  # what is left is the last token's count in the end
    left[:] = n
    u, mass = values[: left.size], values[left.size : 2 * left.size]
    for i in range(last):
        p = conditional[i]
        small = p if p <= 0.5 else 1.0 - p
        drawn = counts[i]
        smallest = left[0]
        for a in range(1, left.size):
            smallest = min(smallest, left[a])
        if smallest * small * (1.0 - small) >= _LEAST_VARIANCE:
            _rejections(stream, left, small, drawn, values)
        elif left.size < _FEWEST_TOGETHER:
            for a in range(left.size):
                drawn[a] = _inversion(stream, left[a], small, log_q[i]) if left[a] > 0.0 else 0.0
        else:
            _uniforms(stream, u)
            _inversions(u, left, small, log_q[i], mass, drawn)
        for a in range(left.size):
            drawn[a] = drawn[a] if p <= 0.5 else left[a] - drawn[a]
            left[a] -= drawn[a]


@kernel(fastmath=EXACT, allocates=True)  # the sort does
def draw_classes(stream, cumulative, drawn):
    """Draw independent classes from the prior with the sums `cumulative`; write them to `drawn` in increasing order.

    If there are more draws than classes, the function draws how often each class occurs: SGD on two classes of
    infinitely long sequences is then 13 times faster with batches of 5000, 6 times with 500.
    """
    S = cumulative.size
    if drawn.size <= S:
        for i in range(drawn.size):
            drawn[i] = np.searchsorted(cumulative, random(stream), side="right")
        drawn.sort()
        return
    conditional, log_q, counts, values = np.empty(S), np.empty(S), np.empty((S, 1)), np.empty(3)
    before = 0.0
    for n in range(S):
        left = 1.0 - before
        conditional[n] = min((cumulative[n] - before) / left, 1.0) if left > 0.0 else 1.0
        log_q[n] = math.log1p(-min(conditional[n], 1.0 - conditional[n]))
        before = cumulative[n]
    multinomial(stream, float(drawn.size), conditional, log_q, counts, values)
    i = 0
    for n in range(S):
        for _ in range(int(counts[n, 0])):
            drawn[i] = n
            i += 1
