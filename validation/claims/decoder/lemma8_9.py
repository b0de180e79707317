"""Lemmas 8 and 9: the roots of exp(u) = (V-1) u, and the speed control before and after the transition."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.decoder._shared import closed_form, last_visits
from snapdyn.validation.claims.language import Claim, Floats, Instance, Measure, Measured, Requirement
from snapdyn.validation.claims.maps import decoder_map

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


LEMMA8 = Claim(
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


# The quantities whose orders `orders` gives.
LOGIT, GAMMA = 0, 1
# Numbers over their bounds along a stage, from V, eta_Y s, u = V h and gamma.
Quotients = Callable[..., Floats]


def stages(early: Quotients, late: Quotients, first: float = 0.0, end: float = 2.0) -> Measure:
    """Largest quotient of a number and its bound on the two stages of the most frequent class, which must be at most 1.

    The early stage is eta_Y s from the first visit (or `first`/V) to ln V, the late stage is from `end` u_+ to t_end;
    0 where t_end is before a stage. A rarer class goes through the same numbers later.
    """

    def measure(instance: Instance) -> Measured:
        V, rate = float(instance.vocab_size), instance.flow_rates[0]
        start = first / V if first else rate
        last = max(rate * last_visits(instance), start)
        worst = 0.0
        for quotients, lower, upper in (
            (early, start, min(math.log(V), last)),
            (late, max(end * float(analytic.u_plus(V)), start), last),
        ):
            if lower <= upper:
                tau = np.geomspace(lower, upper, 60)
                u, gamma = V * analytic.h(tau, 1.0, V), analytic.gamma(tau, 1.0, V, 1)
                worst = max(worst, quotients(V, tau, u, gamma).max())
        return Measured(worst, at_most=1.0, error=1e-12)

    return measure


def exponential(first: float = 0.0, end: float = 2.0) -> Measure:
    """exp(V h) over min(V-1, (V-1) V h) early, max(V-1, (V-1) V h) over exp(V h) late."""
    return stages(
        lambda V, tau, u, gamma: np.exp(u) / ((V - 1) * np.minimum(1, u)),
        lambda V, tau, u, gamma: (V - 1) * np.maximum(1, u) * np.exp(-u),
        first,
        end,
    )


def orders(late: Quotients, which: int = GAMMA) -> Measure:
    """V h or gamma over eta_Y s at early times, and over the bound `late`(V, eta_Y s) at late times."""
    return stages(lambda V, tau, *numbers: numbers[which] / tau, lambda V, tau, *numbers: numbers[which] / late(V, tau))


def attained_early(V: float, tau: Floats, u: Floats, gamma: Floats) -> Floats:
    """0.4 ((V-1)/V)^2 eta_Y s over gamma."""
    return 0.4 * (1 - 1 / V) ** 2 * tau / gamma


def first_visit(instance: Instance) -> float:
    """eta_Y over [2 (V-1) u_- - 1]/V, the eta_Y s at which V h = u_-: by (45) with exp(u_-) = (V-1) u_-."""
    V = float(instance.vocab_size)
    return instance.flow_rates[0] * V / float(2 * (V - 1) * analytic.u_minus(V) - 1)


EXPONENTIAL = closed_form(
    "exp(V h) over min(V-1, (V-1) V h) early, max(V-1, (V-1) V h) over exp(V h) late: largest",
    exponential(),
    Requirement("5 outputs or more", "V >= 5", lambda instance: instance.vocab_size, at_least=5),
    Requirement(
        "the first visit lies beyond the smaller root",
        "eta_Y >= [2 (V-1) u_- - 1]/V (about 1/V)",
        first_visit,
        at_least=1.0,
    ),
    controls={
        "wrong theory: from t = 0 on, before the first visit": exponential(first=1e-3),
        "wrong theory: t0 = (1+omega_1) K ln V/eta_Y, without the 2": exponential(end=1.0),
    },
    evaluations=(400, 20_000),
)

LEMMA9 = Claim(
    "lemma9",
    source="Lemma 9, Eqs. (52)-(57), (85)",
    title="The speed of attention grows like t before the transition and falls like ln(t)/t after it",
    statement=(
        "With s = t/K (p_n t for other priors), from the first visit to t0' = K ln V/eta_Y: exp(V h) <= min(V-1, "
        "(V-1) V h), which fails while V h < u_-; and, whatever the learning rate, h <= eta_Y s/V and gamma <= eta_Y "
        "s. For t >= t0 = 2 (1+omega_1) K ln V/eta_Y: exp(V h) >= max(V-1, (V-1) V h); and, whatever the learning "
        "rate, h <= ln(V eta_Y s)/V and gamma <= 2 ln(V eta_Y s)/(eta_Y s). Both orders of gamma are attained: gamma "
        "is at least 0.4 ((V-1)/V)^2 eta_Y s at early times, and at least 0.75 ((V-1)/V)^2 ln(V eta_Y s)/(eta_Y s) "
        "at late times."
    ),
    latex=r"\gamma=O\!\left(\frac{\eta_Y t}{K}\right)\ \to\ \gamma=O\!\left(\frac{K\ln(V\eta_Y t/K)}{\eta_Y t}\right)",
    conditions=(
        "eta_Y V >= 1 + O(1/V): the first visit makes V h larger than u_-, the smaller root of Lemma 8",
        "V >= 5 (V >= 4 late)",
    ),
    conclusion=(
        "The bounds on gamma hold for any learning rate; the bounds on exp(V h) need V >= 5 (late times: V >= 4) and "
        "eta_Y of about 1/V or more. Rates eta_Y of V^-0.99 or more are enough for V >= 100, as the paper states. "
        "Theorem 1(b) and Section 6 print ln(eta_Y t/K) in place of ln(V eta_Y t/K); with the printed logarithm the "
        "constant of the late bound on gamma grows with V."
    ),
    expected="conditional",
    grade="certified",
    properties=(
        EXPONENTIAL,
        closed_form(
            "V h over eta_Y s early, over ln(V eta_Y s) late: largest",
            orders(lambda V, tau: np.log(V * tau), LOGIT),
            controls={"wrong theory (F8): ln(eta_Y s) for ln(V eta_Y s)": orders(lambda V, tau: np.log(tau), LOGIT)},
        ),
        closed_form(
            "gamma over eta_Y s early, over 2 ln(V eta_Y s)/(eta_Y s) late: largest",
            orders(lambda V, tau: 2 * np.log(V * tau) / tau),
            controls={
                "wrong theory (F8): ln(eta_Y s) for ln(V eta_Y s)": orders(lambda V, tau: 2 * np.log(tau) / tau),
                "wrong theory: no logarithm late": orders(lambda V, tau: 2 / tau),
                "wrong theory: gamma rises like eta_Y s for ever": stages(
                    lambda V, tau, u, gamma: gamma / tau,
                    lambda V, tau, u, gamma: (1 - 1 / V) ** 2 * tau**2 / (2 * np.log(V * tau)),
                ),
            },
        ),
        closed_form(
            "0.4 (late 0.75) of ((V-1)/V)^2 times the same orders, over gamma: largest (they are attained)",
            stages(
                attained_early,
                lambda V, tau, u, gamma: 0.75 * (1 - 1 / V) ** 2 * np.log(V * tau) / tau / gamma,
            ),
            controls={"wrong theory: gamma of the order eta_Y s late too": stages(attained_early, attained_early)},
        ),
    ),
    proved=("first-stage", "early-gamma", "late-gamma", "gamma-peak", "peak-time", "transition-balance"),
    certified=("gamma-single-maximum", "lemma9-early", "lemma9-late"),
    map=lambda level: decoder_map(
        EXPONENTIAL, "Where exp(V h) <= min(V-1, (V-1) V h) holds from the first visit on", level == "full"
    ),
    findings=("F8",),
)
