"""Plain steps of descent on the expectation, by the dense reference."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import SequenceClasses
from tests.dynamics.dense_reference import Instance, mean_field

Array = NDArray[Any]


def dense(classes: SequenceClasses, weights: Array | None = None) -> Instance:
    """Classes as raw arrays; `weights` (S, M) in place of P, since a start z(0) is a factor exp(z(0)) of P."""
    P = classes.P.toarray() if weights is None else weights
    return Instance(P, classes.query, classes.next_token, classes.prior, classes.vocab_size)


def trained(instance: Instance, steps: int, eta: float) -> tuple[Array, Array]:
    """Y and z (Q, M) after plain steps of size `eta` from zero."""
    Y, z = np.zeros((instance.num_rows, instance.vocab_size)), np.zeros((len(instance.query_ids), instance.P.shape[1]))
    for _ in range(steps):
        dY, dz, _ = mean_field(instance, Y, z, eta, eta)
        Y, z = Y + dY, z + dz
    return Y, z


def shares(weights: Array) -> Array:
    """Attention of weights P exp(z), rows summing to 1."""
    return weights / weights.sum(axis=1, keepdims=True)
