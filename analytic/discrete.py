"""The decoder's growth in whole SGD steps, h*, Lemma 5, Eqs. (31)-(33)."""

import math

import numpy as np

from snapdyn.analytic import checks
from snapdyn.analytic.checks import FloatArray


def discrete_h(num_steps: int, eta_Y: float, vocab_size: int) -> FloatArray:
    """Recursion h*(s) = h*(s-1) + eta_Y/(V-1+exp(V h*(s-1))), h*(0) = 0, Eq. (33).

    Parameters
    ----------
    num_steps : int
        Number of visits of the class (one SGD step each), >= 0.
    eta_Y : float
        Learning rate of the decoder, per visit, > 0.
    vocab_size : int
        V, number of decoder outputs, >= 2.

    Returns
    -------
    ndarray, shape (num_steps + 1,)
        h* after 0, 1, ..., num_steps visits.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Source: arXiv 2305.16380v4, Lemma 5; derivation ``discrete-recursion``.
    """
    steps = int(checks.whole("num_steps", num_steps, 0))
    rate = float(checks.positive("eta_Y", eta_Y))
    V = float(checks.whole("vocab_size", vocab_size, 2))
    h_star = np.zeros(steps + 1)
    current = 0.0
    for step in range(1, steps + 1):
        # Divided through by exp(V h*), which a single large step can push beyond the range of floats.
        decay = math.exp(-V * current)
        current += rate * decay / ((V - 1) * decay + 1)
        h_star[step] = current
    return h_star
