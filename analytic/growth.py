"""Common token and growth exponent in the simplified system of Section 7 (Theorem 4, Eqs. 13-14, 122-131)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.analytic.speed_control import gamma, gamma_integral
from snapdyn.analytic.transition_times import transition_time
from snapdyn.core.errors import FloatArray, broadcasting, choice, count_array, finite_array, positive_array, time_array

FORMS = ("consistent", "printed")
# Their fourth powers, times K, are numbers.
SMALLEST_RHO0, LARGEST_RHO0 = 1e-70, 1e70


def _feedback(num_classes: ArrayLike, rho0: ArrayLike, form: str) -> FloatArray:
    """Return a of xi = a gamma exp(4 z_c): (K-1)/rho0^4, or as printed in Eq. (13) 1/C0 = K/rho0^4.

    The K-1 counts the other classes: xi_n sums beta_nk f_n.f_k = exp(4 z_c)/rho0^4 over k != n.
    """
    choice("form", form, FORMS)
    K = count_array("num_classes", num_classes, 1)
    advice = "give ||c~_n||/P(l_c|n)"
    rho0 = finite_array("rho0", rho0, at_least=SMALLEST_RHO0, at_most=LARGEST_RHO0, advice=advice)
    return (K - 1 if form == "consistent" else K) / rho0**4


@broadcasting
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

    One query, K uniform classes, zero start. All arguments but `form` broadcast.

    Parameters
    ----------
    t : array_like
        Time in batch-size-1 steps, >= 0.
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    eta_Z : array_like
        Learning rate of the attention, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.
    num_classes : array_like
        K, number of sequence classes, whole and >= 1.
    rho0 : array_like
        Normalisation ||c~_n||/P(l_c|n), taken as constant, > 0.
    form : {"consistent", "printed"}
        ``"consistent"``: a = (K-1)/rho0^4. ``"printed"``: a = 1/C0 = K/rho0^4.

    Returns
    -------
    float or ndarray
        z_c <= 0, dimensionless; 0 at t = 0.

    Raises
    ------
    InputError
        If an argument is outside its range, or `form` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eqs. (13), (122); derivations ``common-logit`` and ``common-logit-printed``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.common_token_logit(100.0, 1.0, 0.5, vocab_size=1000, num_classes=10, rho0=2.0):.4f}")
    -1.4547
    """
    a, eta_Z = _feedback(num_classes, rho0, form), positive_array("eta_Z", eta_Z)
    return -np.log1p(4 * a * eta_Z * gamma_integral(t, eta_Y, vocab_size, num_classes)) / 4


@broadcasting
def xi(
    t: ArrayLike,
    eta_Y: ArrayLike,
    eta_Z: ArrayLike,
    vocab_size: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
    form: str = "consistent",
) -> FloatArray:
    """Speed xi_n(t) = a gamma/(1 + 4 a Gamma) of the distinct tokens of a class, Eq. (123).

    One query, K uniform classes, zero start. All arguments but `form` broadcast.

    Parameters
    ----------
    t : array_like
        Time in batch-size-1 steps, >= 0.
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    eta_Z : array_like
        Learning rate of the attention, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.
    num_classes : array_like
        K, number of sequence classes, whole and >= 1.
    rho0 : array_like
        Normalisation ||c~_n||/P(l_c|n), taken as constant, > 0.
    form : {"consistent", "printed"}
        ``"consistent"``: a = (K-1)/rho0^4. ``"printed"``: a = 1/C0, that is gamma/(C0 + 4 Gamma).

    Returns
    -------
    float or ndarray
        xi_n >= 0, dimensionless; the logit of a distinct token l grows by eta_Z p_n f_nl^2 xi_n per step, p_n = 1/K.

    Raises
    ------
    InputError
        If an argument is outside its range, or `form` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eq. (123); derivations ``xi`` and ``xi-printed``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.xi([0.0, 10.0, 100.0], 1.0, 0.5, vocab_size=1000, num_classes=10, rho0=2.0).round(4)
    array([0.    , 0.0848, 0.0039])
    """
    a, eta_Z = _feedback(num_classes, rho0, form), positive_array("eta_Z", eta_Z)
    return (
        a
        * gamma(t, eta_Y, vocab_size, num_classes)
        / (1 + 4 * a * eta_Z * gamma_integral(t, eta_Y, vocab_size, num_classes))
    )


@broadcasting
def growth_exponent(
    t: ArrayLike,
    eta_Y: ArrayLike,
    eta_Z: ArrayLike,
    vocab_size: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
    form: str = "consistent",
) -> FloatArray:
    """Growth exponent B_n(t), the integral of eta_Z p_n xi_n over steps (Eq. 12), in closed form in h at every t.

    One query, one common token, K uniform classes, zero start. All arguments but `form` broadcast.

    Parameters
    ----------
    t : array_like
        Time in batch-size-1 steps, >= 0.
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    eta_Z : array_like
        Learning rate of the attention, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.
    num_classes : array_like
        K, number of sequence classes, whole and >= 1.
    rho0 : array_like
        Normalisation ||c~_n||/P(l_c|n), taken as constant, > 0.
    form : {"consistent", "printed"}
        ``"consistent"``: (1/(4K)) ln(1 + 4 A Gamma), A = (K-1)/rho0^4. ``"printed"``: (1/4) ln(C0 + 4 Gamma) with
        C0 = rho0^4/K; this form starts at (1/4) ln C0 instead of 0 and grows K times too fast.

    Returns
    -------
    float or ndarray
        B_n, dimensionless; the growth factor chi of the dominant token lies between exp(2 f_nl0(0)^2 B_n) and
        exp(2 B_n).

    Raises
    ------
    InputError
        If an argument is outside its range, or `form` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Theorem 4, Eqs. (124), (129) for the printed form; the consistent
    form is derived in ``growth-exponent``, the printed one in ``growth-exponent-printed``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.growth_exponent([0.0, 100.0], 1.0, 0.5, vocab_size=1000, num_classes=10, rho0=2.0).round(4)
    array([0.    , 0.1455])
    """
    # Conservation of the row sum: the distinct tokens of all K classes gain what the common token loses.
    total_growth = -common_token_logit(t, eta_Y, eta_Z, vocab_size, num_classes, rho0, form)
    if form == "consistent":
        return total_growth / count_array("num_classes", num_classes, 1)
    return total_growth - np.log(_feedback(num_classes, rho0, form)) / 4


class GrowthExponentPieces(NamedTuple):
    """The two printed pieces of B_n, Eq. (14), each NaN outside the times for which it is printed.

    Attributes
    ----------
    early : float or ndarray
        (1/4) ln(C0 + 2 (V-1)^2/(K V^2) eta_Y eta_Z t^2), NaN for t >= `early_until`.
    late : float or ndarray
        (1/4) ln(C0 + 2 K (V-1)^2/V^2 (eta_Z/eta_Y) ln^2(V eta_Y t/K)), NaN for t < `late_from`.
    early_until : float or ndarray
        t0' = K ln V/eta_Y, in batch-size-1 steps.
    late_from : float or ndarray
        t0 = 2 (1+omega_1) t0', in batch-size-1 steps.
    """

    early: FloatArray
    late: FloatArray
    early_until: FloatArray
    late_from: FloatArray


@broadcasting
def growth_exponent_pieces(
    t: ArrayLike,
    eta_Y: ArrayLike,
    eta_Z: ArrayLike,
    vocab_size: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
) -> GrowthExponentPieces:
    """Both printed pieces of B_n(t), Eq. (14): before t0' = K ln V/eta_Y, and from t0 = 2 (1+omega_1) t0' on.

    One query, one common token, K uniform classes, zero start. All arguments broadcast.

    Parameters
    ----------
    t : array_like
        Time in batch-size-1 steps, >= 0.
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    eta_Z : array_like
        Learning rate of the attention, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 4.
    num_classes : array_like
        K, number of sequence classes, whole and >= 1.
    rho0 : array_like
        Normalisation ||c~_n||/P(l_c|n), taken as constant, > 0.

    Returns
    -------
    GrowthExponentPieces
        The early and the late piece, and the two times that bound them.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eq. (14), as printed: both start from (1/4) ln C0, C0 = rho0^4/K. Derivations
    ``early-piece`` and ``late-piece``, which use h ~ eta_Y s/V at early times and V h ~ ln(V eta_Y s) at late times.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> pieces = analytic.growth_exponent_pieces([10.0, 1000.0], 1.0, 0.5, vocab_size=1000, num_classes=10, rho0=2.0)
    >>> pieces.early.round(3), pieces.late.round(3)
    (array([0.612,   nan]), array([  nan, 1.797]))
    >>> print(f"{pieces.early_until:.1f} {pieces.late_from:.1f}")
    69.1 182.3
    """
    t, eta_Y, eta_Z = time_array("t", t), positive_array("eta_Y", eta_Y), positive_array("eta_Z", eta_Z)
    V, K = count_array("vocab_size", vocab_size, 2), count_array("num_classes", num_classes, 1)
    C0 = 1 / _feedback(K, rho0, "printed")
    early_until = transition_time(K, V, eta_Y, kind="start")
    late_from = transition_time(K, V, eta_Y, kind="end")
    shrink = ((V - 1) / V) ** 2
    early = np.log(C0 + 2 * shrink / K * eta_Y * eta_Z * t**2) / 4
    # Before late_from the logarithm may not exist; it is evaluated at late_from and masked.
    log_visits = np.log(V * eta_Y * np.maximum(t, late_from) / K)
    late = np.log(C0 + 2 * K * shrink * eta_Z / eta_Y * log_visits**2) / 4
    return GrowthExponentPieces(
        np.where(t < early_until, early, np.nan)[()],
        np.where(t >= late_from, late, np.nan)[()],
        early_until,
        late_from,
    )
