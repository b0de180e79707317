"""Lemma 8: the two roots of exp(u) = (V-1) u."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.decoder._shared import TWO_ROOTS
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import LARGE_VOCABULARY
from snapdyn.validation.rungs.run import ORIGINAL, run_on_rung
from snapdyn.validation.search import Instance
from snapdyn.validation.visits import single_token_classes

# Places between and beyond the roots where the sign is tested, as shares of the way.
SHARES = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6])
FAR = 700.0  # exp of it is still a float
# omega_1 ln V/ln(2 ln V) is 0.123 at V = 4, 0.706 at V = 10, and tends to 1 from below.
ORDER = 0.12

MANY_OUTPUTS = Requirement(
    "V >> 100", "V >= 100", lambda instance: float(instance.vocab_size), at_least=100, defining=True
)

Roots = Callable[[float], tuple[float, float]]


def lambert_roots(vocab_size: float) -> tuple[float, float]:
    """u_- and u_+ by Lambert's function."""
    return float(analytic.u_minus(vocab_size)), float(analytic.u_plus(vocab_size))


def leading_roots(vocab_size: float) -> tuple[float, float]:
    """Wrong theory: omega_0 = omega_1 = 0, roots 1/V and ln V."""
    return 1 / vocab_size, float(np.log(vocab_size))


def side_of_roots(roots: Roots) -> Callable[[Instance], Measured]:
    """Smallest of ln((V-1) u) - u between the roots and u - ln((V-1) u) beyond them, per unit of distance.

    ln((V-1) u) - u is concave with its maximum at u = 1: between the roots it is above the smaller of the distances to
    them times the slope there. Divided by the distance to the next root it stays away from 0.
    """

    def measure(instance: Instance) -> Measured:
        V = float(instance.vocab_size)
        lower, upper = roots(V)
        between = lower * (upper / lower) ** SHARES
        below, above = lower * SHARES, upper + (FAR - upper) * SHARES
        u = np.concatenate([between, below, above])
        # -1 where exp(u) <= (V-1) u is claimed.
        claimed = np.repeat([1.0, -1.0, -1.0], SHARES.size)
        distance = np.minimum(np.abs(np.log(u / lower)), np.abs(u - upper))
        sign = claimed * (np.log(V - 1) + np.log(u) - u) / distance
        i = int(sign.argmin())
        return Measured(float(sign[i]), at_least=0.0, where=f"u = {u[i]:.3g}")

    return measure


def order_of_omega_1(side: str) -> Callable[[Instance], Measured]:
    """omega_1 ln V/ln(2 ln V), which lies between ORDER and 1."""

    def measure(instance: Instance) -> Measured:
        log = np.log(float(instance.vocab_size))
        ratio = float(analytic.omega_1(instance.vocab_size) * log / np.log(2 * log))
        return Measured(ratio, at_most=1.0) if side == "largest" else Measured(ratio, at_least=ORDER)

    return measure


def wrong_order(at: int, exponent: float, side: str) -> Callable[[Instance], Measured]:
    """Wrong theory: omega_1 falls as a power of 1/ln V from its value at V = `at`; omega_1 ln V/ln(2 ln V)."""

    def measure(instance: Instance) -> Measured:
        log = np.log(float(instance.vocab_size))
        omega = float(analytic.omega_1(at)) * (np.log(at) / log) ** exponent
        ratio = float(omega * log / np.log(2 * log))
        return Measured(ratio, at_most=1.0) if side == "largest" else Measured(ratio, at_least=ORDER)

    return measure


def size_of_omega_0(exponent: float) -> Callable[[Instance], Measured]:
    """omega_0 V^exponent ln V; V^omega_0 = V u_-, u_- = exp(u_-)/(V-1)."""

    def measure(instance: Instance) -> Measured:
        V = float(instance.vocab_size)
        # omega_0 ln V = ln(V u_-) = u_- - ln(1 - 1/V): 2.04/V at V = 100 and less.
        size = float(analytic.u_minus(V) - np.log1p(-1 / V)) * V**exponent
        return Measured(size, at_most=2.0)

    return measure


@claim(
    "lemma8",
    source="Lemma 8, Eqs. (50)-(51)",
    title="exp(u) = (V-1) u has a root close to 0 and one close to ln V",
    answer="Holds; the larger root is (1+omega_1) ln V, and omega_1 falls slowly for large V, like ln ln V/ln V.",
    statement="exp(V h) <= (V-1) V h exactly for V h between V^(omega_0-1) and (1+omega_1) ln V, omega_1 of the order "
    "of ln ln V/ln V; for V >> 100 omega_0 is at most of the order of 1/(V^0.99 ln V).",
    latex=r"e^{u}=(V-1)u:\quad u_-=V^{\omega_0-1},\ \omega_0=O\!\left(\frac{1}{V^{0.99}\ln V}\right);\quad "
    r"u_+=(1+\omega_1)\ln V,\ \omega_1=\Theta\!\left(\frac{\ln\ln V}{\ln V}\right)",
    assumptions=("V >= 4: below, exp(u) exceeds (V-1) u everywhere",),
    grade="certified",
    properties=(
        Property(
            "ln((V-1) u) - u between u_- and u_+, and its negative beyond, per distance to the next root: smallest",
            "closed form",
            side_of_roots(lambert_roots),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY,),
            controls={"wrong theory: the roots are 1/V and ln V": side_of_roots(leading_roots)},
            evaluations=(300, 10_000),
        ),
        Property(
            "omega_1 ln V/ln(2 ln V), largest",
            "closed form",
            order_of_omega_1("largest"),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY,),
            controls={"wrong theory: omega_1 is a constant, that of V = 1000": wrong_order(1000, 0.0, "largest")},
            evaluations=(100, 5000),
        ),
        Property(
            "omega_1 ln V/ln(2 ln V), smallest (the order is attained)",
            "closed form",
            order_of_omega_1("smallest"),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY,),
            controls={"wrong theory: omega_1 ln V stays as at V = 4": wrong_order(4, 1.0, "smallest")},
            evaluations=(100, 5000),
        ),
        Property(
            "omega_0 V^0.99 ln V, V >= 100",
            "closed form",
            size_of_omega_0(0.99),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY, MANY_OUTPUTS),
            controls={"wrong theory: omega_0 = O(1/(V^1.1 ln V))": size_of_omega_0(1.1)},
            evaluations=(100, 5000),
        ),
    ),
)
def lemma8(evidence: Evidence) -> None:
    evidence.proved("u-minus", "u-plus", "omega-0", "omega-1")
    evidence.certified("lemma8")
    # u_+ = ln(V-1) + ln u_+ <= 2 ln V, so omega_1 <= ln(2 ln V)/ln V at any V.
    far = np.array([1e3, 1e5, 1e7, 1e50, 1e100])
    log = np.log(far)
    order = np.array([float(analytic.omega_1(v)) for v in far]) * log / np.log(2 * log)
    evidence.holds("largest omega_1 ln V/ln(2 ln V), V = 1e3..1e100", "closed form", float(order.max()), at_most=1.0)
    evidence.holds("the same: smallest (the order is attained)", "closed form", float(order.min()), at_least=0.5)
    evidence.holds(
        "w_n[n] - w_n[other] of the integrated decoder when the terms of (45) balance, against u_+, relative",
        "modified decoder",
        max(_balance(V) for V in (10, 1000, 10_000_000)),
        at_most=1e-7,  # solver tolerance 1e-10 per step over some hundred steps
    )
    evidence.conclusion = (
        f"omega_1 = {float(analytic.omega_1(1000)):.6f} at V = 1000 and falls like ln ln V/ln V: slowly "
        f"({float(analytic.omega_1(1e7)):.3f} at V = 1e7)."
    )
    V = np.unique(np.round(np.geomspace(4, 1e12, 60)))
    evidence.picture = Picture(
        "V",
        "u",
        (
            Picture.line("u_+ = (1+omega_1) ln V", V, analytic.u_plus(V)),
            Picture.line("ln V", V, np.log(V), "bound"),
            Picture.line("u_-", V, analytic.u_minus(V), "simulation"),
        ),
    )


def _balance(vocab_size: int) -> float:
    """Relative distance of the decoder's lead from u_+ at exp(u) = (V-1) u = (V s + 1)/2; eta_Y = 1, K = 1: s = t."""
    V, u = vocab_size, float(analytic.u_plus(vocab_size))
    times: Floats = np.array([(2 * (V - 1) * u - 1) / V])
    run = run_on_rung(ORIGINAL, single_token_classes(1, V), 1.0, 0.0, times, rtol=1e-10, atol=1e-13)
    return abs(float(run.extra["own_logit"][0, 0]) * V / (V - 1) / u - 1)
