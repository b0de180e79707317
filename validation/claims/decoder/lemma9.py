"""Lemma 9: the speed control before and after the transition."""

import math
from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.decoder._shared import closed_form, last_visits
from snapdyn.validation.claims.language import Claim, Floats, Instance, Measure, Measured, Requirement
from snapdyn.validation.claims.maps import decoder_map

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

CLAIM = Claim(
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
