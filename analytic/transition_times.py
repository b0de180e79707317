"""Times of the transition: peak of gamma, start and end of the transition (Lemmas 8-9)."""

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import FloatArray, broadcasting, choice, count_array, positive_array

# scipy is imported where it is needed, so that `import snapdyn.analytic` loads numpy only.


def _lambert_argument(vocab_size: ArrayLike) -> FloatArray:
    """Return -1/(V-1), at which Lambert's W is real only for V - 1 >= e, that is for whole V >= 4."""
    advice = "exp(u) = (V-1) u has no real root for a smaller V, use kind='peak', which exists for every V"
    return -1 / (count_array("vocab_size", vocab_size, 4, advice) - 1)


@broadcasting
def u_minus(vocab_size: ArrayLike) -> FloatArray:
    """Smaller root u_- = -W_0(-1/(V-1)) of exp(u) = (V-1) u, Lemma 8 (u = V h).

    Parameters
    ----------
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 4.

    Returns
    -------
    float or ndarray
        u_-, dimensionless, in (0, ln(V-1)).

    Raises
    ------
    InputError
        If V < 4 (no real root) or V is not whole.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 8; closed form in derivation ``u-minus``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.u_minus(1000):.6f}")
    0.001002
    """
    from scipy.special import lambertw

    return -lambertw(_lambert_argument(vocab_size), 0).real


@broadcasting
def u_plus(vocab_size: ArrayLike) -> FloatArray:
    """Larger root u_+ = -W_{-1}(-1/(V-1)) of exp(u) = (V-1) u, Lemma 8 (u = V h).

    Parameters
    ----------
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 4.

    Returns
    -------
    float or ndarray
        u_+ = (1 + omega_1) ln V, dimensionless.

    Raises
    ------
    InputError
        If V < 4 (no real root) or V is not whole.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 8; closed form in derivation ``u-plus``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.u_plus(1000):.6f}")
    9.116883
    """
    from scipy.special import lambertw

    return -lambertw(_lambert_argument(vocab_size), -1).real


@broadcasting
def omega_1(vocab_size: ArrayLike) -> FloatArray:
    """Correction omega_1 = u_+/ln V - 1 of the upper transition time, Lemma 8.

    Parameters
    ----------
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 4.

    Returns
    -------
    float or ndarray
        omega_1, dimensionless, of order ln ln V/ln V.

    Raises
    ------
    InputError
        If V < 4 (no real root) or V is not whole.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 8; derivation ``omega-1``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.omega_1(1000):.6f}")
    0.319804
    """
    # V^omega_1 = (V-1) u_+/V, from exp(u_+) = (V-1) u_+. Written so, nothing cancels for large V.
    V = count_array("vocab_size", vocab_size, 2)
    return np.log((V - 1) / V * u_plus(V)) / np.log(V)


@broadcasting
def u_peak(vocab_size: ArrayLike) -> FloatArray:
    """Value u* = 1 + W_0((V-1)/e) of u = V h at the maximum of gamma, derived from Eq. (85).

    Parameters
    ----------
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2.

    Returns
    -------
    float or ndarray
        u*, dimensionless.

    Raises
    ------
    InputError
        If V < 2 or V is not whole.

    Notes
    -----
    Source: derivation ``gamma-peak``, not in the paper: the derivative of gamma vanishes where (u-1) exp(u) = V-1.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.u_peak(1000):.6f}")
    5.420502
    """
    from scipy.special import lambertw

    V = count_array("vocab_size", vocab_size, 2)
    return 1 + lambertw((V - 1) / np.e).real


@broadcasting
def transition_time(
    num_classes: ArrayLike,
    vocab_size: ArrayLike,
    eta_Y: ArrayLike,
    kind: str = "peak",
    prior: ArrayLike | None = None,
) -> FloatArray:
    """Time at which gamma peaks, or at which the transition of Lemma 9 and Theorem 4 starts or ends.

    All arguments but `kind` broadcast.

    Parameters
    ----------
    num_classes : array_like
        K, number of uniform sequence classes, whole and >= 1.
    vocab_size : array_like
        V, number of decoder outputs, whole and >= 2 (>= 4 for ``kind="end"``).
    eta_Y : array_like
        Learning rate of the decoder, per step, > 0.
    kind : {"peak", "start", "end"}
        ``"peak"``: t* = (K/eta_Y) [(V-1) u* + exp(u*) - 1]/V, the maximum of gamma. ``"start"``: K ln
        V/eta_Y. ``"end"``: t0 = 2 (1+omega_1) K ln V/eta_Y = 2 u_+ K/eta_Y.
    prior : array_like, optional
        Class priors p_n in (0, 1], for the time of each class; default 1/K.

    Returns
    -------
    float or ndarray
        Time in batch-size-1 steps.

    Raises
    ------
    InputError
        If an argument is outside its range, or `kind` is unknown.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 9 and Eq. (14) for start and end; the peak is not in the paper. Derivations
    ``peak-time`` and ``transition-balance``. With priors: the modified flow (8) decouples the classes, and class n has
    made s = p_n t visits by time t. The h and gamma of class n depend on s alone, and those of one of K equal classes
    on t/K alone. So the times of class n are those of 1/p_n equal classes.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> print(f"{analytic.transition_time(num_classes=10, vocab_size=1000, eta_Y=1.0):.5f}")
    56.40074
    >>> analytic.transition_time(10, [100, 1000], 1.0, kind="start").round(2)
    array([46.05, 69.08])
    >>> analytic.transition_time(2, 1000, 1.0, prior=[0.75, 0.25]).round(2)
    array([ 7.52, 22.56])
    """
    choice("kind", kind, ("peak", "start", "end"))
    K, V = count_array("num_classes", num_classes, 1), count_array("vocab_size", vocab_size, 2)
    eta_Y = positive_array("eta_Y", eta_Y)
    if prior is not None:
        K = 1 / positive_array("prior", prior, at_most=1.0, advice="give probabilities of classes")
    if kind == "start":
        return K * np.log(V) / eta_Y
    if kind == "end":
        return 2 * u_plus(V) * K / eta_Y
    u = u_peak(V)
    return K / eta_Y * (((V - 1) * u + np.expm1(u)) / V)
