"""The single common token in the simplified system of Section 7: its logit and xi (Eqs. 13, 122-123)."""

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.analytic import checks
from snapdyn.analytic.checks import FloatArray
from snapdyn.analytic.speed_control import gamma, gamma_integral

FORMS = ("consistent", "printed")


def feedback(num_classes: FloatArray, rho0: FloatArray, form: str) -> FloatArray:
    """Coefficient a of xi = a gamma exp(4 z_c): (K-1)/rho0^4, or as printed in Eq. (13) 1/C0 = K/rho0^4.

    The K-1 counts the other classes: xi_n sums beta_nk f_n.f_k = exp(4 z_c)/rho0^4 over k != n.
    """
    classes = num_classes - 1 if form == "consistent" else num_classes
    return classes / rho0**4


def common_token_logit(
    t: ArrayLike,
    eta_Y: ArrayLike,
    eta_Z: ArrayLike,
    vocab_size: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
    form: str = "consistent",
) -> FloatArray:
    """Attention logit z_c(t) = -(1/4) ln(1 + 4 a Gamma(t)) of the common token, Eq. (122).

    Parameters
    ----------
    t : array_like
        Batch-size-1 steps, >= 0; one query, K uniform classes, zero start.
    eta_Y, eta_Z : array_like
        Learning rates of decoder and attention, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.
    num_classes : array_like
        K, whole and >= 1.
    rho0 : array_like
        Normalisation ||c~_n||/P(l_c|n), taken constant, > 0.
    form : {"consistent", "printed"}
        ``"consistent"``: a = (K-1)/rho0^4. ``"printed"``: a = 1/C0 = K/rho0^4.

    Returns
    -------
    float or ndarray
        z_c <= 0 (a logit); 0 at t = 0.

    Raises
    ------
    ValueError
        If an argument is outside its range, or `form` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eqs. (13), (122); derivations ``common-logit`` and ``common-logit-printed``.
    """
    checks.choice("form", form, FORMS)
    eta_Z, K = checks.positive("eta_Z", eta_Z), checks.whole("num_classes", num_classes, 1)
    a = feedback(K, checks.positive("rho0", rho0), form)
    return -np.log1p(4 * a * eta_Z * gamma_integral(t, eta_Y, vocab_size, K)) / 4


def xi(
    t: ArrayLike,
    eta_Y: ArrayLike,
    eta_Z: ArrayLike,
    vocab_size: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
    form: str = "consistent",
) -> FloatArray:
    """Speed xi_n(t) = a gamma/(1 + 4 a Gamma) of the class's distinct tokens, Eq. (123).

    Parameters
    ----------
    t, eta_Y, eta_Z, vocab_size, num_classes, rho0
        As in `common_token_logit`. All broadcast.
    form : {"consistent", "printed"}
        ``"consistent"``: a = (K-1)/rho0^4. ``"printed"``: a = 1/C0, that is gamma/(C0 + 4 Gamma).

    Returns
    -------
    float or ndarray
        xi_n >= 0, dimensionless; a distinct token grows by eta_Z p_n f_nl^2 xi_n per step, p_n = 1/K.

    Raises
    ------
    ValueError
        If an argument is outside its range, or `form` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eq. (123); derivations ``xi`` and ``xi-printed``.
    """
    checks.choice("form", form, FORMS)
    eta_Z, K = checks.positive("eta_Z", eta_Z), checks.whole("num_classes", num_classes, 1)
    a = feedback(K, checks.positive("rho0", rho0), form)
    return a * gamma(t, eta_Y, vocab_size, K) / (1 + 4 * a * eta_Z * gamma_integral(t, eta_Y, vocab_size, K))
