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
