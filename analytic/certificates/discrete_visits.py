"""Certificates for whole visits, the recursion (33): Lemmas 7(b) and 12, and the time to a small error, Corollary 1.

The recursion h*(s) leads the continuous h(s) by X(s) visits: h*(s) = h(s + X). One visit adds y (exp(d) - 1 - d)/(V
eta_Y) to this lead, with y = exp(V h*) and d = V eta_Y/(V-1+y) <= eta_Y (derivation ``lag-increment``). With
p = y/(V-1+y) this is p d phi(d), where phi(d) = (exp(d)-1-d)/d^2, and at most phi(eta_Y) p d. And p d is less than
ln(1 + p (exp(d)-1)), the growth of ln(V-1+y) in this visit. So the sum over visits obeys

    X(s) <= phi(eta_Y) ln((V-1+exp(V h*))/V) <= phi(eta_Y) ln(1 + eta_Y (s + X)),

where the last step is (45) at s + X. No step requires a small eta_Y; phi(eta_Y) is 1/2 at 0, 0.72 at 1, 220 at 10.

Corollary 1: |e_n - alpha_n| = sqrt(V(V-1))/(V-1+exp(V h)) is eps at exp(V h) = y = sqrt(V(V-1))/eps - (V-1). By (45)
the continuous h reaches this error at eta_Y s = [y - 1 + (V-1) ln y]/V. The recursion (33) needs at most s visits,
rounded up, since h* >= h (Lemma 7). It needs one visit if eta_Y >= ln y, since V h*(1) = eta_Y.
"""

from __future__ import annotations

import math

from snapdyn.analytic.certificates.decoder_speed import VOCABULARY
from snapdyn.analytic.certificates.prover import Ball, Inequality, Statement, expm1_excess, expm1_ratio

# p = y/(V-1+y) of y >= 1, V in [2, 1e12], and d <= eta_Y.
SHARE, STEP = (1e-12, 1.0), (0.0, 1e3)


def _denominator(share: Ball, d: Ball) -> Ball:
    """Return q = p + (1-p) exp(-d), p = share; the second derivative of ln(1 + p (exp(d)-1)) is exp(-d) p (1-p)/q^2."""
    return share + (1 - share) * (-d).exp()


lag_bound = Statement(
    id="lag-bound",
    title="How far the recursion (33) leads the continuous decoder, for every eta_Y",
    source="own; Lemma 7, Remark 2, Eq. (33)",
    words="For V in [2, 1e12], eta_Y in (0, 1e3] and every s: h*(s) = h(s + X) with 0 <= X <= phi(eta_Y) ln((V-1+exp(V "
    "h*))/V) <= phi(eta_Y) ln(1 + eta_Y (s + X)), phi(x) = (exp(x) - 1 - x)/x^2.",
    latex=r"0\le X(s)\le\frac{e^{\eta_Y}-1-\eta_Y}{\eta_Y^2}\,\ln\frac{V-1+e^{Vh^*(s)}}{V}",
    box={"V": (2.0, 1e12), "eta_Y": (0.0, 1e3)},
    reduction="phi(d), the integral of (1-t) exp(d t) over t in [0, 1], increases with d, and d <= eta_Y. p d < ln(1 + "
    "p (exp(d)-1)) since the right side is convex in d with value 0 and slope p at d = 0.",
    inequalities=(
        Inequality(
            "ln(1 + p (exp(d)-1)) is convex in d: p + (1-p) exp(-d) > 0", _denominator, {"share": SHARE, "d": STEP}
        ),
    ),
    wrong=(
        Inequality(
            "the lead after the first visit is at most one visit, for eta_Y up to 40",
            lambda V, eta_Y: 1 - eta_Y * expm1_excess(eta_Y) / V,
            {"V": VOCABULARY, "eta_Y": (1e-6, 40.0)},
        ),
    ),
)


lemma_7_repair = Statement(
    id="lemma7-repair",
    title="A gap h* - h >= epsilon shrinks: Lemma 7(b) with epsilon/2",
    source="Lemma 7, Eqs. (48)-(49)",
    words="For V in [2, 1e12], V h in [0, 70] and V epsilon in [1e-6, 2e3]: in a visit with h* - h >= epsilon and "
    "h(s+1) - h(s) <= epsilon/2 (the latter holds for every late s) the gap shrinks: h* gains less than h, by at least "
    "the fraction (1 - exp(-V epsilon/2))/(1 + (V-1) exp(-V h - V epsilon)). The paper prints epsilon - ln(2)/V in "
    "place of epsilon/2; that is at most 0 for every epsilon <= ln(2)/V, whatever eta_Y is.",
    latex=r"h^*-h\ge\epsilon,\ h(s+1)-h(s)\le\tfrac\epsilon2\ \Rightarrow\ "
    r"\frac{h^*(s+1)-h^*(s)}{h(s+1)-h(s)}\le\frac{V-1+e^{V(h+\epsilon/2)}}{V-1+e^{V(h+\epsilon)}}<1",
    box={"V": (2.0, 1e12), "V h": (0.0, 70.0), "V epsilon": (1e-6, 2e3)},
    reduction="h* gains eta_Y/(V-1+exp(V h*)) <= eta_Y/(V-1+exp(V h + V epsilon)), and h gains at least its slope at "
    "the end, eta_Y/(V-1+exp(V h(s+1))) >= eta_Y/(V-1+exp(V h + V epsilon/2)). The fraction is 1 minus the quotient of "
    "these two bounds.",
    inequalities=(
        Inequality(
            "(1 - exp(-gap/2))/(gap/2) > 0, gap = V epsilon", lambda gap: expm1_ratio(-gap / 2), {"gap": (1e-6, 2e3)}
        ),
    ),
    wrong=(
        Inequality(
            "as printed: epsilon - ln(2)/V > 0, so that a late s has h(s+1) - h(s) below it",
            lambda gap: gap - (0 * gap + 2).log(),
            {"gap": (1e-6, 2e3)},
        ),
    ),
)

# K ln(K/delta) is least at K = 2 and delta = 1/2.
LEAST_SCALE = 2 * math.log(4)


def _largest_rate(mean: Ball) -> Ball:
    return 1 + mean.log() / 2


def _lag_over_order(mean: Ball, eta_Y: Ball) -> Ball:
    """Return phi(eta_Y) ln(1 + eta_Y (m + 2 B))/B, m = N/K = `mean`, B = sqrt(m K ln(K/delta)), K = 2, delta = 1/2."""
    B = (LEAST_SCALE * mean).sqrt()
    return expm1_excess(eta_Y) * (eta_Y * (mean + 2 * B)).log1p() / B


lemma_12 = Statement(
    id="lemma12-rate",
    title="Lemma 12 and Theorem 5 hold for eta_Y <= 1 + ln(N/K)/2",
    source="Lemma 12, Eqs. (66)-(69); Theorem 5, Eq. (70)",
    words="For K >= 2, N/K in [20, 1e15], N >= 10 K^2, delta <= 1/2, V in [2, 1e12] and 0 < eta_Y <= 1 + ln(N/K)/2 "
    "(2.49 at N/K = 20): |theta_n| <= 2 (K/sqrt(N)) sqrt(ln(K/delta)) for all classes at once with probability at "
    "least 1 - delta, theta_n = h*(N_n)/h(N/K) - 1.",
    latex=r"\max_n|\theta_n|\le\frac{2K}{\sqrt N}\sqrt{\ln\tfrac K\delta}\quad"
    r"\Bigl(\eta_Y\le1+\tfrac12\ln\tfrac NK\Bigr)",
    box={"N/K": (20.0, 1e15), "eta_Y/(1 + ln(N/K)/2)": (1e-9, 1.0)},
    reduction="With probability 1 - delta all |N_n - m| <= d = sqrt(N ln(2K/delta)/2), m = N/K (Hoeffding). h is "
    "concave with h(0) = 0, so |theta_n| <= (d + X(m+d))/m. d <= B = sqrt(m K ln(K/delta)), since K/delta >= 4, and "
    "B/m is the printed order. X <= B at m + d <= m + B: X is below every B > 0 with phi ln(1 + eta_Y (m + B + B)) < "
    "B, as the right side of `lag-bound` is concave in X and positive at 0. The quotient phi ln(1 + eta_Y (m + 2B))/B "
    "falls with B, so it suffices to bound it at the least K ln(K/delta).",
    inequalities=(
        Inequality(
            "phi(eta_Y) ln(1 + eta_Y (m + 2B)) < B, eta_Y = share (1 + ln(m)/2)",
            lambda mean, share: 1 - _lag_over_order(mean, share * _largest_rate(mean)),
            {"mean": (20.0, 1e15), "share": (1e-9, 1.0)},
        ),
    ),
    wrong=(
        Inequality(
            "twice the rate: the same for eta_Y up to 2 + ln(m)",
            lambda mean, share: 1 - _lag_over_order(mean, 2 * share * _largest_rate(mean)),
            {"mean": (20.0, 1e15), "share": (1e-9, 1.0)},
        ),
    ),
)

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
    reduction="If eta_Y >= ln y, one visit suffices, and 1 <= ln(V/eps)/(eps eta_Y) if and only if eta_Y <= "
    "ln(V/eps)/eps; at least one visit is needed, as the error starts at sqrt(1-1/V) > 1/2. If eta_Y < ln y, ceil(s) < "
    "s + 1 visits suffice, and eps eta_Y (s + 1) < eps (eta_Y s + ln y). Here ln y < ln(V/eps)/eps since y < "
    "sqrt(V(V-1))/eps.",
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

STATEMENTS = (lemma_7_repair, lag_bound, lemma_12, corollary_1)
