"""Growth exponent B_n(t) of the dominant token and its two printed pieces (Theorem 4, Eqs. 14, 124-131)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.analytic import checks
from snapdyn.analytic.checks import FloatArray
from snapdyn.analytic.common_token import FORMS, feedback
from snapdyn.analytic.speed_control import gamma_integral
from snapdyn.analytic.transition_times import transition_time


def growth_exponent(
    t: ArrayLike,
    eta_Y: ArrayLike,
    eta_Z: ArrayLike,
    vocab_size: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
    form: str = "consistent",
) -> FloatArray:
    """Growth exponent B_n(t) = eta_Z int p_n xi_n dt of Eq. (12), closed in h for every t.

    Parameters
    ----------
    t : array_like
        Batch-size-1 steps, >= 0; one query, one common token, K uniform classes, zero start.
    eta_Y, eta_Z : array_like
        Learning rates of decoder and attention, per step, > 0.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.
    num_classes : array_like
        K, whole and >= 1.
    rho0 : array_like
        Normalisation ||c~_n||/P(l_c|n), taken constant, > 0.
    form : {"consistent", "printed"}
        ``"consistent"``: (1/(4K)) ln(1 + 4 A Gamma), A = (K-1)/rho0^4. ``"printed"``: (1/4) ln(C0 + 4 Gamma),
        C0 = rho0^4/K, which starts at (1/4) ln C0 instead of 0 and grows K times too fast.

    Returns
    -------
    float or ndarray
        B_n, dimensionless; the dominant token's growth factor chi lies between exp(2 f_nl0(0)^2 B_n) and
        exp(2 B_n).

    Raises
    ------
    ValueError
        If an argument is outside its range, or `form` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Theorem 4, Eqs. (124), (129); own for the consistent form. Derivations
    ``growth-exponent`` and ``growth-exponent-printed``.
    """
    checks.choice("form", form, FORMS)
    eta_Z, K = checks.positive("eta_Z", eta_Z), checks.whole("num_classes", num_classes, 1)
    rho0 = checks.positive("rho0", rho0)
    a = feedback(K, rho0, form)
    from_origin = np.log1p(4 * a * eta_Z * gamma_integral(t, eta_Y, vocab_size, K)) / 4
    if form == "consistent":
        return from_origin / K
    return from_origin - np.log(a) / 4


class GrowthExponentPieces(NamedTuple):
    """The two printed pieces of B_n, Eq. (14), each NaN outside the times it is printed for."""

    early: FloatArray
    late: FloatArray
    early_until: FloatArray
    late_from: FloatArray


def growth_exponent_pieces(
    t: ArrayLike,
    eta_Y: ArrayLike,
    eta_Z: ArrayLike,
    vocab_size: ArrayLike,
    num_classes: ArrayLike,
    rho0: ArrayLike,
) -> GrowthExponentPieces:
    """Both printed pieces of B_n(t), Eq. (14), before t0' = K ln V/eta_Y and from t0 = 2 (1+omega_1) t0' on.

    Parameters
    ----------
    t, eta_Y, eta_Z, vocab_size, num_classes, rho0
        As in `growth_exponent`, with V >= 4. All broadcast.

    Returns
    -------
    GrowthExponentPieces
        ``early`` = (1/4) ln(C0 + 2 (V-1)^2/(K V^2) eta_Y eta_Z t^2), NaN for t >= ``early_until``;
        ``late`` = (1/4) ln(C0 + 2 K (V-1)^2/V^2 (eta_Z/eta_Y) ln^2(V eta_Y t/K)), NaN for t <
        ``late_from``; and the two times, in batch-size-1 steps.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Source: arXiv 2305.16380v4, Eq. (14), as printed: both start from (1/4) ln C0, C0 = rho0^4/K. Derivations
    ``early-piece`` and ``late-piece`` (h ~ eta_Y s/V early, V h ~ ln(V eta_Y s) late).
    """
    t, eta_Y, eta_Z = checks.time("t", t), checks.positive("eta_Y", eta_Y), checks.positive("eta_Z", eta_Z)
    V, K = checks.whole("vocab_size", vocab_size, 2), checks.whole("num_classes", num_classes, 1)
    C0 = 1 / feedback(K, checks.positive("rho0", rho0), "printed")
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
