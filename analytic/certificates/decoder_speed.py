"""Certificates for the decoder's growth h and the speed control gamma: Lemmas 6, 8 and 9.

The variable u = V h replaces the visits s = t/K: by (45), V eta_Y s = exp(u) - 1 + (V-1) u, which is explicit in u and
increases with u. Where a statement is about a root of exp(u) = (V-1) u, this root replaces V, by
V - 1 = exp(root)/root. Where a statement is about the maximum of gamma, the place u* of the maximum replaces V, by
V - 1 = (u* - 1) exp(u*). So no root has to be enclosed.
"""

from __future__ import annotations

from snapdyn.analytic.certificates.prover import Ball, Inequality, Statement, exp_moment, expm1_excess, expm1_ratio

# Decimal constants in margins are the nearest doubles; the bounds of the margins are far above that rounding.
# Ranges that the certificates cover. u follows from eta_Y s = 1e-15..1e18: `h_increasing` proves that.
VOCABULARY = (4.0, 1e12)
VISITS = (1e-9, 1e15)
RATE = (1e-6, 1e3)
U = (9e-16, 70.0)
EVERYWHERE = {"V": VOCABULARY, "u": U}
# u_+ and u_- of V = 4..1e12, u* of the same, rounded outwards.
U_PLUS = (1.5121, 31.0673)
U_PEAK = (1.6035, 24.4751)


def scaled_visits(u: Ball, V: Ball) -> Ball:
    """Return eta_Y s = (exp(u) - 1 + (V-1) u)/V, Eq. (45)."""
    return (u.expm1() + (V - 1) * u) / V


def vocabulary_of_root(root: Ball) -> Ball:
    """Return V - 1 = exp(root)/root: with this V, `root` is a root of exp(u) = (V-1) u."""
    return root.exp() / root


def _elasticity(V: Ball, u: Ball) -> Ball:
    return (V - 1 + expm1_ratio(u)) / (V - 1 + u.exp())


h_increasing = Statement(
    id="h-increasing",
    title="h increases with the visits and with eta_Y, and h/s falls",
    source="Lemma 6, Eqs. (44)-(45)",
    words="For V in [4, 1e12], s in [1e-9, 1e15] and eta_Y in [1e-6, 1e3], h(s) increases with s and with eta_Y; "
    "its elasticity d ln h/d ln s = d ln h/d ln eta_Y lies between 0 and 1.",
    latex=r"0<\frac{\partial\ln h}{\partial\ln s}=\frac{\partial\ln h}{\partial\ln\eta_Y}<1",
    box={"V": VOCABULARY, "s": VISITS, "eta_Y": RATE},
    reduction="h depends on s and eta_Y through eta_Y s only. By (45) the elasticity is eta_Y s V/(u (V-1+exp(u))) = "
    "(V-1+(exp(u)-1)/u)/(V-1+exp(u)); numerator and denominator differ by exp(u) - (exp(u)-1)/u, which is u times the "
    "integral of t exp(u t) over t in [0, 1]. The last two inequalities show that u in [9e-16, 70] covers the box.",
    inequalities=(
        Inequality("d ln h/d ln s > 0", _elasticity, EVERYWHERE),
        Inequality("exp(u) > (exp(u) - 1)/u", lambda V, u: exp_moment(u), EVERYWHERE),
        Inequality(
            "eta_Y s < 1e-15 at u = 9e-16",
            lambda V, u: 1 - 1e15 * scaled_visits(u, V),
            {"V": VOCABULARY, "u": (U[0],) * 2},
        ),
        Inequality(
            "eta_Y s > 1e18 at u = 70", lambda V, u: scaled_visits(u, V) - 1e18, {"V": VOCABULARY, "u": (U[1],) * 2}
        ),
    ),
    wrong=(
        Inequality(
            "h is proportional to s within 1 %: d ln h/d ln s > 0.99",
            lambda V, u: _elasticity(V, u) - 0.99,
            EVERYWHERE,
        ),
    ),
)

gamma_single_maximum = Statement(
    id="gamma-single-maximum",
    title="gamma has a single maximum, at t*",
    source="own; Eq. (85)",
    words="For V in [4, 1e12], gamma increases up to t* and falls after it (V h in (0, 70], any K and eta_Y).",
    latex=r"\operatorname{sign}\frac{d\gamma}{dt}=\operatorname{sign}(t^*-t)",
    box=EVERYWHERE,
    reduction="gamma is proportional to u/(V-1+exp(u)), whose derivative has the sign of V-1 - (u-1) exp(u); V-1 = "
    "(u*-1) exp(u*). Minus this difference, divided by exp(u*) (u - u*), is the divided difference of (u-1) exp(u) "
    "over exp(u*): (u*-1) (exp(d)-1)/d + exp(d), d = u - u*.",
    inequalities=(
        Inequality(
            "gamma falls after u*: (u*-1) (exp(d)-1)/d + exp(d) > 0",
            lambda u_peak, d: (u_peak - 1) * expm1_ratio(d) + d.exp(),
            {"u_peak": U_PEAK, "d": (0.0, U[1])},
        ),
        Inequality(
            "gamma increases before u*: the same expression is positive at d = -b",
            lambda u_peak, b: (u_peak - 1) * expm1_ratio(-b) + (-b).exp(),
            {"u_peak": U_PEAK, "b": (0.0, U_PEAK[1])},
        ),
    ),
    wrong=(
        Inequality(
            "gamma increases up to t0' = K ln V/eta_Y",
            lambda V, u: V - 1 - (u - 1) * u.exp(),
            EVERYWHERE,
            where=lambda V, u: V.log() - scaled_visits(u, V),
        ),
    ),
)


def _omega_1_excess(u_plus: Ball, factor: float, times: float = 1.0) -> Ball:
    """Return omega_1 ln V - factor ln(times ln V), where omega_1 ln V = u_+ - ln V and V = 1 + exp(u_+)/u_+."""
    excess = u_plus.log() - (u_plus * (-u_plus).exp()).log1p()
    return excess - factor * (times * (u_plus - excess)).log()


# This box is that of Lemma 8 alone, as far as V is a float.
ANY_VOCABULARY = (4.0, 1e300)
FROM_4, FROM_10 = {"u_plus": (U_PLUS[0], 697.4)}, {"u_plus": (3.4296, 697.4)}
FROM_100 = {"u_minus": (9.99e-301, 0.010205)}
lemma_8 = Statement(
    id="lemma8",
    title="The two roots of exp(u) = (V-1) u, and the sizes of omega_0 and omega_1",
    source="Lemma 8, Eqs. (50)-(51)",
    words="For V in [4, 1e300] there are two roots, one on each side of ln(V-1), and 0.12 ln(2 ln V) < omega_1 ln V < "
    "ln(2 ln V). For V in [10, 1e300] ln ln V < omega_1 ln V < 1.4 ln ln V. For V in [100, 1e300] 0 < omega_0 < "
    "2/(V^0.99 ln V).",
    latex=r"0.12\ln(2\ln V)<\omega_1\ln V<\ln(2\ln V),\qquad\ln\ln V<\omega_1\ln V<1.4\ln\ln V\ (V\ge10),"
    r"\qquad0<\omega_0<\frac2{V^{0.99}\ln V}\ (V\ge100)",
    box={"V": ANY_VOCABULARY},
    reduction="exp(u) - (V-1) u is convex with its minimum (V-1)(1 - ln(V-1)) at ln(V-1). By V - 1 = exp(u_+)/u_+, "
    "omega_1 ln V = u_+ - ln V = ln u_+ - ln(1 + u_+ exp(-u_+)); by V^(omega_0-1) = u_-, omega_0 ln V = ln V + ln u_- "
    "= u_- + ln(1 + u_- exp(-u_-)).",
    inequalities=(
        Inequality("the minimum is negative: ln(V-1) > 1", lambda V: (V - 1).log() - 1, {"V": ANY_VOCABULARY}),
        Inequality("omega_1 ln V > 0.12 ln(2 ln V), V >= 4", lambda u_plus: _omega_1_excess(u_plus, 0.12, 2.0), FROM_4),
        Inequality("omega_1 ln V < ln(2 ln V), V >= 4", lambda u_plus: -_omega_1_excess(u_plus, 1.0, 2.0), FROM_4),
        Inequality(
            "omega_1 ln V > ln ln V",
            lambda u_plus: _omega_1_excess(u_plus, 1.0),
            FROM_10,
        ),
        Inequality(
            "omega_1 ln V < 1.4 ln ln V",
            lambda u_plus: -_omega_1_excess(u_plus, 1.4),
            FROM_10,
        ),
        Inequality(
            "omega_0 V^0.99 ln V < 2",
            lambda u_minus: 2 - _omega_0_log(u_minus) * (0.99 * (1 + vocabulary_of_root(u_minus)).log()).exp(),
            FROM_100,
        ),
    ),
    wrong=(
        Inequality(
            "omega_1 ln V > 0.132 ln(2 ln V), 1.1 times the constant",
            lambda u_plus: _omega_1_excess(u_plus, 0.132, 2.0),
            FROM_4,
        ),
        Inequality(
            "the leading order ln V + ln ln V bounds u_+ from above: omega_1 ln V < ln ln V",
            lambda u_plus: -_omega_1_excess(u_plus, 1.0),
            FROM_10,
        ),
        Inequality("two roots for V >= 3 as well", lambda V: (V - 1).log() - 1, {"V": (3.0, VOCABULARY[1])}),
    ),
)


def _omega_0_log(u_minus: Ball) -> Ball:
    return u_minus + (u_minus * (-u_minus).exp()).log1p()


def _visits_at_first_stage(V: Ball) -> Ball:
    """Return eta_Y s - ln V at u = ln(V-1)."""
    return 1 - 2 / V + (1 - 1 / V).log() - (V - 1).log() / V


def _early_constant(V: Ball, u: Ball) -> Ball:
    """Return gamma/((1-1/V)^2 eta_Y s)."""
    return 1 / ((1 + u.expm1() / V) * (1 + (expm1_ratio(u) - 1) / V))


FROM_5 = (5.0, 1e12)
lemma_9_early = Statement(
    id="lemma9-early",
    title="Speed control before the transition, with the conditions it needs",
    source="Lemma 9, Eqs. (52)-(57), first stage",
    words="For V in [5, 1e12] and [2 (V-1) u_- - 1]/V <= eta_Y t/K <= ln V: exp(V h) <= min(V-1, (V-1) V h), and 0.4 "
    "<= gamma/((1-1/V)^2 eta_Y t/K) <= 1 for all eta_Y t/K <= ln V. The lower limit is at most the first visit, t = K, "
    "if and only if eta_Y >= [2 (V-1) u_- - 1]/V = 1/V + 2/V^2 + ...; for V in [100, 1e12] eta_Y >= V^-0.99 suffices. "
    "(u_- is the smaller root of exp(u) = (V-1) u.)",
    latex=r"e^{Vh}\le\min(V-1,(V-1)Vh),\quad0.4\le\frac{\gamma}{(1-1/V)^2\,\eta_Yt/K}\le1\qquad"
    r"\Bigl(\frac{2(V-1)u_--1}V\le\frac{\eta_Yt}K\le\ln V,\ V\ge5\Bigr)",
    box={"V": FROM_5},
    reduction="The first inequality says that eta_Y s is above ln V at u = ln(V-1), hence u < ln(V-1) up to t0'. With "
    "u = u_- + c and V-1 = exp(u_-)/u_-, (V-1) u - exp(u) = exp(u_-) c (1/u_- - (exp(c)-1)/c), for c up to ln(V-1) - "
    "u_- = -ln u_-. At u_- (45) gives V eta_Y s = 2 (V-1) u_- - 1 = 2 exp(u_-) - 1. The constant of gamma is "
    "1/((1 + (exp(u)-1)/V)(1 + ((exp(u)-1)/u - 1)/V)), in which both factors exceed 1.",
    inequalities=(
        Inequality(
            "eta_Y s > ln V at u = ln(V-1)",
            _visits_at_first_stage,
            {"V": FROM_5},
        ),
        Inequality(
            "exp(u) < (V-1) u between u_- and ln(V-1): (exp(c)-1)/c < 1/u_-, c = -share ln u_-",
            lambda u_minus, share: 1 - u_minus * expm1_ratio(-share * u_minus.log()),
            {"u_minus": (9.99e-13, 0.35741), "share": (0.0, 1.0)},
        ),
        Inequality(
            "V^-0.99 > [2 (V-1) u_- - 1]/V for V >= 100",
            lambda u_minus: (0.01 * (1 + vocabulary_of_root(u_minus)).log()).exp() - (2 * u_minus.exp() - 1),
            {"u_minus": (9.99e-13, 0.010205)},
        ),
        Inequality("gamma < (1-1/V)^2 eta_Y s: (exp(u)-1)/u > 1, over u", lambda u: expm1_excess(u), {"u": U}),
        Inequality(
            "gamma > 0.4 (1-1/V)^2 eta_Y s, u = share ln(V-1)",
            lambda V, share: _early_constant(V, share * (V - 1).log()) - 0.4,
            {"V": FROM_5, "share": (0.0, 1.0)},
        ),
    ),
    wrong=(
        Inequality(
            "no condition on eta_Y: exp(u) < (V-1) u at every time up to t0'",
            lambda V, u: (V - 1) * u - u.exp(),
            {"V": FROM_5, "u": U},
            where=lambda V, u: V.log() - scaled_visits(u, V),
        ),
        Inequality(
            "exp(V h) <= V-1 for V >= 4",
            _visits_at_first_stage,
            {"V": VOCABULARY},
        ),
    ),
)


def late(u_plus: Ball, c: Ball) -> tuple[Ball, Ball, Ball]:
    """Return u, (V-1) u exp(-u) - exp(-u) and (V-1) exp(-u), at u = u_+ + c."""
    u = u_plus + c
    return u, (1 + c / u_plus) * (-c).exp() - (-u).exp(), (-c).exp() / u_plus


def _late_constant(u_plus: Ball, c: Ball) -> Ball:
    """Return gamma eta_Y s/((1-1/V)^2 ln(V eta_Y s)), where V eta_Y s = exp(u) (1 + rest)."""
    u, rest, others = late(u_plus, c)
    return (1 + rest) / (1 + others) / (1 + rest.log1p() / u)


def _late_without_V(u_plus: Ball, c: Ball) -> Ball:
    u, rest, others = late(u_plus, c)
    log = u + rest.log1p() - (1 + vocabulary_of_root(u_plus)).log()
    return 2 * log - u * (1 + rest) / (1 + others)


LATE = {"u_plus": U_PLUS, "c": (0.0, U[1])}
lemma_9_late = Statement(
    id="lemma9-late",
    title="Speed control after the transition",
    source="Lemma 9, Eqs. (52)-(57), second stage",
    words="For V in [4, 1e12] and 2 u_+ <= eta_Y t/K <= 1e18, u_+ = (1+omega_1) ln V: exp(V h) >= max(V-1, (V-1) V h), "
    "V h < ln(V eta_Y t/K), and gamma = c (1-1/V)^2 K ln(V eta_Y t/K)/(eta_Y t) with 0.75 < c < 2. There is no "
    "condition on eta_Y.",
    latex=r"e^{Vh}\ge\max(V-1,(V-1)Vh),\quad Vh<\ln\frac{V\eta_Yt}K,\quad"
    r"0.75<\frac{\gamma\,\eta_Yt/K}{(1-1/V)^2\ln(V\eta_Yt/K)}<2\qquad\Bigl(\frac{\eta_Yt}K\ge2u_+\Bigr)",
    box={"V": VOCABULARY, "eta_Y t/K": (3.0, 1e18)},
    reduction="At u = u_+ (45) gives V eta_Y s = 2 (V-1) u_+ - 1 < 2 V u_+, so that u = u_+ + c with c >= 0 from t0 "
    "on. There exp(u) > (V-1) u if (exp(c)-1)/c > 1/u_+, and exp(u) > V-1 since u_+ > 1. ln(V eta_Y s) - u = ln(1 + "
    "((V-1) u - 1) exp(-u)) > 0.",
    inequalities=(
        Inequality("(exp(c)-1)/c > 1/u_+", lambda u_plus, c: expm1_ratio(c) - 1 / u_plus, LATE),
        Inequality("(V-1) u > 1", lambda u_plus, c: vocabulary_of_root(u_plus) * (u_plus + c) - 1, LATE),
        Inequality("constant of gamma < 2", lambda u_plus, c: 2 - _late_constant(u_plus, c), LATE),
        Inequality("constant of gamma > 0.75", lambda u_plus, c: _late_constant(u_plus, c) - 0.75, LATE),
    ),
    wrong=(
        Inequality("ln(eta_Y t/K) for ln(V eta_Y t/K): gamma < 2 K ln(eta_Y t/K)/(eta_Y t)", _late_without_V, LATE),
        Inequality("constant of gamma < 1, its late limit", lambda u_plus, c: 1 - _late_constant(u_plus, c), LATE),
    ),
)

STATEMENTS = (h_increasing, gamma_single_maximum, lemma_8, lemma_9_early, lemma_9_late)
