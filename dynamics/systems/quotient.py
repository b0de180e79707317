"""The quotient of the mean field by its kinds of classes: one value in place of all that stay equal, from Y(0) = 0.

The different values are: z of each different token in a type of queries; Y of a shared token on the next tokens of each
kind, and on the V - N outputs that are no next token; Y of a token of one class, of kind c, on its own next token, on
those of the other classes of each kind, and on the rest. Whether two classes have the same query does not matter: Y of
a shared token does not depend on it, and so the softmax of a class does not either. With the residual connection it
does matter, through the row of the query token: then Y has different values on next tokens of classes with the same
query and on those of classes with other queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse

from snapdyn.dynamics.classes.kinds import NONE, Kinds
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.kernels.law import LANES, Structure

if TYPE_CHECKING:
    from snapdyn.dynamics.systems.layout import Layout


class RowSums(NamedTuple):
    """Matrices that give the different row sums of z and of Y, and the number of tokens that have a row of Y."""

    z: scipy.sparse.csr_array  # (types of queries, num_slots): number of tokens
    y: scipy.sparse.csr_array  # (different rows, values of Y): number of outputs
    tokens: Floats  # (different rows,)


class KindsQuotient(NamedTuple):
    """Lists for the law, and the index in the state of each value of Y (-1: there is no such value)."""

    kinds: Kinds
    lists: Structure
    sums: RowSums
    y_shared: Ints  # (G, C + 1) on the next tokens of each kind, and on the other outputs
    y_own: Ints  # (own tokens, 1 + C + 1 + C) on the own next token, then as `y_shared`, then C in the same query
    y_query: Ints  # (T, C + 1 + C) of the query token with the residual connection, as `y_own` from the second on

    @property
    def size(self) -> int:
        """Number of state values."""
        return int(self.lists.copies.size)

    @property
    def residual(self) -> bool:
        """Whether the query token is a row of Y."""
        return bool(self.lists.query[0, 0] >= 0)

    @property
    def num_slots(self) -> int:
        """Number of different logits."""
        return self.kinds.num_slots

    @property
    def width(self) -> int:
        """Width of the scratch rows of the law."""
        entries, outputs = np.diff(self.lists.indptr), np.diff(self.lists.output)
        return int(max(entries.max() + LANES, outputs.max()))

    @property
    def tokens_of_rows(self) -> Floats:
        """Number of tokens of each different row of Y."""
        return self.sums.tokens

    def sums_of_Y(self, values: Floats) -> Floats:
        """Sums over all outputs of each different row, (..., rows), of the values of Y in states (..., n)."""
        return np.asarray((self.sums.y @ values.T).T)

    def sums_of_z(self, values: Floats) -> Floats:
        """Sums over all tokens of a query of each type, (..., T), of the different logits (..., num_slots)."""
        return np.asarray((self.sums.z @ values.T).T)

    def value_name(self, index: int, _: SequenceClasses) -> str:
        """What a value stands for, for messages."""
        return f"{'z' if index < self.num_slots else 'Y'} (value {index} of the reduced system)"


def quotient_of(kinds: Kinds, vocab_size: int, residual: bool = False) -> KindsQuotient:
    """The quotient of the mean field of these kinds."""
    N, C, first_own = kinds.number.astype(np.float64), kinds.number.size, kinds.first_own
    rest = vocab_size - int(kinds.number.sum())
    copies, size = [kinds.copies], kinds.num_slots
    rows: list[tuple[Floats, Floats]] = []  # numbers of outputs; tokens that have the row

    def numbered(copies_of: Floats, number: Floats, tokens: Floats) -> Ints:
        nonlocal size
        values = size + np.arange(copies_of.size).reshape(copies_of.shape)
        size += copies_of.size
        copies.append(copies_of.ravel())
        rows.extend((number, like) for like in tokens)
        return values

    has_rest = C + (rest > 0)
    y_shared = np.full((kinds.like_shared.size, C + 1), NONE)
    columns = np.append(N, 1.0)[:has_rest]
    copies_of = np.broadcast_to(columns, (len(y_shared), has_rest))
    y_shared[:, :has_rest] = numbered(copies_of, np.append(N, rest)[:has_rest], kinds.like_shared)
    in_query = (kinds.query_type == np.arange(kinds.num_queries.size)[:, None]) * kinds.per_query * residual
    one_rest = np.concatenate([np.full(C, np.inf), [1.0], np.full(C, np.inf)])  # the rest shares one value
    y_query = np.full((kinds.num_queries.size, 2 * C + 1), NONE)
    for t, Q in enumerate(kinds.num_queries if residual else []):
        number = np.concatenate([N - in_query[t], [rest], in_query[t]])
        found = np.flatnonzero(number)
        y_query[t, found] = numbered(Q * np.minimum(number, one_rest)[found], number[found], np.array([Q]))
    y_own = np.full((int(first_own[-1] - first_own[0]), 2 * C + 2), NONE)
    outputs = []
    for c, own in enumerate(kinds.own):
        # As a class of the kind sees them: its next token, those of other classes of each kind, the rest, and with the
        # residual connection those of other classes of its query.
        mine = np.arange(C) == c
        same = (in_query[kinds.query_type[c]] - mine) * residual
        number = np.concatenate([[1.0], N - mine - same, [rest], same])
        found = np.flatnonzero(number)
        columns = np.append(1.0, np.minimum(number[1:], one_rest))[found]
        outputs.append((found, number[found], columns))
        place = slice(*(first_own[c : c + 2] - first_own[0]))
        copies_of = np.broadcast_to(N[c] * columns, (own.like.size, found.size))
        y_own[place, found] = numbered(copies_of, number[found], N[c] * own.like)

    slots, log_p, tokens, value, query = [], [], [], [], []
    for c, (found, _, _) in enumerate(outputs):
        shared, of_class = kinds.entries(c)
        rows_own = y_own[slice(*(first_own[c : c + 2] - first_own[0]))]
        rows_shared = y_shared[shared][:, np.concatenate([[c], np.arange(C + 1), np.arange(C)])]
        slots.append(of_class)
        log_p.append(np.log(np.concatenate([kinds.shared[c, shared], kinds.own[c].probability])))
        tokens.append(np.concatenate([kinds.like_shared[shared], kinds.own[c].like]))
        value.append(np.concatenate([rows_shared, rows_own])[:, found])
        query.append(np.empty((0, found.size), np.int64))
        if residual:
            query[c] = y_query[kinds.query_type[c]][np.append(C + 1 + c, np.arange(2 * C + 1))][None, found]
    width = np.array([found.size for found, _, _ in outputs])
    lengths, end = np.array([each.size for each in slots]), np.cumsum(width)
    pairs = np.concatenate([np.vstack(each).ravel() for each in zip(value, query, strict=True)])
    begin = np.cumsum([0, *((lengths + residual) * width)])[:-1]
    in_kind = np.concatenate([np.arange(m) for m in lengths])  # place of an entry
    of_query = np.full((C, 3), NONE)
    of_query[:, 0] = begin + lengths * width if residual else NONE
    of_query[:, 2] = 0
    lists = Structure(
        num_slots=kinds.num_slots,
        indptr=np.cumsum([0, *lengths]),
        slot=np.concatenate(slots).astype(np.uint32),
        log_p=np.concatenate(log_p),
        tokens=np.concatenate(tokens),
        first=(np.repeat(begin, lengths) + np.repeat(width, lengths) * in_kind).astype(np.uint32),
        is_first=np.zeros(int(lengths.sum()), np.bool_),
        value=pairs.astype(np.uint32),
        output=np.column_stack([end - width, end]),
        own=np.zeros(C, np.int64),
        number=np.concatenate([number for _, number, _ in outputs]),
        columns=np.concatenate([columns for _, _, columns in outputs]),
        share=N * kinds.prior,
        query=of_query,
        copies=np.concatenate(copies),
    )
    return KindsQuotient(kinds, lists, _row_sums(kinds, rows), y_shared, y_own, y_query)


def _row_sums(kinds: Kinds, rows: list[tuple[Floats, Floats]]) -> RowSums:
    types, shared = np.nonzero(kinds.slot_of_shared >= 0)  # in the order of the slots
    of_own = np.repeat(np.arange(kinds.number.size), np.diff(kinds.first_own))
    query_type = np.concatenate([types, kinds.query_type[of_own]])
    own = kinds.per_query[of_own] * np.concatenate([each.like for each in kinds.own])
    tokens = np.concatenate([kinds.like_shared[shared], own])
    outputs, number = zip(*rows, strict=True)
    row = np.repeat(np.arange(len(rows)), [each.size for each in outputs])
    return RowSums(_table(query_type, tokens), _table(row, np.concatenate(outputs)), np.array(number))


def _table(row: Ints, weight: Floats) -> scipy.sparse.csr_array:
    """Table with one entry a column: its row and its weight."""
    return scipy.sparse.csr_array((weight, (row, np.arange(row.size))))


def logit_of_z(classes: SequenceClasses, kinds: Kinds, z_initial: Floats) -> Ints:
    """Index, among the different logits of `kinds`, of every logit in classes.z_coordinates, (nz,)."""
    values = np.empty(classes.z_coordinates[0].size, np.int64)
    start = z_initial[classes.query_index[classes.class_of_entry], classes.P.indices] + 0.0
    values[classes.z_of_entry] = kinds.value_of_entry(classes, start)
    return values


def value_of_decoder(classes: SequenceClasses, layout: Layout, quotient: KindsQuotient, logit: Ints) -> Ints:
    """Index in the state of each value of Y, (rows, columns) of the full layout; `logit` comes from `logit_of_z`."""
    kinds, members, L, C = quotient.kinds, quotient.kinds.members(), layout, quotient.kinds.number.size
    # Where the outputs of the columns stand in the rows of `y_own`, for each class (but for its own next token).
    by_output = np.argsort(classes.next_index)
    query = np.append(classes.query_index[by_output], NONE)[: L.num_columns]
    in_query = quotient.residual * (query == classes.query_index[:, None])
    places = np.append(1 + members.kind[by_output], 1 + C)[: L.num_columns] + (C + 1) * in_query
    values = np.empty((L.num_rows, L.num_columns), np.int64)
    shared = members.shared[L.row_token[L.entry_row]]
    in_shared = np.flatnonzero(shared >= 0)
    # The kind of each output, or the number of kinds.
    columns = np.append(members.kind[by_output], C)[: L.num_columns]
    values[L.entry_row[in_shared]] = quotient.y_shared[shared[in_shared]][:, columns]
    slot = np.empty(L.num_slots, np.int64)
    slot[L.slot_of_z] = logit
    own = np.flatnonzero(shared < 0)
    of_class = np.repeat(np.arange(classes.num_classes), np.diff(L.lists.indptr))[own]
    rows = quotient.y_own[slot[L.lists.slot[own]] - kinds.first_own[0]]
    values[L.entry_row[own]] = np.take_along_axis(rows, places[of_class], axis=1)
    values[L.entry_row[own], L.lists.own[of_class]] = rows[:, 0]
    if quotient.residual:
        rows = quotient.y_query[kinds.query_type[members.kind]]
        values[L.row_of_token[classes.query]] = np.take_along_axis(rows, places - 1, axis=1)
    return values
