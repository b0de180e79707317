"""The mean field on representatives: a system of one value per colour that looks like the full one."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.mean_field.quotient import mean_field_quotient
from snapdyn.dynamics.symmetry.colouring import Colouring, balanced_colouring
from snapdyn.dynamics.symmetry.quotient import quotient
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.layout import scratch
from snapdyn.dynamics.systems.mean_field import MeanField

# "auto" looks for symmetries in systems of at least this many state values: below, a run takes about as long as the
# search. It keeps a reduction to at most half of the values.
LEAST_SIZE, LARGEST_SHARE = 1000, 0.5


class ReducedMeanField(System):
    """The mean field of one value per colour; observables are those of the full system, lifted.

    Parameters
    ----------
    full : MeanField
    colouring : Colouring
        A balanced colouring of its state.
    """

    def __init__(self, full: MeanField, colouring: Colouring) -> None:
        self.full, self.colouring = full, colouring
        self.classes, self.z_initial, self.parameters = full.classes, full.z_initial, full.parameters
        self.eta_Y, self.eta_Z = full.eta_Y, full.eta_Z
        self.quotient = q = quotient(full.layout, colouring, full.initial_state()[: full.layout.num_slots])
        self.size = q.size
        # Share of each state value in the root mean square of the full state.
        self.norm_weights: Floats = q.number / q.number.sum()
        lists = (q.ranges, q.classes, q.share, q.entry_slot, q.entries, q.output_number, q.term_index, q.terms)
        self._constants = (*lists, np.array([self.eta_Y, self.eta_Z]))
        lengths = q.ranges[:, 1::2] - q.ranges[:, ::2]
        self._width = int(lengths[:, :2].max())
        self._arguments = self.kernel_arguments()

    @property
    def name(self) -> str:
        return self.full.name

    @property
    def rate_ratio(self) -> float:
        return self.full.rate_ratio

    def initial_state(self) -> Floats:
        return self.quotient.start.copy()

    def full_state(self, state: Floats) -> Floats:
        num_slots = self.quotient.num_slots
        logits = state[..., :num_slots].take(self.colouring.slot, axis=-1)
        values = state[..., num_slots:].take(self.colouring.value.ravel(), axis=-1)
        return np.concatenate([logits, values], axis=-1)

    def kernel_arguments(self) -> tuple[Any, ...]:
        return *self._constants, scratch(3, self._width)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(mean_field_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    @property
    def num_logit_values(self) -> int:
        return self.quotient.num_slots

    @cached_property
    def _slot_of_z(self) -> Ints:
        return np.asarray(self.colouring.slot[self.full.layout.slot_of_z])

    def z_support(self, state: Floats) -> Floats:
        return state.take(self._slot_of_z, axis=-1)

    def decoder(self, state: Floats) -> Floats:
        return state[..., self.quotient.num_slots :].take(self.colouring.value, axis=-1)

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.full.decoder_ids()

    @cached_property
    def _sums(self) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
        """Row sums of Z and of Y as sparse matrices over the state, one row per different sum."""
        L, q = self.full.layout, self.quotient
        columns = np.ones(L.num_columns)
        columns[-1] = L.last_column_multiplicity
        z = scipy.sparse.coo_array((L.slot_multiplicity, (L.slot_query, self.colouring.slot)), (
            int(L.slot_query.max()) + 1, q.size))  # fmt: skip
        rows = np.unique(np.sort(self.colouring.value, axis=1), axis=0, return_index=True)[1]
        values = self.colouring.value[rows] + q.num_slots
        number = np.repeat(np.arange(rows.size), L.num_columns)
        y = scipy.sparse.coo_array((np.tile(columns, rows.size), (number, values.ravel())), (rows.size, q.size))
        return z.tocsr(), y.tocsr()

    def invariants(self, state: Floats) -> dict[str, Floats]:
        z, y = self._sums
        q = self.quotient
        change = state.copy()
        change[..., : q.num_slots] -= q.start[: q.num_slots]
        return {
            "row sum of Y": np.abs((y @ state.T).T).max(axis=-1),
            "row sum of Z": np.abs((z @ change.T).T).max(axis=-1),
        }

    def value_name(self, index: int) -> str:
        q, L = self.quotient, self.full.layout
        if index < q.num_slots:
            return self.full.value_name(int(np.flatnonzero(self.colouring.slot == index)[0]))
        first = int(np.flatnonzero(self.colouring.value.ravel() == index - q.num_slots)[0])
        return self.full.value_name(L.num_slots + first)


def reduced(system: System, at_most: float | None = None) -> ReducedMeanField | None:
    """The system on representatives.

    Parameters
    ----------
    system : System
    at_most : float, optional
        Largest share of the state values that may remain.

    Returns
    -------
    ReducedMeanField or None
        None for a system that is no MeanField, without symmetries, or with too few of them. The answer is kept with
        the system, so that a second run does not look again.
    """
    if type(system) is not MeanField:
        return None
    most = system.size - 1.0 if at_most is None else at_most * system.size
    if most not in system.reductions:
        colouring = balanced_colouring(system.layout, system.initial_state()[: system.layout.num_slots], most)
        system.reductions[most] = None if colouring is None else ReducedMeanField(system, colouring)
    return system.reductions[most]
