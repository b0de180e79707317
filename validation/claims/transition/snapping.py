"""Snapping: after the transition attention freezes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from snapdyn import analytic
from snapdyn.analytic import h
from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    Trajectory,
    log_times,
    sgd,
    single_common_token,
    syn_medium,
    syn_small,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.claims.transition._shared import (
    DISTINCT_TOKENS,
    SYMMETRIC,
    SYMMETRIC_FAMILY,
    common_growth,
    log_growth,
    overlap,
    transition,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.instances import single_common_profile
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import (
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    LARGE_VOCABULARY,
    ONE_COMMON_TOKEN,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    UNIFORM,
    ZERO_START,
)
from snapdyn.validation.search import Family, Instance, flow

# Attention's way is counted to this many t0: B grows like ln ln t without bound, so a share needs a horizon.
WHOLE = 1e6


def _last_transition(instance: Instance) -> float:
    """t0 of the rarest class, batch-size-1 steps."""
    return 2 * float(analytic.u_plus(instance.vocab_size)) / (instance.flow_rates[0] * float(instance.prior.min()))


LATE = Requirement(
    "time after the transition", "t_end >= 2 t0 of the rarest class", lambda i: i.t_end / _last_transition(i),
    at_least=2, defining=True,
)  # fmt: skip
ONE_COMMON = (
    SEVERAL_CLASSES,
    OWN_NEXT_TOKENS,
    DISTINCT_TOKENS,
    OVERLAPPING,
    LARGE_VOCABULARY,
    replace(ZERO_START, defining=True),
    replace(INFINITE_LENGTH, defining=True),
    LATE,
)
# Under Eq. (10) two classes that overlap only each other have d ln chi/d ln ln = 2/((2 - f_1c^2 - f_2c^2) S), S the sum
# of 1 - f_nc^2: at most 1 for f_nc^2 <= 1 - 1/sqrt(2) = 0.29, if f is small on the dominant token; f_nc falls in time.
SMALL_SHARE = Requirement(
    "small share of the common token", "f_nc(0)^2 <= 0.25 for every class",
    lambda i: float((_common_share(i) ** 2).max()), at_most=0.25,
)  # fmt: skip
NOT_FASTER = Requirement("attention not faster than the decoder", "eta_Z/eta_Y <= 1", lambda i: i.ratio, at_most=1)
LATE_FAMILY = Family(
    "any classes",
    "weak",
    uniform=False,
    num_common=(1, 2),
    num_distinct=(1, 4),
    num_queries=(1, 4),
    vocab_size=(4, 10**6),
    ratio=(1e-6, 2.0),
    horizon=(1e2, 1e7),
    eta_Y=(1e-6, 1e6),
)


def _common_share(instance: Instance) -> Floats:
    """f_nc of the common token at the start (S,); of several, the length of all."""
    f = instance.P / np.linalg.norm(instance.P, axis=1, keepdims=True)
    return np.asarray(np.linalg.norm(f[:, instance.classes.common_tokens()], axis=1))


def _after(instance: Instance, run: Trajectory) -> list[tuple[int, Floats, Floats]]:
    """Per class: its number, saved times from t0 = 2 u_+/(p_n eta_Y) on, ln chi of its dominant token there."""
    eta_Y, found = instance.flow_rates[0], []
    for n in range(instance.num_classes):
        late = run.t >= 2 * float(analytic.u_plus(instance.vocab_size)) / (eta_Y * instance.prior[n])
        found.append((n, run.t[late], log_growth(run, n)[late]))
    return found


def _slope(instance: Instance, n: int, t: Floats, growth: Floats) -> tuple[float, float]:
    """Largest d ln chi/d ln ln(V eta_Y p_n t) between saved times, and its time."""
    logarithm = np.log(np.log(instance.vocab_size * instance.flow_rates[0] * instance.prior[n] * t))
    slopes = np.diff(growth) / np.diff(logarithm)
    i = int(np.argmax(slopes))
    return float(slopes[i]), float(t[i])


def _power(instance: Instance, n: int, t: Floats, growth: Floats) -> tuple[float, float]:
    """Largest d ln(ln chi)/d ln t between saved times over 4/(1+u_+), and its time."""
    powers = np.diff(np.log(growth)) / np.diff(np.log(t)) * (1 + float(analytic.u_plus(instance.vocab_size))) / 4
    i = int(np.argmax(powers))
    return float(powers[i]), float(t[i])


Rate = Callable[[Instance, int, Floats, Floats], tuple[float, float]]


def late_rate(rate: Rate, kind: type[MeanField] | type[ModifiedDecoder]) -> Callable[[Instance], Measured | None]:
    """Largest rate over the classes and the times t >= t0, at most 1."""

    def measure(instance: Instance) -> Measured | None:
        run = flow(instance, kind)
        if run is None:
            return None
        largest = Measured(-np.inf, at_most=1)
        for n, t, growth in _after(instance, run):
            if t.size < 2 or growth.min() <= 0:
                continue
            value, when = rate(instance, n, t, growth)
            if value > largest.value:
                largest = Measured(value, at_most=1, error=1e-4, where=f"class {n} at t = {when:.3g}")
        return largest if np.isfinite(largest.value) else None

    return measure


def without_speed_control(rate: Rate) -> Callable[[Instance], Measured | None]:
    """Wrong theory: gamma = eta_Y p_n t for ever; ln chi = ln(1 + 4 A Gamma)/(2K), Gamma = p_n eta_Y eta_Z t^2/2."""

    def measure(instance: Instance) -> Measured | None:
        (eta_Y, eta_Z), K = instance.flow_rates, instance.num_classes
        x = float((instance.gram.sum() - K) / (K * (K - 1)))  # mean overlap
        n = int(np.argmax(instance.prior))
        t = np.geomspace(_last_transition(instance), instance.t_end, 60)
        growth = np.log1p(4 * (K - 1) * x**2 * instance.prior[n] * eta_Y * eta_Z * t**2 / 2) / (2 * K)
        return Measured(rate(instance, n, t, growth)[0], at_most=1) if growth.min() > 0 else None

    return measure


def _orbit_growth(instance: Instance, t: Floats) -> Floats:
    """ln chi of the dominant token under Eq. (10) with leading beta, symmetric classes, by one quadrature (N,)."""
    profile = single_common_profile(instance.classes)
    assert profile is not None
    eta_Y, eta_Z = instance.flow_rates
    K, V = instance.num_classes, instance.vocab_size
    distinct, common = profile.distinct_probabilities, profile.common_probability
    orbit = analytic.single_common_token_orbit(t, distinct, common, K, V, eta_Y, eta_Z, beta="leading")
    return np.asarray(2 * orbit.z_distinct[:, int(np.argmax(distinct))])


def _late_times(instance: Instance) -> Floats:
    end = transition(instance.classes, instance.flow_rates[0])[1]
    return np.geomspace(end, max(WHOLE * end, instance.t_end), 20)


def below_upper_bound(instance: Instance) -> Measured:
    """Largest ln chi over its upper bound under Eq. (10) with leading beta, t >= t0.

    As in `scanning_bound`, from the other side: x falls at least as fast as exp(-2 K (1-x)^2 B), x <= x(0), so
    B <= ln(1 + 4 a A Gamma)/(4 a K), a = (1-x(0))^2, A = `Overlap.most`, and chi <= exp(2 B), Eq. (12).
    """
    start, t, K = overlap(instance.classes), _late_times(instance), instance.num_classes
    a = (1 - start.x) ** 2
    bound = np.log1p(4 * a * start.most * common_growth(instance, t)) / (2 * a * K)
    return Measured(float(np.max(_orbit_growth(instance, t) / bound)), at_most=1, error=1e-9)


def with_every_token_alone(instance: Instance) -> Measured:
    """Wrong theory: classes of one token each (f_l = 1), for any profile: ln chi of the orbit of such classes."""
    start, t, K = overlap(instance.classes), _late_times(instance), instance.num_classes
    a = (1 - start.x) ** 2
    share = 1 / (1 + np.sqrt(start.rho0**2 - 1))
    eta_Y, eta_Z = instance.flow_rates
    orbit = analytic.single_common_token_orbit(
        t, [1 - share], share, K, instance.vocab_size, eta_Y, eta_Z, beta="leading"
    )
    bound = np.log1p(4 * a * start.most / K**2 * common_growth(instance, t)) / (2 * a * K)
    return Measured(float(np.max(2 * orbit.z_distinct[:, 0] / bound)), at_most=1, error=1e-9)


WEAK_OVERLAP = Requirement(
    "small overlap", "rho0^2 >= 100", lambda i: overlap(i.classes).rho0 ** 2, at_least=100, defining=True
)


def share_by_transition(instance: Instance) -> Measured:
    """|share of ln chi(1e6 t0) gained by t0 - ln(1+x0)/ln(1+r x0)|, x0 = 4 A Gamma(t0), Eq. (10), leading beta."""
    t = transition(instance.classes, instance.flow_rates[0])[1] * np.array([1.0, WHOLE])
    growth, x = _orbit_growth(instance, t), 4 * _feedback(instance) * common_growth(instance, t)
    share = float(growth[0] / growth[1])
    return Measured(abs(share - float(np.log1p(x[0]) / np.log1p(x[1]))), at_most=0.05)


def proportional_share(instance: Instance) -> Measured:
    """Wrong theory: ln chi proportional to Gamma for ever, so the share is (u(t0)/u(1e6 t0))^2 at any rates."""
    t = transition(instance.classes, instance.flow_rates[0])[1] * np.array([1.0, WHOLE])
    growth, Gamma = _orbit_growth(instance, t), common_growth(instance, t)
    return Measured(abs(float(growth[0] / growth[1]) - float(Gamma[0] / Gamma[1])), at_most=0.05)


def _feedback(instance: Instance) -> float:
    return (instance.num_classes - 1) * overlap(instance.classes).x ** 2


@dataclass(frozen=True)
class Late:
    """How attention goes on after t0 along one run, to 1e6 t0."""

    exponent: float  # largest d ln chi/d ln ln(V eta_Y t/K), t >= t0
    power: float  # largest d ln(ln chi)/d ln t, t >= t0; 2 at first
    early_power: float  # the same at the first saved times
    share: float  # of the path of attention (total variation) that is done by t0
    speed: float  # path per unit of ln t at the end, over its largest


def late(system: MeanField | ModifiedDecoder, points: int = 121) -> tuple[Late, Trajectory]:
    """Measure `Late` on a run from 1e-3 t0' to 1e6 t0."""
    classes = system.classes
    start, end = transition(classes, system.eta_Y)
    t = np.union1d(log_times(1e-3 * start, WHOLE * end, points), [end])
    trajectory = whole_run(system, t, rtol=1e-9, atol=1e-16)
    growth, after = log_growth(trajectory), t >= end
    logarithm = np.log(np.log(classes.vocab_size * system.eta_Y * t[after] / classes.num_classes))
    power = np.diff(np.log(growth)) / np.diff(np.log(t))  # means over the segments
    step = np.abs(np.diff(trajectory.attention, axis=0)).sum(axis=2).mean(axis=1) / 2
    path = np.concatenate([[0.0], np.cumsum(step)])
    speed = step / np.diff(np.log(t))
    return (
        Late(
            exponent=float(np.max(np.diff(growth[after]) / np.diff(logarithm))),
            power=float(power[after[:-1]].max()),
            early_power=float(power[0]),
            share=float(path[np.searchsorted(t, end)] / path[-1]),
            speed=float(speed[-1] / speed.max()),
        ),
        trajectory,
    )


@claim(
    "snapping",
    source="Theorem 4, attention snapping; Sections 1 and 6",
    title="Snapping: after the transition attention freezes",
    statement="For t >= t0 = 2 (1+omega_1) K ln V/eta_Y the growth factor is chi = O(ln t): attention hardly moves any "
    "more. As numbers: d ln chi/d ln ln(V eta_Y t/K) <= 1, and under Eq. (10) ln chi grows like a power of t that is 2 "
    "before and at most 4/(1+u_+) after t0. Of ln chi(T) the share ln(1+x0)/ln(1+r x0) is gained by t0, within 0.05: "
    "x0 = 2 K (K-1) u_+^2 (eta_Z/eta_Y)/rho0^4, r = (u(T)/u(t0))^2, T = 1e6 t0.",
    latex=r"\chi=O(\ln t),\qquad \frac{d\ln\chi}{d\ln\ln(V\eta_Yt/K)}\le1,\qquad "
    r"\frac{d\ln\ln\chi}{d\ln t}:\ 2\ \to\ \le\frac{4}{1+u_+}\quad(t\ge t_0)",
    expected="conditional",
    assumptions=(
        "one common token, K >= 2 classes with distinct tokens, zero start",
        "the exponent of ln t: f_nc(0)^2 <= 0.25 on the common token in every class, eta_Z <= eta_Y",
        "the power: modified decoder, equal priors (a rarer class that still learns lets xi of the others rise)",
        "the share by t0: modified decoder with leading beta, equal profiles and priors, rho0^2 >= 100; at least half "
        "for x0 >= r - 2. In the mean field this condition decides nothing",
    ),
    findings=("F3", "F4"),
    properties=(
        Property(
            "largest d ln chi/d ln ln(V eta_Y p_n t), t >= t0",
            "mean field",
            late_rate(_slope, MeanField),
            LATE_FAMILY,
            conditions=(*ONE_COMMON, ONE_COMMON_TOKEN, SMALL_SHARE, NOT_FASTER),
            controls={
                "wrong theory: without the speed control (gamma = eta_Y p_n t for ever)": without_speed_control(_slope)
            },
            evaluations=(30, 1000),
        ),
        Property(
            "largest power of t in ln chi, t >= t0, over 4/(1+u_+)",
            "modified decoder",
            late_rate(_power, ModifiedDecoder),
            replace(
                LATE_FAMILY,
                correlation="any",
                uniform=True,
                vocab_size=(4, 10**12),
                ratio=(1e-6, 1e6),
                horizon=(1e2, 1e12),
            ),
            conditions=(*ONE_COMMON, INDEPENDENT_ATTENTION, ONE_COMMON_TOKEN, UNIFORM),
            controls={
                "wrong theory: without the speed control (gamma = eta_Y p_n t for ever)": without_speed_control(_power)
            },
            evaluations=(60, 2000),
        ),
        Property(
            "largest ln chi over ln(1 + 4 a A Gamma)/(2 a K), a = (1-x)^2, so chi = O((ln t)^(1/(a K)))",
            "modified decoder, leading beta",
            below_upper_bound,
            SYMMETRIC_FAMILY,
            conditions=(*SYMMETRIC, LARGE_VOCABULARY),
            controls={"wrong theory: A without its K, one distinct token": with_every_token_alone},
            evaluations=(60, 2000),
            corrected=True,
        ),
        Property(
            "|share of ln chi(1e6 t0) gained by t0 - ln(1+x0)/ln(1+r x0)|",
            "modified decoder, leading beta",
            share_by_transition,
            SYMMETRIC_FAMILY,
            conditions=(*SYMMETRIC, LARGE_VOCABULARY, WEAK_OVERLAP),
            controls={"wrong theory: ln chi proportional to Gamma": proportional_share},
            evaluations=(60, 2000),
        ),
    ),
)
def snapping(evidence: Evidence) -> None:
    excess, attained = _late_closed_form(evidence.full)
    # exp(2 B) = sqrt(C0 + (2K/nu)(1-1/V)^2 u^2) and u <= ln(1 + V s); ln(1 + V s) against ln(V s) at t0 is
    # 1/(V s ln(V s)) at V = 100, s = 13.
    evidence.holds("exp(2B) over ln(V eta_Y t/K) sqrt(2K/nu + C0/ln^2(V eta_Y t0/K)) - 1, t0 <= t <= 1e12, V = "
                   "1e2..1e7", "closed form", excess, at_most=1e-3)  # fmt: skip
    evidence.holds("smallest of that ratio: the order is attained", "closed form", attained, at_least=0.5)
    grid = [(2, 0.3, 100), (5, 0.3, 1000), (5, 0.04, 1000), (10, 0.04, 1000)]
    if evidence.full:
        grid += [(K, share, V) for K in (2, 3, 20) for share in (0.01, 0.1, 0.5) for V in (100, 10_000, 1_000_000)]
    found: dict[str, list[tuple[Late, float]]] = {"modified decoder": [], "mean field": []}
    for K, share, V in grid:
        classes, u = single_common_token(K, 5, share, V), float(analytic.u_plus(V))
        for ratio in (1e-2, 1.0, 10.0) if evidence.full else (1.0,):
            for rung, kind in (("modified decoder", ModifiedDecoder), ("mean field", MeanField)):
                measured, _ = late(kind(classes, 1.0, ratio))
                found[rung].append((measured, measured.power * (1 + u) / 4))
    # The first saved times are 1e-3 t0': the next order is eta_Y t/K = 1e-3 ln V.
    evidence.holds("the power at first: |power - 2|", "modified decoder",
                   max(abs(each.early_power - 2) for each, _ in found["modified decoder"]), at_most=0.05)  # fmt: skip
    descent, stochastic, evidence.seeds = _late_training(evidence.full)
    evidence.holds("ln chi over ln ln(V eta_Y t/K) from t0 to 100 t0, mean slope", "descent", descent, at_most=1)
    evidence.holds("the same, mean of the seeds", "SGD", stochastic, at_most=1)
    evidence.outside("largest power of t in ln chi, t >= t0, over 4/(1+u_+)", "mean field",
                     max(each for _, each in found["mean field"]), at_most=1)  # fmt: skip
    # The paper's own data have ten common tokens: who falls is ten times as many.
    paper = {
        f"{name}, eta_Y = {eta_Y:g}, eta_Z = {eta_Z:g}": late(MeanField(classes, eta_Y, eta_Z))[0]
        for name, classes, settings in (
            ("Syn-Small", syn_small(), ((1.0, 1.0), (10.0, 1.0))),
            ("Syn-Medium Q = 10", syn_medium(10), ((1.0, 1.0), (2.0, 1.0))),
        )
        for eta_Y, eta_Z in settings
    }
    evidence.outside("share of attention's path to 1e6 t0 that is done by t0 at the paper's settings, smallest",
                     "mean field", min(each.share for each in paper.values()), at_least=0.5)  # fmt: skip
    evidence.outside("ten common tokens (Syn-Small, Syn-Medium): largest d ln chi/d ln ln(V eta_Y t/K)", "mean field",
                     max(each.exponent for each in paper.values()), at_most=1)  # fmt: skip
    evidence.conclusion = (
        "chi = O(ln t) with one common token of f_nc(0)^2 <= 0.25 and eta_Z <= eta_Y; beyond, the exponent of ln t can "
        "exceed 1. In the runs with K = "
        f"{min(K for K, _, _ in grid)} to {max(K for K, _, _ in grid)} it is at most "
        f"{max(each.exponent for each, _ in found['modified decoder']):.2f} under Eq. (10), "
        f"{max(each.exponent for each, _ in found['mean field']):.2f} in the mean field. The power of t in ln chi "
        f"drops at t0 under Eq. (10); in the mean field it is still up to "
        f"{max(each.power for each, _ in found['mean field']):.2f} there, since beta grows from 1/V with the decoder. "
        "At the paper's settings the mean field has done "
        + ", ".join(f"{each.share:.0%} ({name})" for name, each in paper.items())
        + " of attention's way to 1e6 t0 by t0, and still moves at "
        f"{min(e.speed for e in paper.values()):.0%} to {max(e.speed for e in paper.values()):.0%} of its largest "
        f"speed per unit of ln t. With ten common tokens the exponent reaches "
        f"{max(each.exponent for each in paper.values()):.1f}."
    )
    shown, weak = single_common_token(5, 5, 0.3, 1000), single_common_token(5, 5, 0.04, 1000)
    curves = {
        "Eq. (10), integrated": late(ModifiedDecoder(shown, 1.0, 1.0))[1],
        "mean field": late(MeanField(shown, 1.0, 1.0))[1],
    }
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "ln chi, K = 5, V = 1000, common token 0.3",
        tuple(
            Picture.line(name, run.t, log_growth(run), "simulation" if name == "mean field" else "theory")
            for name, run in curves.items()
        ),
        verticals=tuple(zip(("t0'", "t0"), transition(shown, 1.0), strict=True)),
    )
    evidence.conditions = [_freezing_condition(weak, 1.0, 1.0), _freezing_condition(shown, 1.0, 1.0)]
    evidence.maps = [_freezing_map(evidence.full)]


def _late_ratio(num_classes: int, vocab_size: int) -> float:
    """r = Gamma(1e6 t0)/Gamma(t0)."""
    u = vocab_size * h(2 * float(analytic.u_plus(vocab_size)) * np.array([1.0, WHOLE]), 1.0, vocab_size)
    return float((u[1] / u[0]) ** 2)


def _freezing_condition(classes: SequenceClasses, eta_Y: float, eta_Z: float) -> Condition:
    """Condition x0 >= r - 2, half of ln chi(1e6 t0) by t0, as a bound of nu = eta_Y/eta_Z."""
    K, V = classes.num_classes, classes.vocab_size
    rho0, r = overlap(classes).rho0, _late_ratio(K, V)
    bound = 2 * K * (K - 1) * float(analytic.u_plus(V)) ** 2 / rho0**4 / (r - 2)
    nu = eta_Y / eta_Z
    return Condition(
        f"half of ln chi(1e6 t0) by t0 under Eq. (10), K = {K}, V = {V}, rho0 = {rho0:.2f}",
        f"eta_Y/eta_Z <= 2 K (K-1) u_+^2/((r-2) rho0^4) = {bound:.3g}",
        bound,
        nu,
        nu <= bound,
    )


def _freezing_map(full: bool) -> Map:
    """Share of the growth of ln chi to 1e6 t0 that comes after t0, over nu = eta_Y/eta_Z and the common probability."""
    K, V, count = 5, 1000, 15 if full else 5
    nu, share = np.geomspace(1e-3, 1e3, count), np.geomspace(0.01, 0.5, count)
    after = np.empty((count, count))
    end = float(analytic.transition_time(K, V, 1.0, kind="end"))
    for i, common in enumerate(share):
        classes = single_common_token(K, 5, float(common), V)
        for j, ratio in enumerate(nu):
            growth = log_growth(whole_run(ModifiedDecoder(classes, 1.0, 1 / float(ratio)), [end, WHOLE * end]))
            after[i, j] = 1 - growth[0] / growth[1]
    # Half by t0 in the consistent closed form: (1 + a)^2 = 1 + a r, a = 4 A Gamma(t0), r = Gamma(1e6 t0)/Gamma(t0).
    a = _late_ratio(K, V) - 2
    fine = np.geomspace(share[0], share[-1], 100)
    rho0 = np.array([overlap(single_common_token(K, 5, float(x), V)).rho0 for x in fine])
    boundary = 4 * (K - 1) / rho0**4 * analytic.gamma_integral(end, 1.0, V, K) / a
    return Map(
        "Where attention is frozen by t0: K = 5, V = 1000, modified decoder",
        "eta_Y/eta_Z",
        "probability of the common token",
        "share of ln chi(1e6 t0) gained after t0",
        nu,
        share,
        after,
        0.5,
        (Picture.line("half by t0 in the consistent closed form", boundary, fine),),
        scale="linear",
    )


def _late_closed_form(full: bool) -> tuple[float, float]:
    """Largest and smallest exp(2B)/ln(V eta_Y t/K) over its constant, B as printed; largest minus 1."""
    K, largest, smallest = 10, -np.inf, np.inf
    for V in np.round(10.0 ** np.arange(2, 7.01, 0.25 if full else 1.0)):
        for rho0 in (1.0, K**0.25, 5.0):
            for nu in (0.1, 1.0, 10.0):
                end = float(analytic.transition_time(K, V, 1.0, kind="end"))
                t = np.geomspace(end, 1e12, 200)
                logarithm = np.log(V * t / K)
                B = analytic.growth_exponent(t, 1.0, 1 / nu, V, K, rho0, form="printed")
                constant = np.sqrt(2 * K / nu + rho0**4 / K / logarithm[0] ** 2)
                ratio = np.exp(2 * B) / (constant * logarithm)
                largest, smallest = max(largest, float(ratio.max())), min(smallest, float(ratio.min()))
    return largest - 1, smallest


def _late_training(full: bool) -> tuple[float, float, list[int]]:
    """Mean d ln chi/d ln ln(V eta_Y t/K) from t0 to 100 t0 along descent and the mean of SGD seeds."""
    eta = 0.5
    classes = single_common_token(3, 4, 0.3, 10)
    end = round(transition(classes, eta)[1])
    record = [end, 100 * end]
    seeds = list(range(100 if full else 10))
    logarithm = np.log(np.log(classes.vocab_size * eta * np.array(record) / classes.num_classes))

    def slope(runs: Sequence[Trajectory]) -> float:
        growth = np.mean([log_growth(run, n) for run in runs for n in range(classes.num_classes)], axis=0)
        return float((growth[1] - growth[0]) / (logarithm[1] - logarithm[0]))

    descent = sgd(classes, eta, eta, record[-1], None, record=record)
    return slope([descent]), slope(sgd(classes, eta, eta, record[-1], seed=seeds, record=record)), seeds
