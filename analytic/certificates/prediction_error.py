"""Certificate for the time to a small prediction error, Corollary 1, with the sharp condition on eta_Y.

|e_n - alpha_n| = sqrt(V(V-1))/(V-1+exp(V h)) is eps at exp(u) = y = sqrt(V(V-1))/eps - (V-1), hence by (45) at
eta_Y s = [y - 1 + (V-1) ln y]/V of the continuous h. Whole visits of the recursion (33) need at most s,
rounded up, since h* >= h (Lemma 7), and one visit if eta_Y >= ln y, since V h*(1) = eta_Y.
"""

from __future__ import annotations

from snapdyn.analytic.certificates.certificate import Statement
from snapdyn.analytic.certificates.prover import Ball, Inequality

POINTS = {"V": (2.0, 1e12), "eps": (1e-12, 0.5)}


def lead_at(V: Ball, eps: Ball) -> Ball:
    """Return ln y, the value of V h at which the error is eps."""
    return (1 / (eps * (1 - 1 / V).sqrt()) - 1).log() + (V - 1).log()


def scaled_visits_to(V: Ball, eps: Ball) -> Ball:
    """Return eta_Y s at which the error of the continuous h is eps."""
    # y/(V-1) = 1/(eps sqrt(1-1/V)) - 1, in which V cancels.
    return (1 - 1 / V) * (1 / (eps * (1 - 1 / V).sqrt()) - 1 + lead_at(V, eps)) - 1 / V


def _bound(V: Ball, eps: Ball) -> Ball:
    return (V / eps).log()


corollary_1 = Statement(
    id="corollary1-time",
    title="The printed time to a small error holds for eta_Y <= ln(V/eps)/eps, and for no larger eta_Y",
    source="Corollary 1, Eqs. (71)-(73)",
    words="For V in [2, 1e12], eps in [1e-12, 1/2] and uniform classes with N_n = N/K, K steps for each whole visit: "
    "the error of h* is at most eps after (K/(eps eta_Y)) ln(V/eps) steps if and only if eta_Y <= ln(V/eps)/eps. (For "
    "a larger eta_Y one visit, K steps, is needed and suffices.)",
    latex=r"\min\{s:\|e_n-\alpha_n\|\le\epsilon\}\le\frac{1}{\epsilon\eta_Y}\ln\frac V\epsilon"
    r"\iff\eta_Y\le\frac1\epsilon\ln\frac V\epsilon",
    box=dict(POINTS),
    reduction="eta_Y >= ln y: one visit suffices, and one is at most ln(V/eps)/(eps eta_Y) if and only if eta_Y <= "
    "ln(V/eps)/eps; none does not suffice, as the error starts at sqrt(1-1/V) > 1/2. eta_Y < ln y: ceil(s) < s + 1, "
    "and eps eta_Y (s + 1) < eps (eta_Y s + ln y). ln y < ln(V/eps)/eps since y < sqrt(V(V-1))/eps.",
    inequalities=(
        Inequality(
            "eps (eta_Y s + ln y) < ln(V/eps)",
            lambda V, eps: _bound(V, eps) - eps * (scaled_visits_to(V, eps) + lead_at(V, eps)),
            POINTS,
        ),
    ),
    wrong=(
        Inequality(
            "no condition on eta_Y, up to 1e3: one visit is at most ln(V/eps)/(eps eta_Y)",
            lambda V, eps, eta_Y: _bound(V, eps) - eps * eta_Y,
            {**POINTS, "eta_Y": (1e-6, 1e3)},
        ),
        Inequality("without the logarithm: eps eta_Y s < 1", lambda V, eps: 1 - eps * scaled_visits_to(V, eps), POINTS),
    ),
)

STATEMENTS = (corollary_1,)
