"""Decoder growth h* after whole SGD steps, Lemma 5, Eqs. (31)-(33)."""

import math

import numpy as np

from snapdyn.errors import FloatArray, positive, whole

MOST_STEPS = 10**8  # 0.8 GB


def discrete_h(num_steps: int, eta_Y: float, vocab_size: int) -> FloatArray:
    """Recursion h*(s) = h*(s-1) + eta_Y/(V-1+exp(V h*(s-1))), h*(0) = 0, Eq. (33).

    Parameters
    ----------
    num_steps : int
        Number of visits of the class (one SGD step each), from 0 to 10^8.
    eta_Y : float
        Learning rate of the decoder, per visit, > 0.
    vocab_size : int
        V, number of decoder outputs, >= 2.

    Returns
    -------
    ndarray, shape (num_steps + 1,)
        h* after 0, 1, ..., num_steps visits; dimensionless.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 5; derivation ``discrete-recursion``.

    Examples
    --------
    >>> from snapdyn import analytic
    >>> analytic.discrete_h(3, eta_Y=1.0, vocab_size=10).round(4)
    array([0.    , 0.1   , 0.1853, 0.2504])
    """
    steps = whole("num_steps", num_steps, 0, MOST_STEPS)
    rate = positive("eta_Y", eta_Y)
    V = float(whole("vocab_size", vocab_size, 2))
    h_star = np.zeros(steps + 1)
    current = 0.0
    for step in range(1, steps + 1):
        # Divided through by exp(V h*), which a single large step can push beyond the range of floats.
        decay = math.exp(-V * current)
        current += rate * decay / ((V - 1) * decay + 1)
        h_star[step] = current
    return h_star
