"""Lemmas 10-12 and 18: batch-size-1 counts and token frequencies concentrate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Check
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.statistics import fit_order, order_checks, standard_error
from snapdyn.validation.symbolic_checks import symbolic
from snapdyn.validation.visits import (
    FROZEN,
    discrete_logits,
    own_lead,
    single_token_classes,
    visits_of,
)

# Shares of seeds are compared at this family level: normal quantile of SIGNIFICANCE/(2 number of comparisons).
SIGNIFICANCE = 1e-4

Numbers = float | NDArray[Any]


def hoeffding(draws: Numbers, delta: Numbers) -> Floats:
    """Deviation sqrt(N ln(2/delta)/2) of a count of N draws that Hoeffding's inequality allows."""
    return np.asarray(np.sqrt(draws * np.log(2 / delta) / 2))


def tail(draws: Numbers, p: Numbers, deviation: Numbers, centre: Numbers | None = None) -> Floats:
    """P(|X - centre| > deviation) of a binomial count X of N draws (default p N), by the incomplete beta function."""
    centre = draws * p if centre is None else centre
    below, above = np.ceil(centre - deviation) - 1, np.floor(centre + deviation)
    return np.asarray(binom.cdf(below, draws, p) + binom.sf(above, draws, p))


def in_standard_errors(sample: Floats, expected: Numbers) -> Floats:
    """|mean over the first axis - expected| in standard errors of that mean."""
    return np.asarray(np.abs(sample.mean(axis=0) - expected) / standard_error(sample))


def quantile(comparisons: int) -> float:
    """Largest deviation in standard errors that `comparisons` of them reach with probability SIGNIFICANCE."""
    return float(norm.isf(SIGNIFICANCE / (2 * comparisons)))


def trained_counts(classes: SequenceClasses, steps: int, seeds: range) -> tuple[Floats, Floats]:
    """Visits N_n (seeds, K) of batch-size-1 SGD at eta_Y = 1, read off its logits, and V h* of the logits themselves.

    On classes of one token w_n follows the recursion (33) exactly, which turns logits into whole visits.
    """
    V = classes.vocab_size
    runs = sgd(classes, 1.0, FROZEN, steps, record=[steps], save_decoder=True, seed=seeds)
    lead = np.array([own_lead(run)[0] for run in runs])
    table = V * analytic.discrete_h(steps, 1.0, V)
    # The table's steps are 1/s apart and more; rounding is below 1e-10.
    return np.searchsorted(table, lead - 1e-9).astype(float), lead


@claim(
    "lemma10",
    source="Lemma 10, Eqs. (58)-(59)",
    title="Batch-size-1 counts concentrate",
    statement="After N batch-size-1 steps class n has been drawn N_n times, and "
    "|N_n - ceil(p_n N)| <= sqrt(N ln(2/delta)/2) + 1 < sqrt(N ln(2/delta)) with probability at least 1 - delta; about "
    "p_n N itself without the 1. The second inequality needs N ln(2/delta) > 6 + 4 sqrt(2).",
    latex=r"|N_n-\lceil p_nN\rceil|\le\sqrt{\tfrac N2\ln\tfrac2\delta}+1<\sqrt{N\ln\tfrac2\delta}"
    r"\quad\text{w.p. }\ge1-\delta",
    expected="conditional",
    assumptions=(
        "steps draw classes independently with the prior p_n",
        "second inequality: N ln(2/delta) > 6 + 4 sqrt(2) = 11.7, as N >= 17 ensures",
    ),
    findings=("F16",),
)
def lemma10(level: str) -> Evidence:
    priors = np.array([0.5, 0.3, 0.1, 1e-2, 1e-4])
    draws = 10.0 ** np.arange(0, 13, 1 if level == "full" else 2)
    deltas = 10.0 ** -np.arange(0.0, 13)
    N, p, delta = (a.ravel() for a in np.meshgrid(draws, priors, deltas))
    exceeded = tail(N, p, hoeffding(N, delta)) / delta
    about_ceiling = tail(N, p, hoeffding(N, delta) + 1, np.ceil(N * p)) / delta
    # sqrt(x/2) + 1 < sqrt(x), x = N ln(2/delta), on both sides of x = 6 + 4 sqrt(2).
    x = np.geomspace(0.5, 1e6, 500)
    second = np.sqrt(x / 2) + 1 - np.sqrt(x)
    wide = x > 6 + 4 * np.sqrt(2)
    # The size: quantile of the deviation at p = 1/2 over the bound, for N delta large enough to have one.
    large = draws[draws >= 100]
    attained = np.array([(binom.isf(d / 2, large, 0.5) - large / 2) / hoeffding(large, d) for d in deltas[2:]])
    rare = float((binom.isf(0.005, 1e12, 1e-4) - 1e8) / hoeffding(1e12, 0.01))

    steps, seeds = 1000, range(400 if level == "quick" else 4000)
    prior = np.array([0.5, 0.3, 0.2])
    classes = SequenceClasses(np.eye(3), np.zeros(3, dtype=int), weights=prior, vocab_size=10)
    counts, _ = trained_counts(classes, steps, seeds)
    # At delta = 1/2 the bound is passed often enough to be compared with the exact probability.
    beyond = np.abs(counts - prior * steps) > hoeffding(steps, 0.5)
    expected = tail(steps, prior, hoeffding(steps, 0.5))
    share = np.abs(beyond.mean(axis=0) - expected) / np.sqrt(expected * (1 - expected) / len(seeds))
    spread = in_standard_errors((counts - prior * steps) ** 2, steps * prior * (1 - prior))
    wrong_spread = in_standard_errors((counts - prior * steps) ** 2, steps / 4)
    deviation = np.abs(counts[:, 0] - 500)
    shown = np.sort(deviation)[::-1]
    rank = (np.arange(shown.size) + 0.5) / shown.size
    return Evidence(
        maps=(_second_inequality_map(),),
        checks=[
            symbolic("hoeffding-radius", "ceiling-absorbed"),
            Check(
                "the same about ceil(p N) with the bound + 1, as printed: largest",
                "closed form",
                float(about_ceiling.max()),
                1.0,
            ),
            Check(
                "second inequality, x = N ln(2/delta) > 6 + 4 sqrt(2): largest sqrt(x/2) + 1 - sqrt(x)",
                "closed form",
                float(second[wide].max()),
                0.0,
            ),
            Check(
                "F16: second inequality at smaller x: the same",
                "closed form",
                float(second[~wide].max()),
                0.0,
                role="outside",
            ),
            Check(
                f"P(|N_n - p N| > bound)/delta, N = 1..1e12, p = 1e-4..1/2, delta = 1e-12..1, {N.size} cases: largest",
                "closed form",
                float(exceeded.max()),
                1.0,
            ),
            Check(
                "the same with the share of the seeds of SGD at delta = 1/2, N = 1000",
                "SGD",
                float(beyond.mean(axis=0).max()) / 0.5,
                1.0,
            ),
            Check("counts read off SGD's logits add up to N: largest miss", "SGD", float(np.ptp(counts.sum(1))), 0.0),
            Check(
                "share of the seeds beyond the bound against the exact probability, in standard errors",
                "SGD",
                float(share.max()),
                quantile(6),
            ),
            Check(
                "mean of (N_n - p N)^2 against p (1-p) N, in standard errors", "SGD", float(spread.max()), quantile(6)
            ),
            Check(
                "the size is attained at p = 1/2: quantile of |N_n - p N| over the bound, delta <= 0.01: smallest",
                "closed form",
                float(attained.min()),
                0.5,
                ">=",
            ),
            Check(
                "wrong theory: N^0.4 for N^0.5, N = 1e12: P(beyond)/delta",
                "closed form",
                float(tail(1e12, 0.5, hoeffding(1e12, 0.01) * 1e12**-0.1) / 0.01),
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: without ln(2/delta), delta = 1e-6: P(beyond)/delta",
                "closed form",
                float(tail(1e12, 0.5, np.sqrt(1e12 / 2)) / 1e-6),
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: variance N/4 for every p, p = 0.2, in standard errors",
                "SGD",
                float(wrong_spread[2]),
                quantile(6),
                role="control",
            ),
        ],
        conclusion=f"The exact probability is at most {exceeded.max():.3f} delta. At p = 1/2 the deviation reaches "
        f"{attained.min():.2f} to {attained.max():.2f} of the bound at confidence 1 - delta, delta = 0.01..1e-12; "
        f"for rare classes the bound is too wide by about 1/sqrt(4p(1-p)) (p = 1e-4, delta = 0.01: {1 / rare:.0f} "
        "times).",
        picture=Picture(
            "deviation |N_n - N/2|, N = 1000",
            "probability of one as large",
            (
                Picture.line(
                    "Hoeffding: 2 exp(-2 d^2/N)", shown, np.minimum(2 * np.exp(-2 * shown**2 / 1000), 1), "bound"
                ),
                Picture.line("binomial, exact", shown, tail(1000, 0.5, shown - 0.5)),
                Picture.line("SGD, share of the seeds", shown, rank, "simulation"),
            ),
            xscale="linear",
            yscale="log",
        ),
        seeds=tuple(seeds),
        tried=N.size,
    )


def slope_of_h(s: Numbers, eta_Y: Numbers, vocab_size: Numbers) -> Floats:
    """h'(s) = eta_Y/(V-1+exp(V h(s))), at s = 0 where s is negative."""
    h = analytic.h(np.maximum(s, 0.0), eta_Y, vocab_size)
    return np.asarray(eta_Y / (vocab_size - 1 + np.exp(vocab_size * h)))


def many_draws(K: float, N: float) -> Condition:
    """Return the condition N >> K^2 of Theorem 5, evaluated."""
    return Condition("many draws", "N/K^2 >= 10 (N >> K^2)", 10.0, N / K**2, N / K**2 >= 10)


def _second_inequality_map() -> Map:
    """F16: sqrt(x/2) + 1 over sqrt(x), x = N ln(2/delta): the second inequality of (58) over N and delta."""
    N, delta = np.geomspace(1, 1e3, 40), np.geomspace(1e-6, 1, 40)
    x = N * np.log(2 / delta)[:, None]
    edge = np.exp(-(6 + 4 * np.sqrt(2)) / N) * 2
    shown = (edge >= delta[0]) & (edge <= delta[-1])
    return Map(
        title="Second inequality of (58)",
        xlabel="N (batch-size-1 steps)",
        ylabel="delta",
        quantity="left side over right side",
        x=N,
        y=delta,
        violation=np.sqrt(0.5) + 1 / np.sqrt(x),
        threshold=1.0,
        boundaries=(Picture.line("N ln(2/delta) = 6 + 4 sqrt(2)", N[shown], edge[shown]),),
        scale="linear",
    )


@claim(
    "lemma11",
    source="Lemma 11, Eqs. (60)-(65)",
    title="h of the count is close to h of the mean count",
    statement="With probability at least 1 - delta, |h(N_n) - h(N/K)| is of the order of h(N/K) D/(N/K), "
    "D = sqrt(N ln(1/delta)), and 1/(V-1+exp(V h)) changes by a share sigma' of at most the order of eta_Y D/3, and of "
    "D/(N/K) once N >= 2(1+omega_1) K ln V/eta_Y. (own: |h(N_n) - h(N/K)| <= d h'(N/K - d), "
    "d = sqrt(N ln(2/delta)/2).)",
    latex=r"|h(N_n)-h(\tfrac NK)|\lesssim h(\tfrac NK)\frac{\Delta}{N/K},\quad"
    r"|\sigma'|\lesssim\min\Bigl(\tfrac13\eta_Y\Delta,\ \frac{\Delta}{N/K}\Bigr),\quad\Delta=\sqrt{N\ln\tfrac1\delta}",
    assumptions=("uniform classes", "D much smaller than N/K: N >> K^2", "h is concave: h' falls as V h grows"),
)
def lemma11(level: str) -> Evidence:
    rng = np.random.default_rng(11)
    count = 20_000 if level == "quick" else 400_000
    V = np.round(10 ** rng.uniform(np.log10(2), 7, count))
    eta = 10 ** rng.uniform(-4, 1, count)
    mean = 10 ** rng.uniform(0, 11, count)
    # Deviations of at least 1e-4 of the mean, so that the difference of h keeps digits: rounding/1e-4 = 1e-11.
    d = mean * 10 ** rng.uniform(-4, 0, count)
    h_mean = analytic.h(mean, eta, V)
    lower = (h_mean - analytic.h(mean - d, eta, V)) / d
    upper = (analytic.h(mean + d, eta, V) - h_mean) / d
    ratio = np.maximum(lower, upper) / slope_of_h(mean - d, eta, V)
    relative = np.maximum(lower, upper) * mean / h_mean
    wrong_end = lower / slope_of_h(mean + d, eta, V)

    # Elasticity of the error, s V eta exp(u)/(V-1+exp(u))^2. With V eta s = exp(u) - 1 + (V-1) u it is at most 1 plus
    # u r/(1+r)^2, exp(u) = (V-1) r: ln(V)/4 and 1/4.
    y = np.exp(V * h_mean)
    of_error = mean * V * eta * (y / (V - 1 + y)) / (V - 1 + y)

    # (62): the share by which the error g = 1/(V-1+exp(V h)) changes, where D <= (N/K)/10 and V >= 10.
    near = (d <= mean / 10) & (V >= 10)
    g_mean, moved_g = y[near] + V[near] - 1, np.zeros(near.sum())
    for sign in (-1, 1):
        g = np.exp(V[near] * analytic.h(mean[near] + sign * d[near], eta[near], V[near])) + V[near] - 1
        moved_g = np.maximum(moved_g, np.abs(g_mean / g - 1))
    after = mean[near] * eta[near] >= 2 * (1 + analytic.omega_1(V[near])) * np.log(V[near]) + d[near] * eta[near]
    early_share = moved_g / (eta[near] * d[near] / 3)
    late_share = (moved_g / (d[near] / mean[near]))[after]

    # Exact probability over all counts.
    K, covered, printed = 10, [], []
    for N in (100, 1000, 10_000, 100_000)[: 3 if level == "quick" else 4]:
        k = np.arange(N + 1)
        mass = binom.pmf(k, N, 1 / K)
        for size, rate in ((10, 1.0), (1000, 0.1), (1000, 1.0), (100_000, 1.0)):
            moved = np.abs(analytic.h(k, rate, size) - analytic.h(N / K, rate, size))
            for delta in (0.5, 0.1, 1e-2, 1e-4, 1e-8):
                allowed = hoeffding(N, delta)
                bound = allowed * slope_of_h(N / K - allowed, rate, size)
                covered.append(float(mass[moved > bound].sum()) / delta)
                radius = np.ceil(np.sqrt(N * np.log(1 / delta)))
                order = analytic.h(N / K, rate, size) * radius / (N / K)
                printed.append(float(mass[moved > order].sum()) / delta)

    # The size in N, without probability: root mean square of h(N_n) - h(N/K), exact, against h' times the spread.
    N_values = np.round(10 ** np.arange(4, 7.1, 0.5))
    rms = np.array([_rms_of_h(N, K, 1.0, 1000) for N in N_values])
    late = rms / (slope_of_h(N_values / K, 1.0, 1000) * np.sqrt(N_values * (1 / K) * (1 - 1 / K)))
    order = fit_order(N_values, rms / slope_of_h(N_values / K, 1.0, 1000), next_order=-1.0)
    N_shown = 1000
    k = np.arange(50, 151)
    return Evidence(
        checks=[
            symbolic("h-elasticity", "error-slope"),
            Check(
                "exact P(|h(N_n) - h(N/K)| > h(N/K) D/(N/K))/delta, D = ceil(sqrt(N ln(1/delta))), the cases below: "
                "largest",
                "closed form",
                max(printed),
                1.0,
            ),
            # -dg/ds <= g eta_Y V/(4 (V-1)): for fewer visits exp(x V/(4 (V-1))) - 1 <= x/3 up to x = eta_Y D = 1.3, if
            # V >= 10; beyond, g's elasticity of at most 5/4 + ln(V)/4 leaves less for a tenth of the count.
            Check(
                f"share sigma' of (62) over eta_Y D/3, D <= (N/K)/10, {near.sum()} cases, V = 10..1e7: largest",
                "closed form",
                float(early_share.max()),
                1.0,
            ),
            # From t0 on g's elasticity is below 2: (1 - 1/10)^-2 - 1 over 1/10.
            Check(
                f"the same over D/(N/K), N >= 2(1+omega_1) K ln V/eta_Y + K D, {after.sum()} cases: largest",
                "closed form",
                float(late_share.max()),
                2.35,
            ),
            Check(
                f"|h(N/K +- d) - h(N/K)|/(d h'(N/K - d)), {count} cases, V = 2..1e7, N/K = 1..1e11: largest",
                "closed form",
                float(ratio.max()),
                1 + 1e-10,
            ),
            # Own, from concavity and h(0) = 0: s h'/h <= 1.
            Check(
                "|h(N_n)/h(N/K) - 1| over |N_n K/N - 1|, the same cases: largest",
                "closed form",
                float(relative.max()),
                1 + 1e-10,
            ),
            Check(
                "own: the same for the error 1/(V-1+exp(V h)), N_n near N/K, over 5/4 + ln(V)/4: largest",
                "closed form",
                float(np.max(of_error / (1.25 + np.log(V) / 4))),
                1.0,
            ),
            Check(
                "exact P(|h(N_n) - h(N/K)| > bound)/delta, N = 100..1e5, K = 10, delta = 1e-8..0.5: largest",
                "closed form",
                max(covered),
                1.0,
            ),
            *order_checks("rms of h(N_n) - h(N/K) over h'(N/K), exact, in N", "closed form", order, 0.5, 0.4),
            Check(
                "wrong theory: sigma' <= D/(N/K) times 2.35 before the transition, too: largest over D/(N/K)",
                "closed form",
                float((moved_g / (d[near] / mean[near])).max()),
                2.35,
                role="control",
            ),
            Check(
                "wrong theory: the slope at the largest count, h'(N/K + d), bounds the fall: largest",
                "closed form",
                float(wrong_end.max()),
                1 + 1e-10,
                role="control",
            ),
        ],
        conclusion=f"The deviation of h is [{ratio.min():.3f}, {ratio.max():.3f}] of the bound over the cases, and "
        "never more, relatively, than that of the count; the error e_n - alpha_n can move "
        f"{of_error.max():.1f} times as much (1 + ln(V)/4 at the transition), so that it needs "
        "N >> K^2 ln(V)^2. The root mean square of h is h'(N/K) sqrt(N p(1-p)) times "
        f"[{late.min():.3f}, {late.max():.3f}], N = 1e4..1e7.",
        picture=Picture(
            "count N_n (N = 1000, K = 10)",
            "V (h(N_n) - h(N/K)), V = 1000, eta_Y = 1",
            (
                Picture.line("h(N_n) - h(N/K)", k, 1000 * (analytic.h(k, 1.0, 1000) - analytic.h(100, 1.0, 1000))),
                *(
                    Picture.line(
                        f"{name} (delta = 0.01)",
                        k,
                        np.full(k.size, sign * 1000 * _lemma11_bound(N_shown, 0.01)),
                        "bound",
                    )
                    for name, sign in (("bound", 1), ("bound, below", -1))
                ),
            ),
            xscale="linear",
        ),
        conditions=[many_draws(K, 1000)],
        seeds=(11,),
        tried=count,
    )


def _lemma11_bound(N: float, delta: float, K: int = 10, eta_Y: float = 1.0, vocab_size: int = 1000) -> float:
    d = hoeffding(N, delta)
    return float(d * slope_of_h(N / K - d, eta_Y, vocab_size))


def _rms_of_h(N: float, K: int, eta_Y: float, vocab_size: int) -> float:
    """Root mean square of h(N_n) - h(N/K) over the binomial counts within 12 standard deviations."""
    mean, reach = N / K, 12 * np.sqrt(N / K)
    k = np.arange(max(0, np.floor(mean - reach)), min(N, np.ceil(mean + reach)) + 1)
    moved = analytic.h(k, eta_Y, vocab_size) - analytic.h(mean, eta_Y, vocab_size)
    return float(np.sqrt(binom.pmf(k, N, 1 / K) @ moved**2))


@claim(
    "lemma12",
    source="Lemma 12, Eqs. (66)-(69)",
    title="All classes at once, in whole steps",
    statement="After N >> K^2 steps w_n = (1+theta_n) (V-1) h(N/K) zeta_n, and with probability at least 1 - delta "
    "|theta_n| is at most of the order of (K/sqrt(N)) sqrt(ln(K/delta)) for all classes at once. (own: for all classes "
    "|h*(N_n) - h(N/K)| <= (d + X) h'(N/K - d), d = sqrt(N ln(2K/delta)/2), X the lag of h* = h(s + X).)",
    latex=r"w_n=(1+\theta_n)(V-1)h(\tfrac NK)\zeta_n,\qquad"
    r"\max_n|\theta_n|\lesssim\frac K{\sqrt N}\sqrt{\ln\tfrac K\delta}",
    assumptions=("uniform classes", "modified flow, discrete steps, Y(0) = 0", "N >> K^2"),
)
def lemma12(level: str) -> Evidence:
    sizes, rates = (10, 1000, 100_000), (0.1, 1.0, 3.0)
    grid = [(K, K**2 * 10**e) for K in (2, 5, 20, 100) for e in ((1, 2, 3) if level == "quick" else (1, 2, 3, 4))]
    deltas = np.array([0.5, 1e-2, 1e-6])
    covered, worst, largest_theta, tried = 0.0, 0.0, 0.0, 0
    bounds = [hoeffding(N, deltas / K) for K, N in grid]
    with_mean = np.inf
    for (K, N), d in zip(grid, bounds, strict=True):
        covered = max(covered, float(np.max(K * tail(N, 1 / K, d) / deltas)))
    extremes = [np.array([_extreme_counts(K, N, delta) for delta in deltas]) for K, N in grid]
    visits = np.unique(np.concatenate([counts.ravel() for counts in extremes]))
    for V in sizes:
        for eta in rates:
            u = dict(zip(visits.tolist(), discrete_logits(float(V), eta, visits), strict=True))
            for (K, N), d, counts in zip(grid, bounds, extremes, strict=True):
                at = np.array([[u[int(k)] for k in row] for row in counts])
                lag = visits_of(at[:, 1], eta, V) - counts[:, 1]
                moved = np.abs(at / V - analytic.h(N / K, eta, V)).max(axis=1)
                worst = max(worst, float(np.max(moved / ((d + lag) * slope_of_h(N / K - d, eta, V)))))
                order = K / np.sqrt(N) * np.sqrt(np.log(K / deltas))
                largest_theta = max(largest_theta, float(np.max(moved / analytic.h(N / K, eta, V) / order)))
                # Wrong theory: a deviation of N/K draws of a fair coin, sqrt(N/K ln(2K/delta)/2)/K.
                few = d / K**1.5
                with_mean = min(with_mean, float(np.max(moved / ((few + lag) * slope_of_h(N / K - few, eta, V)))))
                tried += deltas.size

    K, V, steps, seeds = 5, 1000, 2000, range(200 if level == "quick" else 2000)
    _, lead = trained_counts(single_token_classes(K, V), steps, seeds)
    moved = np.abs(lead / V - analytic.h(steps / K, 1.0, V))
    reach = float(hoeffding(steps, 0.5 / K))
    most = int(steps / K + reach)
    u_high = discrete_logits(float(V), 1.0, np.array([most]))
    last_lag = float(visits_of(u_high, 1.0, V)[0]) - most
    bound = (reach + last_lag) * float(slope_of_h(steps / K - reach, 1.0, V))
    # The mean square of all classes, exactly, over all counts.
    k = np.arange(steps + 1)
    table = analytic.discrete_h(steps, 1.0, V)
    exact = float(binom.pmf(k, steps, 1 / K) @ (table - analytic.h(steps / K, 1.0, V)) ** 2)
    halves = float(binom.pmf(k, steps, 1 / K) @ (table - analytic.h(steps / 2, 1.0, V)) ** 2)
    square = (moved**2).mean(axis=1)
    largest = np.sort(moved.max(axis=1))[::-1]
    return Evidence(
        checks=[
            Check(
                "sum over classes of the exact P(|N_n - N/K| > d), over delta: largest, K = 2..100, N = 10 K^2 on",
                "closed form",
                covered,
                1.0,
            ),
            # d is at most sqrt(N ln(K/delta)), h'(s) s <= h(s), and the lag of whole steps is shorter than d.
            Check(
                "|theta_n| = |h*(N_n)/h(N/K) - 1| at the extreme counts over (K/sqrt(N)) sqrt(ln(K/delta)): largest",
                "descent",
                largest_theta,
                2.0,
            ),
            Check(
                f"|h*(N_n) - h(N/K)| at the extreme counts over the bound, {tried} cases, V = 10..1e5: largest",
                "descent",
                worst,
                1.0,
            ),
            Check(
                "share of the seeds of SGD with a class beyond the bound, delta = 1/2, K = 5, N = 2000, over delta",
                "SGD",
                float((moved > bound).any(axis=1).mean()) / 0.5,
                1.0,
            ),
            Check(
                "mean square of h*(N_n) - h(N/K) of SGD against the exact sum over counts, in standard errors",
                "SGD",
                float(in_standard_errors(square, exact)),
                quantile(1),
            ),
            Check(
                "wrong theory: N^0.4 for N^0.5: sum of the exact P over delta, K = 2, N = 1e12",
                "closed form",
                float(2 * tail(1e12, 0.5, hoeffding(1e12, 0.005) * 1e12**-0.1) / 0.01),
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: a deviation K^1.5 times smaller bounds the extreme counts: smallest over cases",
                "descent",
                with_mean,
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: h(N/2) for h(N/K), mean square in standard errors",
                "SGD",
                float(in_standard_errors(square, halves)),
                quantile(1),
                role="control",
            ),
        ],
        conclusion=f"The extreme counts that are allowed move h* by at most {worst:.3f} of the bound, and some class "
        f"leaves them with at most {covered:.3f} delta. SGD: root mean square of h* - h(N/K) "
        f"{np.sqrt(square.mean() / exact):.3f} times the exact one.",
        picture=Picture(
            "largest over classes of V |h*(N_n) - h(N/K)|, N = 2000, K = 5",
            "probability of a larger one",
            (
                Picture.line(
                    "SGD, share of the seeds", V * largest, (np.arange(largest.size) + 0.5) / largest.size, "simulation"
                ),
                Picture.line("bound at delta = 1/2", [V * bound, V * bound], [1 / len(seeds), 1.0], "bound"),
            ),
            xscale="linear",
            yscale="log",
        ),
        conditions=[many_draws(K, steps)],
        seeds=tuple(seeds),
        tried=tried,
    )


def _extreme_counts(K: int, N: int, delta: float) -> tuple[int, int]:
    """Smallest and largest whole count within sqrt(N ln(2K/delta)/2) of N/K."""
    d = float(hoeffding(N, delta / K))
    return max(0, int(np.ceil(N / K - d))), min(N, int(np.floor(N / K + d)))


@claim(
    "lemma18",
    source="Lemma 18, Eqs. (134)-(138)",
    title="Token frequencies of finite sequences",
    statement="The frequency of a token among the T-1 contextual tokens is within sqrt(ln(2/delta)/(2(T-1))) of P(l|n) "
    "with probability at least 1 - delta, for each token.",
    latex=r"\Bigl|\hat P(l|n)-P(l|n)\Bigr|\le\sqrt{\frac{\ln(2/\delta)}{2(T-1)}}\quad\text{w.p. }\ge1-\delta",
    assumptions=("contextual tokens independent given the class, no positions",),
)
def lemma18(level: str) -> Evidence:
    P = np.concatenate([10.0 ** -np.arange(6.0, 0, -1), [0.3, 0.5, 0.7, 0.9, 1 - 1e-3]])
    lengths = 10.0 ** np.arange(0, 10, 1 if level == "full" else 1.5)
    deltas = 10.0 ** -np.arange(0.0, 13)
    length, p, delta = (a.ravel() for a in np.meshgrid(lengths.round(), P, deltas))
    exceeded = tail(length, p, length * np.sqrt(np.log(2 / delta) / (2 * length))) / delta

    profile = np.array([0.5, 0.3, 0.15, 0.04, 0.01])
    classes = SequenceClasses(profile[None], [0], vocab_size=20)
    drawn, half = (4000 if level == "quick" else 100_000), 0.5
    sampled = (10, 100, 1000)
    miss, shares, share_error, spread, wrong_spread = 0.0, [], 0.0, 0.0, np.inf
    shown: Floats = np.empty(0)
    for seed, tokens in enumerate(sampled):
        # Y moves by eta_Y f (e - alpha)^T, f proportional to the frequencies: the steps of Y are the sequences. A small
        # eta_Y keeps Y small, so that its differences have rounding of drawn times 1e-16.
        run = sgd(classes, 1e-6, FROZEN, drawn, seq_len=tokens, seed=seed, save_decoder=True)
        assert run.Y is not None
        steps = np.diff(run.Y[:, run.decoder_rows, 0], axis=0)
        frequency = steps / steps.sum(axis=1, keepdims=True)
        counts = np.round(frequency * tokens)
        miss = max(miss, float(np.abs(frequency * tokens - counts).max()))
        allowed = np.sqrt(np.log(2 / half) * tokens / 2)
        beyond = (np.abs(counts - profile * tokens) > allowed).mean(axis=0)
        expected = tail(tokens, profile, allowed)
        shares.append(float(beyond.max()) / half)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.abs(beyond - expected) / np.sqrt(expected * (1 - expected) / drawn)
        # The normal quantile needs some ten sequences beyond the bound.
        share_error = max(share_error, float(errors[expected * drawn > 10].max(initial=0.0)))
        square = (counts - profile * tokens) ** 2
        spread = max(spread, float(in_standard_errors(square, tokens * profile * (1 - profile)).max()))
        wrong_spread = min(wrong_spread, float(in_standard_errors(square, tokens * profile).max()))
        if tokens == 100:
            shown = np.sort(np.abs(counts[:, 0] / tokens - profile[0]))[::-1]
    comparisons = 2 * len(sampled) * profile.size
    thinned = np.unique(shown)[::-1]
    return Evidence(
        checks=[
            symbolic("hoeffding-radius"),
            Check(
                f"P(beyond the bound)/delta, exact, P = 1e-6..0.999, T-1 = 1..1e9, delta = 1e-12..1, {p.size} cases: "
                "largest",
                "closed form",
                float(exceeded.max()),
                1.0,
            ),
            Check("counts read off the steps of Y are whole: largest distance from a whole number", "SGD", miss, 1e-5),
            Check("share of SGD's sequences beyond the bound, over delta = 1/2: largest", "SGD", max(shares), 1.0),
            Check(
                "share of SGD's sequences beyond the bound against the exact one, in standard errors",
                "SGD",
                share_error,
                quantile(comparisons),
            ),
            Check(
                "mean of (count - P(T-1))^2 against P(1-P)(T-1), T-1 = 10, 100, 1000, in standard errors",
                "SGD",
                spread,
                quantile(comparisons),
            ),
            Check(
                "wrong theory: (T-1)^-0.6 for (T-1)^-0.5, T-1 = 1e9: P(beyond)/delta",
                "closed form",
                float(tail(1e9, 0.5, hoeffding(1e9, 0.01) * 1e9**-0.1) / 0.01),
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: without ln(2/delta), delta = 1e-6: P(beyond)/delta",
                "closed form",
                float(tail(1e9, 0.5, np.sqrt(1e9 / 2)) / 1e-6),
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: tokens occur like Poisson counts, variance P (T-1), in standard errors",
                "SGD",
                wrong_spread,
                quantile(comparisons),
                role="control",
            ),
        ],
        conclusion=f"The exact probability is at most {exceeded.max():.3f} delta; SGD's own sequences follow the exact "
        f"one (share beyond the bound at delta = 1/2: at most {max(shares):.3f} delta). The bound has the variance 1/4 "
        "of P = 1/2; for rare tokens it is about 1/sqrt(4P) times too wide.",
        picture=Picture(
            "|frequency - P|, P = 1/2, T-1 = 100",
            "probability of one as large",
            (
                Picture.line("Hoeffding", thinned, np.minimum(2 * np.exp(-2 * 100 * thinned**2), 1), "bound"),
                Picture.line("binomial, exact", thinned, tail(100, 0.5, 100 * thinned - 1e-9)),
                Picture.line(
                    "sequences of SGD", thinned, [(shown >= value - 1e-12).mean() for value in thinned], "simulation"
                ),
            ),
            xscale="linear",
            yscale="log",
        ),
        seeds=tuple(range(len(sampled))),
        tried=p.size,
    )
