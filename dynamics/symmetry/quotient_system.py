"""A system of one value per colour of the mean field: rates, loss and conserved sums from a `Quotient`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.mean_field.quotient import mean_field_quotient
from snapdyn.dynamics.memory import scratch
from snapdyn.dynamics.symmetry.quotient import Quotient, RowSums
from snapdyn.dynamics.systems.base import ConservedSum, System

COMPILED = integrator_of(mean_field_quotient, mean_field_quotient)
SMALL_TABLE = 10_000  # numbers; products with a sparse matrix cost ten microseconds in Python


class QuotientSystem(System):
    """The mean field on the values of a quotient; a subclass says how observables follow from them.

    Parameters
    ----------
    quotient : Quotient
    row_sums : RowSums or callable
        The row sums, or a function that makes them: a run needs them once it is checked.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    """

    def __init__(
        self, quotient: Quotient, row_sums: RowSums | Callable[[], RowSums], eta_Y: float, eta_Z: float
    ) -> None:
        self.quotient = q = quotient
        self._row_sums = row_sums
        self.eta_Y, self.eta_Z = eta_Y, eta_Z
        self.size = q.size
        # Share of each state value in mean squares over the full state, which decide on a step.
        self.norm_weights = q.number / q.number.sum()
        lists = (q.ranges, q.classes, q.share, q.entry_slot, q.entries, q.output_number, q.term_index, q.terms)
        # The kernel is compiled once, for one memory order.
        self._constants = (*map(np.ascontiguousarray, lists), np.array([eta_Y, eta_Z]))

    @cached_property
    def row_sums(self) -> RowSums:
        """The different row sums of z and Y."""
        sums = self._row_sums if isinstance(self._row_sums, RowSums) else self._row_sums()
        small = sums.y.shape[0] * self.size <= SMALL_TABLE
        return RowSums(_dense(sums.z), _dense(sums.y), sums.y_number) if small else sums

    @cached_property
    def _width(self) -> int:
        lengths = self.quotient.ranges[:, 1:4:2] - self.quotient.ranges[:, :4:2]
        return int(lengths.max())

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_arguments()

    @property
    def rate_ratio(self) -> float:
        return self.eta_Z / self.eta_Y

    def initial_state(self) -> Floats:
        return self.quotient.start.copy()

    def kernel_arguments(self) -> tuple[Any, ...]:
        return *self._constants, scratch(3, self._width)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(mean_field_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    @property
    def num_logit_values(self) -> int:
        return self.quotient.num_slots

    def invariants(self, state: Floats) -> dict[str, Floats]:
        sums, change = self.row_sums, self._change(state)
        return {
            "row sum of Y": np.abs((sums.y @ state.T).T).max(axis=-1),
            "row sum of Z": np.abs((sums.z @ change.T).T).max(axis=-1),
        }

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        sums, change = self.row_sums, np.abs(self._change(state))
        rows = (sums.y @ np.abs(state).T).T
        length = np.sqrt(rows**2 @ sums.y_number)  # as in `MeanField.conserved_sums`
        z = (sums.z @ change.T).T.max(axis=-1) + self.rate_ratio * (1.0 + length) ** 2
        terms = self.quotient.terms.shape[1]
        return {
            "row sum of Y": ConservedSum(terms, float(sums.y.sum(axis=1).max()), rows.max(axis=-1)),
            "row sum of Z": ConservedSum(terms, float(sums.z.sum(axis=1).max()), z),
        }

    def _change(self, state: Floats) -> Floats:
        change = state.copy()
        change[..., : self.quotient.num_slots] -= self.quotient.start[: self.quotient.num_slots]
        return change


def _dense(table: scipy.sparse.csr_array | Floats) -> Floats:
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())
