"""Certificates for the two pieces of Eq. (14) as upper bounds of the exact growth exponent (129), with their errors.

With u = V h and x = eta_Y t/K, the exact 4 Gamma is proportional to u^2, the early piece to x^2 and the late piece to
ln(V x)^2, with the same factor 2 K (1-1/V)^2 eta_Z/eta_Y. So the pieces are compared through x/u and ln(V x)/u. With
C0 >= 0 added to both, B of a piece exceeds the exact B by at most half the logarithm of that quotient.
"""

from __future__ import annotations

import math

from snapdyn.analytic.certificates.balls import exp_moment, expm1_excess, expm1_ratio
from snapdyn.analytic.certificates.certificate import Statement
from snapdyn.analytic.certificates.decoder_speed import LATE, VOCABULARY, U, of_root, scaled_visits
from snapdyn.analytic.certificates.prover import Ball, Inequality

# Solution of x exp(x) = 1, rounded up.
OMEGA = 0.56714329041

early_piece = Statement(
    id="early-piece-bound",
    title="The early piece of (14) is an upper bound, with its error",
    source="Theorem 4, Eq. (14), first line",
    words="For V in [4, 1e12] and 0 < eta_Y t/K <= ln V (t up to t0'), the early piece exceeds the exact B_n, by at "
    "most -(1/2) ln(1 - Omega/ln V), Omega = 0.5671 the solution of x exp(x) = 1, for all C0 >= 0, K, eta_Y and eta_Z.",
    latex=r"0<B^{\rm early}-B\le-\tfrac12\ln\Bigl(1-\frac\Omega{\ln V}\Bigr),\qquad\Omega e^\Omega=1",
    box={"V": VOCABULARY, "V h": U},
    reduction="x - u = (exp(u)-1-u)/V > 0. V (x/u)' = (u exp(u) - exp(u) + 1)/u^2 > 0, so that x/u is largest at x = "
    "ln V. There u > ln V - Omega, since V x at u = ln V - Omega is below V ln V: the difference is 1 - Omega + ln V, "
    "by exp(-Omega) = Omega, and it increases with u.",
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
            "1/2 for Omega: x/u < 1/(1 - 1/(2 ln V)) up to t0'",
            lambda V, u: 1 / (1 - 1 / (2 * V.log())) - 1 - (expm1_ratio(u) - 1) / V,
            {"V": VOCABULARY, "u": (1e-3, 30.0)},
            where=lambda V, u: V.log() - scaled_visits(u, V),
        ),
    ),
)


def _late_slack(u_plus: Ball, c: Ball, constant: float) -> Ball:
    """u (1 + constant/x) - ln(V x) at u = u_+ + c, by V x = exp(u) (1 + rest)."""
    u = u_plus + c
    rest = (1 + c / u_plus) * (-c).exp() - (-u).exp()
    return constant * u * (1 + of_root(u_plus)) * (-u).exp() / (1 + rest) - rest.log1p()


late_piece = Statement(
    id="late-piece-bound",
    title="The late piece of (14) is an upper bound, with its error",
    source="Theorem 4, Eq. (14), second line",
    words="For V in [4, 1e12] and 2 u_+ <= eta_Y t/K <= 1e18 (t from t0 on), the late piece exceeds the exact B_n, by "
    "at most (1/2) ln(1 + 2 ln(2) K/(eta_Y t)), for every C0 >= 0, K, eta_Y and eta_Z.",
    latex=r"0<B^{\rm late}-B\le\tfrac12\ln\Bigl(1+\frac{2\ln2\,K}{\eta_Yt}\Bigr)",
    box={"V": VOCABULARY, "eta_Y t/K": (3.0, 1e18)},
    reduction="V x = exp(u) (1+r), r = ((V-1) u - 1) exp(-u), so ln(V x) - u = ln(1+r) > 0. From u_+ on r < 1, as "
    "exp(u) > (V-1) u. And u/x > r/(1+r), so it remains that (1+r) ln(1+r) <= 2 ln(2) r on [0, 1]: equal at both ends, "
    "and the left side is convex.",
    inequalities=(
        Inequality("r > 0: (V-1) u > 1", lambda u_plus, c: of_root(u_plus) * (u_plus + c) - 1, LATE),
        Inequality("r < 1: (exp(c)-1)/c > 1/u_+", lambda u_plus, c: expm1_ratio(c) - 1 / u_plus, LATE),
        Inequality("u/x > r/(1+r): V u > (V-1) u - 1", lambda u_plus, c: 1 + u_plus + c, LATE),
        Inequality("(1+r) ln(1+r) is convex: 1/(1+r) > 0", lambda r: 1 / (1 + r), {"r": (0.0, 1.0)}),
    ),
    wrong=(
        Inequality(
            "the constant of late times, 1 for 2 ln 2, from t0 on",
            lambda u_plus, c: _late_slack(u_plus, c, 1.0),
            LATE,
        ),
        Inequality(
            "only the second half: (ln 2) K/(eta_Y t)", lambda u_plus, c: _late_slack(u_plus, c, math.log(2)), LATE
        ),
    ),
)

STATEMENTS = (early_piece, late_piece)
