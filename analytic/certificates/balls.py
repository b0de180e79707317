"""Functions of balls that ordinary interval arithmetic would enclose too widely.

Each is an integral of exp(u t) over t in [0, 1] with a positive weight, hence increasing in u: its range over a ball is
spanned by its values at the two ends.
"""

from __future__ import annotations

from collections.abc import Callable

from snapdyn.analytic.certificates.prover import Ball


def expm1_ratio(u: Ball) -> Ball:
    """Return (exp(u) - 1)/u, the integral of exp(u t)."""
    return _increasing(lambda end: end.expm1() / end, u, 1)


def expm1_excess(u: Ball) -> Ball:
    """Return (exp(u) - 1 - u)/u^2, the integral of (1 - t) exp(u t)."""
    return _increasing(lambda end: (end.expm1() - end) / end**2, u, 2)


def exp_moment(u: Ball) -> Ball:
    """Return (u exp(u) - exp(u) + 1)/u^2, the integral of t exp(u t)."""
    return _increasing(lambda end: (end * end.exp() - end.expm1()) / end**2, u, 2)


def _increasing(function: Callable[[Ball], Ball], u: Ball, inverse_at_0: int) -> Ball:
    def value(end: Ball) -> Ball:
        # At 0 itself the quotient is 0/0, and its value 1 or 1/2.
        return function(end) if end != 0 else 1 / (0 * end + inverse_at_0)

    return value(u.lower()).union(value(u.upper()))
