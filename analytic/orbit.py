"""Orbit of the symmetric single-common-token system under Eq. (10), by one quadrature; not a result of the paper.

Set-up: one query, K uniform classes, p_n = 1/K, zero start. Class n holds d distinct tokens with
probabilities p_1..p_d and the one common token with probability p_c. By symmetry all classes keep equal
logits z_1..z_d, so with

    D = sum_l p_l^2 exp(2 z_l),   C = p_c^2 exp(2 z_c),   N = ||c~_n||^2 = C + D,

f_nl^2 = p_l^2 exp(2 z_l)/N, and f_n.f_k = rho = C/N for every pair n != k.

1. Orbit. Eq. (98): z_l' = eta_Z p_n f_nl^2 xi, so d exp(-2 z_l)/dt = -p_l^2 (2 eta_Z p_n xi/N). The bracket
   is the same for all l; call it S', with S(0) = 0. Then z_l = -(1/2) ln(1 - p_l^2 S), and the row sum of z,
   which remains zero, gives z_c = -K sum_l z_l. So C and D are functions of S alone.
2. Overlap. G = (1-rho) I + rho 1 1^T has a closed inverse: E' = I - G^{-1} has off-diagonal entries
   e = rho/((1-rho)(1+(K-1) rho)) and row sums (K-1) rho/(1+(K-1) rho). The leading beta of Theorem 1
   is e. With q1 = V/(V-1) and q0 = -V/(V-1)^2,
       exact beta = q1 e - q0 (1 - row sum + e) = V (1+(V-1) rho)/((V-1)^2 (1-rho)(1+(K-1) rho)).
   With xi = gamma X, X = (K-1) rho beta, and 1-rho = D/N:
       leading X = (K-1) C^2/(D (D+K C)),    exact X = (K-1) V/(V-1)^2 * C (D+V C)/(D (D+K C)).
3. Time. S' = 2 eta_Z p_n gamma X/N separates: int_0^S N/(2 X) dS' = eta_Z p_n int_0^t gamma dt =: tau,
   which is (eta_Z/K) times `gamma_integral`.

S ends at 1/p_max^2. In the variable w = -ln(1 - p_max^2 S) = 2 z_max the end lies at infinity, and the integrand q in

    q(w) = N/(2 X) exp(-w)/p_max^2,    tau(w) = int_0^w q,

obeys |d ln q/dw| <= 3 + 2 K sum_l x_l, x_l = p_l^2 exp(2 z_l)/(p_max^2 exp(w)), because d ln D/dw lies in [0, 1] and
d ln C/dw = -K sum_l x_l. That bound falls with w. On a panel of the width 1/bound, q therefore changes by less than a
factor e: Gauss-Legendre quadrature is exact to rounding on it, and Newton's method converges.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.analytic.speed_control import gamma_integral
from snapdyn.core.errors import (
    FloatArray,
    InputError,
    broadcasting,
    choice,
    finite_array,
    positive,
    positive_array,
    require_outputs,
    time_array,
    whole,
)

# The zeros of C, D and their sums lie more than a panel width from the real axis: 14 nodes leave only rounding.
_NODES = 14
# Newton starts a fraction of a panel from the root, and each step squares that fraction at least.
_NEWTON_STEPS = 7


class Orbit(NamedTuple):
    """Attention logits along the orbit, dimensionless, at N times.

    Attributes
    ----------
    z_distinct : ndarray, shape (N, d)
        Logits of the d distinct tokens of a class.
    z_common : ndarray, shape (N,)
        Logit of the common token.
    """

    z_distinct: FloatArray
    z_common: FloatArray


@broadcasting
def single_common_token_orbit(
    t: ArrayLike,
    distinct_probabilities: ArrayLike,
    common_probability: float,
    num_classes: int,
    vocab_size: int,
    eta_Y: float,
    eta_Z: float,
    beta: str = "exact",
) -> Orbit:
    """Attention logits of the symmetric single-common-token system under Eq. (10), by one quadrature.

    Parameters
    ----------
    t : array_like, shape (N,) or scalar
        Times in batch-size-1 steps, >= 0, in any order.
    distinct_probabilities : array_like, shape (d,)
        P(l|n) > 0 of the d distinct tokens, the same profile for each class.
    common_probability : float
        P(l_c|n) > 0 of the common token; all probabilities of a class sum to 1.
    num_classes : int
        K >= 2 uniform classes of one query.
    vocab_size : int
        V >= K, number of decoder outputs.
    eta_Y : float
        Learning rate of the decoder, per step, > 0.
    eta_Z : float
        Learning rate of the attention, per step, > 0.
    beta : {"exact", "leading"}
        The exact coefficient beta_nk of Theorem 1, or its leading order E'_nk.

    Returns
    -------
    Orbit
        ``z_distinct`` (N, d) > 0 and ``z_common`` (N,) < 0, N = 1 for a scalar time; exactly 0 at t = 0.

    Raises
    ------
    InputError
        If an argument is outside its range, or the probabilities do not sum to 1.

    Notes
    -----
    Source: derived here from arXiv 2305.16380v4, Eqs. (10), (98), (100), (110), in this module's docstring;
    the steps are the derivations ``orbit-distinct``, ``orbit-common``, ``orbit-overlap-exact`` and
    ``orbit-overlap-leading``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> orbit = analytic.single_common_token_orbit([30.0, 300.0], [0.2, 0.3], 0.5, 3, 50, eta_Y=1.0, eta_Z=0.5)
    >>> orbit.z_distinct.round(4)
    array([[0.1165, 0.3151],
           [0.1349, 0.3795]])
    >>> orbit.z_common.round(4)
    array([-1.2946, -1.5432])
    """
    choice("beta", beta, ("exact", "leading"))
    times = finite_array("t", np.atleast_1d(time_array("t", t)), ("T",))
    p = np.atleast_1d(positive_array("distinct_probabilities", distinct_probabilities))
    finite_array("distinct_probabilities", p, ("d",))
    p_c = positive("common_probability", common_probability)
    K = float(whole("num_classes", num_classes, 2))
    V = float(whole("vocab_size", vocab_size, 2))
    if abs(p.sum() + p_c - 1) > 1e-9:
        raise InputError(
            f"expected probabilities of a class that sum to 1, received {p.sum() + p_c:.12g}; normalise them"
        )
    require_outputs(K, V)
    tau = positive("eta_Z", eta_Z) / K * gamma_integral(times, positive("eta_Y", eta_Y), V, K)

    # r_l = p_l/p_max, and 1 - r_l^2 without cancellation.
    p_max = p.max()
    ratio, gap = p / p_max, (p_max - p) * (p_max + p) / p_max**2

    def distinct_logits(w: FloatArray) -> FloatArray:
        """Return z_l = -(1/2) ln(1 - r_l^2 (1-exp(-w))), (N, d), in a form that loses no digits."""
        w = w[..., None]
        change = ratio**2 * np.expm1(-w)
        near = np.log1p(np.maximum(change, -0.5))
        return -np.where(change > -0.5, near, np.log(gap + ratio**2 * np.exp(-w))) / 2

    def q(w: FloatArray) -> FloatArray:
        z = distinct_logits(w)
        C = p_c**2 * np.exp(-2 * K * z.sum(axis=-1))
        D = (p**2 * np.exp(2 * z)).sum(axis=-1)
        if beta == "exact":
            X = (K - 1) * V / (V - 1) ** 2 * C * (D + V * C) / (D * (D + K * C))
        else:
            X = (K - 1) * C**2 / (D * (D + K * C))
        return (C + D) / (2 * X) * np.exp(-w) / p_max**2

    def slope_bound(w: FloatArray) -> float:
        x = ratio**2 * np.exp(2 * distinct_logits(w) - w)
        return float(3 + 2 * K * x.sum())

    w = inverse_of_integral(tau, q, slope_bound, p.size)
    z = distinct_logits(w)
    return Orbit(z, -K * z.sum(axis=-1))


@cache
def legendre_rule(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the Gauss-Legendre rule on 0..1, (count,) each, read-only; made once for each count."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    rule = (nodes + 1) / 2, weights / 2
    for array in rule:
        array.flags.writeable = False
    return rule


def _over_panels(q: Callable[[FloatArray], FloatArray], left: FloatArray, right: FloatArray, terms: int) -> FloatArray:
    """Return the integrals of q from `left` to `right`, an array of their shape; each interval lies in one panel."""
    nodes, weights = legendre_rule(_NODES)
    width = right - left
    # All nodes in one call where there are few times; more times at once would only fill memory.
    at_once = max(1, 1000 // max(1, width.size * terms))
    parts = [slice(first, first + at_once) for first in range(0, _NODES, at_once)]
    return width * sum(q(left[..., None] + width[..., None] * nodes[part]) @ weights[part] for part in parts)


def integral_to(end: float, q: Callable[[FloatArray], FloatArray], slope_bound: Callable[[FloatArray], float]) -> float:
    """Return int_0^end q, computed panel by panel as in `inverse_of_integral`."""
    left, total = np.asarray(0.0), 0.0
    while left < end:
        right = np.minimum(end, left + 1 / slope_bound(left))
        total += float(_over_panels(q, left, right, 1))
        left = right
    return total


def inverse_of_integral(
    tau: FloatArray,
    q: Callable[[FloatArray], FloatArray],
    slope_bound: Callable[[FloatArray], float],
    terms: int = 1,
) -> FloatArray:
    """Solve int_0^w q = tau for each tau (N,), where |d ln q/dw| <= slope_bound(w), which does not increase with w.

    A panel is 1/slope_bound wide; zeros and poles of q must lie at least that far from the real axis. To evaluate `q`
    at one w takes arrays of `terms` numbers.
    """
    edges, totals = [0.0], [0.0]
    while totals[-1] < tau.max(initial=0.0):
        left = np.asarray(edges[-1])
        right = left + 1 / slope_bound(left)
        edges.append(float(right))
        totals.append(totals[-1] + float(_over_panels(q, left, right, terms)))
    if len(edges) == 1:
        return np.zeros_like(tau)

    panel = np.clip(np.searchsorted(totals, tau, side="left") - 1, 0, len(edges) - 2)
    left, right = np.array(edges)[panel], np.array(edges)[panel + 1]
    start, end = np.array(totals)[panel], np.array(totals)[panel + 1]
    remaining = tau - start
    w = left + (right - left) * remaining / (end - start)
    for _ in range(_NEWTON_STEPS):
        w = np.clip(w - (_over_panels(q, left, w, terms) - remaining) / q(w), left, right)
    return w
