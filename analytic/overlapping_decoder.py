"""Original flow (7) at identical overlaps: transition time, and gaps between approximations; not in the paper.

Set-up: K uniform classes with f_n.f_k = rho for every pair, V >= K outputs, attention frozen, zero start. The clock is
t, batch-size-1 steps; s = t/K visits of each class.

1. Symmetry. Write Y = sum_k f_k y_k^T. Each y_k has one coefficient on the output of class k, one on the output of each
   other class, and one on each of the V-K outputs of no class; per visit they grow by 1-a, -b and -c times eta_Y, where
   a, b and c are the probabilities of these outputs.
2. One variable. Let -g/(1-rho) be the coefficient on another class's output, so that dg = (1-rho) b d(eta_Y s). With
   m = 1 + rho V/(1-rho), let v be the lead (difference of logits) of other classes' outputs over outputs of no class,
   and d the lead of the own output over other classes' outputs. They obey

       dv/dg = -1 + m exp(-v),    dd/dg = K + (V-K) exp(-v),

   so exp(v) = m - (m-1) exp(-g) and d = ((V-K)/m)(v + g) + K g.
3. Time. (1-rho) eta_Y s = int_0^g exp(d) dg + (K-1) g + ((V-K)/m)(v + g). rho = 0 is Eq. (45) with g = h; K = V is
   Eq. (45) at the rate (1-rho) eta_Y (Remark 1).
4. Attention's drive. Let beta be minus the coefficient of f_k, k != n, in Y (e_n - alpha_n). It is positive, and

       (1-rho)^2 int_0^s beta d(eta_Y s) = K g^2/2 + ((V-K)/m)(v + g)(g - (v + g)/(2 m)).

   With slow attention z is proportional to this integral in the mean field, and to beta int gamma dt under Eq. (10).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.analytic.orbit import integral_to, inverse_of_integral
from snapdyn.analytic.speed_control import gamma_integral
from snapdyn.analytic.transition_times import u_peak
from snapdyn.core.errors import (
    FloatArray,
    InputError,
    broadcasting,
    count_array,
    finite_array,
    positive,
    positive_array,
    real,
    require_outputs,
    time_array,
    whole,
)


class OverlapDecoder(NamedTuple):
    """State of the decoder at N times, all of shape (N,) and dimensionless.

    Attributes
    ----------
    own : ndarray
        Probability alpha_n of the right output.
    other : ndarray
        Probability of one output of another class.
    rest : ndarray
        Probability of one output of no class; without meaning where K = V, since no such output exists.
    lead_own : ndarray
        Logit of the right output over an output of no class.
    lead_other : ndarray
        Logit of another class's output over an output of no class.
    beta : ndarray
        beta_nk of the original flow: minus the coefficient of f_k in Y (e_n - alpha_n), k != n.
    beta_integral : ndarray
        Integral of beta over eta_Y t/K, from 0.
    """

    own: FloatArray
    other: FloatArray
    rest: FloatArray
    lead_own: FloatArray
    lead_other: FloatArray
    beta: FloatArray
    beta_integral: FloatArray


class _Leads:
    """Leads and time as functions of g, in the notation of the module's docstring."""

    def __init__(self, K: float, V: float, rho: float) -> None:
        self.K, self.V, self.rho = K, V, rho
        self.m1 = rho * V / (1 - rho)
        self.m = 1 + self.m1
        self.others = (V - K) / self.m

    def v(self, g: FloatArray) -> FloatArray:
        return np.log1p(-self.m1 * np.expm1(-g))

    def d(self, g: FloatArray) -> FloatArray:
        return self.others * (self.v(g) + g) + self.K * g

    def time_rate(self, g: FloatArray) -> FloatArray:
        """Return (1-rho) eta_Y ds/dg = 1/b."""
        return np.exp(self.d(g)) + self.K - 1 + (self.V - self.K) * np.exp(-self.v(g))

    def slope_bound(self, g: FloatArray) -> float:
        """Return an upper bound of the logarithmic slope of `time_rate` at g; the bound falls with g."""
        v_slope = self.m * np.exp(-self.v(g)) - 1
        return float(self.others * (v_slope + 1) + self.K + v_slope)

    def of_time(self, eta_Y_s: FloatArray) -> FloatArray:
        """Return g at each eta_Y t/K."""
        return inverse_of_integral((1 - self.rho) * eta_Y_s, self.time_rate, self.slope_bound)

    def time(self, g: float) -> float:
        """Return eta_Y t/K at one g."""
        return integral_to(g, self.time_rate, self.slope_bound) / (1 - self.rho)

    def beta_integral(self, g: FloatArray) -> FloatArray:
        sum_ = self.v(g) + g
        return (self.K * g**2 / 2 + self.others * sum_ * (g - sum_ / (2 * self.m))) / (1 - self.rho) ** 2


@broadcasting
def overlap_decoder(t: ArrayLike, eta_Y: float, vocab_size: int, num_classes: int, overlap: float) -> OverlapDecoder:
    """State of the original flow (7) at identical overlaps, attention frozen, zero start, uniform classes.

    Parameters
    ----------
    t : array_like, shape (N,) or scalar
        Times in batch-size-1 steps, >= 0, in any order.
    eta_Y : float
        Learning rate of the decoder, per step, > 0.
    vocab_size : int
        V >= K, number of decoder outputs.
    num_classes : int
        K >= 2.
    overlap : float
        rho = f_n.f_k in [0, 1), equal for every pair of classes.

    Returns
    -------
    OverlapDecoder
        Arrays (N,), N = 1 for a scalar time. The relative error of the leads and of the integral is below 1e-12.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here from arXiv 2305.16380v4, Eq. (7), in this module's docstring; derivations
    ``overlap-lead-other``, ``overlap-lead-own``, ``overlap-time``, ``overlap-beta`` and ``overlap-beta-integral``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> decoder = analytic.overlap_decoder([0.0, 60.0, 600.0], 1.0, vocab_size=1000, num_classes=10, overlap=0.5)
    >>> decoder.own.round(4)
    array([0.001 , 0.1979, 0.9695])
    >>> decoder.lead_other.round(4)
    array([0.    , 2.7497, 4.8473])
    """
    K, V, rho = _family(num_classes, vocab_size, overlap)
    times = finite_array("t", np.atleast_1d(time_array("t", t)), ("T",))
    leads = _Leads(K, V, rho)
    g = leads.of_time(positive("eta_Y", eta_Y) * times / K)
    v, d = leads.v(g), leads.d(g)
    rest = 1 / (np.exp(v + d) + (K - 1) * np.exp(v) + V - K)
    other, own = rest * np.exp(v), rest * np.exp(v + d)
    error = (K - 1) * other + (V - K) * rest  # 1 - own
    beta = (g * (error + other) + leads.others * (v + g) * rest * np.expm1(v)) / (1 - rho)
    return OverlapDecoder(own, other, rest, v + d, v, beta, leads.beta_integral(g))


@broadcasting
def transition_time_with_overlap(
    num_classes: ArrayLike, vocab_size: ArrayLike, eta_Y: ArrayLike, overlap: ArrayLike
) -> FloatArray:
    """Time at which the original flow at identical overlaps reaches alpha_n = 1/u*, u* = `u_peak`.

    The mean loss is then ln(u*), which is the loss at which gamma peaks under the modified flow. Attention is frozen,
    the start is zero, and the classes are uniform. The time is t* of `transition_time` at rho = 0, and t*/(1-rho) at
    K = V; in a random search (K = 2..300, V up to 1e9) it always lay between these two. All arguments broadcast.

    Parameters
    ----------
    num_classes : array_like
        K, number of sequence classes, whole and >= 2.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= K.
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    overlap : array_like
        rho = f_n.f_k in [0, 1), equal for every pair of classes.

    Returns
    -------
    float or ndarray
        Time in batch-size-1 steps; relative error below 1e-12.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here from arXiv 2305.16380v4, Eq. (7), in this module's docstring; derivation ``overlap-time``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.transition_time_with_overlap(5, 1000, eta_Y=1.0, overlap=[0.0, 0.4, 0.98]).round(4)
    array([28.2004, 28.4824, 51.7985])
    """
    K, V, rho = _families(num_classes, vocab_size, overlap)
    eta_Y = positive_array("eta_Y", eta_Y)
    return K / eta_Y * np.vectorize(_transition, otypes=[float])(K, V, rho)


class LadderGaps(NamedTuple):
    """Gaps between successive approximations with slow attention: z of the coarser one over z of the finer, minus 1.

    Attributes
    ----------
    modified : float or ndarray
        From the mean field to Eq. (10) with the exact beta.
    leading : float or ndarray
        From the exact to the leading beta in Eq. (10).
    """

    modified: FloatArray
    leading: FloatArray


@broadcasting
def first_ladder_gaps(num_classes: ArrayLike, vocab_size: ArrayLike, overlap: ArrayLike) -> LadderGaps:
    """Gaps of z at the start of training (eta_Y t << K), identical overlaps, uniform classes. All arguments broadcast.

    With E' = rho/((1-rho)(1+(K-1) rho)), the gap `modified` is E' (V-K+1+(K-1) rho) and falls with t; the gap `leading`
    is -(1 + (1-1/V) rho)/(1 + (V-1) rho) at every t. Every token's z has the same gap.

    Parameters
    ----------
    num_classes : array_like
        K, number of uniform sequence classes, whole and >= 2.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= K.
    overlap : array_like
        rho = f_n.f_k in [0, 1), equal for every pair of classes.

    Returns
    -------
    LadderGaps

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here from arXiv 2305.16380v4, Theorem 1 and Eq. (7); derivations ``first-gap-modified`` and
    ``gap-leading``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> gaps = analytic.first_ladder_gaps(5, 1000, overlap=0.01)
    >>> print(f"{gaps.modified:.3f} {gaps.leading:.4f}")
    9.674 -0.0919
    """
    K, V, rho = _families(num_classes, vocab_size, overlap)
    E_prime = rho / ((1 - rho) * (1 + (K - 1) * rho))
    modified = E_prime * (V - K + 1 + (K - 1) * rho)
    leading = -(1 + (1 - 1 / V) * rho) / (1 + (V - 1) * rho)
    return LadderGaps(modified[()], (leading + 0.0 * K)[()])


@broadcasting
def ladder_gaps(t: ArrayLike, eta_Y: float, vocab_size: int, num_classes: int, overlap: float) -> LadderGaps:
    """Gaps of z between rungs of the ladder at any time: eta_Z -> 0, equal overlaps and priors, zero start.

    Parameters
    ----------
    t : array_like, shape (N,) or scalar
        Times in batch-size-1 steps, > 0, in any order.
    eta_Y : float
        Learning rate of the decoder, per step, > 0.
    vocab_size : int
        V >= K, number of decoder outputs.
    num_classes : int
        K >= 2.
    overlap : float
        rho = f_n.f_k in [0, 1), equal for every pair of classes.

    Returns
    -------
    LadderGaps
        Arrays (N,). `modified` starts at `first_ladder_gaps`, falls, and changes sign at strong overlap.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: derived here, point 4 of this module's docstring; derivation ``overlap-beta-integral``. The decoder's memory
    of earlier attention is neglected, so the gaps hold only in runs with (eta_Z/eta_Y)(V h)^2 << 1.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> gaps = analytic.ladder_gaps([30.0, 100.0, 10_000.0], 1.0, vocab_size=20, num_classes=3, overlap=0.8)
    >>> gaps.modified.round(2)
    array([ 1.34,  0.02, -0.59])
    """
    positive_array("t", t)
    modified, original = _drives(t, eta_Y, vocab_size, num_classes, overlap)
    leading = first_ladder_gaps(num_classes, vocab_size, overlap).leading
    return LadderGaps(modified / original - 1, np.full_like(modified, leading))


@broadcasting
def largest_ladder_gap(t: ArrayLike, eta_Y: float, vocab_size: int, num_classes: int, overlap: float) -> float:
    """Largest gap of z over a run with slow attention, relative to the largest |z| of the finer system.

    It is max_t |z_Eq10 - z_mf|/max_t |z_mf|, or the gap of the leading beta where that is larger. This is what
    `snapdyn.validation.ladder` measures. |z| is largest at the end of the run, so the end counts most.

    Parameters
    ----------
    t : array_like, shape (N,) or scalar
        Times of the run in batch-size-1 steps, >= 0, at least one > 0.
    eta_Y : float
        Learning rate of the decoder, per step, > 0.
    vocab_size : int
        V >= K, number of decoder outputs.
    num_classes : int
        K >= 2.
    overlap : float
        rho = f_n.f_k in [0, 1), equal for every pair of classes.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If an argument is outside its range, or all times are 0.

    Notes
    -----
    Source: derived here, like `ladder_gaps`.

    Examples
    --------
    >>> import numpy as np
    >>> from snapdyn import analytic
    >>> print(f"{analytic.largest_ladder_gap(np.geomspace(1, 1e4, 10), 0.01, 1000, 5, overlap=0.01):.3f}")
    8.747
    """
    if not np.any(time_array("t", t) > 0):
        raise InputError("expected t to hold a time above 0, received none; give the times of the run")
    modified, original = _drives(t, eta_Y, vocab_size, num_classes, overlap)
    leading = -float(first_ladder_gaps(num_classes, vocab_size, overlap).leading)
    return max(float(np.abs(modified - original).max() / original.max()), leading)


def _family(num_classes: int, vocab_size: int, overlap: float) -> tuple[float, float, float]:
    """Return K, V and rho after checking that each is one number."""
    whole("num_classes", num_classes, 2)
    whole("vocab_size", vocab_size, 2)
    K, V, _ = _families(num_classes, vocab_size, overlap)
    return float(K), float(V), real("overlap", overlap, advice="call once per overlap")


def _families(
    num_classes: ArrayLike, vocab_size: ArrayLike, overlap: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return K, V and rho, checked."""
    K, V = count_array("num_classes", num_classes, 2), count_array("vocab_size", vocab_size, 2)
    require_outputs(K, V)
    rho = finite_array("overlap", overlap, at_least=0.0, below=1.0, advice="give f_n.f_k, n != k")
    return K, V, rho


def _transition(K: float, V: float, rho: float) -> float:
    """Return eta_Y t/K at which alpha_n = 1/u*."""
    from scipy.optimize import brentq

    leads = _Leads(K, V, rho)
    level = np.log(float(u_peak(V)) - 1)  # ln(1/alpha - 1) at alpha = 1/u*

    def log_odds(g: float) -> float:
        """Return ln(a/(1-a)) + level, which rises with g: d rises, and so does v."""
        at = np.asarray(g)
        return float(leads.d(at) - np.log(K - 1 + (V - K) * np.exp(-leads.v(at))) + level)

    # d >= K g, and ln(K-1+(V-K) exp(-v)) <= ln V.
    upper = (np.log(V) - level + 1) / K
    return leads.time(brentq(log_odds, 0.0, upper, xtol=1e-300, rtol=1e-14, maxiter=5000))


def _drives(
    t: ArrayLike, eta_Y: float, vocab_size: int, num_classes: int, overlap: float
) -> tuple[FloatArray, FloatArray]:
    """Return beta int gamma d(eta_Y s) under Eq. (10) with the exact beta, and int beta d(eta_Y s) of the flow (7)."""
    original = overlap_decoder(t, eta_Y, vocab_size, num_classes, overlap).beta_integral
    K, V, rho = _family(num_classes, vocab_size, overlap)
    eta_Y = positive("eta_Y", eta_Y)
    beta = V * (1 + (V - 1) * rho) / ((V - 1) ** 2 * (1 - rho) * (1 + (K - 1) * rho))
    return beta * eta_Y / K * gamma_integral(np.atleast_1d(t), eta_Y, V, K), original
