"""Weights, errors and the test of a fit, from simulated runs or from the seeds of the trace.

Let y be the mean of the seeds, with n values: all recorded quantities at all records. u = r/s are residuals in units of
their standard deviations. Two statistics see every record: the largest |u|, and the squares of smooth contrasts, which
are sums of u times polynomials of ln t, in the directions of the observables in which the theory moves. p is the rank
of the smaller of their two p-values among the noise of means of as many seeds, each after its own fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.polynomial import legendre

from snapdyn.dynamics.classes.table import Floats, Ints

# Runs that give the weights, and further ones whose noise is drawn: a trace is compared with runs that had as little
# influence on the weights as itself. The expected curve is the mean of all runs. Its error is a part of the noise, and
# must stay small for a trace of many seeds.
REFERENCE, FEWEST_RUNS, RUNS_PER_SEED = 300, 900, 60
DRAWS = 999  # means of several seeds
MOST_SIGNS = 10  # seeds up to which all choices of signs are taken
DEGREES, DIRECTIONS = 6, 4  # of smooth contrasts: polynomials of ln t, and directions of the observables
FLOOR = 1e-6  # error of every value beside its noise (integration, rounding), as a share of the change of its column
RIDGE = 1e-8  # relative, on the covariance of contrasts: noise that cancels to more digits is rounding
LEVEL, POWER = 0.05, 0.95
LARGEST_MISFIT = 0.5  # that the test may overlook, over the change of the curves: above it the answer is "not testable"
TRIALS = 200  # draws with which the power is computed
LARGEST_SHARE = 1e3
SEED = 56


@dataclass(frozen=True, eq=False)
class Records:
    """Which values of the curves (N, m) a trace has, flattened to n values.

    Attributes
    ----------
    row, column : (n,) int arrays
        Record and observable of each value.
    log_t : (n,) array
        ln t of each value.
    weights : (R, n) array
        Share of each seed in the mean; 0 where it lacks the value.
    """

    row: Ints
    column: Ints
    log_t: Floats
    weights: Floats

    def flat(self, curves: Floats) -> Floats:
        """The recorded values (..., n) of curves (..., N, m)."""
        return curves[..., self.row, self.column]


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise of the mean of the seeds of a trace, and what follows from it.

    Attributes
    ----------
    weights : (q, n) or (n,) array
        Of the residuals whose square is minimised: contrasts with unit covariance, or the units of the values.
    contrasts : (q, n) array
        Those of the test.
    J : (n, k) array
        Derivatives of the recorded values by the coordinates of the free parameters, on the curves of the theory.
    J_mean : (n, k) array
        Those of the mean of many seeds, which noise shifts away from the curves.
    draws : (B, n) array
        Noise of the mean of the seeds, with which the residuals are compared.
    scatter : (B, n) array
        Noise of the mean of the seeds, from which the errors of estimates follow.
    floor : (n,) array
        Errors that every value has beside its noise.
    """

    weights: Floats
    contrasts: Floats
    J: Floats
    J_mean: Floats
    draws: Floats
    scatter: Floats
    floor: Floats

    def covariance(self, weights: Floats) -> Floats:
        """Covariance (k, k) of the estimates that minimise the square of `weights` (q, n) times the residuals."""
        return np.atleast_2d(np.cov(self._estimator(weights) @ self.scatter.T))

    def left(self, values: Floats) -> Floats:
        """Values (..., n) without the part that a change of the parameters explains."""
        return values - (values @ self._estimator(self.weights).T) @ self.J_mean.T

    def _estimator(self, weights: Floats) -> Floats:
        """(k, n): change of the estimates by a change of the values, to first order.

        A search moves along the curves; the shift at its end is that of runs which are simulated there.
        """
        inverse = np.linalg.pinv(weighted(weights, self.J))
        on_curves = inverse @ weights if weights.ndim == 2 else inverse * weights
        if self.J_mean is self.J:
            return on_curves
        return np.asarray(np.linalg.pinv(on_curves @ self.J_mean) @ on_curves)


@dataclass(frozen=True, eq=False)
class Judgement:
    """p of the residuals; the misfit, as a share of the change, that is noticed in 95 of 100 cases; residuals; their s.

    Residuals and their standard deviations s, (n,), are those after the refit of a mean of the seeds.
    """

    p_value: float
    misfit: float
    residuals: Floats
    s: Floats


def noise_of_runs(
    runs: Floats, rounding: Floats, floor: Floats, records: Records, curves: Floats, J: Floats, J_mean: Floats
) -> Noise:
    """Noise from simulated runs.

    Parameters
    ----------
    runs : (REFERENCE + B, n) array
        Recorded values of simulated runs.
    rounding : (DRAWS or 1, n) array
        What the digits of the trace add to the mean of its seeds. (Seeds that hardly differ are rounded alike.)
    floor : (n,) array
        Errors that every value has beside its noise.
    records : Records
    curves : (c, N, m) array
        Curves whose directions in the space of observables the contrasts take: changes and derivatives.
    J : (n, k) array
    J_mean : (n, k) array
        As in `Noise`.

    Returns
    -------
    Noise
    """
    reference, drawn = runs[:REFERENCE], runs[REFERENCE:]
    share = (records.weights**2).sum(axis=0)
    s = np.sqrt(share * reference.var(axis=0, ddof=1) + rounding.var(axis=0) + floor**2)
    contrasts = smooth_contrasts(records, curves, s, J)
    covariance = np.cov(np.sqrt(share) * reference @ contrasts.T, rowvar=False)
    covariance = np.atleast_2d(covariance) + np.atleast_2d(np.cov(rounding @ contrasts.T, rowvar=False, ddof=0))
    covariance += (contrasts * floor**2) @ contrasts.T
    covariance += RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    whitening = np.asarray(np.linalg.solve(np.linalg.cholesky(covariance), contrasts))
    draws: Floats = _drawn_means(drawn - drawn.mean(axis=0), records.weights, len(runs))
    errors = floor * np.random.default_rng(SEED).normal(size=draws.shape)
    draws = draws + rounding[: len(draws)] + errors
    return Noise(whitening, whitening, J, J_mean, draws, draws, floor)


def noise_of_seeds(
    residuals: Floats, unit: Floats, floor: Floats, records: Records, curves: Floats, J: Floats
) -> Noise:
    """Noise from the residuals (R, n) of the seeds at the estimates: each is as likely with the other sign.

    The standard deviations in which the statistics are measured are those of all signs, the same whatever the signs
    are. So the test is exact for noise that is symmetric about the theory, up to the linearised refit. Estimates are
    those of plain least squares, in the `unit` (n,) of the values: weights from few seeds would make their errors too
    small.
    """
    R, centred = len(residuals), residuals - residuals.mean(axis=0)
    nothing = np.zeros((0, unit.size))
    noise = Noise(1.0 / unit, nothing, J, J, nothing, centred / np.sqrt(R), floor)
    left = noise.left(residuals)
    contrasts = smooth_contrasts(records, curves, np.sqrt((left**2).mean(axis=0) + floor**2), J)
    size = np.sqrt(((left @ contrasts.T) ** 2).mean(axis=0))
    if R <= MOST_SIGNS:
        signs = np.array(list(product((1.0, -1.0), repeat=R)))
    else:
        signs = np.random.default_rng(SEED).choice([1.0, -1.0], size=(DRAWS, R))
    return replace(noise, contrasts=contrasts / np.maximum(size, RIDGE * size.max())[:, None], draws=signs @ left / R)


def weighted(weights: Floats, values: Floats) -> Floats:
    """Weights (q, n) or (n,) times values (n,) or (n, k)."""
    return weights @ values if weights.ndim == 2 else (weights * values.T).T


def _drawn_means(centred: Floats, weights: Floats, runs: int) -> Floats:
    """Noise of means of as many seeds as a trace has, (draws, n), from B of all runs (B, n) about their own mean.

    The mean of the trace minus that of all runs has the variance s^2 (w + 1/runs), w the sum of the squared weights;
    means of runs without replacement have s^2 (w - 1/B) about the mean of all B.
    """
    seeds, drawn = len(weights), len(centred)
    w = (weights**2).sum(axis=0)
    factor = np.sqrt((w + 1.0 / runs) / (w - 1.0 / drawn))
    if seeds == 1:
        return centred * factor
    rng = np.random.default_rng(SEED)
    chosen = np.array([rng.choice(drawn, seeds, replace=False) for _ in range(DRAWS)])
    means = np.zeros((DRAWS, centred.shape[1]))
    for seed in range(seeds):
        means += weights[seed] * centred[chosen[:, seed]]
    return means * factor


def smooth_contrasts(records: Records, curves: Floats, s: Floats, J: Floats) -> Floats:
    """Contrasts (q, n): polynomials of ln t times directions of observables, and those that J (n, k) weights.

    `s` (n,) are the standard deviations in which values are measured.
    """
    N, m = curves.shape[1:]
    span = np.ptp(records.log_t) or 1.0
    position = 2.0 * (records.log_t - records.log_t.min()) / span - 1.0
    in_time = legendre.legvander(position, min(DEGREES, np.unique(records.row).size) - 1).T
    scaled = np.zeros((len(curves), N, m))
    scaled[:, records.row, records.column] = records.flat(curves) / s
    _, sizes, directions = np.linalg.svd(scaled.reshape(-1, m), full_matrices=False)
    directions = directions[: min(DIRECTIONS, int((sizes > 1e-6 * sizes[0]).sum()))]
    contrasts = np.array([p * d[records.column] for p, d in product(in_time, directions)])
    contrasts = np.concatenate([contrasts, (J / s[:, None] / np.linalg.norm(J / s[:, None], axis=0)).T])
    # Orthonormal for residuals in units of s; those that the records do not tell apart are left out.
    _, sizes, contrasts = np.linalg.svd(contrasts, full_matrices=False)
    return contrasts[sizes > 1e-6 * sizes[0]] / s


def judged(noise: Noise, residuals: Floats, bumps: Floats) -> Judgement:
    """Test residuals (n,) of the mean of the seeds at the estimates; `bumps` (b, n) are misfits of the whole change."""
    drawn, found, bumps = (noise.left(values) for values in (noise.draws, residuals, bumps))
    s = np.maximum(drawn.std(axis=0), noise.floor)
    null = _statistics(drawn / s, drawn @ noise.contrasts.T)
    own = np.sort(_smaller_rank(null, null))
    observed = _smaller_rank(_statistics((found / s)[None], (noise.contrasts @ found)[None]), null)[0]
    p_value = (1 + np.searchsorted(own, observed, side="right")) / (1 + own.size)
    critical = own[max(int(LEVEL * own.size) - 1, 0)]
    u, contrasts = drawn[:TRIALS] / s, drawn[:TRIALS] @ noise.contrasts.T

    def is_noticed(share: float, bump: Floats) -> bool:
        statistics = _statistics(u + share * bump / s, contrasts + share * (noise.contrasts @ bump))
        return bool(np.mean(_smaller_rank(statistics, null) <= critical) >= POWER)

    misfit = max(_least_noticed(is_noticed, bump) for bump in bumps)
    return Judgement(float(p_value), misfit, found, s)


def _statistics(u: Floats, contrasts: Floats) -> Floats:
    """The two statistics, (2, B), of residuals u (B, n) and their contrasts (B, q)."""
    return np.array([np.abs(u).max(axis=1), (contrasts**2).sum(axis=1)])


def _smaller_rank(statistics: Floats, null: Floats) -> Floats:
    """The smaller of the p-values of both statistics, (B,)."""
    size = null.shape[1]
    above = [
        size - np.searchsorted(np.sort(each), values, side="left")
        for each, values in zip(null, statistics, strict=True)
    ]
    return np.min(above, axis=0) / size


def _least_noticed(is_noticed: Callable[[float, Floats], bool], bump: Floats) -> float:
    """Smallest share of a bump that is noticed, to 1 %; infinite beyond LARGEST_SHARE."""
    high = 1e-8
    while not is_noticed(high, bump):
        high *= 2.0
        if high > LARGEST_SHARE:
            return np.inf
    low = high / 2.0
    while high > 1.01 * low:
        middle = np.sqrt(low * high)
        low, high = (low, middle) if is_noticed(middle, bump) else (middle, high)
    return float(high)
