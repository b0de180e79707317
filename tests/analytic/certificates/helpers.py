"""Random points of a statement's box in its own quantities, and where the prover says that a wrong theory fails."""

from collections.abc import Iterator

import mpmath as mp
import numpy as np

from snapdyn.analytic.certificates import CERTIFICATES, prove
from tests.analytic.mpmath_reference import root


def points(count: int, seed: int, *ranges: tuple[float, float]) -> Iterator[tuple[mp.mpf, ...]]:
    """Log-uniform points of a product of positive ranges, its corners first."""
    rng = np.random.default_rng(seed)
    for corner in np.ndindex(*(2,) * len(ranges)):
        yield tuple(mp.mpf(ends[side]) for ends, side in zip(ranges, corner, strict=True))
    for _ in range(count):
        yield tuple(mp.mpf(float(10 ** rng.uniform(*np.log10(ends)))) for ends in ranges)


def failure(id_: str, text: str) -> dict[str, mp.mpf]:
    """Midpoint of the sub-box on which the wrong theory that `text` begins is refuted."""
    (wrong,) = (each for each in CERTIFICATES[id_].wrong if each.text.startswith(text))
    found = prove(wrong, max_boxes=50_000)
    assert found.false_there
    return {name: (mp.mpf(low) + mp.mpf(high)) / 2 for name, (low, high) in found.failing.items()}


def u_plus(V: mp.mpf) -> mp.mpf:
    """Larger root of exp(u) = (V-1) u."""
    return -mp.re(mp.lambertw(-1 / (V - 1), -1))


def u_minus(V: mp.mpf) -> mp.mpf:
    """Smaller root of exp(u) = (V-1) u."""
    return -mp.re(mp.lambertw(-1 / (V - 1), 0))


def u_peak(V: mp.mpf) -> mp.mpf:
    """u = V h at which gamma is largest, by bisection of its derivative."""
    return root(lambda u: (u - 1) * mp.exp(u) - (V - 1), mp.mpf(1), 1 + mp.log(V))


def scaled_visits(u: mp.mpf, V: mp.mpf) -> mp.mpf:
    """eta_Y s at V h = u, Eq. (45)."""
    return (mp.expm1(u) + (V - 1) * u) / V
