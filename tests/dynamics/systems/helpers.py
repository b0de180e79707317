"""Instances, states and symmetric classes for the right-hand sides of several systems."""

from typing import Any

import numpy as np

from snapdyn.dynamics import (
    ClassKind,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SymmetricClasses,
    symmetric_classes,
)
from snapdyn.dynamics.systems.base import System
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


KINDS = ("frozen", "Eq. (10) exact", "Eq. (10) leading", "finite length")


def random_system(seed: int) -> tuple[MeanField, bool]:
    """A mean field of random symmetric classes one by one, and whether some are alike.

    In a third of the draws one probability is off by 1e-10, so that the last class is like no other.
    """
    rng = np.random.default_rng(seed)
    declared = random_symmetric_classes(seed)
    P = declared.P.toarray()
    changed = bool(rng.random() < 0.3)
    if changed:
        P[-1, -1] *= 1 + 1e-10
    options: dict[str, Any] = {"residual": bool(rng.random() < 0.3)}
    if rng.random() < 0.3:
        options["z_initial"] = np.zeros((declared.num_queries, declared.num_tokens))
        options["z_initial"][:, : len(declared.kinds[0].common)] = rng.normal()
    # Queries are no tokens of classes, which the residual connection would tell apart.
    M, Q = declared.num_tokens, declared.num_queries
    query, vocab_size = M + declared.query_index, declared.vocab_size + M + Q
    classes = SequenceClasses(P, query, declared.next_token, declared.prior, vocab_size)
    alike = bool(declared.exchangeable.number.max() > 1)
    return MeanField(classes, 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-2, 1), **options), alike and not changed


def random_other(seed: int) -> tuple[System, bool]:
    """As `random_system`, one of the other systems on the same classes."""
    mean, symmetric = random_system(seed)
    classes, z, eta_Y = mean.classes, mean.z_initial, mean.eta_Y
    kind = KINDS[seed % len(KINDS)]
    if kind == "frozen":
        return FrozenDecoder(classes, eta_Y, z_initial=z, residual=mean.residual), symmetric
    if kind == "finite length":
        return FiniteLengthMeanField(classes, eta_Y, mean.eta_Z, 1000, z), symmetric
    return ModifiedDecoder(classes, eta_Y, mean.eta_Z, beta=kind.split()[-1], z_initial=z), symmetric


def plain(classes: SequenceClasses) -> SequenceClasses:
    """The same classes, which carry no quotient."""
    return SequenceClasses(classes.P, classes.query, classes.next_token, classes.prior, classes.vocab_size)


def random_symmetric_classes(seed: int) -> SymmetricClasses:
    """Random kinds, counts, queries and V; some tokens are equal, some kinds are given twice."""
    rng = np.random.default_rng(seed)
    num_common, weight = int(rng.integers(0, 4)), rng.uniform(0.5, 2.0)
    common, alike = rng.uniform(0.1, 1.0, num_common), rng.random() < 0.3
    twin = num_common > 1 and rng.random() < 0.4
    kinds: list[ClassKind] = []
    for _ in range(rng.integers(1, 4)):
        distinct = rng.uniform(0.1, 1.0, rng.integers(1, 4))
        if distinct.size > 1 and rng.random() < 0.4:
            distinct[1] = distinct[0]
        of_kind = common * (1.0 if alike else rng.uniform(0.5, 1.5, num_common))
        if twin:
            of_kind[1] = of_kind[0]
        total = of_kind.sum() + distinct.sum()
        own_weight = weight if rng.random() < 0.5 else rng.uniform(0.5, 2.0)
        kinds.append(ClassKind(of_kind / total, distinct / total, int(rng.integers(1, 5)), own_weight))
        if rng.random() < 0.2:
            kinds.append(ClassKind(kinds[-1].common, distinct[::-1] / total, int(rng.integers(1, 3)), own_weight))
    num_queries = int(rng.integers(1, 4))
    K = num_queries * sum(kind.classes_per_query for kind in kinds)
    return symmetric_classes(kinds, num_queries, max(2, K + int(rng.choice([0, 1, 2, 50]))))
