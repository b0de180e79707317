"""Remark 2: how fast the gap between steps and flow closes."""

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims._shared import NO_MOMENTUM
from snapdyn.validation.claims.decoder._shared import SCALARS, by_visits
from snapdyn.validation.claims.decoder._visits import WholeVisits, discrete_logits, visits_of
from snapdyn.validation.claims.language import EPS, Claim, Floats, Instance, Measured, Picture, Property, Requirement

# Most visits that are stepped through on an instance.
MOST_VISITS = 100_000
# |X - ln((V-1+exp(V h*))/V)/2| over eta_Y: at most 0.135 for eta_Y <= 1, at V = 2.
LARGEST_CONSTANT = 0.15
# Rate at which the constant of the late law is measured.
SMALL = 0.0125

# Lead X of h* over h in visits, by u = V h* and V.
Lead = Callable[..., Floats]


def leading_lag(u: Floats, vocab_size: float) -> Floats:
    """ln((V-1+exp(u))/V)/2: what the leads r = T'' d^2/2 of single steps add up to, T the inverse function of V h.

    A step moves u by d = 1/T', so the sum is the integral of T''/(2 T') over u.
    """
    return np.log1p(np.expm1(u) / vocab_size) / 2


def lead_against(instance: Instance, law: Lead = leading_lag) -> Measured:
    """Largest |X - law|/eta_Y over visits of the most frequent class, h*(s) = h(s + X) with h* by the recursion."""
    V, eta, s, u = by_visits(instance, MOST_VISITS, 60)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(visits_of(u, eta, V) - s - law(u, V)) / eta
    # The lead of one large step, exp(eta_Y)/(V eta_Y) visits, may lie beyond the range of floats: 1e12 stands for more.
    off = np.fmin(off, 1e12)
    i = off.argmax()
    error = 8 * EPS * max(s[i], u[i] / eta) * (1 + u[i]) / eta
    return Measured(off[i], at_most=LARGEST_CONSTANT, error=error, where=f"s = {s[i]} visits")


def picture() -> Picture:
    """Gap between steps and flow by visits of one class, with the bound of Lemma 7 and both sizes of Remark 2."""
    s = np.unique(np.geomspace(1, 1e6, 61).astype(int))
    return Picture(
        "s (visits of the class)",
        "V (h* - h), V = 10, eta_Y = 1",
        (
            Picture.line("h* - h", s, discrete_logits(10, 1.0, s) - 10 * analytic.h(s, 1.0, 10), "simulation"),
            Picture.line("bound of Lemma 7", s, np.full(s.size, 2.0), "bound"),
            Picture.line("(ln(s)/2 + 1/24 + 1/80)/s", s, (np.log(s) / 2 + 1 / 24 + 1 / 80) / s),
            Picture.line("2 ln V/s, printed in Remark 2", s, 2 * np.log(10) / s, "printed"),
        ),
        yscale="log",
    )


def over_printed(visits: int) -> Measured:
    """(h* - h) V s by the recursion over the printed 2 ln V, at V = 10 and eta_Y = 1."""
    gap = discrete_logits(10, 1.0, np.array([visits])) - 10 * analytic.h(visits, 1.0, 10)
    return Measured(gap[0] * visits / (2 * np.log(10)), at_most=1.0)


def constant_left(V: float, of_V: float = 1 / 8, factor: float = 1.0) -> Measured:
    """What `factor` eta_Y (1/24 + of_V/V) leaves of X - ln((V-1+exp(V h*))/V)/2, over eta_Y^2, at s = 1e12."""
    steps = WholeVisits.of(SMALL, V)
    u = steps.logits(1e12)
    left = steps.lag(u) - leading_lag(u, V) - factor * SMALL * (1 / 24 + of_V / V)
    return Measured(abs(float(left)) / SMALL**2, at_most=0.05)


CLAIM = Claim(
    "remark2",
    source="Remark 2, after Lemma 7",
    title="The gap between discrete and continuous time closes like one over the number of visits",
    statement=(
        "After many visits s, the h* of the steps and the h of the flow differ by h*(s) - h(s) of the order of 2 "
        "eta_Y s0/(V s) = O(ln V/(V s)), where s0, of the order of ln V/eta_Y, is the time in the proof of Lemma 7; "
        "and h*(s) <= h(s+c) with c = O(ln V). Corrected: the difference is [ln(eta_Y s)/2 + eta_Y (1/24 + "
        "1/(8V))]/(V s), since every explicit step adds its truncation error; for eta_Y <= 1, the X with "
        "h*(s) = h(s + X) differs at all times from ln((V-1+exp(V h*))/V)/2 by at most 0.15 eta_Y."
    ),
    latex=r"h^*-h\sim\frac{2\eta_Y s_0}{Vs}\ \to\ "
    r"h^*-h=\frac{\frac12\ln(\eta_Y s)+\eta_Y\left(\frac1{24}+\frac1{8V}\right)+O(\eta_Y^2)}{Vs}",
    conditions=("modified flow, discrete steps, Y(0) = 0", "the late law: eta_Y s much larger than ln(V eta_Y s)"),
    conclusion=(
        "The gap falls like ln(eta_Y s)/(2 V s): the logarithm keeps growing, so no constant s0 or c bounds it. At V "
        "= 10 and s = 1e6 the gap is {V = 10, s = 1e6:.2f} times the printed 2 ln V/(V s)."
    ),
    expected="corrected",
    properties=(
        Property(
            "largest |X - ln((V-1+exp(V h*))/V)/2|/eta_Y at whole visits",
            "descent",
            lead_against,
            SCALARS,
            conditions=(
                NO_MOMENTUM,
                Requirement("small rate", "eta_Y <= 1", lambda instance: instance.eta_Y, at_most=1.0),
            ),
            controls={
                # It stays as it is from the transition on, where exp(V h*) reaches V.
                "wrong theory (printed): the lead X stays bounded after the transition": partial(
                    lead_against, law=lambda u, V: leading_lag(np.minimum(u, np.log(V)), V)
                ),
                "wrong theory: 1.1 times the lead": partial(lead_against, law=lambda u, V: 1.1 * leading_lag(u, V)),
            },
            evaluations=(300, 10_000),
            corrected=True,
        ),
        Property(
            "printed size with s0 = ln V/eta_Y: gap over it",
            "descent",
            over_printed,
            cases={"V = 10, s = 1e6": 10**6},
        ),
        Property(
            "constant of the late law less eta_Y (1/24 + 1/(8V)), over eta_Y^2",
            "closed form",
            constant_left,
            controls={
                "wrong theory: constant eta_Y/24 for every V": partial(constant_left, of_V=0.0),
                "wrong theory: 1.1 times the constant": partial(constant_left, factor=1.1),
            },
            cases={"V = 2": 2.0, "V = 1000": 1000.0},
            corrected=True,
        ),
    ),
    proved=("lag-increment", "lag", "late-lag"),
    picture=picture,
    findings=("F11",),
)
