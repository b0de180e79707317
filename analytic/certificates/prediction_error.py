"""Certificates for the time to a small prediction error, Corollary 1, with its condition on eta_Y.

|e_n - alpha_n| = sqrt(V(V-1))/(V-1+exp(V h)) is eps at exp(u) = y = sqrt(V(V-1))/eps - (V-1), hence by (45) after
eta_Y s = [y - 1 + (V-1) ln y]/V visits (times eta_Y) of the continuous h. Whole visits of the recursion (33) need at
most the same, rounded up, since h* >= h (Lemma 7).
"""

from __future__ import annotations

from snapdyn.analytic.certificates.certificate import Statement
from snapdyn.analytic.certificates.prover import Ball, Inequality

POINTS = {"V": (2.0, 1e12), "eps": (1e-12, 0.5)}


def scaled_time(V: Ball, eps: Ball) -> Ball:
    """Return eps eta_Y s at which the error of h is eps."""
    # y/(V-1), in which sqrt(V(V-1))/eps and V-1 do not cancel more than they must.
    ratio = 1 / (eps * (1 - 1 / V).sqrt()) - 1
    others = (V - 1) / V
    return eps * (others * (ratio + ratio.log() + (V - 1).log()) - 1 / V)


def _bound(V: Ball, eps: Ball) -> Ball:
    return (V / eps).log()


corollary_1 = Statement(
    id="corollary1-time",
    title="The printed time to a small error holds while eta_Y <= 1/eps",
    source="Corollary 1, Eqs. (71)-(73)",
    words="For V in [2, 1e12], eps in [1e-12, 1/2] and 0 < eta_Y <= 1/eps, uniform classes with N_n = N/K: the error of "
    "h* is at most eps after (K/(eps eta_Y)) ln(V/eps) steps (K for each whole visit). For every eta_Y the same holds "
    "after K more steps; one visit takes K steps, so that eta_Y <= ln(V/eps)/eps is necessary.",
    latex=r"\lceil s_\epsilon\rceil\le\frac{1}{\epsilon\eta_Y}\ln\frac V\epsilon\quad(\eta_Y\le1/\epsilon);\qquad"
    r"\lceil s_\epsilon\rceil\le1+\frac{1}{\epsilon\eta_Y}\ln\frac V\epsilon\quad(\eta_Y>0)",
    box={"V": POINTS["V"], "eps": POINTS["eps"], "eta_Y eps": (0.0, 1.0)},
    reduction="Rounding up adds less than one visit: ceil(s) <= s + 1, and eps eta_Y (s + 1) <= ln(V/eps) follows from "
    "eps eta_Y s + 1 <= ln(V/eps) where eps eta_Y <= 1.",
    inequalities=(
        Inequality("eps eta_Y s + 1 < ln(V/eps)", lambda V, eps: _bound(V, eps) - scaled_time(V, eps) - 1, POINTS),
    ),
    wrong=(
        Inequality(
            "no condition on eta_Y, up to 1e3: eps eta_Y (s + 1) < ln(V/eps)",
            lambda V, eps, eta_Y: _bound(V, eps) - scaled_time(V, eps) - eps * eta_Y,
            {**POINTS, "eta_Y": (1e-6, 1e3)},
        ),
        Inequality("without the logarithm: eps eta_Y s < 1", lambda V, eps: 1 - scaled_time(V, eps), POINTS),
    ),
)

STATEMENTS = (corollary_1,)
