"""Lemma 8: the two roots of exp(u) = (V-1) u."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.decoder._shared import closed_form
from snapdyn.validation.claims.language import Claim, Instance, Measured, Requirement

# Places between and beyond the roots where the sign is tested, as shares of the way.
SHARES = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6])
FAR = 700.0  # exp of it is still a float

# A number of V.
OfV = Callable[..., Any]


def side_of_roots(instance: Instance, smaller: OfV = analytic.u_minus, larger: OfV = analytic.u_plus) -> Measured:
    """Smallest value of q(u) over the distance to the nearer root; the claim says that q is nowhere negative.

    q = ln((V-1) u) - u between the roots, and q = u - ln((V-1) u) outside them. The distance to the smaller root u_- is
    |ln(u/u_-)|. ln((V-1) u) - u is concave with its maximum at u = 1, so between the roots it is at least a positive
    slope times the distance to the nearer root: the quotient stays away from 0.
    """

    V = float(instance.vocab_size)
    lower, upper = smaller(V), larger(V)
    u = np.concatenate([lower * (upper / lower) ** SHARES, lower * SHARES, upper + (FAR - upper) * SHARES])
    distance = np.minimum(np.abs(np.log(u / lower)), np.abs(u - upper))
    # 1 where exp(u) <= (V-1) u is claimed, -1 where exp(u) >= (V-1) u is.
    claimed = np.repeat([1.0, -1.0, -1.0], SHARES.size)
    sign = claimed * (np.log((V - 1) * u) - u) / distance
    i = sign.argmin()
    return Measured(sign[i], at_least=0.0, where=f"u = {u[i]:.3g}")


def order(instance: Instance, omega_1: OfV = analytic.omega_1, **bound: Any) -> Measured:
    """omega_1 ln V/ln(2 ln V): 0.123 at V = 4, 0.706 at V = 10; it tends to 1 from below."""
    log = math.log(instance.vocab_size)
    return Measured(omega_1(instance.vocab_size) * log / math.log(2 * log), **bound)


def size_of_omega_0(instance: Instance, exponent: float = 0.99) -> Measured:
    """omega_0 V^`exponent` ln V, where V^omega_0 = V u_- and u_- = exp(u_-)/(V-1)."""
    V = float(instance.vocab_size)
    # omega_0 ln V = ln(V u_-) = u_- - ln(1 - 1/V): 2.04/V at V = 100 and less.
    return Measured((analytic.u_minus(V) - np.log1p(-1 / V)) * V**exponent, at_most=2.0)


CLAIM = Claim(
    "lemma8",
    of_rule="any",
    source="Lemma 8, Eqs. (50)-(51)",
    title="The equation exp(u) = (V-1) u of the transition has one root near 0 and one near ln V",
    statement=(
        "exp(V h) <= (V-1) V h exactly for V h between V^(omega_0-1) and (1+omega_1) ln V, omega_1 of the order of "
        "ln ln V/ln V: 0.12 ln(2 ln V) < omega_1 ln V < ln(2 ln V); for V >= 100 omega_0 is at most 2/(V^0.99 ln V). "
        "(The constants hold for V up to 1e300, near the largest float; the two roots exist for every V >= 4.)"
    ),
    latex=r"e^{u}=(V-1)u:\quad u_-=V^{\omega_0-1},\ \omega_0=O\!\left(\frac{1}{V^{0.99}\ln V}\right);\quad "
    r"u_+=(1+\omega_1)\ln V,\ \omega_1=\Theta\!\left(\frac{\ln\ln V}{\ln V}\right)",
    conditions=("V >= 4: for smaller V, exp(u) exceeds (V-1) u everywhere",),
    conclusion=(
        "Holds; the larger root is (1+omega_1) ln V, and omega_1 falls slowly for large V, like ln ln V/ln V. The "
        "interval proof covers the constants of the statement for V from 4 to 1e300; searches cover V up to 1e12."
    ),
    grade="certified",
    properties=(
        closed_form(
            "ln((V-1) u) - u between u_- and u_+, and its negative beyond, per distance to the next root: smallest",
            side_of_roots,
            controls={
                "wrong theory: the roots are 1/V and ln V": partial(
                    side_of_roots, smaller=lambda V: 1 / V, larger=math.log
                )
            },
            evaluations=(300, 10_000),
        ),
        closed_form(
            "omega_1 ln V/ln(2 ln V), largest",
            partial(order, at_most=1.0),
            controls={
                "wrong theory: omega_1 is a constant, that of V = 1000": partial(
                    order, omega_1=lambda V: analytic.omega_1(1000), at_most=1.0
                )
            },
        ),
        closed_form(
            "omega_1 ln V/ln(2 ln V), smallest (the order is attained)",
            partial(order, at_least=0.12),
            controls={
                "wrong theory: omega_1 ln V stays as at V = 4": partial(
                    order, omega_1=lambda V: analytic.omega_1(4) * math.log(4) / math.log(V), at_least=0.12
                )
            },
        ),
        closed_form(
            "omega_0 V^0.99 ln V, V >= 100",
            size_of_omega_0,
            Requirement("V >> 100", "V >= 100", lambda instance: instance.vocab_size, at_least=100, defining=True),
            controls={"wrong theory: omega_0 = O(1/(V^1.1 ln V))": partial(size_of_omega_0, exponent=1.1)},
        ),
    ),
    proved=("u-minus", "u-plus", "omega-0", "omega-1"),
    certified=("lemma8",),
)
