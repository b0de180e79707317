"""What rounding allows of the row sums of Z where attention vectors become almost parallel during the run."""

from __future__ import annotations

import numpy as np

from snapdyn.validation.claims.attention.conservation import drift, without_projection
from snapdyn.validation.rungs.run import EXACT
from snapdyn.validation.search.instance import Instance


def test_rounding_grows_with_the_inverse_of_the_gram_matrix_along_the_run() -> None:
    """Assert that row sums are within rounding, and those of z' without I - f f^T are not.

    The smallest eigenvalue of G is 0.14 at the start and 1e-6 on the way. With the eigenvalue of the start the row sum
    at one of these times is up to 1.4 times what rounding allows.
    """
    P = np.array([[0.803, 0.187, 0.002, 0.008, 0.0], [0.501, 0.489, 0.0, 0.0, 0.01]])
    for t_end in (6048544.255169578, 1e7):
        instance = Instance(P, np.zeros(2, int), np.array([1e-6, 1]), 3, 1e-6, 1e-3, t_end, next_token=np.array([1, 0]))
        kept, wrong = drift(instance, EXACT), without_projection(instance, EXACT)
        assert kept is not None
        assert wrong is not None
        assert kept.value < 1 < wrong.value
