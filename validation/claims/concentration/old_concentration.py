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
from snapdyn.validation.claims.decoder.old_decoder import (
    discrete_logits,
    own_lead,
    single_token_classes,
    visits_of,
)
from snapdyn.validation.claims.gradient.old_gradient import FROZEN
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.statistics import fit_order, order_checks, standard_error
from snapdyn.validation.symbolic_checks import symbolic

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


def slope_of_h(s: Numbers, eta_Y: Numbers, vocab_size: Numbers) -> Floats:
    """h'(s) = eta_Y/(V-1+exp(V h(s))), at s = 0 where s is negative."""
    h = analytic.h(np.maximum(s, 0.0), eta_Y, vocab_size)
    return np.asarray(eta_Y / (vocab_size - 1 + np.exp(vocab_size * h)))


def many_draws(K: float, N: float) -> Condition:
    """Return the condition N >> K^2 of Theorem 5, evaluated."""
    return Condition("many draws", "N/K^2 >= 10 (N >> K^2)", 10.0, N / K**2, N / K**2 >= 10)


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


