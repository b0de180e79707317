"""Lemmas 8 and 9: the two time scales of the decoder and the speed control gamma."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.results import Check, Picture
from snapdyn.validation.tools import Floats, symbolic

ROUNDING = 1e-12


@claim(
    "lemma8",
    source="Lemma 8",
    title="The two roots of exp(u) = (V-1) u",
    statement="exp(V h) = (V-1) V h has two roots; the larger is (1+omega_1) ln V with omega_1 > 0 that tends "
    "to 0 as V grows.",
    latex=r"e^{u}=(V-1)u,\quad u_+=(1+\omega_1)\ln V,\quad \omega_1\to0",
    assumptions=("V >= 4: below, exp(u) exceeds (V-1) u everywhere",),
)
def lemma8(level: str) -> Evidence:
    V = np.unique(np.round(np.geomspace(4, 1e7, 40 if level == "quick" else 400)))
    u_plus, u_minus, omega = analytic.u_plus(V), analytic.u_minus(V), analytic.omega_1(V)

    def residual(u: Floats) -> float:
        """Largest |exp(u)/((V-1) u) - 1|."""
        return float(np.max(np.abs(np.exp(u) / ((V - 1) * u) - 1)))

    # exp(u) - (V-1) u is convex with its minimum at ln(V-1): negative there means exactly two roots around it.
    minimum = float(np.max((1 - np.log(V - 1)) * (V - 1)))
    order = float(np.min(np.minimum(np.log(V - 1) - u_minus, u_plus - np.log(V - 1))))
    far = np.array([1e3, 1e5, 1e7, 1e50, 1e100])
    large = np.array([float(analytic.omega_1(v)) for v in far])
    return Evidence(
        checks=[
            symbolic("u-minus", "u-plus", "omega-1"),
            Check("|exp(u)/((V-1) u) - 1| at u_-", "closed form", residual(u_minus), ROUNDING),
            Check("|exp(u)/((V-1) u) - 1| at u_+", "closed form", residual(u_plus), ROUNDING),
            Check("convex function below 0 at its minimum ln(V-1), V = 4..1e7", "closed form", minimum, 0.0),
            Check("roots on both sides of ln(V-1), smallest distance", "closed form", order, 0.0, ">="),
            Check("smallest omega_1, V = 4..1e7", "closed form", float(omega.min()), 0.0, ">="),
            # u_+ = ln(V-1) + ln u_+, so omega_1 <= ln(2 ln V)/ln V for large V.
            Check(
                "largest omega_1 ln V/ln(2 ln V), V = 1e3..1e100",
                "closed form",
                float(np.max(large * np.log(far) / np.log(2 * np.log(far)))),
                1.0,
            ),
            Check("wrong theory: u_+ = ln V exactly", "closed form", residual(np.log(V)), ROUNDING, role="control"),
        ],
        conclusion=f"omega_1 = {float(analytic.omega_1(1000)):.6f} at V = 1000 and falls like ln ln V/ln V: slowly "
        f"({float(analytic.omega_1(1e7)):.3f} at V = 1e7).",
        picture=Picture(
            "V",
            "u",
            (
                Picture.line("u_+ = (1+omega_1) ln V", V, u_plus),
                Picture.line("ln V", V, np.log(V), "bound"),
                Picture.line("u_-", V, u_minus, "simulation"),
            ),
        ),
    )


@claim(
    "lemma9",
    source="Lemma 9, Eq. (85)",
    title="Speed control before and after the transition",
    statement="gamma(t) = O(eta_Y t/K) for t <= K ln V/eta_Y, and gamma(t) = O(K ln(V eta_Y t/K)/(eta_Y t)) for "
    "t >= 2(1+omega_1) K ln V/eta_Y.",
    findings=("F8",),
    latex=r"\gamma=O\!\left(\frac{\eta_Y t}{K}\right)\ \to\ \gamma=O\!\left(\frac{K\ln(V\eta_Y t/K)}{\eta_Y t}\right)",
)
def lemma9(level: str) -> Evidence:
    K, eta = 10, 1.0
    sizes = 10.0 ** np.arange(1, 8) if level == "quick" else 10.0 ** np.arange(1, 7.01, 0.25).round(0)
    early_low, early_high, late_low, late_high, without_V = np.inf, 0.0, np.inf, 0.0, []
    for V in np.round(sizes):
        start = float(analytic.transition_time(K, V, eta, kind="start"))
        end = float(analytic.transition_time(K, V, eta, kind="end"))
        early = np.geomspace(1e-6 * start, start, 200)
        ratio = analytic.gamma(early, eta, V, K) / (eta * early / K)
        early_low, early_high = min(early_low, float(ratio.min())), max(early_high, float(ratio.max()))
        late = np.geomspace(end, 1e12, 400)
        s = eta * late / K
        ratio = analytic.gamma(late, eta, V, K) * s / np.log(V * s)
        late_low, late_high = min(late_low, float(ratio.min())), max(late_high, float(ratio.max()))
        without_V.append(float(np.max(analytic.gamma(late, eta, V, K) * s / np.log(s))))
    t = np.geomspace(1, 1e5, 300)
    V = 1000.0
    start, end = (float(analytic.transition_time(K, V, eta, kind=k)) for k in ("start", "end"))
    early_t, late_t = np.geomspace(1, start, 50), np.geomspace(end, 1e5, 50)
    return Evidence(
        checks=[
            symbolic("early-gamma", "late-gamma", "gamma-peak", "peak-time", "transition-balance"),
            # u = V h, s = eta_Y t/K. h <= s/V and V-1+exp(u) >= V give gamma <= s at all times. From t0 on exp(u) is
            # the larger term of (45), at least (V s + 1)/2, and u <= ln(V s + 1): gamma <= 2 ln(V s)/s. And
            # u >= ln((V s + 1)/2) with exp(u) <= V s + 1 gives at least (1-1/V)^2 s/(1+s) ln(V s/2)/ln(V s) of
            # ln(V s)/s, 0.58 at V = 10.
            Check("largest gamma/(eta_Y t/K), t <= t0', V = 10..1e7", "closed form", early_high, 1.0),
            Check("largest gamma (eta_Y t/K)/ln(V eta_Y t/K), t0 <= t <= 1e12", "closed form", late_high, 2.0),
            Check("smallest of the same: the order is attained", "closed form", late_low, 0.5, ">="),
            # F8: the constant of the printed logarithm must not grow with V if it were the right one.
            Check(
                "wrong theory (F8): ln(eta_Y t/K) for ln(V eta_Y t/K): its constant at V = 1e7",
                "closed form",
                without_V[-1],
                2.0,
                role="control",
            ),
        ],
        conclusion=f"Constants: early [{early_low:.3f}, {early_high:.3f}], late [{late_low:.3f}, {late_high:.3f}]. "
        f"With ln(eta_Y t/K), as Theorem 1(b) and Section 6 print it, the constant grows with V "
        f"(up to {max(without_V):.1f}).",
        picture=Picture(
            "t (batch-size-1 steps)",
            "gamma, K = 10, V = 1000, eta_Y = 1",
            (
                Picture.line("gamma (85)", t, analytic.gamma(t, eta, V, K)),
                Picture.line("eta_Y t/K", early_t, eta * early_t / K, "bound"),
                Picture.line("K ln(V eta_Y t/K)/(eta_Y t)", late_t, K * np.log(V * late_t / K) / late_t, "bound"),
            ),
            yscale="log",
            verticals=(("t0'", start), ("t0", end)),
        ),
    )
