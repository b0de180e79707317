"""Lemma 7: discrete and continuous h stay together."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.decoder._shared import PLAIN_STEPS, SCALARS, last_visits, visits_up_to
from snapdyn.validation.dense_algebra import EPS
from snapdyn.validation.statement import Claim, Instance, Measured, Picture, Property
from snapdyn.validation.visits import discrete_logits, recursion, visits_of

# Most visits that are stepped through on an instance.
MOST_VISITS = 200_000
# Own: h* - h <= eta_Y/V, half of the printed bound, and h* <= h(s + 1/3) for s <= ln V/eta_Y.
PRINTED, ENOUGH, SHIFT = 2.0, 1.0, 1 / 3
# u = V h* after numbers of visits, by V and eta_Y.
Steps = Callable[..., Floats]


def gap(instance: Instance, largest: bool = True, steps: Steps = discrete_logits) -> Measured:
    """Largest or smallest (h* - h) V/eta_Y over visits of the most frequent class up to t_end."""
    V, eta = float(instance.vocab_size), instance.eta_Y
    s = visits_up_to(min(last_visits(instance), MOST_VISITS), 400)
    u = steps(V, eta, s)
    scaled = (u - V * analytic.h(s, eta, V)) / eta
    i = scaled.argmax() if largest else scaled.argmin()
    at_most, at_least = (ENOUGH, None) if largest else (None, 0.0)
    return Measured(scaled[i], at_most, at_least, 4 * EPS * u[i] / eta, f"s = {s[i]} visits")


def shift(instance: Instance, steps: Steps = discrete_logits) -> Measured:
    """Largest c, h(s+c) = h*(s), over visits up to ln V/eta_Y; 0 where that is before the first visit."""
    V, eta = float(instance.vocab_size), instance.eta_Y
    last = min(math.log(V) / eta, last_visits(instance))
    if last < 1:
        return Measured(0.0, at_most=SHIFT)
    s = visits_up_to(min(last, MOST_VISITS), 400)
    u = steps(V, eta, s)
    c = visits_of(u, eta, V) - s
    i = c.argmax()
    return Measured(c[i], at_most=SHIFT, error=8 * EPS * max(s[i], u[i] / eta), where=f"s = {s[i]} visits")


def picture() -> Picture:
    """The gap by visits, and its bound."""
    V, s = 1000.0, np.arange(1, 3001)
    return Picture(
        "s (visits of the class)",
        "(h* - h) V/eta_Y, V = 1000, eta_Y = 1",
        (
            Picture.line(
                "h* recursion against closed form",
                s,
                discrete_logits(V, 1.0, s) - V * analytic.h(s, 1.0, V),
                "simulation",
            ),
            Picture.line("bound of the lemma", s[[0, -1]], [PRINTED, PRINTED], "bound"),
        ),
    )


CLAIM = Claim(
    "lemma7",
    source="Lemma 7, Eqs. (46)-(49)",
    title="Discrete and continuous h differ by at most 2 eta_Y/V",
    statement="0 <= h*(s) - h(s) <= 2 eta_Y/V for all s (half of the bound is enough); for s <= ln V/eta_Y a shift "
    "c = Theta(1) has h(s+c) >= h*(s) (a third of a visit is enough); the gap tends to 0.",
    latex=r"0\le h^*(s)-h(s)\le \frac{2\eta_Y}{V}",
    conclusion="Holds, even with half of the bound; the printed proof of (b) does not cover gaps up to ln(2)/V. That "
    "proof is empty for every epsilon <= ln(2)/V, whatever eta_Y (F15). The flow needs more than (exp(eta_Y) - "
    "1)/(V eta_Y) visits to reach what the first visit brings, V h* = eta_Y: with large eta_Y the gap stays that long.",
    properties=(
        Property(
            f"largest (h* - h) V/eta_Y at whole visits (printed bound {PRINTED:g})",
            "descent",
            gap,
            SCALARS,
            conditions=(PLAIN_STEPS,),
            controls={
                "wrong theory: exp((V-1) h*), the other outputs at 0": lambda instance: gap(
                    instance, True, lambda V, eta, s: recursion(V, eta, s, V - 1, 1 - 1 / V)
                )
            },
            evaluations=(300, 10_000),
        ),
        Property(
            "smallest (h* - h) V/eta_Y at whole visits",
            "descent",
            lambda instance: gap(instance, largest=False),
            SCALARS,
            conditions=(PLAIN_STEPS,),
            controls={
                "wrong theory: V in place of V - 1 in the recursion": lambda instance: gap(
                    instance, False, lambda V, eta, s: recursion(V, eta, s, V, 1.0)
                )
            },
            evaluations=(100, 10_000),
        ),
        Property(
            "largest shift c in visits, h(s+c) = h*(s), s <= ln V/eta_Y",
            "descent",
            shift,
            SCALARS,
            conditions=(PLAIN_STEPS,),
            controls={
                "wrong theory: h* = eta_Y s/V up to ln V/eta_Y": lambda instance: shift(
                    instance, lambda V, eta, s: eta * s
                )
            },
            evaluations=(300, 10_000),
        ),
    ),
    proved=("lag-increment", "largest-gap", "late-lag"),
    certified=("lemma7-repair",),
    picture=picture,
    findings=("F15",),
)
