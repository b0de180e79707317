"""Theorem 5: the decoder after N batch-size-1 steps."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.accurate_runs import original_flow
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    NO_MOMENTUM,
    ONE_STEP,
    RATE_OF_LARGE_STEPS,
    WholeVisits,
    above_probability,
    at_most_probability,
    decoder_of,
    elasticity,
    hold_order,
    in_standard_errors,
    many_draws,
    order_of_theta,
    quantile,
    steps_of,
    trained_counts,
    worst_entry,
)
from snapdyn.validation.dense_algebra import EPS
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.search import Instance
from snapdyn.validation.search.instance import Ints
from snapdyn.validation.statistics import fit_order
from snapdyn.validation.visits import discrete_logits, single_token_classes

# Steps of the full Y that are made one by one.
STEPS = 150


def modified_steps(instance: Instance) -> tuple[Floats, Ints, Floats]:
    """Y after whole steps of drawn classes, the counts N_n, and zeta_n.

    Each step is Y += eta_Y (f_n - F E' e_n)(e_n - alpha_n)^T. At most STEPS are made. The outputs that are no class's
    next token have equal columns: Y (M, outputs + 1) and zeta (classes, outputs + 1) keep one of them, the last.
    """
    rng = np.random.default_rng([instance.seed % 2**31, instance.number])
    tokens = instance.classes.next_token
    outputs, own = np.unique(tokens, return_inverse=True)
    V, K = instance.vocab_size, instance.num_classes
    many = np.append(np.ones(outputs.size), V - outputs.size)
    f = _attention(instance)
    update = np.linalg.solve(instance.gram, f)  # rows f_n - F E' e_n of F (I+E)^{-1}
    drawn = rng.choice(K, size=int(min(STEPS, steps_of(instance))), p=instance.prior)
    Y = np.zeros((f.shape[1], outputs.size + 1))
    for n in drawn:
        w = f[n] @ Y
        error = -many * np.exp(w - w.max())
        error /= -error.sum()
        # The own entry is the sum of the others: 1 - alpha would cancel.
        error[own[n]] = 0.0
        error[own[n]] = -error.sum()
        error[-1] /= max(many[-1], 1)
        Y += instance.eta_Y * np.outer(update[n], error)
    zeta = np.full((K, outputs.size + 1), -1 / (V - 1))
    zeta[np.arange(K), own] = 1.0
    if many[-1] == 0:
        Y[:, -1] = zeta[:, -1] = 0.0
    return Y, np.bincount(drawn, minlength=K).astype(np.int64), np.asarray(zeta)


def distance_from_form(instance: Instance, mixed: bool = True) -> Measured:
    """|Y - F (I - E')(I + Theta) Wbar| over |Y| with the true counts in h*, over what rounding allows.

    `mixed` = False leaves out I - E'.
    """
    Y, counts, zeta = modified_steps(instance)
    V = instance.vocab_size
    h_star = analytic.discrete_h(int(counts.max()), instance.eta_Y, V)[counts]
    W = (V - 1) * h_star[:, None] * zeta
    form = _attention(instance).T @ (np.linalg.solve(instance.gram, W) if mixed else W)
    # A step solves with G once and reads the logits back through F: eps times the condition number each. The softmax
    # turns an absolute error of the logits into a relative error of the step.
    condition = instance.eigenvalues[-1] / instance.eigenvalues[0]
    largest = max(1.0, V * h_star.max())
    allowed = 8 * EPS * (counts.sum() + instance.num_classes) * condition * largest
    distance = float(np.linalg.norm(Y - form) / np.linalg.norm(Y))
    return Measured(distance / allowed, at_most=1.0, where=f"after {counts.sum()} steps")


def without_mixing(instance: Instance) -> Measured:
    """Wrong theory: Y = F (I + Theta) Wbar, without I - E'."""
    return distance_from_form(instance, mixed=False)


def chance_of_theta(instance: Instance, order: Floats | None = None) -> Measured:
    """Sum over classes of P(|theta_n| > order), exact, over delta; the order of the theorem by default.

    h* rises with the count, so that the counts outside are those below and above two numbers of visits.
    """
    N, p, V = steps_of(instance), instance.prior[None], instance.vocab_size
    decoder = decoder_of(instance)
    # theta on the edge lies inside, and has rounding.
    allowed = (order_of_theta(instance) if order is None else order) + 8 * EPS
    u = V * analytic.h(p * N, instance.eta_Y, V)
    low, high = (np.ceil(decoder.visits(np.maximum(u * (1 + sign * allowed), 0.0))) for sign in (-1, 1))
    chance = above_probability(np.minimum(high, N + 1) - 1, N, p)
    chance = chance + np.where(allowed < 1, at_most_probability(np.minimum(low, N + 1) - 1, N, p), 0.0)
    return worst_entry((chance.sum(axis=1) / DELTAS)[:, None], instance, at_most=1.0)


def chance_without_classes(instance: Instance) -> Measured:
    """Wrong theory: the order without 1/p_n, sqrt(ln(K/delta)/N)."""
    return chance_of_theta(instance, order_of_theta(instance) * instance.prior)


@claim(
    "theorem5",
    source="Theorem 5, Eq. (70)",
    title="The decoder after N batch-size-1 steps",
    statement="Under the modified flow after N batch-size-1 steps Y = F (I - E')(I + Theta) Wbar, rows of Wbar "
    "(V-1) h(p_n N) zeta_n (p_n N = N/K for equal priors), Theta diagonal. With the true counts N_n in h* it is exact. "
    "With probability at least 1 - delta, delta <= 1/2, |theta_n| <= (1/(p_n sqrt(N))) sqrt(ln(K/delta)) for all "
    "classes, where eta_Y <= 3 + ln(N)/2.",
    latex=r"Y=F(I-E')(I+\Theta)\bar W,\quad\bar w_n=(V-1)h(\tfrac NK)\zeta_n,\quad"
    r"|\theta_n|\lesssim\frac K{\sqrt N}\sqrt{\ln\tfrac K\delta}",
    expected="conditional",
    assumptions=(
        "modified flow, Y(0) = 0, attention frozen",
        "attention vectors f_n linearly independent",
        "eta_Y <= 3 + ln(N)/2",
    ),
    properties=(
        Property(
            "sum over classes of P(|theta_n| > (1/(p_n sqrt(N))) sqrt(ln(K/delta)))/delta",
            "closed form",
            chance_of_theta,
            ANY_CLASSES,
            conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION, RATE_OF_LARGE_STEPS),
            controls={"wrong theory: the order without 1/p_n": chance_without_classes},
            evaluations=(300, 15_000),
        ),
        Property(
            f"Y after whole steps, at most {STEPS}, against the form with the true counts in h*, over rounding",
            "descent",
            distance_from_form,
            ANY_CLASSES,
            conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION),
            controls={"wrong theory: without I - E'": without_mixing},
            evaluations=(100, 3000),
            directed=False,
        ),
    ),
)
def theorem5(evidence: Evidence) -> None:
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


def _attention(instance: Instance) -> Floats:
    """f_n at the start, (classes, M)."""
    return np.asarray(instance.classes.decoder_inputs(instance.start).toarray())


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
        W = original_flow(classes, eta, N)[0][:, 0]
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
