"""Limits of many classes: the growth exponent at any overlap, and attention before the transition."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.analytic.orbit import legendre_rule
from snapdyn.core.errors import FloatArray, count_array, finite_array, positive, positive_array, time_array

CUT = 12.0  # of Dawson's function: its series errs by 2e-9 from here on


def growth_exponent_of_many_classes(x: ArrayLike, num_classes: ArrayLike, rho0: ArrayLike) -> FloatArray:
    """Growth exponent B_n for K -> infinity, leading beta: ln(sqrt((1+q)^2 + x) - q)/(2K), q = K/rho0^2.

    The number of distinct tokens and their probabilities do not matter in this limit: the logits of distinct tokens
    grow 1/K times as fast as that of the common token falls. The limit q -> 0 is the form with constant rho0,
    ln(1+x)/(4K). All arguments broadcast.

    Parameters
    ----------
    x : array_like
        4 (K-1)/rho0^4 Gamma(t) >= 0, Gamma = eta_Z int gamma dt (`gamma_integral`), t in batch-size-1 steps.
    num_classes : array_like
        K, number of equivalent classes with one common token, whole and >= 2.
    rho0 : array_like
        |c~_n|/P(l_c|n) > 0 at the start.

    Returns
    -------
    array of the broadcast shape, or float

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: own. On the orbit z_c = -K sigma, the odds of the common token are o = C/D = exp(-2 K sigma) q/K (see
    `snapdyn.analytic.orbit`), and the leading beta gives dsigma/dGamma = o^2/(1 + K o). Then w = exp(2 K sigma) solves
    w^2 + 2 q w = x + 1 + 2 q, and B = sigma. Terms of order 1/K and 1/rho0^2 are left out. The tests check by sympy
    that B solves the differential equation; the claim theorem4 compares B with `growth_and_common_logit` at K = 1e9.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> B = analytic.growth_exponent_of_many_classes(x=100.0, num_classes=10**6, rho0=500.0)
    >>> print(f"{4e6 * B:.3f} {4e6 * analytic.growth_exponent_of_many_classes(100.0, 10**6, 1e9):.3f}")
    3.943 4.615
    """
    x = finite_array("x", x, at_least=0.0, advice="give 4 (K-1)/rho0^4 Gamma(t)")
    K, rho0 = count_array("num_classes", num_classes, 2), positive_array("rho0", rho0)
    q = K / rho0**2
    # w - 1 = (x + (1+q)^2 - (1+q)^2)/(sqrt(...) + 1 + q) without cancellation.
    return np.asarray(np.log1p(x / (np.sqrt((1 + q) ** 2 + x) + 1 + q)) / (2 * K))[()]


def early_common_logit_of_many_classes(
    t: ArrayLike, eta_Y: float, eta_Z: float, num_classes: float, vocab_size: float, common_attention: float
) -> FloatArray:
    """Common logit of the mean field for many equal classes, while eta_Y t/K << 1, at any eta_Z/eta_Y.

    z_c = -2 (K/V) int_0^x D(v) dv, D(v) = exp(-v^2) int_0^v exp(w^2) dw (Dawson's function), with u = eta_Y t/K,
    x^2 = K (eta_Z/eta_Y) u^2 b/2 and b = f_c^2 (1 - f_c^2). For x << 1, z_c = -(K/V) x^2, as if the decoder had no
    memory. For x >> 1, z_c = -(K/V) (ln(2 x) + 0.2886): the decoder remembers old attention, and only the logarithm of
    eta_Z enters.

    Parameters
    ----------
    t : array_like
        Times >= 0, batch-size-1 steps.
    eta_Y : float
        Learning rate of the decoder, per step.
    eta_Z : float
        Learning rate of attention, per step.
    num_classes : float
        K, number of classes of one query with one common token and equal profiles.
    vocab_size : float
        V, number of decoder outputs.
    common_attention : float
        f_c = P(l_c|n)/|P(.|n)| in (0, 1): entry of the common token in the attention vector at the start.

    Returns
    -------
    array of the shape of t, or float

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: own. For K -> infinity attention depends on z_c alone. With alpha = 1/V and small K/V, the rate of -z_c per
    unit of u is K (eta_Z/eta_Y) b ((K/V) u - I), I = int_0^u (z_c(u') - z_c(u)) du', where I is what Y remembers of old
    attention. Terms of order u, K/V and 1/K are left out.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> slow, fast = (
    ...     analytic.early_common_logit_of_many_classes(1e7, 1.0, eta_Z, 1e9, 1e12, 0.5) for eta_Z in (1e-9, 1.0)
    ... )
    >>> print(f"{slow:.2e} {fast:.2e}")
    -9.37e-09 -5.55e-03
    """
    from scipy.special import dawsn

    rate, K = positive("eta_Y", eta_Y), positive("num_classes", num_classes)
    u = time_array("t", t) * rate / K
    ratio = positive("eta_Z", eta_Z) / rate
    share = positive("common_attention", common_attention, below=1.0, advice="give f_c at the start") ** 2
    x = np.sqrt(K * ratio * share * (1 - share) / 2) * u
    # Beyond CUT the asymptotic series of Dawson's function, integrated; its next term is 105/(128 x^8) there.
    near = np.minimum(x, CUT)
    nodes, weights = legendre_rule(60)
    integral = dawsn(near[..., None] * nodes) @ weights * near
    far = np.maximum(x, CUT)
    series = [0.5 * np.log(far / CUT)]
    series += [c * (CUT**-n - far**-n) for c, n in ((1 / 8, 2.0), (3 / 32, 4.0), (15 / 96, 6.0))]
    return np.asarray(-2 * num_classes / positive("vocab_size", vocab_size) * (integral + sum(series)))[()]


def turn_of_distinct_tokens_of_many_classes(common_attention: ArrayLike, shares: ArrayLike | None = None) -> FloatArray:
    """K (eta_Z/eta_Y) u^2 at which distinct tokens turn from rising to falling in the mean field, u = eta_Y t/K << 1.

    The classes are of several kinds k, which differ in c_k = f_kc (K -> infinity, K << V). Let s_k^2 = 1 - c_k^2, and
    let a = <c s^2> and b = <c^2 s^2> be means over the classes. The distinct tokens of kind k fall once this quantity
    exceeds 2 x^2/b, where x solves D(x)/x = 1 - b/(a c_k) with Dawson's function D. If c_k <= b/a, these tokens do not
    fall while u << 1; they may fall later, when u is of order ln V (claim slow-attention).

    Parameters
    ----------
    common_attention : array_like
        (S,) array with c_k = f_kc in (0, 1) of each of S kinds, the entry of the common token in the attention vector
        at the start.
    shares : array_like, optional
        (S,) array with the fraction of the classes that are of each kind; default: equal fractions.

    Returns
    -------
    array (S,)
        K (eta_Z/eta_Y) (eta_Y t/K)^2 at the turn; inf for kinds whose tokens do not fall.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: own. As in the notes of `early_common_logit_of_many_classes`, z_l' of kind k has the sign of s_k ((K/V) <c>
    u - c_k I), and I = (K/V) <c> u (a/b) (1 - D(x)/x), x^2 = K (eta_Z/eta_Y) u^2 b/2.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.turn_of_distinct_tokens_of_many_classes([0.3, 0.7]).round(2)
    array([  inf, 31.14])
    """
    from scipy.optimize import brentq
    from scipy.special import dawsn

    c = np.atleast_1d(positive_array("common_attention", common_attention, below=1.0, advice="give f_c of each kind"))
    w = np.ones(c.shape) if shares is None else np.atleast_1d(positive_array("shares", shares))
    finite_array("common_attention", c, ("kinds",))
    finite_array("shares", w, c.shape, advice="give the share of each kind")
    a, b = (np.average(c**power * (1 - c**2), weights=w) for power in (1, 2))
    turns = np.full(c.shape, np.inf)
    for k in np.flatnonzero(a * c > b * (1 + 1e-12)):
        left = 1 - b / (a * c[k])
        # D(x)/x falls from 1 and lies below 1/x^2.
        x = brentq(lambda x, left=left: dawsn(x) / x - left, 1e-9, 2 / np.sqrt(left))
        turns[k] = 2 * x**2 / b
    return turns
