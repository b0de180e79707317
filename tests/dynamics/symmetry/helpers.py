"""Sequence classes with and without symmetries."""

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

KINDS = ("frozen", "Eq. (10) exact", "Eq. (10) leading", "finite length")


def random_system(seed: int) -> tuple[MeanField, bool]:
    """A mean field of copies of random classes on other tokens, and whether it has more than one copy, all alike.

    Every query has the same blocks of classes, every class has common tokens and distinct tokens of its own.
    """
    rng = np.random.default_rng(seed)
    num_queries, copies, kinds = rng.integers(1, 4, 3)
    num_common, num_distinct = rng.integers(1, 3), rng.integers(1, 4)
    common = rng.uniform(0.1, 1.0, (kinds, num_common))
    if rng.random() < 0.5:
        common[:] = common[:, :1]
    distinct, weight = rng.uniform(0.1, 1.0, (kinds, num_distinct)), rng.uniform(0.5, 2.0, kinds)
    total = common.sum(axis=1, keepdims=True) + distinct.sum(axis=1, keepdims=True)
    common, distinct = common / total, distinct / total
    K = int(num_queries * copies * kinds)
    P = np.zeros((K, num_common + K * num_distinct))
    query = np.empty(K, dtype=int)
    prior = np.empty(K)
    for n in range(K):
        kind = n % kinds
        P[n, :num_common] = common[kind]
        P[n, num_common + n * num_distinct :][:num_distinct] = distinct[kind]
        query[n] = P.shape[1] + n // (copies * kinds)
        prior[n] = weight[kind]
    changed = bool(rng.random() < 0.3)
    if changed:
        P[-1, -1] *= 1 + 1e-10
    vocab_size = int(query.max()) + 1 + K + int(rng.integers(0, 3)) * 50
    options: dict[str, Any] = {"residual": bool(rng.random() < 0.3)}
    classes = SequenceClasses(P, query, next_token=query.max() + 1 + np.arange(K), vocab_size=vocab_size, prior=prior)
    if rng.random() < 0.3:
        options["z_initial"] = np.zeros((classes.queries.size, classes.num_tokens))
        options["z_initial"][:, :num_common] = rng.normal()
    return MeanField(classes, 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-2, 1), **options), kinds < K and not changed


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
