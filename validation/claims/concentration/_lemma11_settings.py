"""Lemma 11 at named settings: elasticity of the error, and the root mean square of h over the counts."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.concentration._shared import hoeffding, hold_order, many_draws
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.statistics import fit_order
from snapdyn.validation.visits import log_error, slope_of_h, visits_of


def size_of_changes(evidence: Evidence) -> None:
    """Add how far h and the error change with the count: worst over V and t, and in the mean over counts."""
    # Elasticity of the error, s V eta exp(u)/(V-1+exp(u))^2. With V eta s = exp(u) - 1 + (V-1) u it is at most 1 plus
    # u r/(1+r)^2, exp(u) = (V-1) r: ln(V)/4 and 1/4.
    V, u = np.meshgrid(10.0 ** np.linspace(np.log10(2), 12, 100), np.geomspace(1e-6, 60, 2000))
    of_error = (np.expm1(u) + (V - 1) * u) * np.exp(u) / (V - 1 + np.exp(u)) ** 2
    evidence.holds(
        "own: relative change of 1/(V-1+exp(V h)) per relative change of the count, over 5/4 + ln(V)/4, V = 2..1e12: "
        "largest",
        "closed form",
        float((of_error / (1.25 + np.log(V) / 4)).max()),
        at_most=1,
    )
    # Around the transition the error's elasticity is 1 + ln(V)/4, V = 1e6: the late bound fails there.
    eta, size = 1.0, 10**6
    mean = float(visits_of(np.log(size - 1.0), eta, size))
    middle, fewer = log_error(size * analytic.h(np.array([mean, 0.9 * mean]), eta, size), size)
    evidence.control(
        "wrong theory: sigma' <= 2.35 D/(p_n N) at the transition, too: the ratio where exp(V h) = V - 1, V = 1e6",
        "closed form",
        float(np.expm1(fewer - middle)) / 0.1,
        at_most=2.35,
    )
    # The size in N, without probability: root mean square of h(N_n) - h(N/K), exact, against h' times the spread.
    K, size = 10, 1000
    N = np.round(10 ** np.arange(4, 7.1, 0.5))
    rms = np.array([_rms_of_h(n, K, 1.0, size) for n in N])
    spread = rms / slope_of_h(N / K, 1.0, size)
    hold_order(
        evidence,
        "rms of h(N_n) - h(N/K) over h'(N/K), exact, in N",
        "closed form",
        fit_order(N, spread, next_order=-1.0),
        0.5,
    )
    linear = fit_order(N, rms / (analytic.h(N / K, 1.0, size) * K / N), next_order=-1.0)
    evidence.control(
        "wrong theory: h grows as s at all times, rms over h(N/K)/(N/K): |corrected slope - 0.5|",
        "closed form",
        abs(linear.corrected - 0.5),
        at_most=linear.margin(),
    )
    late = spread / np.sqrt(N * (1 / K) * (1 - 1 / K))
    evidence.conclusion = (
        "Relatively, h never moves more than the count does; the error e_n - alpha_n can move "
        f"{of_error[:, -1].max():.1f} times as much at V = 1e12 (1 + ln(V)/4 at the transition), so that it needs "
        "N >> K^2 ln(V)^2. The root mean square of h(N_n) - h(N/K) is h'(N/K) sqrt(N p(1-p)) times "
        f"[{late.min():.3f}, {late.max():.3f}], N = 1e4..1e7 batch-size-1 steps."
    )
    delta = 0.01
    k, d = np.arange(50, 151), hoeffding(1000, delta)
    bound = float(size * d * slope_of_h(100 - d, 1.0, size))
    evidence.picture = Picture(
        "count N_n (N = 1000 batch-size-1 steps, K = 10)",
        "V (h(N_n) - h(N/K)), V = 1000, eta_Y = 1",
        (
            Picture.line("h(N_n) - h(N/K)", k, size * (analytic.h(k, 1.0, size) - analytic.h(100, 1.0, size))),
            *(
                Picture.line(f"{name} (delta = 0.01)", k, np.full(k.size, sign * bound), "bound")
                for name, sign in (("bound", 1), ("bound, below", -1))
            ),
        ),
        xscale="linear",
    )
    evidence.conditions = [many_draws(K, 1000)]


def _rms_of_h(N: float, K: int, eta_Y: float, vocab_size: int) -> float:
    """Root mean square of h(N_n) - h(N/K) over the binomial counts within 12 standard deviations."""
    from scipy.stats import binom

    mean, reach = N / K, 12 * np.sqrt(N / K)
    k = np.arange(max(0, np.floor(mean - reach)), min(N, np.ceil(mean + reach)) + 1)
    moved = analytic.h(k, eta_Y, vocab_size) - analytic.h(mean, eta_Y, vocab_size)
    return float(np.sqrt(binom.pmf(k, N, 1 / K) @ moved**2))
