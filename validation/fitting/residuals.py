"""Weights of the residuals of a fit, and the test of whether they are as the theory predicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import chi2
from scipy.stats import f as f_distribution

from snapdyn.dynamics.classes import Floats

# Share of the linear noise in the variance of a direction, above which the direction is tested.
RESOLVED = 0.5
SMALLEST = 1e-6  # relative, where a run has no noise at all
MOST_COMPONENTS = 5  # of the scatter of seeds
# Below this probability of residuals as large, the theory does not describe the trace.
LEVEL_OF_TEST = 0.001


@dataclass(frozen=True)
class Weights:
    """Covariance C + F of the mean of the seeds, in whitened form.

    Attributes
    ----------
    inverse : (n, n) array
        L^-1, L lower triangular with L L^T = C + F.
    directions : (n, q) array
        Orthonormal directions of whitened residuals in which the linear noise C is most of the variance.
    """

    inverse: Floats
    directions: Floats

    def whiten(self, values: Floats) -> Floats:
        """L^-1 times values (n,) or (n, k)."""
        return np.asarray(self.inverse @ values)


def noise_weights(covariance: Floats, squares: Floats, change: Floats, t: Floats, num_seeds: int) -> Weights:
    """Weights from the linear-noise covariance of one run, with an allowance for what it neglects.

    The linear noise is the first order of an expansion in a quantity whose square is `squares` (N,). The second order,
    smooth in time and with a mean that is the same in every run, is of the size

        f = sqrt(squares x sum of variances of the observations) + half the largest square until then x |change|,

    `change` (N, m) that of the observations since t = 0: the two products of second order, of two fluctuations and of
    one with itself. So every observation gets in addition the covariance

        F(t, t') = f(t) f(t') exp(-|ln t - ln t'|),

    independent of the other observations at its time. Averages over seeds divide C; they do not divide F.
    """
    N, m = change.shape
    # Where symmetry cancels the noise, rounding and tolerances may leave a negative number.
    of_time = np.maximum(np.diagonal(covariance).reshape(N, m).sum(axis=1), 0.0)
    f = np.sqrt(squares * of_time) + 0.5 * np.maximum.accumulate(squares) * np.linalg.norm(change, axis=1)
    f += SMALLEST * np.linalg.norm(change, axis=1).max()
    log_t = np.log(t)
    allowance = np.outer(f, f) * np.exp(-np.abs(log_t[:, None] - log_t))
    mean_covariance = covariance / num_seeds
    factor = np.linalg.cholesky(mean_covariance + np.kron(allowance, np.eye(m)))
    inverse = solve_triangular(factor, np.eye(N * m), lower=True)
    shares, vectors = np.linalg.eigh(inverse @ mean_covariance @ inverse.T)
    return Weights(inverse, vectors[:, shares > RESOLVED])


def p_value_from_noise(residuals: Floats, J: Floats, weights: Weights) -> tuple[float, int]:
    """(p value, degrees of freedom) of residuals (R, n) of R seeds; J (n, k) was fitted to their mean.

    Two tests, of which the smaller p value counts twice: the mean residual in the resolved directions, in which C alone
    is nearly the whole variance, and in all directions, with the allowance F. The allowance is of the size of what is
    neglected and smooth, so the second test rejects gross differences only.
    """
    tests = _squares(residuals.mean(axis=0), J, weights)
    least = min(float(chi2.sf(square, degrees)) for square, degrees in tests)
    return min(1.0, len(tests) * least), tests[-1][1]


def p_value_with_allowance(residuals: Floats, J: Floats, weights: Weights) -> float:
    """The second of these two tests: all directions, with the allowance F."""
    return float(chi2.sf(*_squares(residuals.mean(axis=0), J, weights)[0]))


def visible_misfit(change: Floats, J: Floats, weights: Weights) -> float:
    """Smallest misfit that the test sees, as a share of the change (n,) of the observations since t = 0.

    A misfit s x change, of which the free parameters take up what they can, adds s^2 times the whitened square that is
    left of the change to the expected chi^2. The test sees it, about every second time, where this is what chi^2 lacks
    from its degrees of freedom to its critical value. Above 1 the test has no power: it does not notice a misfit as
    large as everything that is observed.
    """
    tests = _squares(change, J, weights)
    seen = max(square / (chi2.isf(LEVEL_OF_TEST / len(tests), degrees) - degrees) for square, degrees in tests)
    return float(1.0 / np.sqrt(seen)) if seen > 0 else np.inf


def _squares(values: Floats, J: Floats, weights: Weights) -> list[tuple[float, int]]:
    """Whitened squares of values (n,), the fit of the parameters taken off, and degrees of freedom.

    First of all directions, then of the resolved ones, if these are more than the parameters.
    """
    r, A = weights.whiten(values), weights.whiten(J)
    left = r - A @ np.linalg.lstsq(A, r, rcond=None)[0]
    found = [(float(left @ left), left.size)]
    resolved, A = weights.directions.T @ left, weights.directions.T @ A
    degrees = resolved.size - J.shape[1]
    if degrees >= 1:
        resolved = resolved - A @ np.linalg.lstsq(A, resolved, rcond=None)[0]
        found.append((float(resolved @ resolved), degrees))
    return found


def p_value_from_seeds(residuals: Floats, J: Floats) -> tuple[float, int]:
    """The same from the residuals (R, n) of R seeds: Hotelling's test in the directions of largest scatter."""
    R = residuals.shape[0]
    Q = np.linalg.qr(J)[0]
    r = residuals - (residuals @ Q) @ Q.T
    mean = r.mean(axis=0)
    _, sizes, directions = np.linalg.svd(r - mean, full_matrices=False)
    q = int(min(MOST_COMPONENTS, (R - 1) // 3, (sizes > 1e-12 * sizes[0]).sum()))
    z = np.sqrt(R * (R - 1)) * (directions[:q] @ mean) / sizes[:q]
    return float(f_distribution.sf(z @ z * (R - q) / (q * (R - 1)), q, R - q)), q
