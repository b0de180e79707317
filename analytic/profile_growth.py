"""Growth exponent of Theorem 4 that includes the growth of the distinct tokens; not a result of the paper.

Set-up: one query, K uniform classes, one common token, the same profile p_1..p_d of distinct tokens in each class,
zero start, modified decoder (Eq. 10). Time (batch-size-1 steps) enters only through Gamma = eta_Z int gamma dt.

1. Odds. C = p_c^2 exp(2 z_c) and D = sum_l p_l^2 exp(2 z_l) are the parts of ||c~_n||^2 (see `orbit`), o = C/D their
   odds, o(0) = 1/(rho0^2 - 1), w_l = p_l^2 exp(2 z_l)/D and wbar = sum_l w_l^2. Eqs. (98) and (100) give

       dB/dGamma = X/K,    d ln o/dB = -2 (K + wbar)/(1 + o),    dz_c/dB = -K/(1 + o),

   with X = (K-1) o^2/(1 + K o) (leading beta) or (K-1) V o (1 + V o)/((V-1)^2 (1 + K o)) (exact beta).
2. Drift. Along sigma = -z_c/K the shares w_l obey the replicator equation dw_l/dsigma = 2 w_l (w_l - wbar), so
   d wbar/dsigma = 4 Var_w(w) >= 0: wbar rises from its start to 1/m, m the number of most frequent distinct tokens.
   Theorem 4 takes rho0 as constant, which is the case wbar = 0. Compared with that case the odds fall faster
   by the factor 1 + wbar/K, at any rho0.
3. Constant wbar. A constant wbar is exact for equally frequent distinct tokens (wbar = 1/d); there Gamma and B are
   elementary functions of u = ln(o(0)/o) (`growth_and_common_logit`). dB/dGamma rises with o, and a larger wbar makes o
   fall faster, so B at constant wbar = 1/m and at constant wbar(0) enclose B (`bounds_of_growth`).
4. Explicit. `growth_exponent_with_drift` gives B to first order in 1/rho0^2 and in d wbar/dsigma.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    FloatArray,
    broadcasting,
    count_array,
    finite_array,
    instance,
    positive_array,
    require_outputs,
    time_array,
)

# Newton's method falls monotonically to the root, by at least 1/2 per step while it is far. It starts at most
# ln(1 + Gamma)/2 + ... above the root: 200 steps are ample for every finite float.
_NEWTON_STEPS = 200


class DistinctProfile(NamedTuple):
    """The profile of distinct tokens as it enters Theorem 4; w_l = p_l^2/sum p^2 are the shares at the start.

    Attributes
    ----------
    wbar : float
        sum_l w_l^2 at the start, in (0, 1]: 1/d for d equally frequent tokens.
    wbar_slope : float
        Derivative of wbar at the start along sigma = -z_c/K, which is 4 Var_w(w) >= 0.
    wbar_last : float
        Limit of wbar for t -> infinity, 1/(number of tokens with the largest probability).
    """

    wbar: float
    wbar_slope: float
    wbar_last: float


class GrowthAndCommonLogit(NamedTuple):
    """Growth exponent and common logit, dimensionless, both of the same shape.

    Attributes
    ----------
    B : float or ndarray
        Growth exponent B_n >= 0 (Eq. 12).
    z_common : float or ndarray
        Logit z_c <= 0 of the common token.
    """

    B: FloatArray
    z_common: FloatArray


@broadcasting
def distinct_profile(distinct_probabilities: ArrayLike) -> DistinctProfile:
    """Concentration of the distinct tokens of a class, on which the growth exponent depends.

    Parameters
    ----------
    distinct_probabilities : array_like, shape (d,)
        P(l|n) > 0 of the d distinct tokens of a class, up to a common factor.

    Returns
    -------
    DistinctProfile

    Raises
    ------
    InputError
        If the probabilities are not positive, or not 1-d with at least one entry.

    Notes
    -----
    Source: derived here, point 2 of this module's docstring; derivation ``profile-drift``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.distinct_profile([0.2, 0.2])
    DistinctProfile(wbar=0.5, wbar_slope=0.0, wbar_last=0.5)
    """
    p = np.atleast_1d(positive_array("distinct_probabilities", distinct_probabilities))
    finite_array("distinct_probabilities", p, ("d",))
    ratio = p / p.max()
    w = ratio**2 / np.sum(ratio**2)
    wbar = float(np.sum(w**2))
    # Var_w(w) as a sum of squares loses no digits near equal tokens.
    return DistinctProfile(wbar, 4 * float(np.sum(w * (w - wbar) ** 2)), 1 / int(np.sum(ratio == 1)))


@broadcasting
def growth_and_common_logit(
    Gamma: ArrayLike, num_classes: ArrayLike, rho0: ArrayLike, wbar: ArrayLike, vocab_size: ArrayLike | None = None
) -> GrowthAndCommonLogit:
    """B_n and z_c under the modified decoder at constant wbar, for any overlap and any Gamma. All arguments broadcast.

    Exact where the distinct tokens of a class are equally frequent (wbar = 1/d). With o = o(0), u = ln(o(0)/o(t)),
    q = exp(u), and the leading beta:

        q^2 - 1 + 2 (K+1) o (q-1) + 2 K o^2 u = 4 (1 + wbar/K) (K-1) o^2 Gamma,
        B = (u + o (1 - 1/q))/(2 (K+wbar)),    z_c = -K u/(2 (K+wbar)).

    Parameters
    ----------
    Gamma : array_like
        eta_Z int gamma dt >= 0 over batch-size-1 steps: eta_Z times `gamma_integral`.
    num_classes : array_like
        K, number of uniform sequence classes of one query, whole and >= 2.
    rho0 : array_like
        ||c~_n||/P(l_c|n) at the start, > 1.
    wbar : array_like
        sum_l w_l^2 of the distinct tokens in [0, 1], see `distinct_profile`; 0 neglects their growth.
    vocab_size : array_like, optional
        V >= K, number of decoder outputs, for the exact beta of Theorem 1; without it the leading beta E'.

    Returns
    -------
    GrowthAndCommonLogit
        Both 0 at Gamma = 0; relative error below 1e-13.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here from arXiv 2305.16380v4, Theorem 1 and Eqs. (98), (100), in this module's docstring;
    derivations ``odds-of-common-token``, ``profile-growth``, ``profile-time-leading`` and ``profile-time-exact``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> growth = analytic.growth_and_common_logit([0.0, 1000.0], num_classes=5, rho0=4.0, wbar=0.5)
    >>> growth.B.round(4), growth.z_common.round(4)
    (array([0.    , 0.2004]), array([ 0.    , -0.9754]))
    """
    Gamma, K, rho0, wbar = np.broadcast_arrays(
        time_array("Gamma", Gamma), count_array("num_classes", num_classes, 2), _above_1(rho0), _share("wbar", wbar)
    )
    o = 1 / ((rho0 - 1) * (rho0 + 1))
    kappa = K + wbar
    if vocab_size is None:
        u = _odds_at_leading_beta(Gamma, K, o, kappa)
    else:
        V = count_array("vocab_size", vocab_size, 2)
        require_outputs(K, V)
        u = _odds_at_exact_beta(*np.broadcast_arrays(Gamma, K, o, kappa, V))
    B = (u - o * np.expm1(-u)) / (2 * kappa)
    return GrowthAndCommonLogit(B[()], (0.0 - K * u / (2 * kappa))[()])


@broadcasting
def bounds_of_growth(
    Gamma: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
    profile: DistinctProfile,
    vocab_size: ArrayLike | None = None,
) -> tuple[GrowthAndCommonLogit, GrowthAndCommonLogit]:
    """Lower and upper bound of B_n and |z_c| under the modified decoder, for any profile, overlap and Gamma.

    The values of `growth_and_common_logit` at wbar = `profile.wbar_last` and at `profile.wbar`. All arguments but
    `profile` broadcast.

    Parameters
    ----------
    Gamma : array_like
        eta_Z int gamma dt >= 0 over batch-size-1 steps: eta_Z times `gamma_integral`.
    num_classes : array_like
        K, number of uniform sequence classes of one query, whole and >= 2.
    rho0 : array_like
        ||c~_n||/P(l_c|n) at the start, > 1.
    profile : DistinctProfile
        Profile of the distinct tokens, from `distinct_profile`.
    vocab_size : array_like, optional
        V >= K for the exact beta of Theorem 1; without it the leading beta E'.

    Returns
    -------
    tuple of GrowthAndCommonLogit
        The lower and the upper bound; equal for equally frequent distinct tokens.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here, points 2 and 3 of this module's docstring; derivations ``profile-drift`` and
    ``odds-of-common-token``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> profile = analytic.distinct_profile([0.1, 0.2, 0.3])
    >>> lower, upper = analytic.bounds_of_growth(1e5, num_classes=2, rho0=5.0, profile=profile)
    >>> print(f"{lower.B:.4f} {upper.B:.4f}")
    0.5852 0.6840
    """
    instance("profile", profile, DistinctProfile, "take the result of distinct_profile")
    return (
        growth_and_common_logit(Gamma, num_classes, rho0, profile.wbar_last, vocab_size),
        growth_and_common_logit(Gamma, num_classes, rho0, profile.wbar, vocab_size),
    )


@broadcasting
def growth_exponent_of_profile(
    Gamma: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
    profile: DistinctProfile,
    vocab_size: ArrayLike | None = None,
) -> FloatArray:
    """Growth exponent B_n under the modified decoder for any profile and overlap, to first order in the drift of wbar.

    B(wbar) - wbar_slope/(32 kappa^3) (L^2 - 2 L + 2 - 2 exp(-L)), L = 2 ln(o(0)/o(t)) at constant wbar, with
    kappa = K + wbar; or the bound B(wbar_last) where this is larger. All arguments but `profile` broadcast.

    Parameters
    ----------
    Gamma : array_like
        eta_Z int gamma dt >= 0 over batch-size-1 steps: eta_Z times `gamma_integral`.
    num_classes : array_like
        K, number of uniform sequence classes of one query, whole and >= 2.
    rho0 : array_like
        ||c~_n||/P(l_c|n) at the start, > 1.
    profile : DistinctProfile
        Profile of the distinct tokens, from `distinct_profile`.
    vocab_size : array_like, optional
        V >= K for the exact beta of Theorem 1; without it the leading beta E'.

    Returns
    -------
    float or ndarray
        B_n, dimensionless. Largest relative error in a random search (rho0^2 = 2..1e5, d = 1..6, V up to 1e8,
        4 (K-1) Gamma/rho0^4 = 1e-3..1e4): leading beta 1.0 % (K = 2), 0.13 % (K = 5); exact beta 4.6 % and 0.83 %.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here, point 3 of this module's docstring, and first-order perturbation in the slope of wbar
    (derivation ``growth-drift``), which holds for the leading beta at rho0 -> infinity; elsewhere it is an estimate.
    `single_common_token_orbit` has no such error.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> profile = analytic.distinct_profile([0.1, 0.2, 0.3])
    >>> print(f"{analytic.growth_exponent_of_profile(1e5, num_classes=2, rho0=5.0, profile=profile):.4f}")
    0.6732
    """
    lower, upper = bounds_of_growth(Gamma, num_classes, rho0, profile, vocab_size)
    K = count_array("num_classes", num_classes, 2)
    kappa = K + profile.wbar
    L = -4 * kappa / K * upper.z_common
    return np.maximum(upper.B - _drift(L, kappa, profile.wbar_slope), lower.B)


@broadcasting
def growth_exponent_with_drift(
    x: ArrayLike, num_classes: ArrayLike, rho0: ArrayLike, wbar: ArrayLike, wbar_slope: ArrayLike = 0.0
) -> FloatArray:
    """Growth exponent B_n, explicit in x = 4 A Gamma, to first order in 1/rho0^2 and in the slope of wbar.

    With A = (K-1)/rho0^4, kappa = K + wbar, y = (1 + wbar/K) x, q = sqrt(1+y), L = ln(1+y), leading beta:

        B = [L + 2 (1 - 1/q)(2 - K/q)/rho0^2 - wbar_slope/(8 kappa^2) (L^2 - 2 L + 2 - 2/(1+y))]/(4 kappa).

    wbar = 0 and rho0 -> infinity give the consistent form ln(1+x)/(4 K) of `growth_exponent`. All arguments broadcast.

    Parameters
    ----------
    x : array_like
        4 (K-1) Gamma/rho0^4 >= 0, Gamma = eta_Z int gamma dt over batch-size-1 steps.
    num_classes : array_like
        K, number of uniform sequence classes of one query, whole and >= 2.
    rho0 : array_like
        ||c~_n||/P(l_c|n) at the start, > 1.
    wbar : array_like
        sum_l w_l^2 of the distinct tokens at the start in [0, 1], `DistinctProfile.wbar`.
    wbar_slope : array_like, optional
        `DistinctProfile.wbar_slope` >= 0.

    Returns
    -------
    float or ndarray
        B_n, dimensionless. The neglected terms are of order (K/rho0^2)^2 and wbar_slope^2.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here from `growth_and_common_logit`; derivations ``growth-overlap`` and ``growth-drift``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.growth_exponent_with_drift([0.0, 1.0, 100.0], num_classes=5, rho0=100.0, wbar=0.36).round(4)
    array([0.    , 0.034 , 0.2185])
    """
    x, K, rho0 = time_array("x", x), count_array("num_classes", num_classes, 2), _above_1(rho0)
    wbar, slope = _share("wbar", wbar), time_array("wbar_slope", wbar_slope)
    kappa = K + wbar
    L = np.log1p((1 + wbar / K) * x)
    overlap = -2 * np.expm1(-L / 2) * (2 - K * np.exp(-L / 2)) / rho0**2
    return (L + overlap) / (4 * kappa) - _drift(L, kappa, slope)


@broadcasting
def error_of_consistent_form(
    x: ArrayLike, num_classes: ArrayLike, rho0: ArrayLike, wbar: ArrayLike, wbar_slope: ArrayLike = 0.0
) -> FloatArray:
    """Relative error of the consistent form, ln(1+x)/(4 K)/B - 1, with B of `growth_exponent_with_drift`.

    For x << 1 it is (K-2)/rho0^2 + (wbar/K) x/2. For rho0 -> infinity it is (wbar/K) (1 - x/((1+x) ln(1+x))) to first
    order in wbar/K: this part does not vanish at large rho0. All arguments broadcast.

    Parameters
    ----------
    x : array_like
        4 (K-1) Gamma/rho0^4 > 0, Gamma = eta_Z int gamma dt over batch-size-1 steps.
    num_classes : array_like
        K, number of uniform sequence classes of one query, whole and >= 2.
    rho0 : array_like
        ||c~_n||/P(l_c|n) at the start, > 1.
    wbar : array_like
        sum_l w_l^2 of the distinct tokens at the start in [0, 1], `DistinctProfile.wbar`.
    wbar_slope : array_like, optional
        `DistinctProfile.wbar_slope` >= 0.

    Returns
    -------
    float or ndarray
        The relative error, dimensionless; positive where the consistent form is too large.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here from arXiv 2305.16380v4, Theorem 4; derivations ``growth-overlap`` and ``growth-drift``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> error = analytic.error_of_consistent_form([0.01, 1.0, 1e4], 2, rho0=257.0, wbar=0.36, wbar_slope=0.09)
    >>> error.round(3)
    array([0.001, 0.05 , 0.177])
    """
    x, K = positive_array("x", x), count_array("num_classes", num_classes, 2)
    return np.log1p(x) / (4 * K) / growth_exponent_with_drift(x, K, rho0, wbar, wbar_slope) - 1


def _above_1(rho0: ArrayLike) -> FloatArray:
    return finite_array("rho0", rho0, above=1.0, advice="it is ||c~_n||/P(l_c|n), above 1 with distinct tokens")


def _share(name: str, values: ArrayLike) -> FloatArray:
    return finite_array(name, values, at_least=0.0, at_most=1.0, advice="see distinct_profile")


def _drift(L: FloatArray, kappa: FloatArray, wbar_slope: FloatArray | float) -> FloatArray:
    """Return the amount by which the slope of wbar lowers B, to first order."""
    # The bracket is L^3/3 - ... and loses digits below L = 1e-4, where it is below 1e-12 and B about L/(4 kappa).
    return wbar_slope / (32 * kappa**3) * (L**2 - 2 * L - 2 * np.expm1(-L))


def _newton(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]], target: FloatArray, u: FloatArray
) -> FloatArray:
    """Solve function(u) = target from a start above the root; the convex, rising `function` returns value and slope."""
    for _ in range(_NEWTON_STEPS):
        value, slope = function(u)
        step = (value - target) / slope
        u = np.maximum(u - step, 0.0)
        if np.all(np.abs(step) <= 2e-15 * u):
            break
    return u


def _odds_at_leading_beta(Gamma: FloatArray, K: FloatArray, o: FloatArray, kappa: FloatArray) -> FloatArray:
    """Return u = ln(o(0)/o(t)) with the leading beta."""
    target = 4 * kappa / K * (K - 1) * o**2 * Gamma

    def function(u: FloatArray) -> tuple[FloatArray, FloatArray]:
        e = np.expm1(u)
        value = e * (e + 2) + 2 * (K + 1) * o * e + 2 * K * o**2 * u
        return value, 2 * (1 + e) ** 2 + 2 * (K + 1) * o * (1 + e) + 2 * K * o**2

    # q^2 - 1 alone, and the slope at u = 0 alone, are below the convex function.
    upper = np.minimum(np.log1p(target) / 2, target / (2 * (1 + o) * (1 + K * o)))
    return _newton(function, target, upper)


def _odds_at_exact_beta(
    Gamma: FloatArray, K: FloatArray, o: FloatArray, kappa: FloatArray, V: FloatArray
) -> FloatArray:
    """Return u = ln(o(0)/o(t)) with the exact beta, from the integral of (1+o)(1+K o)/(o (1+V o)) over u.

    With y = 1/(V o(0)) and delta = y (q-1)/(1+y) the integral is
    V (delta - ln(1+delta) + delta y) + (K+1) ln(1+delta) + (K/V)(u - ln(1+delta)).
    """
    target = 2 * kappa / K * (K - 1) * V / (V - 1) ** 2 * Gamma
    y = 1 / (V * o)

    def function(u: FloatArray) -> tuple[FloatArray, FloatArray]:
        delta = y * np.expm1(u) / (1 + y)
        log = np.log1p(delta)
        value = V * (_minus_log1p(delta) + delta * y) + (K + 1) * log + K / V * (u - log)
        now = o * np.exp(-u)
        return value, (1 + now) * (1 + K * now) / (now * (1 + V * now))

    # The slope is at least its value at u = 0, and at least q/(o (1+V o)).
    slope = (1 + o) * (1 + K * o) / (o * (1 + V * o))
    return _newton(function, target, np.minimum(target / slope, np.log1p(target * o * (1 + V * o))))


def _minus_log1p(x: FloatArray) -> FloatArray:
    """Return x - ln(1+x) for x >= 0, without cancellation."""
    small = x < 0.1
    y = np.where(small, x, 0.0)
    series = np.zeros_like(y)
    for n in range(18, 1, -1):  # sum over n >= 2 of (-1)^n y^(n-2)/n
        series = y * series + (-1) ** n / n
    return np.where(small, y * y * series, x - np.log1p(x))
