"""Lemma 9: the speed control before and after the transition."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.decoder._lemma9_settings import by_flows, by_sgd
from snapdyn.validation.claims.decoder._shared import EARLY_SHARE, LATE_CONSTANT, LATE_SHARE, TWO_ROOTS, last_visits
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.maps.decoder import decoder_map
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import CLAIMS, claim
from snapdyn.validation.requirements import LARGE_VOCABULARY
from snapdyn.validation.search import Instance

ROUNDING = 1e-12


def smaller_root_time(vocab_size: float) -> float:
    """eta_Y s at which V h = u_-: [2 (V-1) u_- - 1]/V, about 1/V, by (45) with exp(u_-) = (V-1) u_-."""
    return float((2 * (vocab_size - 1) * analytic.u_minus(vocab_size) - 1) / vocab_size)


FIRST_VISIT = Requirement(
    "the first visit lies beyond the smaller root",
    "eta_Y >= [2 (V-1) u_- - 1]/V (about 1/V)",
    lambda instance: instance.flow_rates[0] / smaller_root_time(float(instance.vocab_size)),
    at_least=1.0,
)
FIVE_OUTPUTS = Requirement("5 outputs or more", "V >= 5", lambda instance: float(instance.vocab_size), at_least=5)


Quotients = Callable[[Floats, float], Floats]


def stages(
    early: Quotients, late: Quotients, first: float | None = None, end: float = 2.0
) -> Callable[[Instance], Measured]:
    """Largest quotient of a number and its bound on the two stages of the most frequent class, which must be at most 1.

    Early is eta_Y s from the first visit (or `first`/V) to ln V, late from `end` u_+ to t_end; 0 where t_end leaves no
    such time. A rarer class goes through the same numbers later.
    """

    def measure(instance: Instance) -> Measured:
        V, rate = float(instance.vocab_size), instance.flow_rates[0]
        start = rate if first is None else first / V
        last = max(rate * last_visits(instance), start)
        worst, where = 0.0, "no time on either stage up to t_end"
        for quotients, lower, upper in (
            (early, start, min(math.log(V), last)),
            (late, max(end * float(analytic.u_plus(V)), start), last),
        ):
            if lower > upper:
                continue
            tau = np.geomspace(lower, upper, 60)
            values = quotients(tau, V)
            i = int(values.argmax())
            if values[i] >= worst:
                worst, where = float(values[i]), f"eta_Y p_n t = {tau[i]:.3g}"
        return Measured(worst, at_most=1.0, error=ROUNDING, where=where)

    return measure


def scaled_h(tau: Floats, vocab_size: float) -> Floats:
    """u = V h at eta_Y s = tau."""
    return vocab_size * analytic.h(tau, 1.0, vocab_size)


def gamma(tau: Floats, vocab_size: float) -> Floats:
    """(85) at eta_Y s = tau."""
    return analytic.gamma(tau, 1.0, vocab_size, 1)


def exp_below(tau: Floats, vocab_size: float) -> Floats:
    """exp(V h) over min(V-1, (V-1) V h)."""
    u = scaled_h(tau, vocab_size)
    return np.asarray(np.exp(u) / ((vocab_size - 1) * np.minimum(1, u)))


def exp_above(tau: Floats, vocab_size: float) -> Floats:
    """max(V-1, (V-1) V h) over exp(V h)."""
    u = scaled_h(tau, vocab_size)
    return np.asarray((vocab_size - 1) * np.maximum(1, u) * np.exp(-u))


def h_early(tau: Floats, vocab_size: float) -> Floats:
    """V h over eta_Y s."""
    return scaled_h(tau, vocab_size) / tau


def h_late(tau: Floats, vocab_size: float) -> Floats:
    """V h over ln(V eta_Y s)."""
    return np.asarray(scaled_h(tau, vocab_size) / np.log(vocab_size * tau))


def h_late_without_V(tau: Floats, vocab_size: float) -> Floats:
    """V h over ln(eta_Y s), which Theorem 1(b) prints (F8)."""
    return np.asarray(scaled_h(tau, vocab_size) / np.log(tau))


def gamma_early(tau: Floats, vocab_size: float) -> Floats:
    """gamma over eta_Y s."""
    return gamma(tau, vocab_size) / tau


def gamma_late(tau: Floats, vocab_size: float) -> Floats:
    """gamma over 2 ln(V eta_Y s)/(eta_Y s)."""
    return np.asarray(gamma(tau, vocab_size) * tau / (LATE_CONSTANT * np.log(vocab_size * tau)))


def gamma_late_without_V(tau: Floats, vocab_size: float) -> Floats:
    """gamma over 2 ln(eta_Y s)/(eta_Y s), which Theorem 1(b) prints (F8)."""
    return np.asarray(gamma(tau, vocab_size) * tau / (LATE_CONSTANT * np.log(tau)))


def gamma_late_without_logarithm(tau: Floats, vocab_size: float) -> Floats:
    """gamma over 2/(eta_Y s)."""
    return gamma(tau, vocab_size) * tau / LATE_CONSTANT


def rising_late(tau: Floats, vocab_size: float) -> Floats:
    """Early law ((V-1)/V)^2 eta_Y s of gamma, continued, over 2 ln(V eta_Y s)/(eta_Y s)."""
    return np.asarray((1 - 1 / vocab_size) ** 2 * tau**2 / (LATE_CONSTANT * np.log(vocab_size * tau)))


def attained_early(tau: Floats, vocab_size: float) -> Floats:
    """A quarter of ((V-1)/V)^2 eta_Y s over gamma."""
    return EARLY_SHARE * (1 - 1 / vocab_size) ** 2 * tau / gamma(tau, vocab_size)


def attained_late(tau: Floats, vocab_size: float) -> Floats:
    """Half of ((V-1)/V)^2 ln(V eta_Y s)/(eta_Y s) over gamma."""
    order = np.log(vocab_size * tau) / tau
    return np.asarray(LATE_SHARE * (1 - 1 / vocab_size) ** 2 * order / gamma(tau, vocab_size))


@claim(
    "lemma9",
    source="Lemma 9, Eqs. (52)-(57), (85)",
    title="gamma grows like t before the transition and falls like ln(t)/t after it",
    answer="The bounds on gamma hold at any rate; that on exp(V h) needs V >= 5 and eta_Y of about 1/V or more.",
    statement="With s = t/K (p_n t for other priors), from the first visit to t0' = K ln V/eta_Y: exp(V h) <= min(V-1, "
    "(V-1) V h), if V >= 5 and exactly if eta_Y >= [2 (V-1) u_- - 1]/V, about 1/V (it fails while V h < u_-); h <= "
    "eta_Y s/V and gamma <= eta_Y s, at any rate. From t0 = 2 (1+omega_1) K ln V/eta_Y on: exp(V h) >= max(V-1, "
    "(V-1) V h), h <= ln(V eta_Y s)/V and gamma <= 2 ln(V eta_Y s)/(eta_Y s), at any rate. Both orders of gamma are "
    "attained.",
    expected="conditional",
    assumptions=("eta_Y V >= 1 + O(1/V): one visit passes the smaller root u_- of Lemma 8", "V >= 5 (V >= 4 late)"),
    findings=("F8",),
    latex=r"\gamma=O\!\left(\frac{\eta_Y t}{K}\right)\ \to\ \gamma=O\!\left(\frac{K\ln(V\eta_Y t/K)}{\eta_Y t}\right)",
    grade="certified",
    properties=(
        Property(
            "exp(V h) over min(V-1, (V-1) V h) early, max(V-1, (V-1) V h) over exp(V h) late: largest",
            "closed form",
            stages(exp_below, exp_above),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY, FIVE_OUTPUTS, FIRST_VISIT),
            controls={
                "wrong theory: from t = 0 on, before the first visit": stages(exp_below, exp_above, first=1e-3),
                "wrong theory: t0 = (1+omega_1) K ln V/eta_Y, without the 2": stages(exp_below, exp_above, end=1.0),
            },
            evaluations=(400, 20_000),
        ),
        Property(
            "V h over eta_Y s early, over ln(V eta_Y s) late: largest",
            "closed form",
            stages(h_early, h_late),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY,),
            controls={"wrong theory (F8): ln(eta_Y s) for ln(V eta_Y s)": stages(h_early, h_late_without_V)},
            evaluations=(200, 10_000),
        ),
        Property(
            "gamma over eta_Y s early, over 2 ln(V eta_Y s)/(eta_Y s) late: largest",
            "closed form",
            stages(gamma_early, gamma_late),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY,),
            controls={
                "wrong theory (F8): ln(eta_Y s) for ln(V eta_Y s)": stages(gamma_early, gamma_late_without_V),
                "wrong theory: no logarithm late": stages(gamma_early, gamma_late_without_logarithm),
                "wrong theory: gamma rises like eta_Y s for ever": stages(gamma_early, rising_late),
            },
            evaluations=(200, 10_000),
        ),
        Property(
            "a quarter (late half) of ((V-1)/V)^2 times the same orders, over gamma: largest (they are attained)",
            "closed form",
            stages(attained_early, attained_late),
            TWO_ROOTS,
            conditions=(LARGE_VOCABULARY,),
            controls={"wrong theory: gamma of the order eta_Y s late too": stages(attained_early, attained_early)},
            evaluations=(200, 10_000),
        ),
    ),
)
def lemma9(evidence: Evidence) -> None:
    evidence.maps = [
        decoder_map(
            CLAIMS["lemma9"].properties[0],
            "Where exp(V h) <= min(V-1, (V-1) V h) holds from the first visit on",
            evidence.full,
        )
    ]
    evidence.proved("first-stage", "early-gamma", "late-gamma", "gamma-peak", "peak-time", "transition-balance")
    evidence.certified("gamma-single-maximum", "lemma9-early", "lemma9-late")
    K, V = 10, 1000.0
    start, end = (float(analytic.transition_time(K, V, 1.0, kind=kind)) for kind in ("start", "end"))
    by_flows(evidence)
    name = "[2 (V-1) u_- - 1]/V over the paper's V^-0.99, V = 100..1e12: largest"
    V_large = np.geomspace(100, 1e12, 41).round()
    needed = max(smaller_root_time(v) / v**-0.99 for v in V_large.tolist())
    evidence.holds(name, "closed form", needed, at_most=1.0)
    trained = by_sgd(evidence)
    first = 0.5
    evidence.conclusion = (
        f"exp(V h) <= (V-1) V h begins where V h passes u_-, at eta_Y s = [2 (V-1) u_- - 1]/V = "
        f"{smaller_root_time(10):.4f}, {smaller_root_time(1000):.6f} at V = 10, 1000 (1/V, to O(1/V^2)): the first "
        "visit lies beyond it exactly for eta_Y of at least that size; eta_Y >= V^-0.99 is enough for V >= 100, as the "
        f"paper has it. At eta_Y = {first:g} of it the quotient is "
        f"{float(exp_below(np.array([first * smaller_root_time(1000)]), 1000)[0]):.2f} (V = 1000). At V = 4 exp(V h) "
        f"is {float(exp_below(np.array([math.log(4)]), 4)[0]):.3f} times V - 1 at t0'. All other lines hold for V >= 4 "
        f"at any rate. SGD (K = 5, V = 100): late constants [{trained[0]:.3f}, {trained[1]:.3f}]. With ln(eta_Y t/K), "
        "as Theorem 1(b) and Section 6 print it, the late constant grows with V."
    )
    t = np.geomspace(1, 1e5, 300)
    early_t, late_t = np.geomspace(1, start, 50), np.geomspace(end, 1e5, 50)
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "gamma, K = 10, V = 1000, eta_Y = 1",
        (
            Picture.line("gamma (85)", t, analytic.gamma(t, 1.0, V, K)),
            Picture.line("eta_Y t/K", early_t, early_t / K, "bound"),
            Picture.line("K ln(V eta_Y t/K)/(eta_Y t)", late_t, K * np.log(V * late_t / K) / late_t, "bound"),
        ),
        yscale="log",
        verticals=(("t0'", start), ("t0", end)),
    )
