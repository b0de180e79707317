"""The pairs (class, row of Y) of a layout, as the search for symmetries needs them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.refinement import number_shared_rows


class Incidence(Protocol):
    """What the search needs of a `Layout`: which class has which entries, rows of Y, logits and output columns."""

    @property
    def indptr(self) -> Ints: ...
    @property
    def entry_row(self) -> Ints: ...
    @property
    def entry_slot(self) -> Ints: ...
    @property
    def log_p(self) -> Floats: ...
    @property
    def multiplicity(self) -> Floats: ...
    @property
    def prior(self) -> Floats: ...
    @property
    def column(self) -> Ints: ...
    @property
    def query_row(self) -> Ints: ...
    @property
    def query_entry(self) -> Ints: ...
    @property
    def last_column_multiplicity(self) -> float: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_columns(self) -> int: ...


class Pairs(NamedTuple):
    """The entries of a layout; with the residual connection, the query token is one more entry, the last of a class."""

    indptr: Ints  # (S+1,) entries of class n are indptr[n]:indptr[n+1]
    row: Ints  # (entries,) row of Y
    slot: Ints  # (entries,) logit, -1 for the query token
    log_p: Floats  # (entries,) ln P, -inf for the query token
    multiplicity: Floats  # (entries,) tokens lumped into the row
    query_entry: Ints  # (S,) entry of the class that is the query token among the contextual ones, else -1
    shared_row: Ints  # (entries,) number of the row among the rows with several entries, -1 where it has one entry
    num_shared: int  # rows with several entries


def pairs(layout: Incidence) -> Pairs:
    """The pairs of a layout."""
    L = layout
    indptr, row, slot = L.indptr, L.entry_row, L.entry_slot
    log_p, multiplicity, query_entry = L.log_p, L.multiplicity, L.query_entry
    if L.query_row[0] >= 0:
        at = indptr[1:]
        row, slot = np.insert(row, at, L.query_row), np.insert(slot, at, -1)
        log_p, multiplicity = np.insert(log_p, at, -np.inf), np.insert(multiplicity, at, 1.0)
        classes = np.arange(indptr.size)
        query_entry = np.where(query_entry >= 0, query_entry + classes[:-1], -1)
        indptr = indptr + classes
    shared_row = np.empty(row.size, np.int64)
    num_shared = number_shared_rows(row, np.empty(L.num_rows, np.int64), shared_row)
    return Pairs(indptr, row, slot, log_p, multiplicity, query_entry, shared_row, num_shared)
