"""Attention: coefficients of its gradient (Theorem 1), relative gains between distinct tokens (Theorem 3)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import FloatArray, InputError, broadcasting, choice, finite_array, whole


class SpeedCoefficients(NamedTuple):
    """Coefficients of g_n = gamma (iota_n f_n - sum_{k != n} beta_nk f_k), Theorem 1, dimensionless.

    Attributes
    ----------
    iota : ndarray, shape (K,)
        Coefficient of the attention vector of the class itself.
    beta : ndarray, shape (K, K)
        Coefficients of the attention vectors of the other classes; 0 on the diagonal.
    """

    iota: FloatArray
    beta: FloatArray


@broadcasting
def speed_coefficients(E_prime: ArrayLike, vocab_size: int, form: str = "exact") -> SpeedCoefficients:
    """Coefficients of g_n = gamma (iota_n f_n - sum_{k != n} beta_nk f_k), Theorem 1, Eqs. (86)-(88).

    Parameters
    ----------
    E_prime : array_like, shape (K, K)
        E' = I - (I+E)^{-1}, symmetric, where I+E is the Gram matrix of the attention vectors f_n of K uniform
        classes.
    vocab_size : int
        V, number of decoder outputs, >= 2.
    form : {"exact", "printed", "leading"}
        With q1 = V/(V-1), q0 = -V/(V-1)^2:
        ``"exact"``: iota_n = q1 (1 - E'_nn) - q0 sum_{k != n} E'_nk and
        beta_nk = q1 E'_kn - q0 (1 - sum_{j != n} E'_kj). ``"printed"``: the same iota, and Eq. (88) with the sign that
        the paper prints, beta_nk = q1 E'_kn + q0 (1 + sum_{j != n} E'_kj). ``"leading"``: iota_n = 1 - E'_nn,
        beta_nk = E'_kn.

    Returns
    -------
    SpeedCoefficients
        iota (K,) and beta (K, K).

    Raises
    ------
    InputError
        If `E_prime` is not a finite symmetric square matrix, V is not a whole number >= 2, or `form` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Theorem 1; the exact form is derived from g_n = F (I-E') W (e_n - alpha_n) in
    derivations ``iota`` and ``beta``.

    Examples
    --------
    Two classes whose attention vectors overlap by 0.2:

    >>> import numpy as np
    >>> from snapdyn import analytic
    >>> E_prime = np.eye(2) - np.linalg.inv([[1.0, 0.2], [0.2, 1.0]])
    >>> iota, beta = analytic.speed_coefficients(E_prime, vocab_size=50)
    >>> iota.round(4)
    array([1.0673, 1.0673])
    >>> beta.round(4)
    array([[0.    , 0.2343],
           [0.2343, 0.    ]])
    """
    choice("form", form, ("exact", "printed", "leading"))
    V = float(whole("vocab_size", vocab_size, 2))
    E_prime = finite_array("E_prime", E_prime, ("K", "K"), advice="give I - inv(F^T F)")
    # Inverting a Gram matrix leaves asymmetries of the order of its condition number times rounding.
    asymmetry = np.max(np.abs(E_prime - E_prime.T), initial=0.0)
    if asymmetry > 1e-6 * np.max(np.abs(E_prime), initial=1.0):
        raise InputError(
            f"expected a symmetric E_prime, received one with asymmetry {asymmetry:.1e}; give I - inv(F^T F)"
        )

    if form == "leading":
        iota, beta = 1 - np.diag(E_prime), E_prime.copy()
    else:
        q1, q0 = V / (V - 1), -V / (V - 1) ** 2
        row_sum = E_prime.sum(axis=1)
        iota = q1 * (1 - np.diag(E_prime)) - q0 * (row_sum - np.diag(E_prime))
        # row_without[n, k] = sum over j != n of E'_kj
        row_without = row_sum[None, :] - E_prime.T
        sign = 1 if form == "printed" else -1
        beta = q1 * E_prime.T + sign * q0 * (1 + sign * row_without)
    np.fill_diagonal(beta, 0.0)
    return SpeedCoefficients(iota, beta)


@broadcasting
def relative_gain(initial_gain: ArrayLike, growth_of_logit: ArrayLike) -> FloatArray:
    """Relative gain r(t) = r(0) exp(2 (z_l(t) - z_l(0))) of l over l', two distinct tokens of a class, Eq. (11).

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
    Source: arXiv 2305.16380v4, Theorem 3, Eq. (11); derivation ``relative-gain``. The formula does not contain the
    time: it relates any two times of one trajectory.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.relative_gain(0.5, 1.2):.4f}")
    5.5116
    """
    gain = finite_array("initial_gain", initial_gain, above=-1.0, advice="give (f_l/f_l')^2 - 1")
    return gain * np.exp(2 * finite_array("growth_of_logit", growth_of_logit))
