"""Growth exponent in the limit of many classes, at any overlap."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.errors import FloatArray, InputError, count_array, finite_array, positive_array


def growth_exponent_of_many_classes(x: ArrayLike, num_classes: ArrayLike, rho0: ArrayLike) -> FloatArray:
    """Growth exponent B_n for K -> infinity, leading beta: ln(sqrt((1+q)^2 + x) - q)/(2K), q = K/rho0^2.

    The number of distinct tokens and their probabilities do not matter in this limit: the distinct tokens grow 1/K as
    fast as the common token falls. q -> 0 gives the form with constant rho0, ln(1+x)/(4K). All arguments broadcast.

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
    Source: own. With C/D = o = exp(-2 K sigma) q/K the odds of the common token and z_c = -K sigma on the orbit,
    leading beta moves sigma by o^2/(1 + K o) Gamma'. Then w = exp(2 K sigma) has w^2 + 2 q w = x + 1 + 2 q, and
    B = sigma. Terms of order 1/K and 1/rho0^2 are left out. Checked by sympy in the tests, and against the orbit at
    K = 1e9 in the claim theorem4.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> B = analytic.growth_exponent_of_many_classes(x=100.0, num_classes=10**6, rho0=500.0)
    >>> print(f"{4e6 * B:.3f} {4e6 * analytic.growth_exponent_of_many_classes(100.0, 10**6, 1e9):.3f}")
    3.943 4.615
    """
    x, K, rho0 = finite_array("x", x), count_array("num_classes", num_classes, 2), positive_array("rho0", rho0)
    if np.any(x < 0):
        raise InputError(f"expected x >= 0, received {x[x < 0].flat[0]:g}; give 4 (K-1)/rho0^4 Gamma(t)")
    q = K / rho0**2
    # w - 1 = (x + (1+q)^2 - (1+q)^2)/(sqrt(...) + 1 + q) without cancellation.
    return np.asarray(np.log1p(x / (np.sqrt((1 + q) ** 2 + x) + 1 + q)) / (2 * K))[()]
