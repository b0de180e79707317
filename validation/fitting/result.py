"""What a fit returns, the weights of its residuals, and the test whether the residuals are as predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtrc, chdtri, fdtrc, fdtri  # chi^2 and F; importing scipy.stats takes half a second

from snapdyn.core.errors import choice, positive
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.trajectories.trajectory import Trajectory

# Share of the linear noise in the variance of a direction, above which the direction is tested.
RESOLVED = 0.5
SMALLEST = 1e-6  # relative, where a run has no noise at all
MOST_COMPONENTS = 5  # of the scatter of seeds
# Below the first probability of residuals as large, the theory does not describe the trace; below the second it is
# undecided.
LEVEL_OF_TEST, LEVEL_OF_DOUBT = 0.001, 0.05
# A misfit that the test overlooks, over the change of the curves: above this share the answer is "not testable".
LARGEST_MISFIT = 0.5


@dataclass(frozen=True)
class Weights:
    """Covariance C + F of the mean of the seeds, in whitened form.

    Attributes
    ----------
    covariance : (n, n) array
        Covariance of one run by the linear noise: C times the number of seeds.
    change : (n,) array
        Change of the observations since t = 0.
    largest_square : float
        Largest square of the quantity in which the linear noise is an expansion.
    inverse : (n, n) array
        L^-1, L lower triangular with L L^T = C + F.
    directions : (n, q) array
        Orthonormal directions of whitened residuals in which the linear noise C is most of the variance.
    dependent : int
        Number of observations that follow from the others: logarithms of attention have the mean 0 over each class.
    """

    covariance: Floats
    change: Floats
    largest_square: float
    inverse: Floats
    directions: Floats
    dependent: int = 0

    def whiten(self, values: Floats) -> Floats:
        """L^-1 times values (n,) or (n, k)."""
        return self.inverse @ values


def noise_weights(
    covariance: Floats, squares: Floats, change: Floats, t: Floats, num_seeds: int, dependent: int = 0
) -> Weights:
    """Weights from the linear-noise covariance of one run, with an allowance for what it neglects.

    The linear noise is the first order of an expansion in a quantity whose square is `squares` (N,). The second order
    is smooth in time, and its mean is the same in every run. Its size is f = sqrt(squares x sum of variances of the
    observations) + half the largest square until then x |change|, where `change` (N, m) is that of the observations
    since t = 0. The two terms are the product of two fluctuations and the square of one. So every observation gets in
    addition the covariance

        F(t, t') = f(t) f(t') exp(-|ln t - ln t'|),

    and no further covariance with other observations. The covariance of the linear noise of the mean, C, is that of one
    run over the number of seeds; F is not divided. `dependent` is the number of observations at one time that follow
    from the others.
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
    resolved = vectors[:, shares > RESOLVED]
    return Weights(covariance, change.ravel(), float(squares.max()), inverse, resolved, N * dependent)


class Errors(NamedTuple):
    """Standard errors of k estimates and the test, from the residuals.

    They are: the covariance of the estimates and the share of the allowance in their variance; the test, and the
    smallest misfit that it detects, relative to the change of the observations since t = 0; and, from simulated runs,
    what the noise adds to the mean of the observations (`shift`) and to the estimates (`bias`).
    """

    covariance: Floats
    allowance: Floats
    p_value: float
    degrees: int
    misfit: float
    shift: Floats | float = 0.0
    bias: Floats | float = 0.0


def errors_from_noise(residuals: Floats, J: Floats, weights: Weights) -> Errors:
    """Errors from the linear noise, of residuals (R, n) of R seeds; J (n, k) was fitted to their mean.

    There are two tests of the mean residual, and p is twice the smaller p value. One uses the resolved directions, in
    which C alone is nearly the whole variance; the other uses all directions, with the allowance F. The allowance has
    the size of the neglected terms, so the second test rejects only gross differences.
    """
    covariance = covariance_of_estimates(J, weights)
    estimator = covariance @ weights.whiten(J).T @ weights.inverse
    of_noise = np.diagonal(estimator @ weights.covariance @ estimator.T) / len(residuals)
    allowance = 1.0 - np.clip(of_noise / np.diagonal(covariance), 0.0, 1.0)
    tests = _squares(residuals.mean(axis=0), J, weights)
    least = min(float(chdtrc(degrees, square)) for square, degrees in tests)
    return Errors(covariance, allowance, min(1.0, len(tests) * least), tests[-1][1], visible_misfit(J, weights))


def covariance_of_estimates(J: Floats, weights: Weights | None) -> Floats:
    """(k, k) covariance of estimates by weighted least squares; without weights, for residuals of unit variance."""
    _, sizes, axes = np.linalg.svd(J if weights is None else weights.whiten(J), full_matrices=False)
    sizes = np.maximum(sizes, 1e-10 * sizes[0])  # a parameter without effect has a large error, not none
    return (axes.T / sizes**2) @ axes


def p_value_with_allowance(residuals: Floats, J: Floats, weights: Weights) -> float:
    """The second of the tests of `errors_from_noise`: all directions, with the allowance F."""
    square, degrees = _squares(residuals.mean(axis=0), J, weights)[0]
    return float(chdtrc(degrees, square))


def visible_misfit(J: Floats, weights: Weights) -> float:
    """Smallest misfit that the test detects, as a fraction of the change of the observations since t = 0.

    A misfit s x change, after the fit of the free parameters, adds s^2 times the whitened square of the rest of the
    change to the expected chi^2. The test detects it about every second time if this sum is the difference between the
    critical value of chi^2 and its degrees of freedom. If s is above 1 the test has no power: it does not detect a
    misfit as large as the whole observed change.
    """
    tests = _squares(weights.change, J, weights)
    return min(
        visible_share(square, chdtri(degrees, LEVEL_OF_DOUBT / len(tests)) - degrees) for square, degrees in tests
    )


def visible_share(square: float, lacking: float) -> float:
    """Fraction s with s^2 `square` = `lacking`: `square` is that of a change, and a test rejects from `lacking` on."""
    return float(np.sqrt(lacking / square)) if square > 0 else np.inf


def _squares(values: Floats, J: Floats, weights: Weights) -> list[tuple[float, int]]:
    """Whitened squares of values (n,) after the fit of the parameters, and degrees of freedom.

    The first pair is for all directions, the second for the resolved ones, if these are more than the parameters.
    """
    r, A = weights.whiten(values), weights.whiten(J)
    left = r - A @ np.linalg.lstsq(A, r, rcond=None)[0]
    found = [(float(left @ left), max(1, left.size - weights.dependent - J.shape[1]))]
    resolved, A = weights.directions.T @ left, weights.directions.T @ A
    degrees = resolved.size - J.shape[1]
    if degrees >= 1:
        resolved = resolved - A @ np.linalg.lstsq(A, resolved, rcond=None)[0]
        found.append((float(resolved @ resolved), degrees))
    return found


def errors_from_seeds(residuals: Floats, J: Floats, change: Floats) -> Errors:
    """Errors from the scatter of the residuals (R, n): Hotelling's test in the directions of largest scatter.

    `change` (n,) is that of the observations since t = 0.
    """
    R = residuals.shape[0]
    each = np.linalg.lstsq(J, residuals.T, rcond=None)[0]  # (k, R): the estimate of each seed, linearised
    Q = np.linalg.qr(J)[0]
    r = residuals - (residuals @ Q) @ Q.T
    mean = r.mean(axis=0)
    _, sizes, directions = np.linalg.svd(r - mean, full_matrices=False)
    q = int(min(MOST_COMPONENTS, (R - 1) // 3, (sizes > 1e-12 * sizes[0]).sum()))
    unit, to_f = np.sqrt(R * (R - 1)) / sizes[:q], (R - q) / (q * (R - 1))
    z, of_change = unit * (directions[:q] @ mean), unit * (directions[:q] @ (change - Q @ (Q.T @ change)))
    p_value = float(fdtrc(q, R - q, z @ z * to_f))
    misfit = visible_share(of_change @ of_change, fdtri(q, R - q, 1.0 - LEVEL_OF_DOUBT) / to_f - q)
    return Errors(np.atleast_2d(np.cov(each)) / R, np.zeros(len(each)), p_value, q, misfit)


@dataclass(frozen=True, eq=False)
class Fit:
    """A theory fitted to a trace.

    Attributes
    ----------
    estimates : dict of str to float
        Free parameters: rates per batch-size-1 step, "clock" (time of the theory over time of the trace), and
        "common_probability". They are those of finite steps where `finite_step_bias` is not NaN, else of the flow.
    standard_errors : dict of str to float
        In the units of the parameters.
    fixed : dict of str to float
        The parameters that were given.
    allowance : dict of str to float
        Part of the variance of each estimate that is the allowance for the second order of the noise, from 0 to 1:
        where it is large, the interval is wider than needed. 0 for errors="simulation" and "seeds".
    correlation : (k, k) array
        Correlation of the estimates, in the order of `estimates`.
    condition : float
        Condition number of `correlation`.
    finite_step_bias : dict of str to float
        Difference of each estimate by the flow from that by finite steps; NaN if the theory does not make the steps of
        the trace.
    p_value : float
        Probability of residuals as large as these if the theory describes the trace; NaN where the noise at the
        estimates is too large for the test, or hides even a misfit of half of the change of the curves.
    visible_misfit : float
        Misfit that the test detects about every second time, as a fraction of the change of the curves since t = 0,
        after the fit of the free parameters.
    degrees : int
        Number of directions of the residuals that are tested.
    errors : str
        "noise": from the linear-noise covariance over all times; "simulation": from runs of SGD at the estimates;
        "seeds": from the scatter of the seeds. It names the method that was used, never "auto".
    num_seeds : int
    clock : str
        Conversion of the trace's steps, in words.
    seq_len : int, math.inf or None
        Length of the sequences as stated with the trace; None where it is unknown.
    t : (N,) array
        Times that are fitted, batch-size-1 steps.
    residuals : (R, N, m) array
        Trace minus theory, of each seed.
    trajectory : Trajectory or None
        The flow at the estimates, at `t`, with rates times the clock; None where it cannot be integrated there.
    warnings : list of str
        Sentences about parameters that the trace does not determine, about a verdict that it does not allow, and about
        intervals that are wider than needed. All but those on intervals are raised as `IdentifiabilityWarning` too.
    profiler : callable
        name -> (values, rises), which `profile` returns.
    not_quadratic : bool
        Whether intervals come from the profile: the trace hardly determines a parameter.
    profiles : dict of str to pair of arrays
        Profiles that were asked for.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=2, common_probability=0.3)
    >>> run = sd.sgd(classes, eta_Y=0.02, eta_Z=0.04, steps=2000, batch_size=10, seed=1, record=range(0, 2001, 250))
    >>> result = sd.fit(sd.Trace.from_runs(run), classes, eta_Y=0.02, eta_Z=0.04)
    >>> lower, upper = result.interval(0.9)["eta_Y"]
    >>> bool(lower < 0.02 < upper)
    True
    """

    estimates: dict[str, float]
    standard_errors: dict[str, float]
    fixed: dict[str, float]
    allowance: dict[str, float]
    correlation: Floats
    condition: float
    finite_step_bias: dict[str, float]
    p_value: float
    degrees: int
    errors: str
    num_seeds: int
    clock: str
    seq_len: float | None
    t: Floats
    residuals: Floats
    trajectory: Trajectory | None
    visible_misfit: float
    profiler: Callable[[str], tuple[Floats, Floats]] = field(repr=False)
    not_quadratic: bool = False
    warnings: list[str] = field(default_factory=list)
    profiles: dict[str, tuple[Floats, Floats]] = field(default_factory=dict, repr=False)

    @property
    def describes(self) -> bool:
        """Whether the theory describes the trace: its `seq_len` is known, and p_value is at least 0.05."""
        return self.seq_len is not None and self.p_value >= LEVEL_OF_DOUBT

    @property
    def sentence(self) -> str:
        """The verdict of the test of the residuals."""
        if np.isnan(self.p_value):
            return "not testable: at the estimates the noise of this theory is too large for a test on this trace"
        numbers = f"(p = {self.p_value:.2g}, {self.degrees} degrees of freedom)"
        if self.p_value < LEVEL_OF_TEST:
            return f"this theory does not describe this trace {numbers}"
        if self.p_value < LEVEL_OF_DOUBT:
            return f"undecided: residuals as large as these are rare if the theory describes the trace {numbers}"
        if self.seq_len is None:
            return f"undecided: the residuals are as predicted {numbers}, but the length of the sequences is unknown"
        return (
            f"this theory describes this trace {numbers}; the test would notice a misfit of {self.visible_misfit:.2g} "
            "times the change of the curves"
        )

    @property
    def combinations(self) -> list[tuple[str, float]]:
        """Products of powers of the parameters with independent errors, the best determined first.

        Eigenvectors of the covariance of the logarithms of the estimates (common_probability: of its odds), as
        `"eta_Y eta_Z^0.98"`, each with the standard error of its logarithm.
        """
        value = np.array(list(self.estimates.values()))
        names = ["odds(common_probability)" if n == "common_probability" else n for n in self.estimates]
        odds = np.array([name not in self.estimates for name in names])
        s = np.array(list(self.standard_errors.values())) / np.where(odds, value * (1.0 - value), value)
        squares, vectors = np.linalg.eigh(self.correlation * np.outer(s, s))
        found = []
        for square, v in zip(squares, vectors.T, strict=True):
            powers = v / v[np.abs(v).argmax()]
            error = float(np.sqrt(max(square, 0.0)) / np.abs(v).max())
            words = [
                name if power > 0.995 else f"{name}^{power:.2g}"
                for name, power in zip(names, powers, strict=True)
                if abs(power) >= 0.05
            ]
            found.append((" ".join(words), error))
        return found

    def profile(self, name: str) -> tuple[Floats, Floats]:
        """Rise of the weighted sum of squares over one parameter, the others fitted at each of its values.

        Parameters
        ----------
        name : str
            A free parameter.

        Returns
        -------
        values : (21,) array
            Values of the parameter, increasing; the middle one is the estimate.
        rises : (21,) array
            Rise of the sum of squares above its value at the estimate, in units in which 2.71 bounds the interval of
            90 % (with errors="seeds" the square of Student's quantile, 3.59 for 8 seeds).

        Raises
        ------
        InputError
            Another parameter.
        """
        if choice("name", name, tuple(self.estimates)) not in self.profiles:
            self.profiles[name] = self.profiler(name)
        return self.profiles[name]

    def interval(self, level: float = 0.9) -> dict[str, tuple[float, float]]:
        """Confidence intervals of the estimates, symmetric in the logarithm (common_probability: in the logit).

        If the trace hardly determines a parameter, its interval comes from the profile. An end is then 0 or inf if the
        profile, which extends at most 4 standard errors and a factor 30 from the estimate, does not rise enough.

        Parameters
        ----------
        level : float
            Between 0 and 1.

        Returns
        -------
        dict of str to (lower, upper)

        Raises
        ------
        InputError
            `level` is not between 0 and 1.
        """
        from scipy.special import expit, logit
        from scipy.stats import norm, t

        level = positive("level", level, below=1.0, advice="0.9 is usual")
        of = t(self.num_seeds - 1) if self.errors == "seeds" else norm
        quantile = float(of.ppf(0.5 + 0.5 * level))
        found: dict[str, tuple[float, float]] = {}
        for name, value in self.estimates.items():
            if self.not_quadratic:
                found[name] = _below(*self.profile(name), quantile**2)
                continue
            odds = name == "common_probability"
            half = quantile * self.standard_errors[name] / (value * (1.0 - value) if odds else value)
            middle = logit(value) if odds else np.log(value)
            back = expit if odds else np.exp
            found[name] = float(back(middle - half)), float(back(middle + half))
        return found

    def __str__(self) -> str:
        intervals = self.interval()
        lines = [
            f"{name} = {value:.6g} ± {self.standard_errors[name]:.2g} (90 %: {intervals[name][0]:.6g} to "
            f"{intervals[name][1]:.6g}{_of_flow(self.finite_step_bias[name])})"
            for name, value in self.estimates.items()
        ]
        if len(self.estimates) > 1:
            fixed = [f"{words} {_precision(error)}" for words, error in self.combinations]
            lines.append(f"this trace fixes {', and '.join(fixed)} (90 %)")
        return "\n".join([*lines, self.sentence, *self.warnings])


def _of_flow(bias: float) -> str:
    return "" if np.isnan(bias) else f"; a fit of the flow differs by {bias:+.2g}"


def _precision(error: float) -> str:
    """Half of the width of a 90 % interval of a logarithm with a standard error, in words."""
    factor = float(np.exp(min(1.645 * error, 700.0)))
    return f"to {100 * (factor - 1):.2g} %" if factor < 1.5 else f"only within a factor {factor:.2g}"


def _below(values: Floats, rises: Floats, level: float) -> tuple[float, float]:
    """Ends between which a profile lies below a level; 0 or inf where the profile does not reach the level."""
    middle, ends = values.size // 2, []
    for side, none in ((slice(middle, None, -1), 0.0), (slice(middle, None), np.inf)):
        x, y = np.log(values[side]), rises[side]
        above = np.flatnonzero(y > level)
        if above.size == 0:
            ends.append(none)
            continue
        k = int(above[0])
        ends.append(float(np.exp(x[k - 1] + (x[k] - x[k - 1]) * (level - y[k - 1]) / (y[k] - y[k - 1]))))
    return ends[0], ends[1]
