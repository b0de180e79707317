"""The decoder with frozen attention on representatives.

C' = eta_Y p_n (e_n - alpha_n) on every pair (class n, output), from the logits W = F^T F C. By way of Y = F C these are
sums of the mean field: row l of Y sums f_kl C_k over the classes k, W_n sums f_nl Y_l over the tokens l, and the
softmax of class n sums over its outputs. So the search for the mean field serves, with a logit for every entry, which
holds the start of the entry and is driven by it alone. In the modified flow W is C.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import first_members
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.frozen_decoder_lists import frozen_decoder_lists
from snapdyn.dynamics.kernels.frozen_decoder_quotient import frozen_decoder_quotient
from snapdyn.dynamics.memory import scratch
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.symmetry.search import FROZEN, colouring_of
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.layout import start_pattern


class FrozenIncidence(NamedTuple):
    """What the search needs of classes with frozen attention, as in `Layout`; every entry has a logit of its own."""

    indptr: Ints
    entry_row: Ints
    entry_slot: Ints
    log_p: Floats  # P itself: only equality counts
    multiplicity: Floats
    prior: Floats
    column: Ints
    query_row: Ints
    query_entry: Ints
    last_column_multiplicity: float
    num_rows: int
    num_columns: int


def frozen_incidence(system: FrozenDecoder) -> tuple[FrozenIncidence, Floats]:
    """The sums of the original flow of `system`, and the frozen logit of every entry."""
    classes, of = system.classes, system.classes.class_of_entry
    S, M = classes.num_classes, classes.num_tokens
    row = classes.P.indices.astype(np.int64)
    query_row, query_entry, num_rows = np.full(S, -1), np.full(S, -1), M
    if system.residual:
        query_row = np.where(classes.query < M, classes.query, M + classes.query_index)
        is_query = np.flatnonzero(row == classes.query[of])
        query_entry[of[is_query]] = is_query
        num_rows += classes.queries.size
    incidence = FrozenIncidence(
        classes.P.indptr.astype(np.int64), row, np.arange(row.size), classes.P.data.copy(), np.ones(row.size),
        classes.prior, classes.next_index.astype(np.int64), query_row, query_entry, float(system.columns[-1]),
        num_rows, system.columns.size,
    )  # fmt: skip
    return incidence, system.z_initial[classes.query_index[of], row]


def reduced_frozen_decoder(system: FrozenDecoder, at_most: float | None) -> ReducedFrozenDecoder | None:
    """The system on representatives, or None; `at_most` as in `search.colouring_of`."""
    classes = system.classes
    if system.modified:
        # Nothing couples the classes, and each has its own next token and V - 1 other outputs: the prior alone tells
        # them apart.
        of_class = np.unique(classes.prior, return_inverse=True)[1]
        C = 2 * of_class[:, None] + (np.arange(system.columns.size) == classes.next_index[:, None])
    else:
        incidence, start = frozen_incidence(system)
        colouring = colouring_of(classes, (FROZEN, system.residual), incidence, start, start_pattern(start), at_most)
        if colouring is None:
            return None
        C, of_class = colouring.output, colouring.sequence_class
    if at_most is not None and C.max() >= at_most * C.size:
        return None
    return ReducedFrozenDecoder(system, C, of_class)


class ReducedFrozenDecoder(ReducedSystem):
    """The decoder with frozen attention, one value of C per colour.

    Parameters
    ----------
    full : FrozenDecoder
    C : (S, columns) array
        Colours of its state, a balanced colouring.
    of_class : (S,) array
        Colours of the classes.
    """

    full: FrozenDecoder

    compiled = integrator_of(frozen_decoder_quotient, frozen_decoder_quotient)

    def __init__(self, full: FrozenDecoder, C: Ints, of_class: Ints) -> None:
        super().__init__(full, C.ravel())
        prior, num_outputs = full.classes.prior, self.size
        self._class = of_class
        number_of = np.bincount(self._class)
        representatives = np.empty(number_of.size, np.int64)
        first_members(self._class, representatives)
        ranges, own = np.empty((number_of.size, 2), np.int64), np.empty(number_of.size, np.int64)
        value, number = np.empty(num_outputs, np.int64), np.empty(num_outputs)
        begin, place = np.empty(num_outputs + 1, np.int64), np.full((2, num_outputs), -1)
        room = 10 * num_outputs  # mostly enough; the first round may only count
        while True:
            index, weight = np.empty(room, np.int64), np.empty(room)
            room = frozen_decoder_lists(
                representatives, C, full.classes.next_index, full.columns, full.mixing, place, ranges, own, value,
                number, begin, index, weight,
            )  # fmt: skip
            if room <= index.size:
                break
        self._constants = (
            ranges, own, np.stack([full.eta_Y * prior[representatives], number_of * prior[representatives]]), value,
            number, begin, index[:room], weight[:room],
        )  # fmt: skip
        self._arguments = self.kernel_arguments()

    def kernel_arguments(self) -> tuple[Any, ...]:
        return *self._constants, scratch(self.full.columns.size)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(frozen_decoder_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    @property
    def num_logit_values(self) -> int:
        return 1

    def z_support(self, state: Floats) -> Floats:
        return self.full.z_support(state)

    def extra(self, state: Floats) -> dict[str, Floats]:
        own, begin, index, weight = self._constants[1], *self._constants[5:]
        logits = [
            np.einsum(
                "...k,k->...", state.take(index[begin[j] : begin[j + 1]], axis=-1), weight[begin[j] : begin[j + 1]]
            )
            for j in own
        ]
        return {"own_logit": np.stack(logits, axis=-1).take(self._class, axis=-1)}
