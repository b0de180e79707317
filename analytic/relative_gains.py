"""Relative gain between two distinct tokens of one class (Theorem 3, Eqs. 11 and 110)."""

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.analytic import checks
from snapdyn.analytic.checks import FloatArray


def relative_gain(initial_gain: ArrayLike, growth_of_logit: ArrayLike) -> FloatArray:
    """Relative gain r(t) = r(0) exp(2 (z_l(t) - z_l(0))) of l over l', distinct tokens of a class, Eq. (11).

    Parameters
    ----------
    initial_gain : array_like
        r_{l/l'}(0) = (f_l/f_l')^2 - 1 at the start, > -1.
    growth_of_logit : array_like
        z_l(t) - z_l(0) of the token in the numerator. Both broadcast.

    Returns
    -------
    float or ndarray
        r_{l/l'}(t), dimensionless.

    Raises
    ------
    ValueError
        If an argument is not finite or the gain is <= -1.

    Notes
    -----
    Source: arXiv 2305.16380v4, Theorem 3, Eq. (11); derivation ``relative-gain``. Needs no clock: it holds
    at any two moments of one trajectory.
    """
    return _gain(initial_gain) * np.exp(2 * checks.finite("growth_of_logit", growth_of_logit))


def companion_growth(initial_gain: ArrayLike, growth_of_companion: ArrayLike) -> FloatArray:
    """Growth of l's logit given that of l', Eq. (110): exp(-2 dz_l) - 1 = (r(0)+1) (exp(-2 dz_l') - 1).

    Parameters
    ----------
    initial_gain : array_like
        r_{l/l'}(0) = (f_l/f_l')^2 - 1 at the start, > -1.
    growth_of_companion : array_like
        dz_l' = z_l'(t) - z_l'(0). Both broadcast.

    Returns
    -------
    float or ndarray
        dz_l = z_l(t) - z_l(0).

    Raises
    ------
    ValueError
        If an argument is not finite, the gain is <= -1, or no trajectory reaches `growth_of_companion` (the
        dominant token's logit would already have passed infinity).

    Notes
    -----
    Source: arXiv 2305.16380v4, Eq. (110); derivation ``companion-growth``.
    """
    r0, dz = _gain(initial_gain), checks.finite("growth_of_companion", growth_of_companion)
    change = (r0 + 1) * np.expm1(-2 * dz)
    if np.any(change <= -1):
        raise ValueError(
            "expected growth_of_companion below -(1/2) ln(1 - 1/(1 + initial_gain)), where the dominant "
            f"token's logit diverges, received {np.max(dz):g}; check that both belong to the same trajectory"
        )
    return -np.log1p(change) / 2


def _gain(initial_gain: ArrayLike) -> FloatArray:
    gain = checks.finite("initial_gain", initial_gain)
    if np.any(gain <= -1):
        raise ValueError(f"expected initial_gain > -1, received {np.min(gain):g}; pass (f_l/f_l')^2 - 1")
    return gain
