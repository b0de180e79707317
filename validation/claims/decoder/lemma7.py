"""Lemma 7: discrete and continuous h stay together."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims._shared import NO_MOMENTUM
from snapdyn.validation.claims.decoder._shared import SCALARS, by_visits, last_visits
from snapdyn.validation.claims.decoder._visits import discrete_logits, recursion, visits_of
from snapdyn.validation.claims.language import EPS, Claim, Floats, Instance, Measured, Property

# Most visits that are stepped through on an instance.
MOST_VISITS = 200_000
# Own: h* - h <= eta_Y/V, half of the printed bound, and h* <= h(s + 1/3) for s <= ln V/eta_Y.
ENOUGH, SHIFT = 1.0, 1 / 3
LOG_6 = math.log(6.0) * (1 - 1e-15)
# u = V h* after numbers of visits, by V and eta_Y.
Steps = Callable[..., Floats]


def gap(instance: Instance, steps: Steps, largest: bool) -> Measured:
    """Largest or smallest (h* - h) V/eta_Y over visits of the most frequent class up to t_end."""
    V, eta, s, u = by_visits(instance, MOST_VISITS, 400, steps)
    scaled = (u - V * analytic.h(s, eta, V)) / eta
    i = scaled.argmax() if largest else scaled.argmin()
    at_most, at_least = (ENOUGH, None) if largest else (None, 0.0)
    return Measured(scaled[i], at_most, at_least, 4 * EPS * u[i] / eta, f"s = {s[i]} visits")


def shift(instance: Instance, steps: Steps) -> Measured:
    """Largest c with h(s+c) = h*(s) over visits s up to ln V/eta_Y; 0 where ln V/eta_Y is below one visit."""
    last = math.log(instance.vocab_size) / instance.eta_Y
    if min(last, last_visits(instance)) < 1:
        return Measured(0.0, at_most=SHIFT)
    V, eta, s, u = by_visits(instance, min(last, MOST_VISITS), 400, steps)
    c = visits_of(u, eta, V) - s
    i = c.argmax()
    return Measured(c[i], at_most=SHIFT, error=8 * EPS * max(s[i], u[i] / eta), where=f"s = {s[i]} visits")


# The largest c known is that of a single visit, eta_Y = ln V: (V-1)/(V ln V) - 1/V, 0.298 at V = 6.
SINGLE = {"V = 6, one visit, eta_Y = ln 6": Instance(np.eye(1, 2), np.zeros(1, int), np.ones(1), 6, LOG_6, 1.0, 1.0)}

CLAIM = Claim(
    "lemma7",
    source="Lemma 7, Eqs. (46)-(49)",
    title="The sizes of the logits in discrete and continuous time differ by at most 2 eta_Y/V",
    statement=(
        "0 <= h*(s) - h(s) <= 2 eta_Y/V for all s (half of the bound is enough); for s <= ln V/eta_Y there is a "
        "shift c = Theta(1) with h(s+c) >= h*(s) (a third of a visit is enough, and 0.9 of that is reached); the gap "
        "h* - h tends to 0."
    ),
    latex=r"0\le h^*(s)-h(s)\le \frac{2\eta_Y}{V}",
    conclusion=(
        "Holds, even with half of the bound; the printed proof that the gap tends to 0, part (b), says nothing for "
        "epsilon <= ln(2)/V, whatever eta_Y (F15). After one visit the steps have V h* = eta_Y; the flow "
        "reaches this value only after more than (exp(eta_Y) - 1)/(V eta_Y) visits. So with large eta_Y the gap stays "
        "large that long."
    ),
    properties=tuple(
        Property(
            name,
            "descent",
            partial(measure, steps=discrete_logits),
            SCALARS,
            conditions=(NO_MOMENTUM,),
            controls={f"wrong theory: {wrong}": partial(measure, steps=steps)},
            evaluations=(quick, 10_000),
            cases=SINGLE if measure is shift else {},
        )
        for name, measure, quick, wrong, steps in (
            (
                "largest (h* - h) V/eta_Y at whole visits (printed bound 2)",
                partial(gap, largest=True),
                300,
                "exp((V-1) h*), the other outputs at 0",
                lambda V, eta, s: recursion(V, eta, s, V - 1, 1 - 1 / V),
            ),
            (
                "smallest (h* - h) V/eta_Y at whole visits",
                partial(gap, largest=False),
                100,
                "V in place of V - 1 in the recursion",
                lambda V, eta, s: recursion(V, eta, s, V, 1.0),
            ),
            (
                "largest shift c in visits, h(s+c) = h*(s), s <= ln V/eta_Y",
                shift,
                300,
                "h* = eta_Y s/V up to ln V/eta_Y",
                lambda V, eta, s: eta * s,
            ),
        )
    ),
    proved=("lag-increment", "largest-gap", "late-lag"),
    certified=("lemma7-repair",),
    findings=("F15",),
)
