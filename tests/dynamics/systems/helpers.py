"""Instances and states for the right-hand sides of several systems."""

import numpy as np

from snapdyn.dynamics import MeanField
from tests.dynamics.dense_reference import (
    Array,
    Instance,
    random_instance,
)
from tests.dynamics.helpers import ROUNDING_OF_SUMS


def assert_close(actual: Array, expected: Array, scale: float | None = None) -> None:
    """Assert agreement within ROUNDING_OF_SUMS of the scale of `expected`."""
    scale = float(np.abs(expected).max()) if scale is None else scale
    assert scale > 0
    np.testing.assert_allclose(actual, expected, rtol=0, atol=ROUNDING_OF_SUMS * scale)


INSTANCES = {
    "lumped tokens and shared column": random_instance(1),
    "one query": random_instance(2, query=(0, 0, 0, 0, 0)),
    "one query per class": random_instance(3, query=(4, 3, 2, 1, 0)),
    "shared next token and query": random_instance(4, query=(0, 0, 1, 1, 0), next_token=(3, 3, 3, 1, 8)),
    "V equals number of next tokens": random_instance(5, vocab_size=5, query=(0, 0, 1, 1, 4)),
    "all classes one next token": random_instance(6, next_token=(2, 2, 2, 2, 2)),
    "queries outside the context": random_instance(7, query=(10, 12, 10, 12, 13)),
    "query in its own and in other supports": random_instance(8, query=(1, 5, 1, 0, 7)),
    "three columns": random_instance(10, query=(1, 5, 1, 0, 7), next_token=(6, 2, 6, 6, 2)),
    "one class": random_instance(9, num_classes=1, query=(3,), next_token=(6,)),
    "one token per class": Instance(np.eye(3), np.array([0, 0, 1]), np.array([4, 2, 0]), np.array([0.2, 0.5, 0.3]), 6),
}
RESIDUAL = {"plain": False, "residual": True}


def initial_logits(instance: Instance, seed: int) -> Array:
    """Logits that leave some twins equal (rounded to few values) and reach tokens outside the supports."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (len(instance.query_ids), instance.P.shape[1])).astype(float)


def random_state(system: MeanField, seed: int, size: float = 2.0) -> Array:
    return np.random.default_rng(seed).normal(0.0, size, system.size)


TWO_QUERIES = random_instance(11, num_classes=4, num_tokens=12, twins=((8, 9), (10, 11)), vocab_size=40)
