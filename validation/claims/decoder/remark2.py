"""Remark 2: how fast the gap between steps and flow closes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.claims.decoder._shared import PLAIN_STEPS, SCALARS, last_visits
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.search import Instance
from snapdyn.validation.statistics import fit_order
from snapdyn.validation.visits import FROZEN, discrete_logits, late_lag, own_lead, single_token_classes, visits_of

# Most visits that are stepped through on an instance.
MOST_VISITS = 100_000
# |X - ln((V-1+exp(V h*))/V)/2| over eta_Y: at most 0.135 for eta_Y <= 1, at V = 2.
LARGEST_CONSTANT = 0.15
# Numbers above this one are reported as this one.
FAR_OFF = 1e12

SLOW = Requirement("small rate", "eta_Y <= 1", lambda instance: instance.eta_Y, at_most=1.0)

# Lead X of h* over h in visits, by u = V h* and V.
Lead = Callable[[Floats, float], Floats]


def leading_lag(u: Floats, vocab_size: float | Floats) -> Floats:
    """ln((V-1+exp(u))/V)/2: the sum of r = T'' d^2/2, T the inverse of V h, as the integral of T''/(2 T')."""
    return np.asarray(np.log1p(np.expm1(u) / vocab_size) / 2)


def bounded_lag(u: Floats, vocab_size: float) -> Floats:
    """Wrong theory, the printed one: X stays as it is from the transition on, where exp(V h*) reaches V."""
    return leading_lag(np.minimum(u, math.log(vocab_size)), vocab_size)


def twice_the_lag(u: Floats, vocab_size: float) -> Floats:
    """Wrong theory: r = T'' d^2, Taylor's term without its 1/2."""
    return 2 * leading_lag(u, vocab_size)


def lead_against(law: Lead) -> Callable[[Instance], Measured]:
    """Largest |X - law|/eta_Y over visits of the most frequent class, X by the recursion: h*(s) = h(s + X)."""

    def measure(instance: Instance) -> Measured:
        V, eta = float(instance.vocab_size), instance.eta_Y
        last = max(1.0, min(last_visits(instance), MOST_VISITS))
        s = np.unique(np.geomspace(1, last, 60).astype(np.int64))
        u = discrete_logits(V, eta, s)
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(visits_of(u, eta, V) - s - law(u, V)) / eta
        # The lead of one large step, exp(eta_Y)/(V eta_Y) visits, may lie beyond the range of floats.
        off = np.where(np.isfinite(off), np.minimum(off, FAR_OFF), FAR_OFF)
        i = int(off.argmax())
        error = 8 * np.finfo(float).eps * max(float(s[i]), float(u[i]) / eta) * (1 + float(u[i])) / eta
        return Measured(off[i], at_most=LARGEST_CONSTANT, error=error, where=f"s = {s[i]} visits")

    return measure


@claim(
    "remark2",
    source="Remark 2, after Lemma 7",
    title="The gap between steps and flow closes like 2 eta_Y s0/(V s)",
    answer="The gap falls like ln(eta_Y s)/(2 V s): the logarithm keeps growing, so no constant s0 bounds it.",
    statement="Late, h*(s) - h(s) is of the order of 2 eta_Y s0/(V s) = O(ln V/(V s)), s0 the time of the order of "
    "ln V/eta_Y in the proof of Lemma 7, and h*(s) <= h(s+c) with c = O(ln V). Corrected: it is "
    "[ln(eta_Y s)/2 + eta_Y (1/24 + 1/(8V))]/(V s): Euler's truncation keeps feeding it, so that no constant s0 or c "
    "bounds it; for eta_Y <= 1 at all times h*(s) = h(s + X), X = ln((V-1+exp(V h*))/V)/2 within 0.15 eta_Y.",
    latex=r"h^*-h\sim\frac{2\eta_Y s_0}{Vs}\ \to\ "
    r"h^*-h=\frac{\frac12\ln(\eta_Y s)+\eta_Y\left(\frac1{24}+\frac1{8V}\right)+O(\eta_Y^2)}{Vs}",
    expected="corrected",
    assumptions=("modified flow, discrete steps, Y(0) = 0", "the late law: eta_Y s much larger than ln(V eta_Y s)"),
    findings=("F11",),
    properties=Property(
        "largest |X - ln((V-1+exp(V h*))/V)/2|/eta_Y at whole visits",
        "descent",
        lead_against(leading_lag),
        SCALARS,
        conditions=(PLAIN_STEPS, SLOW),
        controls={
            "wrong theory (printed): the lead X stays bounded after the transition": lead_against(bounded_lag),
            "wrong theory: twice the lead": lead_against(twice_the_lag),
        },
        evaluations=(300, 10_000),
        corrected=True,
    ),
)
def remark2(evidence: Evidence) -> None:
    last = 10**8 if evidence.full else 10**6
    visits = np.unique(np.geomspace(10, last, 8 * round(math.log10(last))).round().astype(np.int64))
    s, fitted = visits.astype(float), visits >= last // 100
    slopes, margins, limits, lags, rounding = [], [], [], [], []
    shown: dict[int, Floats] = {}
    cases = [(V, eta) for V in (2, 10, 1000, 10_000_000) for eta in (0.1, 1.0, 3.0)]
    for V, eta in cases:
        u = discrete_logits(float(V), eta, visits)
        scaled = (u - V * analytic.h(s, eta, V)) * s
        slopes.append(float(np.polyfit(np.log(s[fitted]), scaled[fitted], 1)[0]))
        # h' = (1/(V s)) (1 + O(ln(V eta s)/(eta s))): the share of the law that a finite s leaves out.
        first = s[fitted][0]
        margins.append(float(scaled[-1] * np.log(V * eta * first) / (eta * first)))
        limits.append(float(scaled[-1] - np.log(eta * s[-1]) / 2))
        lags.append(float((visits_of(u[-1:], eta, V) - s[-1])[0]))
        rounding.append(4 * np.finfo(float).eps * s[-1] * u[-1])  # of u and of exp(u), times s
        if eta == 1.0:
            shown[V] = scaled
    slope, margin = np.array(slopes), np.array(margins)
    by_s0 = shown[10][-1] / (2 * np.log(10))
    name = "printed law: |slope of (h* - h) V s on ln s| over what a finite s explains, smallest of 12"
    evidence.holds(name, "descent", float(np.min(np.abs(slope) / margin)), at_most=1.0)
    name = f"printed size with s0 = ln V/eta_Y, V = 10: gap over it at s = {last:g}"
    evidence.holds(name, "descent", by_s0, at_most=1.0)
    evidence.proved("lag-increment", "lag", "late-lag", corrected=True)
    name = f"|slope of (h* - h) V s on ln s - 1/2| over what a finite s explains, largest of 12, to s = {last:g}"
    evidence.corrected(name, "descent", float(np.max(np.abs(slope - 0.5) / margin)), at_most=1.0)
    evidence.misprint("late-lag", "printed: late visits add nothing to the lag, in sympy")
    _check_late_lag(evidence, cases, s[-1], np.array(lags), np.array(rounding))
    _check_constant(evidence)
    _check_training(evidence)
    evidence.conclusion = (
        f"(h* - h) V s grows by {slope.min():.4f} to {slope.max():.4f} per unit of ln s (1/2; printed: 0) "
        f"and is ln(eta_Y s)/2 plus [{min(limits):.3f}, {max(limits):.3f}] at s = {last:g}, for V = 2..1e7 and eta_Y = "
        f"0.1..3. At V = 10 it is {by_s0:.2f} times the printed 2 ln V."
    )
    evidence.picture = Picture(
        "s (visits of the class)",
        "(h* - h) V s, eta_Y = 1",
        (
            Picture.line("V = 1000", s, shown[1000], "simulation"),
            Picture.line("V = 10", s, shown[10], "simulation"),
            Picture.line("ln(s)/2 + 1/24", s, np.log(s) / 2 + 1 / 24),
            Picture.line("2 ln V, V = 10 (printed, s0 = ln V/eta_Y)", s[[0, -1]], [2 * np.log(10)] * 2, "printed"),
        ),
    )
    latest = min(eta * s[fitted][0] / np.log(V * eta * s[fitted][0]) for V, eta in cases)
    required = "eta_Y s/ln(V eta_Y s) >= 10 where the slope is fitted"
    evidence.conditions.append(Condition("late visits", required, 10.0, latest, latest >= 10))
    evidence.seeds.append(0)


def _check_late_lag(
    evidence: Evidence, cases: list[tuple[int, float]], last: float, lags: Floats, rounding: Floats
) -> None:
    """Check the lag by its integral against the recursion, and its slope up to s = 1e12."""
    V, eta = np.array(cases).T
    far = np.geomspace(1e10, 1e12, 9)
    lag = late_lag(V, eta, np.append(last, far))
    beyond = float(np.max(np.abs(lag[0] - lags) / rounding))
    name = f"lag X by the integral against the recursion at s = {last:g}, over the recursion's rounding"
    evidence.corrected(name, "closed form", beyond, at_most=1.0)
    # dX/d ln s = 1/2 (1 - O(ln(V eta s)/(eta s))): 4e-8 at s = 1e10, eta = 0.1.
    slope = float(np.abs(np.polyfit(np.log(far), lag[1:], 1)[0] - 0.5).max())
    name = "|slope of the lag on ln s - 1/2|, s = 1e10..1e12, V = 2..1e7"
    evidence.corrected(name, "closed form", slope, at_most=1e-7)


def _check_constant(evidence: Evidence) -> None:
    """Check the constant eta_Y (1/24 + 1/(8V)) of the law by the order in eta_Y of what it leaves."""
    rates: Floats = 0.2 * 2.0 ** -np.arange(5.0)
    for V in (2, 1000):
        found = _constant_of_lag(V, rates)
        order = fit_order(rates, np.abs(found - rates * (1 / 24 + 1 / (8 * V))), next_order=1.0)
        name = (
            f"constant of the law less eta_Y (1/24 + 1/(8V)), V = {V}: order in eta_Y ({order}): |corrected slope - 2|"
        )
        evidence.corrected(name, "closed form", abs(order.corrected - 2), at_most=order.margin())
        evidence.corrected(f"margin of that order, V = {V}", "closed form", order.margin(), at_most=0.25)
        if V == 2:
            wrong = fit_order(rates, np.abs(found - rates / 24), next_order=1.0)
            evidence.control(
                "wrong theory: constant eta_Y/24 for every V, V = 2: order in eta_Y of what is left",
                "closed form",
                abs(wrong.corrected - 2),
                at_most=order.margin(),
            )


def _check_training(evidence: Evidence) -> None:
    """Check the law on batch-size-1 SGD of one class."""
    steps = 100_000 if evidence.full else 20_000
    record = np.unique(np.geomspace(100, steps, 40).round().astype(np.int64))
    trained = sgd(single_token_classes(1, 1000), 1.0, FROZEN, steps, record=record, save_decoder=True)
    lead = own_lead(trained)[:, 0]
    left = visits_of(lead, 1.0, 1000) - record - leading_lag(lead, 1000) - _constant_of_lag(1000, np.ones(1))
    # What the sum of r still adds after s: 1/(6 s) to leading order.
    name = f"lag of batch-size-1 SGD on one class against the law, times s, s = 100..{steps}: largest"
    evidence.corrected(name, "SGD", float(np.max(np.abs(left) * record)), at_most=1.0)


def _constant_of_lag(vocab_size: float, eta_Y: Floats) -> Floats:
    """X - ln((V-1+exp(V h*))/V)/2 at s = 1e12, for several rates (n,)."""
    s, V = np.array([1e12]), np.full(eta_Y.size, float(vocab_size))
    lag = late_lag(V, eta_Y, s)[0]
    return lag - leading_lag(V * analytic.h(s + lag, eta_Y, V), V)
