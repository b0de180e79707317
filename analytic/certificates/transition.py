"""Certificates for the two pieces of Eq. (14) as upper bounds of (129), and for the order of the transition times.

With u = V h and x = eta_Y t/K, the exact 4 Gamma is proportional to u^2, the early piece to x^2 and the late piece to
ln(V x)^2, with the same factor 2 K (1-1/V)^2 eta_Z/eta_Y. So the pieces are compared through x/u and ln(V x)/u. With
C0 >= 0 added to the piece and to the exact 4 Gamma, B of a piece exceeds the exact B by at most half the logarithm of
x/u or ln(V x)/u.

The times are t0' = K ln V/eta_Y, t* (peak of gamma) and t0 = 2 u_+ K/eta_Y. In units of K/eta_Y they
depend on V only: ln V, x* = ((V-1) u* + exp(u*) - 1)/V with V - 1 = (u*-1) exp(u*), and 2 u_+.
"""

from __future__ import annotations

import math

from snapdyn.analytic.certificates.decoder_speed import (
    LATE,
    U_PEAK,
    VOCABULARY,
    U,
    late,
    scaled_visits,
    vocabulary_of_root,
)
from snapdyn.analytic.certificates.prover import Ball, Inequality, Statement, exp_moment, expm1_excess, expm1_ratio

# Solution of x exp(x) = 1, rounded up.
OMEGA = 0.56714329041

early_piece = Statement(
    id="early-piece-bound",
    title="The early piece of (14) is an upper bound, with its error",
    source="Theorem 4, Eq. (14), first line",
    words="For V in [4, 1e12] and 0 < eta_Y t/K <= ln V (t up to t0'), the early piece exceeds the exact B_n, by at "
    "most -(1/2) ln(1 - Omega/ln V), where Omega = 0.5671 solves x exp(x) = 1, for all C0 >= 0, K, eta_Y and eta_Z.",
    latex=r"0<B^{\rm early}-B\le-\tfrac12\ln\Bigl(1-\frac\Omega{\ln V}\Bigr),\qquad\Omega e^\Omega=1",
    box={"V": VOCABULARY, "V h": U},
    reduction="x - u = (exp(u)-1-u)/V > 0. V (x/u)' = (u exp(u) - exp(u) + 1)/u^2 > 0, so that x/u is largest at x = "
    "ln V. There u > ln V - Omega: V x increases with u, and at u = ln V - Omega it is below V ln V by 1 - Omega + ln "
    "V, since exp(-Omega) = Omega.",
    inequalities=(
        Inequality("x > u", lambda u: expm1_excess(u), {"u": U}),
        Inequality("x/u increases with u", lambda u: exp_moment(u), {"u": U}),
        Inequality(
            "u > ln V - Omega at x = ln V: 1 - Omega + ln V > 0", lambda V: 1 - OMEGA + V.log(), {"V": VOCABULARY}
        ),
        Inequality("the bound exists: ln V > Omega", lambda V: V.log() - OMEGA, {"V": VOCABULARY}),
    ),
    wrong=(
        Inequality(
            "1/2 in place of Omega: x/u < 1/(1 - 1/(2 ln V)) up to t0'",
            lambda V, u: 1 / (1 - 1 / (2 * V.log())) - 1 - (expm1_ratio(u) - 1) / V,
            {"V": VOCABULARY, "u": (1e-3, 30.0)},
            where=lambda V, u: V.log() - scaled_visits(u, V),
        ),
    ),
)


def _late_slack(u_plus: Ball, c: Ball, constant: float) -> Ball:
    """Return u (1 + constant/x) - ln(V x) at u = u_+ + c, from V x = exp(u) (1 + rest)."""
    u, rest, _ = late(u_plus, c)
    return constant * u * (1 + vocabulary_of_root(u_plus)) * (-u).exp() / (1 + rest) - rest.log1p()


late_piece = Statement(
    id="late-piece-bound",
    title="The late piece of (14) is an upper bound, with its error",
    source="Theorem 4, Eq. (14), second line",
    words="For V in [4, 1e12] and 2 u_+ <= eta_Y t/K <= 1e18 (t from t0 on), the late piece exceeds the exact B_n, by "
    "at most (1/2) ln(1 + 2 ln(2) K/(eta_Y t)), for every C0 >= 0, K, eta_Y and eta_Z.",
    latex=r"0<B^{\rm late}-B\le\tfrac12\ln\Bigl(1+\frac{2\ln2\,K}{\eta_Yt}\Bigr)",
    box={"V": VOCABULARY, "eta_Y t/K": (3.0, 1e18)},
    reduction="V x = exp(u) (1+r), r = ((V-1) u - 1) exp(-u), so ln(V x) - u = ln(1+r) > 0. From u_+ on r < 1, as "
    "exp(u) > (V-1) u. And u/x > r/(1+r), so it remains to show (1+r) ln(1+r) <= 2 ln(2) r on [0, 1]: the two sides "
    "are equal at both ends, and the left side is convex.",
    inequalities=(
        Inequality("r > 0: (V-1) u > 1", lambda u_plus, c: vocabulary_of_root(u_plus) * (u_plus + c) - 1, LATE),
        Inequality("r < 1: (exp(c)-1)/c > 1/u_+", lambda u_plus, c: expm1_ratio(c) - 1 / u_plus, LATE),
        Inequality("u/x > r/(1+r): V u > (V-1) u - 1", lambda u_plus, c: 1 + u_plus + c, LATE),
        Inequality("(1+r) ln(1+r) is convex: 1/(1+r) > 0", lambda r: 1 / (1 + r), {"r": (0.0, 1.0)}),
    ),
    wrong=(
        Inequality(
            "1, the constant of late times, in place of 2 ln 2 from t0 on",
            lambda u_plus, c: _late_slack(u_plus, c, 1.0),
            LATE,
        ),
        Inequality(
            "half the constant: (ln 2) K/(eta_Y t)", lambda u_plus, c: _late_slack(u_plus, c, math.log(2)), LATE
        ),
    ),
)

# u* of V = 18, rounded up, and of V = 19, rounded down.
U_PEAK_18, U_PEAK_19 = 2.45691, 2.49095


def _of_peak(u_peak: Ball) -> tuple[Ball, Ball]:
    """Return V - 1 and x* = eta_Y t*/K, by (45)."""
    others = (u_peak - 1) * u_peak.exp()
    return others, (u_peak.expm1() + others * u_peak) / (1 + others)


def _between_roots(others: Ball, a: Ball) -> Ball:
    """Return ln((V-1) a) - a, which is positive where u_- < a < u_+."""
    return (others * a).log() - a


def _start_after_peak(u_peak: Ball) -> Ball:
    others, peak = _of_peak(u_peak)
    return (1 + others).log() - peak


def _end_over(u_peak: Ball, factor: float) -> Ball:
    """Return a number that is positive where t0 > factor t*, if factor x*/2 lies above u_-."""
    others, peak = _of_peak(u_peak)
    return _between_roots(others, factor / 2 * peak)


def _above_minimum(u_peak: Ball, factor: float) -> Ball:
    others, peak = _of_peak(u_peak)
    return factor / 2 * peak - others.log()


transition_order = Statement(
    id="transition-order",
    title="The order of t0', t* and t0",
    source="own; Lemma 9, Eqs. (14), (85)",
    words="For V in [4, 1e12], any K and eta_Y: t0' < t0 and 1.37 t* < t0 < 3.3 t*. The peak t* of gamma comes after "
    "t0' for V <= 18, and before t0' for V >= 19: t* < t0' < t0 from there on.",
    latex=r"t_0'<t^*<t_0\ (4\le V\le18),\qquad t^*<t_0'<t_0\ (V\ge19),\qquad1.37<t_0/t^*<3.3",
    box={"V": VOCABULARY},
    reduction="2 u_+ > a if a/2 lies between the roots of exp(u) = (V-1) u, that is if ln((V-1) a/2) > a/2; 2 u_+ < a "
    "if a/2 > ln(V-1) and ln((V-1) a/2) < a/2. V is expressed by u*: V - 1 = (u*-1) exp(u*).",
    inequalities=(
        Inequality("t0' < t0", lambda V: ((V - 1) * V.log() / 2).log() - V.log() / 2, {"V": VOCABULARY}),
        Inequality("t0 > 1.37 t*", lambda u_peak: _end_over(u_peak, 1.37), {"u_peak": U_PEAK}),
        Inequality("t0 < 3.3 t*", lambda u_peak: -_end_over(u_peak, 3.3), {"u_peak": U_PEAK}),
        Inequality("3.3 x*/2 > ln(V-1)", lambda u_peak: _above_minimum(u_peak, 3.3), {"u_peak": U_PEAK}),
        Inequality("t0' < t*, V <= 18", lambda u_peak: -_start_after_peak(u_peak), {"u_peak": (U_PEAK[0], U_PEAK_18)}),
        Inequality("t* < t0', V >= 19", _start_after_peak, {"u_peak": (U_PEAK_19, U_PEAK[1])}),
    ),
    wrong=(
        Inequality(
            "the peak lies between start and end of the transition for every V: t0' < t*",
            lambda u_peak: -_start_after_peak(u_peak),
            {"u_peak": U_PEAK},
        ),
        Inequality(
            "twice the peak bounds the end: t0 < 2 t*", lambda u_peak: -_end_over(u_peak, 2.0), {"u_peak": U_PEAK}
        ),
    ),
)

STATEMENTS = (early_piece, late_piece, transition_order)
