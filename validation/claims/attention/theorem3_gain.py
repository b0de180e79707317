"""Theorem 3, Eq. (11): the relative gain of distinct tokens follows the growth factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import (
    SequenceClasses,
    Trajectory,
    log_times,
    random_classes,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.attention._shared import FLOWS
from snapdyn.validation.dense_algebra import attention_drift, modified_decoder_gradient
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.linear_response import gain_memory
from snapdyn.validation.maps.rates_and_correlation import ratio_correlation_map
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.search import Instance, flow
from snapdyn.validation.search.flows import noise

# rtol 1e-8 per step over some hundred steps.
SOLVER = 1e-5
# rtol 1e-10.
TIGHT = 1e-7
# "Eq. (11) holds" in the mean field is read as: to a percent of 1 + |r|.
PERCENT = 1e-2
TWO_OR_MORE = replace(FLOWS, num_distinct=(2, 4))


def _pairs_of(instance: Instance) -> float:
    classes = instance.classes
    return float(max(classes.distinct_tokens(n).size for n in range(classes.num_classes)))


TWO_DISTINCT = Requirement(
    "two distinct tokens of a class", "distinct tokens of some class >= 2", _pairs_of, at_least=2, defining=True
)
# While no ln f has changed by more than 1, errors of up to 1.47 times the law were found by a directed search.
SMALL_MEMORY = Requirement(
    "little memory of the difference of growth",
    "error of (11) by linear response <= 0.005, at max |change of ln f| < 1",
    gain_memory,
    at_most=PERCENT / 2,
)


def growths(run: Trajectory, n: int) -> tuple[Floats, Floats]:
    """ln of P o exp(z(0)) and z - z(0) of class n's distinct tokens, (d,) and (N, d)."""
    classes = run.require_classes()
    tokens, m = classes.distinct_tokens(n), classes.query_index[n]
    start = np.asarray(run.z_initial)[m, tokens]
    return np.log(classes.P[[n]].toarray().ravel()[tokens]) + start, run.z[:, m, tokens] - start


def gain_error(rung: str, allowed: float, exponent: float = 2.0) -> Callable[[Instance], Measured | None]:
    """Largest |r - r(0) chi| over 1 + |r|, over all pairs of distinct tokens of a class; chi = exp(exponent dz)."""

    def measure(instance: Instance) -> Measured | None:
        run = flow(instance, rung)
        if run is None:
            return None
        worst, where = 0.0, "no distinct pair"
        for n in range(instance.num_classes):
            weight, growth = growths(run, n)
            if weight.size < 2:
                continue
            odds = weight[:, None] - weight
            start = np.expm1(2 * odds)
            change = 2 * (growth[:, :, None] - growth[:, None, :])
            r = np.expm1(2 * odds + change)
            error = np.abs(r - start * np.exp(np.minimum(exponent * growth, 300.0))[:, :, None]) / (1 + np.abs(r))
            if error.max() > worst:
                i, a, b = np.unravel_index(error.argmax(), error.shape)
                tokens = instance.classes.distinct_tokens(n)
                worst = float(error.max())
                where = f"tokens {tokens[a]}, {tokens[b]} of class {n}, t = {run.t[i]:.3g}"
        return Measured(worst, at_most=allowed, error=noise(instance, rung), where=where)

    return measure


def _controls(rung: str, allowed: float) -> dict[str, Callable[[Instance], Measured | None]]:
    return {
        "wrong theory: r keeps its start": gain_error(rung, allowed, 0.0),
        "wrong theory: chi = exp(z), without the factor 2": gain_error(rung, allowed, 1.0),
    }


def _largest_error(run: Trajectory, grown: bool = True) -> float:
    """Largest error of (11) over all pairs, over the largest |r|; `grown` False puts chi = 1."""
    worst = 0.0
    for n in range(run.require_classes().num_classes):
        weight, growth = growths(run, n)
        for a in range(weight.size):
            for b in np.delete(np.arange(weight.size), a):
                r = np.expm1(2 * (weight[a] - weight[b] + growth[:, a] - growth[:, b]))
                told = analytic.relative_gain(np.expm1(2 * (weight[a] - weight[b])), growth[:, a] if grown else 0.0)
                worst = max(worst, float(np.abs(r - told).max() / np.abs(r).max()))
    return worst


def _missed_share(run: Trajectory) -> float:
    """Share of the change of r that (11) misses, largest over all pairs."""
    return _largest_error(run) / _largest_error(run, grown=False)


def _companion_error(run: Trajectory) -> float:
    """Largest error of (110) over all pairs, over the largest growth of the logit."""
    worst = 0.0
    for n in range(run.require_classes().num_classes):
        weight, growth = growths(run, n)
        for a in range(weight.size):
            for b in np.delete(np.arange(weight.size), a):
                told = analytic.companion_growth(np.expm1(2 * (weight[a] - weight[b])), growth[:, b])
                worst = max(worst, float(np.abs(told - growth[:, a]).max() / growth[:, a].max()))
    return worst


def _rate_error(classes: SequenceClasses) -> dict[int, float]:
    """Relative error of dr/dt = factor r(0) chi dz_l/dt at a state reached under Eq. (10), for factor 1 and 2."""
    reached = run_on_rung(EXACT, classes, 1.0, 1.0, [50.0], rtol=1e-12, atol=1e-14)
    z, h = reached.z[0], reached.extra["h"][0]
    drift = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), 1.0)[0]
    l, l0 = classes.distinct_tokens(0)[:2]
    start = (classes.P[0, l] / classes.P[0, l0]) ** 2 - 1
    r = float(reached.relative_gain(0, l, l0)[0])
    exact = 2 * (r + 1) * (drift[l] - drift[l0])
    chi = float(reached.growth_factor(0, l)[0])
    return {factor: float(abs(factor * start * chi * drift[l] / exact - 1)) for factor in (1, 2)}


@claim(
    "theorem3-gain",
    source="Theorem 3, Eqs. (11), (110), (112)",
    title="The relative gain is its first value times the growth factor",
    answer="Exact under Eq. (10); in the full mean field the decoder's memory adds an error, which linear response "
    "estimates.",
    statement="For two distinct tokens l, l' of class n, r_{l/l'|n}(t) = r_{l/l'|n}(0) chi_l(t), "
    "chi_l = exp(2 (z_l(t) - z_l(0))). (In the full mean field: to 1 % of 1 + |r| where linear response says so.)",
    latex=r"r_{l/l'|n}(t)=r_{l/l'|n}(0)\,\chi_l(t),\qquad e^{-2\Delta z_l}-1=(r(0)+1)(e^{-2\Delta z_{l'}}-1)",
    expected="conditional",
    assumptions=(
        "one class per next token",
        "Eq. (10), where it is exact; or in the mean field an error of at most 0.5 % by linear response: "
        "2 f_l^2 eta_Z p_n int (D_l - D_l') dt, at changes of ln f below 1. There r itself often changes by less than "
        "1 %, so this seldom tells (11) from r = r(0); the runs at eta_Z/eta_Y = 1e-5 to 1e-3 do",
    ),
    findings=("F9", "F10"),
    properties=(
        Property(
            "largest error of (11) over 1 + |r|",
            "mean field",
            gain_error(MEAN_FIELD, PERCENT),
            TWO_OR_MORE,
            conditions=(TWO_DISTINCT, replace(OWN_NEXT_TOKENS, defining=False), SMALL_MEMORY),
            evaluations=(40, 1500),
        ),
        Property(
            "largest error of (11) over 1 + |r|",
            "modified decoder",
            gain_error(EXACT, SOLVER),
            TWO_OR_MORE,
            conditions=(TWO_DISTINCT, OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION),
            controls=_controls(EXACT, SOLVER),
            evaluations=(40, 2000),
        ),
    ),
)
def theorem3_gain(evidence: Evidence) -> None:
    evidence.proved("relative-gain", "relative-gain-rate", "companion-growth")
    # Relation (110) needs no weak correlation; strong correlation makes logits move far, so there is a signal.
    instances = [
        random_classes(3 + i % 3, 1, 3, vocab_size=500, correlation="strong", seed=60 + i)
        for i in range(40 if evidence.full else 2)
    ]
    times = log_times(1e-2, 1e5, 60)
    companion, signal = 0.0, np.inf
    # In the mean field: error of (11), and of the wrong theory that r keeps its start, by eta_Z/eta_Y.
    by_ratio: dict[float, list[tuple[float, float]]] = {ratio: [] for ratio in (1e-5, 1e-4, 1e-3, 1e-1, 1.0)}
    for classes in instances:
        exact = run_on_rung(EXACT, classes, 1.0, 1.0, times, rtol=1e-10, atol=1e-13)
        companion = max(companion, _companion_error(exact))
        moved = max(float(growths(exact, n)[1][-1].max()) for n in range(classes.num_classes))
        signal = min(signal, float(np.expm1(2 * moved)))
        for ratio, found in by_ratio.items():
            run = run_on_rung(MEAN_FIELD, classes, 1.0, ratio, times, rtol=1e-10, atol=1e-13)
            found.append((_largest_error(run), _largest_error(run, grown=False)))
    evidence.holds("largest error of (110), relative", "modified decoder", companion, at_most=TIGHT)
    evidence.holds("signal: smallest over instances of the largest chi - 1", "modified decoder", signal, at_least=0.1)
    rate = _rate_error(instances[0])
    evidence.holds("dr/dt = 2 r(0) chi dz/dt, relative", "modified decoder", rate[2], at_most=1e-8)
    evidence.control("F9: (112) as printed, without the factor 2", "modified decoder", rate[1], at_most=1e-8)
    evidence.misprint("relative-gain-rate", "F9: (112) as printed, in sympy")
    ratios = np.array(list(by_ratio))
    median, kept = np.median(list(by_ratio.values()), axis=1).T
    # Memory takes the share f_l'^2 (eta_Z/eta_Y) (V h)^2/6 of the change of r: slope 1. Three decades give the slope
    # to about (next order)/(decades).
    slope = float(np.polyfit(np.log(ratios[:3]), np.log(median[:3] / kept[:3]), 1)[0])
    evidence.holds(
        "|slope - 1| of the share of the change of r that (11) misses, eta_Z/eta_Y = 1e-5..1e-3, strong correlation",
        "mean field",
        abs(slope - 1),
        at_most=0.5,
    )
    evidence.holds("that share at eta_Z/eta_Y = 1e-5", "mean field", float(median[0] / kept[0]), at_most=PERCENT)
    evidence.control(
        "wrong theory: r keeps its start, error over |r| at eta_Z/eta_Y = 1e-3",
        "mean field",
        float(kept[2]),
        at_most=PERCENT,
    )
    evidence.outside("that share at eta_Z/eta_Y = 1", "mean field", float(median[-1] / kept[-1]), at_most=PERCENT)
    evidence.maps = [
        ratio_correlation_map(
            evidence.level,
            "Share of the change of r that (11) misses, t <= 1e4/eta_Y",
            "share of the change missed, mean over instances",
            _missed_share,
            threshold=0.1,
        )
    ]
    evidence.conclusion = (
        "Exact under Eq. (10). In the mean field it errs by the memory of the difference of growth; the "
        f"median error of {len(instances)} strongly correlated instances is "
        + ", ".join(f"{error:.1e} at eta_Z/eta_Y = {ratio:g}" for ratio, error in zip(ratios, median, strict=True))
        + ". The printed (112) lacks a factor 2 (F9); (11) itself is right."
    )
    evidence.picture = Picture(
        "eta_Z/eta_Y",
        "largest relative error of (11)",
        (Picture.line("mean field, median over instances", ratios, median, "simulation"),),
        yscale="log",
    )
