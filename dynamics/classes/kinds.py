"""Kinds of exchangeable classes: which classes, queries and tokens stay equal, and how many of each there are.

Classes are of one kind when their rows P(.|n) differ only in tokens of their own, which no other class has. They must
also have equal priors, next tokens that no other class has, equal starting logits and, with the residual connection,
query tokens that no row contains. Then two sorts of permutations rename tokens, next tokens and queries only, and map
the set of all classes to itself: the exchange of two classes of one kind in one query, and the exchange of two queries
with equal numbers of classes of each kind. A permutation that keeps the system and its start maps the solution to
itself, so values that it exchanges stay equal for all times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from snapdyn.core.memory import affords
from snapdyn.dynamics.kernels.compilation import Floats, Ints

if TYPE_CHECKING:
    from snapdyn.dynamics.classes.table import SequenceClasses

NONE = -1
BYTES_PER_TERM = 50.0  # of a quotient: a whole and a real number, and copies while they are made


class Members(NamedTuple):
    """Index of the kind of each class, and index of each token among the different shared tokens."""

    kind: Ints  # (S,)
    shared: Ints  # (M,), -1 for tokens of one class


class OwnTokens(NamedTuple):
    """Tokens of one class of a kind that no other class has; those that stay equal are held once, with their number."""

    probability: Floats  # (d,)
    start: Floats  # (d,) logit at t = 0
    like: Floats  # (d,) number of tokens with this probability and start


@dataclass(frozen=True)
class Kinds:
    """C kinds of classes in T types of queries; shared tokens that stay equal are held once, as G different ones.

    Queries are of one type when they have equal numbers of classes of each kind.

    Attributes
    ----------
    per_query : (C,) array of int
        Number of classes of the kind in each query of its type.
    query_type : (C,) array of int
        Type of the queries that have the kind.
    num_queries : (T,) array of int
        Number of queries of each type.
    prior : (C,) array
        Prior of one class.
    shared : (C, G) array
        Probability of each different shared token, 0 where the kind does not have it.
    like_shared : (G,) array
        Number of tokens that each different shared token stands for.
    shared_start : (T, G) array
        Logit of each different shared token at t = 0, by type of query.
    own : list of OwnTokens
        For each kind, the tokens that one class alone has.
    members : callable
        Returns the `Members`. For declared kinds (`SymmetricClasses`), only this call makes arrays with an entry for
        each class.
    """

    per_query: Ints
    query_type: Ints
    num_queries: Ints
    prior: Floats
    shared: Floats
    like_shared: Floats
    shared_start: Floats
    own: list[OwnTokens]
    members: Callable[[], Members]

    @cached_property
    def number(self) -> Ints:
        """(C,) number of classes of each kind in all queries."""
        return np.asarray(self.per_query * self.num_queries[self.query_type])

    @cached_property
    def slot_of_shared(self) -> Ints:
        """(T, G) index of the logit of each shared token in queries of each type, -1 where these lack the token."""
        has = np.zeros((self.num_queries.size, self.like_shared.size), np.bool_)
        np.logical_or.at(has, self.query_type, self.shared > 0)
        slots = np.full(has.shape, NONE)
        slots[has] = np.arange(int(has.sum()))
        return slots

    @cached_property
    def first_own(self) -> Ints:
        """(C + 1,) index of the first logit of each kind's own tokens; the last entry is the number of all logits."""
        first = np.cumsum([0, *(own.like.size for own in self.own)])
        return np.asarray(first + np.count_nonzero(self.slot_of_shared >= 0))

    @property
    def num_slots(self) -> int:
        """Number of different logits."""
        return int(self.first_own[-1])

    @cached_property
    def copies(self) -> Floats:
        """(num_slots,) number of logits, over all queries, of each different logit; equal tokens count once."""
        has = self.slot_of_shared >= 0
        of_shared = np.broadcast_to(self.num_queries[:, None], has.shape)[has]
        return np.concatenate([of_shared, np.repeat(self.number, np.diff(self.first_own))]).astype(np.float64)

    @cached_property
    def start(self) -> Floats:
        """(num_slots,) the different logits at t = 0."""
        return np.concatenate([self.shared_start[self.slot_of_shared >= 0], *(own.start for own in self.own)])

    def size(self, vocab_size: int) -> int:
        """Number of state values of the mean field that holds each class by itself (`systems.layout`)."""
        rows = self.like_shared.size + int(self.number @ np.diff(self.first_own))
        columns = int(self.number.sum()) + int(vocab_size > self.number.sum())
        return int(self.copies.sum()) + rows * columns

    def bytes_of_quotient(self, residual: bool) -> float:
        """Upper bound of the memory of the quotient, which lists every entry of a kind with every different output."""
        entries = np.count_nonzero(self.shared) + int(self.first_own[-1] - self.first_own[0])
        return BYTES_PER_TERM * entries * (self.number.size * (1 + residual) + 2)

    def entries(self, kind: int) -> tuple[Ints, Ints]:
        """Indices of a class's different shared tokens, and of the logits of its tokens, shared tokens first."""
        shared = np.flatnonzero(self.shared[kind])
        own = np.arange(self.first_own[kind], self.first_own[kind + 1])
        return shared, np.concatenate([self.slot_of_shared[self.query_type[kind], shared], own])

    def value_of_entry(self, classes: SequenceClasses, start: Floats) -> Ints:
        """Index of the logit that acts on each stored entry of P, (nnz,); `start` (nnz,) has these logits at t = 0."""
        members = self.members()
        kind, shared = members.kind[classes.class_of_entry], members.shared[classes.P.indices]
        values, in_several, own = (
            np.empty(shared.size, np.int64),
            np.flatnonzero(shared >= 0),
            np.flatnonzero(shared < 0),
        )
        values[in_several] = self.slot_of_shared[self.query_type[kind[in_several]], shared[in_several]]
        own = own[np.argsort(kind[own], kind="stable")]
        bounds = np.searchsorted(kind[own], np.arange(self.number.size + 1))
        for c, first in enumerate(self.first_own[:-1]):
            of_kind = own[bounds[c] : bounds[c + 1]]
            values[of_kind] = first + ranks(classes.P.data[of_kind], start[of_kind])
        return values


def ranks(*columns: Floats | Ints) -> Ints:
    """Number of each row of a table, given as columns (n,): different rows count 0, 1, ... in lexicographic order."""
    if len(columns) == 1:
        return np.unique(columns[0], return_inverse=True)[1]
    order = np.lexsort(columns[::-1])
    changes = np.zeros(order.size, np.bool_)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    numbers = np.empty(order.size, np.int64)
    numbers[order] = np.cumsum(changes)
    return numbers


def recognised(classes: SequenceClasses, z_initial: Floats, most: float, asked: bool = False) -> Kinds | None:
    """The kinds of the classes of a table, found by sorting its rows in O(nnz log nnz).

    Parameters
    ----------
    classes : SequenceClasses
    z_initial : (Q, M) array
        Attention logits at t = 0.
    most : float
        Where there are more kinds than this, None is returned.
    asked : bool
        Whether the user asked for kinds: if they do not fit into memory, True raises an error and False returns None.

    Returns
    -------
    Kinds or None
        None where there are more than `most` kinds, where classes share a next token, and, without `asked`, where the
        kinds do not fit into memory.

    Raises
    ------
    InputError
        With `asked`: the kinds do not fit into memory.
    """
    P, of, query = classes.P, classes.class_of_entry, classes.query_index
    if classes.num_next_tokens < classes.num_classes:
        return None
    count = np.bincount(P.indices, minlength=classes.num_tokens)
    start = z_initial[query[of], P.indices] + 0.0  # -0 is 0
    value = ranks(P.data, start) if start.any() else ranks(P.data)
    # What a token is and with which weight: tokens of one class are told apart by their weight only.
    entry = np.where(count[P.indices] == 1, 0, P.indices + 1) * (value.max() + 1) + value
    of_row = numbers_by_content(of, entry, ranks(classes.prior))
    if of_row.max() + 1 > most:
        return None
    type_of_query = numbers_by_content(query, of_row, np.zeros(classes.num_queries, np.int64))
    kind = ranks(type_of_query[query], of_row)
    first = np.unique(kind, return_index=True)[1]
    if first.size > most:
        return None
    query_type = type_of_query[query[first]]
    num_queries = np.bincount(type_of_query)

    tokens = np.flatnonzero(count > 1)
    if not affords(f"{first.size} kinds of classes", 48.0 * first.size * tokens.size, "reduce=False", asked):
        return None
    table, own = np.zeros((first.size, tokens.size)), []
    place = np.cumsum(count > 1) - 1
    for c, n in enumerate(first):
        part = np.arange(P.indptr[n], P.indptr[n + 1])
        is_own = count[P.indices[part]] == 1
        table[c, place[P.indices[part[~is_own]]]] = P.data[part[~is_own]]
        weights = np.stack([P.data[part[is_own]], start[part[is_own]]])
        weights, numbers = np.unique(weights, axis=1, return_counts=True)
        own.append(OwnTokens(weights[0], weights[1], numbers.astype(np.float64)))
    starts = z_initial[np.unique(type_of_query, return_index=True)[1]][:, tokens] + 0.0
    has = np.zeros(starts.shape, np.bool_)
    np.logical_or.at(has, query_type, table > 0)
    shared, shared_of, like = np.unique(
        np.concatenate([table, np.where(has, starts, 0.0)]), axis=1, return_inverse=True, return_counts=True
    )
    group = np.full(classes.num_tokens, NONE)
    group[tokens] = shared_of.ravel()
    members = Members(kind, group)
    return Kinds(
        per_query=np.bincount(kind) // num_queries[query_type],
        query_type=query_type,
        num_queries=num_queries,
        prior=classes.prior[first],
        shared=shared[: first.size],
        like_shared=like.astype(np.float64),
        shared_start=shared[first.size :],
        own=own,
        members=lambda: members,
    )


def numbers_by_content(owner: Ints, content: Ints, label: Ints) -> Ints:
    """Numbers of the owners: equal if labels, (owners,), and multisets of content, (n,) of `owner` (n,), are equal.

    The owners, 0, 1, ..., are numbered in the order in which each number first occurs.
    """
    ends = np.cumsum(np.bincount(owner, minlength=label.size))
    rows = np.split(content[np.lexsort((content, owner))], ends[:-1])
    known: dict[tuple[int, bytes], int] = {}
    keys = ((each, row.tobytes()) for each, row in zip(label.tolist(), rows, strict=True))
    return np.array([known.setdefault(key, len(known)) for key in keys])
