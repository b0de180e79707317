"""Theorem 5 at named settings: the size of theta in N and K, SGD, and the original flow."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.decoder_speed import class_logits
from snapdyn.validation.claims.concentration._shared import (
    hold_order,
    in_standard_errors,
    many_draws,
    quantile,
    trained_counts,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.rungs.run import ORIGINAL, run_on_rung
from snapdyn.validation.statistics import fit_order
from snapdyn.validation.visits import WholeVisits, discrete_logits, elasticity, single_token_classes


def size_of_theta(evidence: Evidence) -> None:
    """Add the orders of theta_n in N and K, theta_n of SGD, and the distance of the original flow from the form."""
    # The orders in N and K: spread of theta over the elasticity s h'/h, exact sums over counts.
    N, K = np.round(10 ** np.arange(4, 7.1, 0.5)), np.array([3, 5, 9, 17, 33, 65])
    order_N = fit_order(N, [_theta_spread(10, n) for n in N], next_order=-1.0)
    order_K = fit_order(K - 1.0, [_theta_spread(k, 1e6) for k in K], next_order=1.0)
    hold_order(evidence, "spread of theta_n over s h'/h in N (K = 10)", "closed form", order_N, -0.5)
    # The lag X of whole steps moves the elasticity by a share of X K/N, which is no power of K.
    decoder = WholeVisits.of(0.5, 1000)
    lag = float(decoder.lag(decoder.logits(np.array([1e6 / K[0]])))[0]) * K[-1] / 1e6
    margin_K = order_K.margin() + lag / np.log(K[-1] / K[0])
    evidence.holds(
        "own: the same in K - 1 (N = 1e6): |corrected slope - 0.5|",
        "closed form",
        abs(order_K.corrected - 0.5),
        at_most=margin_K,
    )
    waiting = fit_order(N, [_spread_of_waiting_times(10, n) for n in N])
    evidence.control(
        "wrong theory: counts are spread as waiting times, by their mean: |slope in N - (-0.5)|",
        "closed form",
        abs(waiting.corrected + 0.5),
        at_most=order_N.margin(),
    )
    attained = fit_order(K - 1.0, [_spread_of_hoeffding(k, 1e6) for k in K])
    evidence.control(
        "wrong theory: counts have the variance N/4 of Hoeffding's bound: |slope in K - 1 - 0.5|",
        "closed form",
        abs(attained.corrected - 0.5),
        at_most=margin_K,
    )

    # theta of the training code, E = 0.
    classes, V, steps, runs = 5, 1000, 4000, range(1000 if evidence.full else 100)
    _, lead = trained_counts(single_token_classes(classes, V), steps, runs)
    trained = lead / (V * analytic.h(steps / classes, 1.0, V)) - 1
    beyond = np.abs(trained).max(axis=1) > classes / np.sqrt(steps) * np.sqrt(np.log(classes / 0.1))
    evidence.holds(
        "share of the seeds of SGD with a theta_n beyond the order, delta = 0.1, over delta",
        "SGD",
        float(beyond.mean()) / 0.1,
        at_most=1,
    )
    evidence.holds(
        "mean square of theta_n of SGD against the exact sum over counts, in standard errors",
        "SGD",
        float(in_standard_errors((trained**2).mean(axis=1), _mean_square(steps, classes, V))),
        at_most=quantile(1),
    )

    # The original flow has the form of no diagonal Theta.
    map_, floor = _original_flow_map(13 if evidence.full else 5, 19 if evidence.full else 7)
    evidence.outside(
        f"original flow: distance from the form with any Theta over the order, N = {map_.x[-1]:.0e}, overlap "
        f"{map_.y[-1]:.2g}",
        "original flow",
        float(map_.violation[-1, -1]),
        at_most=1,
    )
    evidence.maps = [map_]
    evidence.conclusion = (
        f"Exact with the true counts in h*. With h(N/K) the spread of theta_n falls as N^{order_N.corrected:.4f} in "
        f"batch-size-1 steps. The order is not attained: theta_n grows as (K-1)^{order_K.corrected:.3f} (Bernstein's "
        "sqrt(K/N), not K/sqrt(N)) and late a factor ln(V eta_Y N/K) smaller (s h'/h). The original flow is off by "
        f"overlap sqrt(K-1) ([{floor.min():.3f}, {floor.max():.3f}] of it), at any N: it has the form while N < K^2 "
        "ln(K/delta)/((K-1) overlap^2)."
    )
    shown = 10.0 ** np.arange(3, 8)
    sharp = np.sqrt(2 * 10 / shown * np.log(2 * 10 / 0.01))
    evidence.picture = Picture(
        "N (batch-size-1 steps)",
        "|theta_n| at confidence 0.99, K = 10",
        (
            Picture.line(
                "exact quantile, h* and binomial counts",
                shown,
                [theta_quantile(10, n, 0.01, 0.5, 1000) for n in shown],
                "simulation",
            ),
            Picture.line(
                "(K/sqrt N) sqrt(ln(K/delta))", shown, 10 / np.sqrt(shown) * np.sqrt(np.log(10 / 0.01)), "printed"
            ),
            Picture.line("sqrt(2 (K/N) ln(2K/delta))", shown, sharp, "bound"),
            Picture.line("the same times s h'/h", shown, sharp * elasticity(shown / 10, 0.5, 1000)),
        ),
        yscale="log",
    )
    evidence.conditions = [many_draws(classes, steps)]
    evidence.seeds = list(runs)


def theta_quantile(K: int, N: float, delta: float, eta_Y: float, vocab_size: int) -> float:
    """|theta_n| that is passed with probability delta/K at most."""
    from scipy.stats import binom

    counts = np.array([binom.ppf(delta / (2 * K), N, 1 / K), binom.isf(delta / (2 * K), N, 1 / K)])
    return float(np.abs(_theta(counts, N / K, eta_Y, vocab_size)).max())


def _theta(counts: Floats, mean: float, eta_Y: float, vocab_size: int) -> Floats:
    """theta_n of increasing `counts`."""
    logits = discrete_logits(float(vocab_size), eta_Y, counts.astype(np.int64))
    return np.asarray(logits / (vocab_size * analytic.h(mean, eta_Y, vocab_size)) - 1)


def _theta_spread(K: int, N: float, eta_Y: float = 0.5, vocab_size: int = 1000) -> float:
    """Standard deviation of theta_n over s h'/h at N/K, exact over the counts within 12 standard deviations."""
    from scipy.stats import binom

    mean, reach = N / K, 12 * np.sqrt(N / K)
    k = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1).astype(float)
    mass = binom.pmf(k, N, 1 / K)
    spread = _spread(_theta(k, mean, eta_Y, vocab_size), mass / mass.sum())
    return spread / float(elasticity(mean, eta_Y, vocab_size))


def _spread(values: Floats, mass: Floats) -> float:
    return float(np.sqrt(mass @ (values - mass @ values) ** 2))


# Middles of equal shares of probability, at which a wrong law of the counts is evaluated.
_SHARES = (np.arange(4000) + 0.5) / 4000


def _spread_of_waiting_times(K: int, N: float, eta_Y: float = 0.5, vocab_size: int = 1000) -> float:
    """Wrong theory: the count has the law of a waiting time with mean N/K."""
    counts = np.floor(-N / K * np.log1p(-_SHARES))
    theta = _theta(counts, N / K, eta_Y, vocab_size)
    return _spread(theta, np.full(theta.size, 1 / theta.size)) / float(elasticity(N / K, eta_Y, vocab_size))


def _spread_of_hoeffding(K: int, N: float, eta_Y: float = 0.5, vocab_size: int = 1000) -> float:
    """Wrong theory: the count is normal with variance N/4, whatever the prior."""
    from scipy.special import ndtri

    theta = _theta(np.round(N / K + np.sqrt(N) / 2 * ndtri(_SHARES)), N / K, eta_Y, vocab_size)
    return _spread(theta, np.full(theta.size, 1 / theta.size)) / float(elasticity(N / K, eta_Y, vocab_size))


def _mean_square(steps: int, K: int, vocab_size: int) -> float:
    """Mean of theta_n^2 over the binomial counts at eta_Y = 1."""
    from scipy.stats import binom

    theta = analytic.discrete_h(steps, 1.0, vocab_size) / analytic.h(steps / K, 1.0, vocab_size) - 1
    return float(binom.pmf(np.arange(steps + 1), steps, 1 / K) @ theta**2)


def _original_flow_map(overlaps: int, times: int) -> tuple[Map, Floats]:
    """Map over (N, overlap) of the original flow's distance in units of the order, and the distance.

    The distance of W = F^T Y from (I + Theta) Wbar over |W|, whatever the diagonal Theta, row 0 of equal classes; the
    last value is that over overlap sqrt(K-1), which is what the other classes' updates put into the row.
    """
    K, V, eta, delta = 10, 1000, 1.0, 0.01
    N = np.geomspace(10 * K**2, 1e9, times)
    shares = np.geomspace(0.003, 0.15, overlaps)
    overlap, distance = np.empty(shares.size), np.empty((shares.size, N.size))
    count = np.append(np.ones(K), V - K)
    zeta = np.full(K + 1, -1 / (V - 1))
    zeta[0] = 1.0
    for i, share in enumerate(shares):
        classes: SequenceClasses = single_common_token(K, 5, float(share), V)
        overlap[i] = classes.gram()[0, 1]
        run = run_on_rung(ORIGINAL, classes, eta, 0.0, N, rtol=1e-12, atol=1e-14, save_decoder=True)
        W = class_logits(classes, run.attention_entries, *run.require_decoder()).logits[:, 0]
        along = (W * count) @ zeta / ((zeta * count) @ zeta)
        rest = W - along[:, None] * zeta
        distance[i] = np.sqrt((rest**2 @ count) / (W**2 @ count))
    order = K / np.sqrt(N) * np.sqrt(np.log(K / delta))
    holds = order / np.sqrt(K - 1)
    drawn = (holds >= overlap[0]) & (holds <= overlap[-1])
    return (
        Map(
            title="Theorem 5 for the original flow: K = 10, V = 1000, delta = 0.01",
            xlabel="N (batch-size-1 steps)",
            ylabel="overlap f_n.f_k",
            quantity="distance from the form with any Theta, over (K/sqrt N) sqrt(ln(K/delta))",
            x=N,
            y=overlap,
            violation=distance / order,
            threshold=1.0,
            boundaries=(
                Picture.line("N = 10 K^2", [N[0], N[0]], overlap[[0, -1]], "printed"),
                Picture.line("overlap sqrt(K-1) = order", N[drawn], holds[drawn]),
            ),
        ),
        distance / (overlap * np.sqrt(K - 1))[:, None],
    )
