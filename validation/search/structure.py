"""Random changes of the structure of an instance, its classes, tokens and queries, for directed searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.validation.search.instance import Instance


def restructured(instance: Instance, rng: np.random.Generator) -> Instance | None:
    """Instance with one random change of its structure; None where the change is not possible, or with a start."""
    if instance.start is not None:
        return None
    changes: tuple[Callable[[Instance, np.random.Generator], Instance | None], ...] = (
        _copy, _double, _remove, _split, _merge, _share, _withdraw, _move,
    )  # fmt: skip
    return changes[rng.integers(len(changes))](instance, rng)


def _with_copies(instance: Instance, copied: Ints) -> Instance:
    """Add copies of the classes `copied`, which have the same common tokens and own distinct ones."""
    P = instance.P
    common = np.count_nonzero(P, axis=0) > 1
    own = [row[(row > 0) & ~common] for row in P[copied]]
    columns = np.zeros((len(P) + len(copied), sum(map(len, own))))
    column = 0
    for row, shares in enumerate(own, start=len(P)):
        columns[row, column : column + len(shares)] = shares
        column += len(shares)
    table = np.hstack([np.vstack([P, np.where(common, P[copied], 0.0)]), columns])
    next_token = instance.next_token
    return replace(
        instance,
        P=table,
        query=np.append(instance.query, instance.query[copied]),
        weights=np.append(instance.weights, instance.weights[copied]),
        next_token=None if next_token is None else np.append(next_token, next_token[copied]),
        vocab_size=max(instance.vocab_size, len(table)),
    )


def _copy(instance: Instance, rng: np.random.Generator) -> Instance | None:
    return _with_copies(instance, rng.integers(instance.num_classes, size=1))


def _double(instance: Instance, rng: np.random.Generator) -> Instance | None:
    return _with_copies(instance, np.arange(instance.num_classes))


def _remove(instance: Instance, rng: np.random.Generator) -> Instance | None:
    K = instance.num_classes
    return instance.only(np.delete(np.arange(K), rng.integers(K))) if K > 1 else None


def _split(instance: Instance, rng: np.random.Generator) -> Instance | None:
    """Two tokens in place of one."""
    P, token = instance.P, rng.integers(instance.P.shape[1])
    share = rng.uniform(0.05, 0.5)
    halves = np.column_stack([P[:, token] * share, P[:, token] * (1 - share)])
    return replace(instance, P=np.hstack([np.delete(P, token, axis=1), halves]))


def _merge(instance: Instance, rng: np.random.Generator) -> Instance | None:
    """One token in place of two."""
    if instance.P.shape[1] < 2:
        return None
    pair = rng.permutation(instance.P.shape[1])[:2]
    both = instance.P[:, pair].sum(axis=1, keepdims=True)
    return replace(instance, P=np.hstack([np.delete(instance.P, pair, axis=1), both]))


def _share(instance: Instance, rng: np.random.Generator) -> Instance | None:
    """A class gets a token of others."""
    return _one_entry(instance, rng, instance.P == 0, lambda P, n: P[n].max() * rng.uniform(0.01, 1.0))


def _withdraw(instance: Instance, rng: np.random.Generator) -> Instance | None:
    """A class loses one of its tokens."""
    several = (instance.P > 0) & (np.count_nonzero(instance.P, axis=1) > 1)[:, None]
    changed = _one_entry(instance, rng, several, lambda P, n: 0.0)
    return None if changed is None else replace(changed, P=changed.P[:, changed.P.any(axis=0)])


def _one_entry(
    instance: Instance, rng: np.random.Generator, where: np.ndarray, value: Callable[[Floats, int], float]
) -> Instance | None:
    places = np.argwhere(where)
    if not len(places):
        return None
    n, token = places[rng.integers(len(places))]
    P = instance.P.copy()
    P[n, token] = value(P, n)
    return replace(instance, P=P)


def _move(instance: Instance, rng: np.random.Generator) -> Instance | None:
    """A class gets the query of another one, or a new query."""
    query = np.unique(instance.query, return_inverse=True)[1].astype(np.int64)
    query[rng.integers(query.size)] = rng.integers(query.max() + 2)
    vocab_size = max(instance.vocab_size, int(query.max()) + 1)
    return replace(instance, query=query, vocab_size=vocab_size)
