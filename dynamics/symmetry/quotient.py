"""The quotient of the mean field by its kinds: one value for all that stay equal, from Y(0) = 0.

The different values are: z of each different token in a type of queries; Y of a shared token on the next tokens of each
kind, and on the V - N outputs that are no next token; Y of a token of one class, of kind c, on its own next token, on
those of the other classes of each kind, and on the rest. Whether another class has the same query does not matter:
neither Y of a shared token nor, with it, the softmax of a class depends on it. With the residual connection it does,
by the row of the query token, and next tokens of the own and of other queries are told apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from snapdyn.dynamics.classes.kinds import NONE, Kinds
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.kernels.quotient import Quotient
from snapdyn.dynamics.systems.layout import Layout

SMALL_TABLE = 10_000  # numbers; products with a sparse matrix cost ten microseconds in Python

BYTES_PER_TERM = 100.0  # three whole and three real numbers, and copies while they are made


class Outputs(NamedTuple):
    """Different outputs besides its own next token, as a class of some kind sees them.

    `kind` is that of the class whose next token it is, or the number of kinds for outputs that are no next token.
    """

    kind: Ints  # (m,)
    same_query: Ints  # (m,) 1 for next tokens of classes of the same query, told apart with the residual connection
    number: Floats  # (m,) outputs
    columns: Floats  # (m,) values of Y of one token that are stored: outputs that are no next token share one


class RowSums(NamedTuple):
    """The different row sums of z and Y as matrices over the state, and how often those of Y occur."""

    z: scipy.sparse.csr_array | Floats  # (types of queries, size): number of tokens
    y: scipy.sparse.csr_array | Floats  # (different rows of Y, size): number of outputs
    y_number: Floats  # (different rows of Y,): number of tokens


class KindsQuotient(NamedTuple):
    """Lists of the right-hand side, and which of the state values a value of Y is (-1: there is none)."""

    kinds: Kinds
    lists: Quotient
    sums: RowSums
    copies: Floats  # (size,) values of all classes that each state value stands for
    width: int  # most entries or outputs of a kind: what scratch arrays of the right-hand side hold
    outputs: list[Outputs]  # by kind
    y_shared: Ints  # (G, C + 1) on the next tokens of each kind, and on the other outputs
    y_own: Ints  # (own tokens, 1 + 2 (C + 1)) on the own next token, then by (same query, kind)
    y_query: Ints  # (T, 2 (C + 1)) of the query token, by (same query, kind)

    @property
    def size(self) -> int:
        """Number of state values."""
        return int(self.copies.size)

    def names(self) -> list[str]:
        """Names of the state values, for messages."""
        kinds, C = self.kinds, self.kinds.number.size
        names = [""] * self.size
        output = [f"next token of another class of kind {c}" for c in range(C)] + ["other output"]
        output += [f"{name} in the same query" for name in output]
        of_query = [
            f", queries of type {t}" if kinds.num_queries.size > 1 else "" for t in range(len(kinds.num_queries))
        ]
        for g, column in enumerate(kinds.shared.T):
            token = f"shared token of P = {', '.join(f'{p:g}' for p in column)}"
            for t, slot in enumerate(kinds.slot_of_shared[:, g]):
                names[slot] = f"z[{token}{of_query[t]}]" if slot >= 0 else names[slot]
            for b, value in enumerate(self.y_shared[g]):
                names[value] = f"Y[{token}, {output[b]}]" if value >= 0 else names[value]
        for c, own in enumerate(kinds.own):
            for i, p in enumerate(own.probability):
                token, row = f"own token of kind {c}, P = {p:g}", kinds.first_own[c] - kinds.first_own[0] + i
                names[kinds.first_own[c] + i] = f"z[{token}]"
                for place, value in enumerate(self.y_own[row]):
                    if value >= 0:
                        which = output[place - 1] if place else "own next token"
                        names[value] = f"Y[{token}, {which}]"
        for t, row_of_query in enumerate(self.y_query):
            for place, value in enumerate(row_of_query):
                if value >= 0:
                    names[value] = f"Y[query token of type {t}, {output[place]}]"
        return names


def outputs_of(kinds: Kinds, kind: int, vocab_size: int, residual: bool) -> Outputs:
    """The different outputs besides its next token, as a class of a kind sees them."""
    N, C = kinds.number, kinds.number.size
    mine = np.arange(C) == kind
    rest = vocab_size - int(N.sum())
    same = np.zeros(C, np.int64)
    if residual:
        same = np.where(kinds.query_type == kinds.query_type[kind], kinds.per_query - mine, 0)
    elsewhere = N - mine - same
    number = np.concatenate([elsewhere, [rest], same])
    columns = np.concatenate([elsewhere, [min(rest, 1)], same])
    found = np.flatnonzero(number)
    places = np.concatenate([np.arange(C + 1), np.arange(C)])
    return Outputs(
        places[found], (found > C).astype(np.int64), number[found].astype(np.float64), columns[found].astype(np.float64)
    )


def bytes_of_quotient(kinds: Kinds) -> float:
    """Memory that `quotient_of` takes at most: each entry of a kind meets each different output."""
    entries = np.count_nonzero(kinds.shared) + int(kinds.first_own[-1] - kinds.first_own[0])
    return BYTES_PER_TERM * entries * (2 * kinds.number.size + 2)


def quotient_of(kinds: Kinds, vocab_size: int, residual: bool) -> KindsQuotient:
    """The quotient of the mean field of these kinds."""
    N, C = kinds.number.astype(np.float64), kinds.number.size
    copies, size = [kinds.copies], kinds.num_slots

    def numbered(copies_of: Floats) -> Ints:
        nonlocal size
        values = size + np.arange(copies_of.size).reshape(copies_of.shape)
        size += copies_of.size
        copies.append(copies_of.ravel())
        return values

    outputs = [outputs_of(kinds, c, vocab_size, residual) for c in range(C)]
    has_rest = vocab_size > int(kinds.number.sum())
    y_shared = np.full((kinds.like_shared.size, C + 1), NONE)
    in_all = np.append(N, 1.0)[: C + has_rest]
    y_shared[:, : C + has_rest] = numbered(np.broadcast_to(in_all, (len(y_shared), in_all.size)))
    y_query = np.full((kinds.num_queries.size, 2 * (C + 1)), NONE)
    if residual:
        for t, Q in enumerate(kinds.num_queries):
            same = np.where(kinds.query_type == t, kinds.per_query, 0)
            columns = Q * np.concatenate([kinds.number - same, [has_rest], same, [0]]).astype(np.float64)
            y_query[t, columns > 0] = numbered(columns[columns > 0])
    y_own = np.full((int(kinds.first_own[-1] - kinds.first_own[0]), 1 + 2 * (C + 1)), NONE)
    for c, seen in enumerate(outputs):
        rows = slice(*(kinds.first_own[c : c + 2] - kinds.first_own[0]))
        shape = (kinds.own[c].like.size, 1 + seen.kind.size)
        places = np.concatenate([[0], 1 + seen.kind + seen.same_query * (C + 1)])
        y_own[rows, places] = numbered(np.broadcast_to(N[c] * np.append(1.0, seen.columns), shape))
    all_copies = np.concatenate(copies)

    entry_slot, entries, output_number, index, terms, ranges, query = [], [], [], [], [], [], []
    begin = np.zeros(3, np.int64)
    for c, seen in enumerate(outputs):
        shared, slots = kinds.entries(c)
        own = y_own[slice(*(kinds.first_own[c : c + 2] - kinds.first_own[0]))]
        places = seen.kind + seen.same_query * (C + 1)
        values = np.concatenate(
            [np.column_stack([y_shared[shared, c], y_shared[shared][:, seen.kind]]), own[:, np.append(0, 1 + places)]]
        )
        log_p = np.log(np.concatenate([kinds.shared[c, shared], kinds.own[c].probability]))
        like = np.concatenate([kinds.like_shared[shared], kinds.own[c].like])
        weight = N[c] * kinds.prior[c]
        drive = weight / all_copies[slots]
        if residual:  # the query token is the last entry
            of_query = y_query[kinds.query_type[c]][np.append(C + 1 + c, places)]
            values = np.concatenate([values, of_query[None]])
            log_p, like, drive, slots = (
                np.append(log_p, 0.0),
                np.append(like, 1.0),
                np.append(drive, 0.0),
                np.append(slots, 0),
            )
        number, columns = np.append(1.0, seen.number), np.append(1.0, seen.columns)
        driven = weight * columns / all_copies[values]
        driven[shared.size : shared.size + len(own)] = kinds.prior[c]  # exactly
        shape = values.shape
        index.append(np.stack([*(each.ravel() for each in np.indices(shape)), values.ravel()]))
        terms.append(np.stack([np.broadcast_to(each, shape).ravel() for each in (like[:, None], number, driven)]))
        entries.append(np.stack([log_p, like, drive]))
        entry_slot.append(slots)
        output_number.append(number)
        query.append(shape[0] - 1 if residual else NONE)
        end = begin + np.array([*shape, values.size])
        ranges.append(np.column_stack([begin, end]).ravel())
        begin = end
    lists = Quotient(
        ranges=np.array(ranges),
        query=np.array(query),
        share=N * kinds.prior,
        entry_slot=np.concatenate(entry_slot),
        entries=np.concatenate(entries, axis=1),
        output_number=np.concatenate(output_number),
        term_index=np.concatenate(index, axis=1),
        terms=np.concatenate(terms, axis=1),
    )
    # The kernels are compiled once, for one memory order.
    lists = lists._replace(**{name: np.ascontiguousarray(each) for name, each in lists._asdict().items()})
    width = int((lists.ranges[:, 1:4:2] - lists.ranges[:, :4:2]).max())
    found = KindsQuotient(kinds, lists, RowSums(N, N, N), all_copies, width, outputs, y_shared, y_own, y_query)
    return found._replace(sums=_row_sums(found, vocab_size))


def _row_sums(quotient: KindsQuotient, vocab_size: int) -> RowSums:
    kinds, C = quotient.kinds, quotient.kinds.number.size
    rest = vocab_size - int(kinds.number.sum())
    z_rows = []
    for t, slots in enumerate(kinds.slot_of_shared):
        of_type, has = np.flatnonzero(kinds.query_type == t), slots >= 0
        own = [np.arange(kinds.first_own[c], kinds.first_own[c + 1]) for c in of_type]
        like = [kinds.per_query[c] * kinds.own[c].like for c in of_type]
        z_rows.append((np.concatenate([slots[has], *own]), np.concatenate([kinds.like_shared[has], *like])))
    in_all = np.append(kinds.number, rest).astype(np.float64)
    y_rows, number = [], []
    for c, seen in enumerate(quotient.outputs):
        places = np.append(0, 1 + seen.kind + seen.same_query * (C + 1))
        for i, like in enumerate(kinds.own[c].like):
            row = quotient.y_own[kinds.first_own[c] - kinds.first_own[0] + i]
            y_rows.append((row[places], np.append(1.0, seen.number)))
            number.append(kinds.number[c] * like)
    for row, like in zip(quotient.y_shared, kinds.like_shared, strict=True):
        y_rows.append((row[row >= 0], in_all[row >= 0]))
        number.append(like)
    for t, row in enumerate(quotient.y_query):
        same = np.where(kinds.query_type == t, kinds.per_query, 0)
        outputs = np.concatenate([kinds.number - same, [rest], same, [0]]).astype(np.float64)
        if (row >= 0).any():
            y_rows.append((row[row >= 0], outputs[row >= 0]))
            number.append(kinds.num_queries[t])
    z, y = _table(z_rows, quotient.size), _table(y_rows, quotient.size)
    return RowSums(z, y, np.array(number, dtype=np.float64))


def _table(rows: list[tuple[Ints, Floats]], size: int) -> scipy.sparse.csr_array | Floats:
    ends = np.cumsum([0, *(values.size for values, _ in rows)])
    values, weights = (np.concatenate(each) for each in zip(*rows, strict=True))
    table = scipy.sparse.csr_array((weights.astype(np.float64), values, ends), shape=(len(rows), size))
    return np.asarray(table.toarray()) if len(rows) * size <= SMALL_TABLE else table


def logit_of_z(classes: SequenceClasses, kinds: Kinds, z_initial: Floats) -> Ints:
    """Number of the logit of `kinds` of every logit in classes.z_coordinates, (nz,)."""
    values = np.empty(classes.z_coordinates[0].size, np.int64)
    start = z_initial[classes.query_index[classes.class_of_entry], classes.P.indices] + 0.0
    values[classes.z_of_entry] = kinds.value_of_entry(classes, start)
    return values


def value_of_decoder(classes: SequenceClasses, layout: Layout, quotient: KindsQuotient, logit: Ints) -> Ints:
    """State value of each value of Y, (rows, columns) of the layout of all classes; `logit` is from `logit_of_z`."""
    kinds, members, L = quotient.kinds, quotient.kinds.members(), layout
    width = kinds.number.size + 1
    by_output = np.argsort(classes.next_index)
    columns = np.append(members.kind[by_output], width - 1)[: L.num_columns]
    # Where the next token of a column belongs to a class of the same query, with the residual connection.
    elsewhere = np.zeros((classes.num_classes, 1), np.int64)
    query_of = np.append(classes.query_index[by_output], NONE)[: L.num_columns]
    same = width * (classes.query_index[:, None] == query_of) if L.query_row[0] >= 0 else elsewhere
    values = np.empty((L.num_rows, L.num_columns), np.int64)
    shared = members.shared[L.row_token[L.entry_row]]
    in_shared = np.flatnonzero(shared >= 0)
    values[L.entry_row[in_shared]] = quotient.y_shared[shared[in_shared]][:, columns]
    slot = np.empty(L.num_slots, np.int64)
    slot[L.slot_of_z] = logit
    own = np.flatnonzero(shared < 0)
    of_class = np.repeat(np.arange(classes.num_classes), np.diff(L.indptr))[own]
    rows = quotient.y_own[slot[L.entry_slot[own]] - kinds.first_own[0]]
    values[L.entry_row[own]] = np.take_along_axis(rows, 1 + columns + same[of_class], axis=1)
    values[L.entry_row[own], L.column[of_class]] = rows[:, 0]
    if L.query_row[0] >= 0:
        rows = quotient.y_query[kinds.query_type[members.kind]]
        values[L.query_row] = np.take_along_axis(rows, columns + same, axis=1)
    return values
