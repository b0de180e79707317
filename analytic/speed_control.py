"""Decoder speed: h, gamma and the error norm of the modified flow (Lemmas 5-9, Corollary 1, Eqs. 31-33, 128)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    FloatArray,
    InputError,
    broadcasting,
    count_array,
    positive,
    positive_array,
    time_array,
    whole,
)

# From the starting bound below, Newton is within 2e-14 of the root after 6 steps and exact to rounding
# after 7, everywhere in V = 2..1e7, V eta_Y s = 1e-15..1e25. Convergence is quadratic: one more is ample.
_NEWTON_STEPS = 8


def _scaled_h(s: FloatArray, eta_Y: FloatArray, vocab_size: FloatArray) -> FloatArray:
    """Return u = V h, the root of expm1(u) + (V-1) u = V eta_Y s (Eq. 45), for arguments already checked.

    The left side is convex and increasing, and both u <= eta_Y s (from expm1(u) >= u) and u <= log1p(V
    eta_Y s) hold at the root, so Newton's method, started at the smaller bound, decreases monotonically to
    the root. Both terms of the left side are positive, so nothing cancels, at any s.
    """
    with np.errstate(over="ignore"):
        y = vocab_size * eta_Y * s
    if not np.all(np.isfinite(y)):
        raise InputError("expected V * eta_Y * s below 1e308, received a product that overflows; use earlier times")
    u = np.minimum(eta_Y * s, np.log1p(y))
    for _ in range(_NEWTON_STEPS):
        expm1_u = np.expm1(u)
        u = u - (expm1_u + (vocab_size - 1) * u - y) / (expm1_u + vocab_size)
    return u


@broadcasting
def h(s: ArrayLike, eta_Y: ArrayLike, vocab_size: ArrayLike) -> FloatArray:
    """Decoder growth h after s visits, the root of exp(V h) + (V-1) V h = V eta_Y s + 1, Eq. (45).

    The logits of the class are w_n = (V-1) h zeta_n (Lemma 5). All arguments broadcast.

    Parameters
    ----------
    s : array_like
        Visits of the class, >= 0; real-valued. For uniform classes s = t/K, with t in batch-size-1 steps.
    eta_Y : array_like
        Learning rate of the decoder, per visit, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.

    Returns
    -------
    float or ndarray
        h >= 0, dimensionless (logits are (V-1) h); exactly 0 at s = 0.

    Raises
    ------
    InputError
        If an argument is outside its range, or V eta_Y s overflows.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 6, Eqs. (44)-(45). Closed form V h = A - W(exp(A)/(V-1)) with
    A = (V eta_Y s + 1)/(V-1): derivation ``h-closed`` of `snapdyn.analytic.symbolic`. It is computed by Newton's method
    on Eq. (45) itself, because the closed form loses digits to cancellation.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{1000 * analytic.h(10.0, eta_Y=1.0, vocab_size=1000):.4f}")
    7.7310
    """
    s = time_array("s", s)
    eta_Y = positive_array("eta_Y", eta_Y)
    V = count_array("vocab_size", vocab_size, 2)
    return _scaled_h(s, eta_Y, V) / V


@broadcasting
def gamma(t: ArrayLike, eta_Y: ArrayLike, vocab_size: ArrayLike, num_classes: ArrayLike) -> FloatArray:
    """Speed control gamma(t) = (V-1)^2 h/(V-1+exp(V h)), h at s = t/K, Eq. (85).

    All arguments broadcast.

    Parameters
    ----------
    t : array_like
        Time in batch-size-1 steps, >= 0; uniform classes.
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.
    num_classes : array_like
        K, number of sequence classes, whole and >= 1.

    Returns
    -------
    float or ndarray
        gamma >= 0, dimensionless, the common factor of every back-propagated gradient g_n; 0 at t = 0.

    Raises
    ------
    InputError
        If an argument is outside its range, or V eta_Y t/K overflows.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 9, Eq. (85).

    Examples
    --------
    gamma rises, peaks near t = 56, and falls:

    >>> from snapdyn import analytic
    >>> analytic.gamma([0.0, 56.4, 1000.0], eta_Y=1.0, vocab_size=1000, num_classes=10).round(3)
    array([0.   , 4.416, 0.127])
    """
    t, eta_Y = time_array("t", t), positive_array("eta_Y", eta_Y)
    V, K = count_array("vocab_size", vocab_size, 2), count_array("num_classes", num_classes, 1)
    u = _scaled_h(t / K, eta_Y, V)
    return (V - 1) * ((V - 1) / V) * u / (V - 1 + np.exp(u))


@broadcasting
def gamma_integral(t: ArrayLike, eta_Y: ArrayLike, vocab_size: ArrayLike, num_classes: ArrayLike) -> FloatArray:
    """Integral of gamma from 0 to t, K (V-1)^2 h(t/K)^2/(2 eta_Y); eta_Z times this is Gamma(t), Eq. (128).

    All arguments broadcast.

    Parameters
    ----------
    t : array_like
        Time in batch-size-1 steps, >= 0; uniform classes.
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.
    num_classes : array_like
        K, number of sequence classes, whole and >= 1.

    Returns
    -------
    float or ndarray
        Integral of gamma over steps, in steps; 0 at t = 0.

    Raises
    ------
    InputError
        If an argument is outside its range, or V eta_Y t/K overflows.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eq. (128); derivation ``gamma-integral``: gamma dt = K (V-1)^2 h dh/eta_Y.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.gamma_integral(100.0, eta_Y=1.0, vocab_size=1000, num_classes=10):.2f}")
    298.24
    """
    t, eta_Y = time_array("t", t), positive_array("eta_Y", eta_Y)
    V, K = count_array("vocab_size", vocab_size, 2), count_array("num_classes", num_classes, 1)
    return K / (2 * eta_Y) * ((V - 1) / V * _scaled_h(t / K, eta_Y, V)) ** 2


@broadcasting
def error_norm(s: ArrayLike, eta_Y: ArrayLike, vocab_size: ArrayLike) -> FloatArray:
    """Norm of the prediction error, ||e_n - alpha_n|| = (V-1)/(V-1+exp(V h)) ||zeta_n||, Corollary 1.

    All arguments broadcast.

    Parameters
    ----------
    s : array_like
        Visits of the class, >= 0 (t/K for uniform classes, t in batch-size-1 steps).
    eta_Y : array_like
        Learning rate of the decoder, per visit, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.

    Returns
    -------
    float or ndarray
        Euclidean norm; sqrt(1 - 1/V) at s = 0, falling towards 0 as about sqrt(V (V-1))/(V eta_Y s).

    Raises
    ------
    InputError
        If an argument is outside its range, or V eta_Y s overflows.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 5 and Corollary 1, with ||zeta_n||^2 = V/(V-1); derivation
    ``error-norm``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.error_norm([0.0, 5.0, 100.0], eta_Y=1.0, vocab_size=1000).round(3)
    array([0.999, 0.885, 0.011])
    """
    s = time_array("s", s)
    eta_Y = positive_array("eta_Y", eta_Y)
    V = count_array("vocab_size", vocab_size, 2)
    return np.sqrt(V * (V - 1)) / (V - 1 + np.exp(_scaled_h(s, eta_Y, V)))


MOST_STEPS = 10**8  # 0.8 GB


def discrete_h(num_steps: int, eta_Y: float, vocab_size: int) -> FloatArray:
    """Recursion h*(s) = h*(s-1) + eta_Y/(V-1+exp(V h*(s-1))), h*(0) = 0, Eq. (33).

    Parameters
    ----------
    num_steps : int
        Number of visits of the class (one SGD step each), from 0 to 10^8.
    eta_Y : float
        Learning rate of the decoder, per visit, > 0.
    vocab_size : int
        V, number of decoder outputs, >= 2.

    Returns
    -------
    ndarray, shape (num_steps + 1,)
        h* after 0, 1, ..., num_steps visits; dimensionless.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 5; derivation ``discrete-recursion``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.discrete_h(3, eta_Y=1.0, vocab_size=10).round(4)
    array([0.    , 0.1   , 0.1853, 0.2504])
    """
    steps = whole("num_steps", num_steps, 0, MOST_STEPS)
    rate = positive("eta_Y", eta_Y)
    V = float(whole("vocab_size", vocab_size, 2))
    h_star = np.zeros(steps + 1)
    current = 0.0
    for step in range(1, steps + 1):
        # Divided through by exp(V h*), which a single large step can push beyond the range of floats.
        decay = math.exp(-V * current)
        current += rate * decay / ((V - 1) * decay + 1)
        h_star[step] = current
    return h_star
