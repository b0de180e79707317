"""Layout of the mean-field state: flat arrays that the compiled kernels stream through."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.kernels.law import LANES, Structure

NONE = -1


@dataclass(frozen=True)
class Layout:
    """Sparse layout of (z, Y) for one set of classes, with tokens lumped and output columns shared.

    The layout makes two exact reductions (docs/how_to/numerics.md). Tokens with equal columns P(l|.) and equal initial
    logits stay equal for ever: one *row* with a multiplicity represents all of them. From Y(0) = 0 the
    outputs that are no class's next token stay equal: one last *column* represents all of them.

    An *entry* is a (class, row) pair with P > 0; a *slot* is a (query, row) pair whose logit can move.
    The state is the flat array [z on the slots (num_slots,), Y (num_rows, num_columns) row-major].
    """

    lists: Structure  # arguments of the law: classes, entries and outputs of this table
    entry_row: Ints  # (entries,) row of Y
    slot_of_z: Ints  # (nz,) slot of every coordinate in classes.z_coordinates
    slot_multiplicity: Floats  # (num_slots,)
    slot_query: Ints  # (num_slots,)
    row_token: Ints  # (num_rows,) smallest token id lumped in the row
    row_of_token: Ints  # (max token id + 1,) row of each token, -1 where it has none
    output_token: Ints  # (num_columns,) output id of each column, -1 for the shared column

    @property
    def num_slots(self) -> int:
        return self.lists.num_slots

    @property
    def num_rows(self) -> int:
        return int(self.row_token.size)

    @property
    def num_columns(self) -> int:
        return int(self.output_token.size)

    @property
    def size(self) -> int:
        """Number of state values."""
        return self.num_slots + self.num_rows * self.num_columns

    @property
    def max_support(self) -> int:
        """Largest number of entries of a class."""
        return int(np.diff(self.lists.indptr).max())

    @cached_property
    def width(self) -> int:
        """Width of the scratch rows of the law."""
        return max(self.max_support + LANES, self.num_columns)

    @cached_property
    def tokens_of_rows(self) -> Floats:
        """Number of tokens of each row of Y, (num_rows,)."""
        tokens = np.ones(self.num_rows)
        tokens[self.entry_row] = self.lists.tokens
        return tokens

    def sums_of_Y(self, values: Floats) -> Floats:
        """Sums over all outputs, (..., num_rows), of values of Y, (..., num_rows * num_columns)."""
        return np.asarray(values.reshape(*values.shape[:-1], self.num_rows, self.num_columns) @ self.lists.number)

    def sums_of_z(self, values: Floats) -> Floats:
        """Sums over all tokens of each query, (..., Q), of values on the slots, (..., num_slots)."""
        return np.asarray(np.add.reduceat(self.slot_multiplicity * values, self._first_slots, axis=-1))

    @cached_property
    def _first_slots(self) -> Ints:
        """First slot of each query."""
        return np.flatnonzero(np.diff(self.slot_query, prepend=-1))

    def z_support(self, slots: Floats) -> Floats:
        """Logits on classes.z_coordinates, (..., nz), from logits on the slots, (..., num_slots)."""
        return slots.take(self.slot_of_z, axis=-1)

    def slots(self, classes: SequenceClasses, z: Floats) -> Floats:
        """Logits on the slots, (num_slots,), from logits z (Q, M) that are equal on lumped tokens."""
        slots = np.zeros(self.num_slots)
        slots[self.slot_of_z] = z[classes.z_coordinates]
        return slots

    def value_name(self, index: int, classes: SequenceClasses) -> str:
        """Name of a state value, for messages."""
        if index < self.num_slots:
            token = classes.z_coordinates[1][int(np.flatnonzero(self.slot_of_z == index)[0])]
            return f"z[query {classes.queries[self.slot_query[index]]}, token {token}]"
        row, column = divmod(index - self.num_slots, self.num_columns)
        output = self.output_token[column]
        return f"Y[token {self.row_token[row]}, output {output if output >= 0 else 'shared'}]"


def start_key(z_initial: Floats) -> bytes:
    """Key that is different for different initial logits (Q, M); empty for zeros."""
    return hashlib.sha256((z_initial + 0.0).tobytes()).digest() if z_initial.any() else b""  # -0 is 0


def lumped_rows(classes: SequenceClasses, z_initial: Floats, separate: Ints) -> tuple[Ints, Ints]:
    """Rows of Y: (row of each token, -1 if it never occurs; smallest token of each row).

    Tokens in `separate` (query tokens, with the residual connection) are never lumped.
    """
    columns = classes.P.tocsc()
    kept = set(separate.tolist())
    row_of_token = np.full(classes.num_tokens, -1, dtype=np.int64)
    row_token: list[int] = []
    seen: dict[tuple[bytes, ...] | int, int] = {}
    for token in np.flatnonzero(np.diff(columns.indptr)).tolist():
        part = slice(columns.indptr[token], columns.indptr[token + 1])
        key: tuple[bytes, ...] | int
        if token in kept:
            key = token
        else:
            start = (z_initial[:, token] + 0.0).tobytes()  # -0 is 0
            key = (columns.indices[part].tobytes(), columns.data[part].tobytes(), start)
        if key not in seen:
            seen[key] = len(row_token)
            row_token.append(token)
        row_of_token[token] = seen[key]
    return row_of_token, np.array(row_token, dtype=np.int64)


def build_layout(
    classes: SequenceClasses,
    z_initial: Floats,
    residual: bool = False,
    lump: bool = True,
    shared_column: bool = True,
) -> Layout:
    """Build the layout for `classes` with initial logits (Q, M).

    Without `lump` every token has a row (samples break the symmetry of equal tokens); without `shared_column` every
    output has a column (a start of Y other than 0 breaks the symmetry of outputs).
    """
    separate = classes.queries if residual else np.empty(0, np.int64)
    row_of_token, row_token = lumped_rows(classes, z_initial, separate if lump else np.arange(classes.num_tokens))
    if residual:
        row_of_token, row_token = _with_query_rows(classes.queries, row_of_token, row_token)
    token, entry_class = classes.P.indices, classes.class_of_entry
    size = np.bincount(row_of_token[row_of_token >= 0], minlength=row_token.size).astype(np.float64)

    # One entry per (class, row): the smallest token stands for all tokens of the row.
    keep = row_token[row_of_token[token]] == token
    entry_class, token = entry_class[keep], token[keep]
    entry_row = row_of_token[token]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(entry_class, minlength=classes.num_classes))])

    slot_keys, entry_slot = np.unique(
        classes.query_index[entry_class] * row_token.size + entry_row, return_inverse=True
    )
    z_query, z_token = classes.z_coordinates
    slot_of_z = np.searchsorted(slot_keys, z_query * row_token.size + row_of_token[z_token])

    columns = (classes.next_tokens.size + 1) if shared_column else classes.vocab_size
    # The state, its rate, and the copies of the smallest solver.
    require_memory(
        f"a decoder of {row_token.size} rows and {columns} columns",
        32.0 * row_token.size * columns,
        "fewer classes or tokens",
    )
    others = classes.vocab_size - classes.next_tokens.size
    output_token = np.append(classes.next_tokens, -1) if others else np.array(classes.next_tokens)
    if not shared_column:
        others, output_token = 0, np.arange(classes.vocab_size)
    columns = output_token.size
    number = np.ones(columns)
    number[-1] = max(others, 1)

    query = np.tile([NONE, NONE, 0], (classes.num_classes, 1))
    touched = entry_row
    if residual:
        query_row = row_of_token[classes.query]
        query[:, 0] = slot_keys.size + query_row * columns
        for n in range(classes.num_classes):
            match = np.flatnonzero(entry_row[indptr[n] : indptr[n + 1]] == query_row[n])
            if match.size:
                query[n, 1] = match[0]
        # Kernels visit, class by class, the entries and then the query row.
        touched = np.insert(entry_row, indptr[1:], query_row)
    first = np.isin(np.arange(touched.size), np.unique(touched, return_index=True)[1])
    if residual:
        query_touch = indptr[1:] + np.arange(classes.num_classes)  # positions of the query rows in `touched`
        query[:, 2], first = first[query_touch], np.delete(first, query_touch)
    lists = Structure(
        num_slots=int(slot_keys.size),
        indptr=indptr.astype(np.int64),
        slot=entry_slot.astype(np.uint32),
        log_p=np.log(classes.P.data[keep]),
        tokens=size[entry_row],
        first=(slot_keys.size + entry_row * columns).astype(np.uint32),
        is_first=first,
        value=None,
        output=np.tile(np.array([0, columns]), (classes.num_classes, 1)),
        own=(classes.next_index if shared_column else classes.next_token).astype(np.int64),
        number=number,
        columns=np.ones(columns),
        share=classes.prior,
        query=query,
        copies=np.empty(0),
    )
    return Layout(
        lists=lists,
        entry_row=entry_row.astype(np.int64),
        slot_of_z=slot_of_z.astype(np.int64),
        slot_multiplicity=size[slot_keys % row_token.size],
        slot_query=(slot_keys // row_token.size).astype(np.int64),
        row_token=row_token,
        row_of_token=row_of_token,
        output_token=output_token,
    )


def _with_query_rows(queries: Ints, row_of_token: Ints, row_token: Ints) -> tuple[Ints, Ints]:
    """Add a row for every query token that never occurs as a contextual token."""
    require_memory("a row of Y for each query", 8.0 * int(queries.max()), "smaller ids of queries")
    wider = np.full(max(row_of_token.size, int(queries.max()) + 1), -1, dtype=np.int64)
    wider[: row_of_token.size] = row_of_token
    missing = queries[wider[queries] < 0]
    wider[missing] = row_token.size + np.arange(missing.size)
    return wider, np.concatenate([row_token, missing])
