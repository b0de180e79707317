"""References at 50 digits from the defining equations themselves, and the points they are taken at."""

from collections.abc import Callable
from functools import cache
from itertools import product

import mpmath as mp
import numpy as np

DIGITS = 50


def root(function: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf) -> mp.mpf:
    """Return the root of an increasing function in [low, high] by bisection to (high - low)/2^150."""
    assert function(low) <= 0 <= function(high), "the bracket holds no root"
    for _ in range(150):
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@cache
def scaled_h(s: float, eta_Y: float, vocab_size: float, num_classes: float = 1) -> mp.mpf:
    """Return u = V h(s/K) with exp(u) + (V-1) u = V eta_Y s/K + 1, Eq. (45)."""
    with mp.workdps(DIGITS):
        V = mp.mpf(vocab_size)
        y = V * mp.mpf(eta_Y) * mp.mpf(s) / mp.mpf(num_classes)
        return root(lambda u: mp.expm1(u) + (V - 1) * u - y, mp.mpf(0), min(y / V, mp.log1p(y)))


def gamma_integral(t: float, eta_Y: float, vocab_size: float, num_classes: float) -> mp.mpf:
    """Return K (V-1)^2 h^2/(2 eta_Y) at h(t/K), Eq. (128)."""
    V = mp.mpf(vocab_size)
    return num_classes * ((V - 1) / V * scaled_h(t, eta_Y, vocab_size, num_classes)) ** 2 / (2 * mp.mpf(eta_Y))


def gamma(t: float, eta_Y: float, vocab_size: float, num_classes: float) -> mp.mpf:
    """Return (V-1)^2 h/(V-1+exp(V h)) at h(t/K), Eq. (85)."""
    V, u = mp.mpf(vocab_size), scaled_h(t, eta_Y, vocab_size, num_classes)
    return (V - 1) ** 2 / V * u / (V - 1 + mp.exp(u))


def sample_points(count: int, seed: int) -> list[tuple[float, float, float]]:
    """Return (s, eta_Y, V): the corners of the supported ranges, and seeded log-uniform points inside."""
    corners = list(product([1e-9, 1.0, 1e15], [1e-6, 1.0, 1e3], [2.0, 3.0, 4.0, 1e9]))
    rng = np.random.default_rng(seed)
    s, eta_Y = 10 ** rng.uniform(-9, 15, count), 10 ** rng.uniform(-6, 3, count)
    vocab_size = np.round(2 * 10 ** rng.uniform(0, np.log10(5e8), count))
    return corners + list(zip(s.tolist(), eta_Y.tolist(), vocab_size.tolist(), strict=True))
