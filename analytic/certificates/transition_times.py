"""Certificates for the order of the transition times t0' = K ln V/eta_Y, t* (peak of gamma) and t0 = 2 u_+ K/eta_Y.

In units of K/eta_Y they depend on V only: ln V, x* = ((V-1) u* + exp(u*) - 1)/V with V - 1 = (u*-1) exp(u*), and 2 u_+.
"""

from __future__ import annotations

from snapdyn.analytic.certificates.certificate import Statement
from snapdyn.analytic.certificates.decoder_speed import U_PEAK, VOCABULARY
from snapdyn.analytic.certificates.prover import Ball, Inequality

# u* of V = 18, rounded up, and of V = 19, rounded down.
U_PEAK_18, U_PEAK_19 = 2.45691, 2.49095


def _of_peak(u_peak: Ball) -> tuple[Ball, Ball]:
    """V - 1 and x* = eta_Y t*/K, by (45)."""
    others = (u_peak - 1) * u_peak.exp()
    return others, (u_peak.expm1() + others * u_peak) / (1 + others)


def _between_roots(others: Ball, a: Ball) -> Ball:
    """ln((V-1) a) - a, positive where u_- < a < u_+."""
    return (others * a).log() - a


def _start_after_peak(u_peak: Ball) -> Ball:
    others, peak = _of_peak(u_peak)
    return (1 + others).log() - peak


def _end_over(u_peak: Ball, factor: float) -> Ball:
    """Positive where t0 > factor t* (factor t*/2 lies above u_-)."""
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
    "if a/2 > ln(V-1) and ln((V-1) a/2) < a/2. V is written by u*.",
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
            "the peak lies between start and end for every V: t0' < t*",
            lambda u_peak: -_start_after_peak(u_peak),
            {"u_peak": U_PEAK},
        ),
        Inequality(
            "twice the peak bounds the end: t0 < 2 t*", lambda u_peak: -_end_over(u_peak, 2.0), {"u_peak": U_PEAK}
        ),
    ),
)

STATEMENTS = (transition_order,)
