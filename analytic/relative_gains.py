"""Relative gain between two distinct tokens of one class (Theorem 3, Eqs. 11 and 110)."""

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.errors import FloatArray, InputError, broadcasting, finite_array


@broadcasting
def relative_gain(initial_gain: ArrayLike, growth_of_logit: ArrayLike) -> FloatArray:
    """Relative gain r(t) = r(0) exp(2 (z_l(t) - z_l(0))) of l over l', distinct tokens of a class, Eq. (11).

    All arguments broadcast.

    Parameters
    ----------
    initial_gain : array_like
        r_{l/l'}(0) = (f_l(0)/f_l'(0))^2 - 1, dimensionless, > -1.
    growth_of_logit : array_like
        z_l(t) - z_l(0), growth of the attention logit of l (the token in the numerator), dimensionless.

    Returns
    -------
    float or ndarray
        r_{l/l'}(t), dimensionless.

    Raises
    ------
    InputError
        If an argument is not finite, or the initial gain is <= -1.

    Notes
    -----
    Source: arXiv 2305.16380v4, Theorem 3, Eq. (11); derivation ``relative-gain``. No clock is needed: the
    formula holds for any two times of one trajectory.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.relative_gain(0.5, 1.2):.4f}")
    5.5116
    """
    return _checked_gain(initial_gain) * np.exp(2 * finite_array("growth_of_logit", growth_of_logit))


@broadcasting
def companion_growth(initial_gain: ArrayLike, growth_of_companion: ArrayLike) -> FloatArray:
    """Growth of l's logit, given that of l', Eq. (110): exp(-2 dz_l) - 1 = (r(0)+1) (exp(-2 dz_l') - 1).

    All arguments broadcast.

    Parameters
    ----------
    initial_gain : array_like
        r_{l/l'}(0) = (f_l(0)/f_l'(0))^2 - 1, dimensionless, > -1.
    growth_of_companion : array_like
        dz_l' = z_l'(t) - z_l'(0), growth of the attention logit of l', dimensionless.

    Returns
    -------
    float or ndarray
        dz_l = z_l(t) - z_l(0), dimensionless.

    Raises
    ------
    InputError
        If an argument is not finite, the initial gain is <= -1, or no trajectory reaches `growth_of_companion`
        (the logit of the dominant token would have diverged before).

    Notes
    -----
    Source: arXiv 2305.16380v4, Eq. (110); derivation ``companion-growth``. No clock is needed: the formula
    holds for any two times of one trajectory.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.companion_growth(0.5, 0.2):.4f}")
    0.3411
    """
    r0, dz = _checked_gain(initial_gain), finite_array("growth_of_companion", growth_of_companion)
    change = (r0 + 1) * np.expm1(-2 * dz)
    if np.any(change <= -1):
        raise InputError(
            "expected growth_of_companion below -(1/2) ln(1 - 1/(1 + initial_gain)), where the dominant "
            f"token's logit diverges, received {np.max(dz):g}; check that both belong to the same trajectory"
        )
    return -np.log1p(change) / 2


def _checked_gain(initial_gain: ArrayLike) -> FloatArray:
    gain = finite_array("initial_gain", initial_gain)
    if np.any(gain <= -1):
        raise InputError(f"expected initial_gain > -1, received {np.min(gain):g}; give (f_l/f_l')^2 - 1")
    return gain
