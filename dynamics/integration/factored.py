"""The compiled integrator for a large mean field of which only z is saved."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.dormand_prince import REASONS, DormandPrinceSolver
from snapdyn.dynamics.kernels import dormand_prince as kernel
from snapdyn.dynamics.kernels.dormand_prince_factored import advance_factored_mean_field
from snapdyn.dynamics.kernels.mean_field.factored import Entries, Factors
from snapdyn.dynamics.kernels.mean_field.general import LANES
from snapdyn.dynamics.symmetry.pairs import pairs
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.layout import scratch
from snapdyn.dynamics.systems.mean_field import MeanField

# Measured (docs/how_to/integrators.md): from this size on, and with at least this share of rows of one class only.
LEAST_SIZE, LEAST_SHARE, FEWEST_COLUMNS = 30_000, 0.5, 16


def is_factored(system: System) -> bool:
    """Whether z of a system is integrated faster with the stage derivatives of Y as factors."""
    if type(system) is not MeanField or system.residual or system.size < LEAST_SIZE:
        return False
    layout = system.layout
    alone = int(np.count_nonzero(np.bincount(layout.entry_row) == 1))
    return layout.num_columns >= FEWEST_COLUMNS and alone >= LEAST_SHARE * layout.num_rows


class FactoredMeanFieldSolver(DormandPrinceSolver):
    """As `DormandPrinceSolver`, for whole runs of which logits alone are saved.

    Parameters
    ----------
    system : MeanField
        Without residual connection.
    clock : Clock
    t_end : float
        In batch-size-1 steps.
    rtol : float
    atol : float
    """

    knows_loss = False

    def __init__(self, system: MeanField, clock: Clock, t_end: float, rtol: float, atol: float) -> None:
        L, p = system.layout, pairs(system.layout)
        columns, is_alone = L.num_columns, p.shared_row < 0
        number = np.cumsum(is_alone) - 1
        self._rows = p.row[is_alone]
        self._shared_rows = np.empty(p.num_shared, np.int64)
        self._shared_rows[p.shared_row[~is_alone]] = p.row[~is_alone]
        self._entries = Entries(
            p.indptr,
            p.slot,
            np.where(is_alone, -1, L.num_slots + p.shared_row * columns),
            np.where(is_alone, number, -1),
            p.log_p,
            p.multiplicity,
            L.column,
            L.prior,
            np.array([L.last_column_multiplicity, system.eta_Y, system.eta_Z]),
        )
        classes = np.repeat(np.arange(L.prior.size), np.diff(p.indptr))[is_alone]
        stages = kernel.ALL_STAGES
        self._factors = Factors(
            np.zeros((2, self._rows.size, columns)),
            np.zeros(1, np.int64),
            np.empty((stages, self._rows.size)),
            np.empty((stages, L.prior.size, columns)),
            classes,
            np.concatenate([[0], np.cumsum(np.bincount(classes, minlength=L.prior.size))]),
            np.empty(self._rows.size),
        )
        width = max(L.max_support + LANES, stages)
        self._scratch = scratch(4, width), np.zeros(stages, np.int64), np.zeros(stages), np.array([1.0, 0.0, 0.0, 0.0])
        start = np.zeros(L.num_slots + p.num_shared * columns)
        start[: L.num_slots] = system.initial_logits
        self.t_bound = clock.from_time(t_end)
        self._work = kernel.new_workspace(start, self.t_bound, rtol, atol, clock.scale)
        self.status = "running"
        self._system = system

    @property
    def y(self) -> Floats:
        """State at `t`, (n,), in the order of the system."""
        L = self._system.layout
        values = self._work.vectors[self._work.where[kernel.STATE]]
        state = np.empty(self._system.size)
        state[: L.num_slots] = values[: L.num_slots]
        Y = state[L.num_slots :].reshape(L.num_rows, L.num_columns)
        Y[self._shared_rows] = values[L.num_slots :].reshape(-1, L.num_columns)
        Y[self._rows] = self._factors.Y[self._factors.side[0]]
        return state

    def advance(self, save_at: Floats, saved: Floats, losses: Floats, most_steps: int) -> tuple[int, str | None]:
        """As `DormandPrinceSolver.advance`, without losses; `saved` (rows, width), width at most the logits."""
        before = int(self._work.counts[kernel.SAVED])
        outcome = advance_factored_mean_field(
            self._entries, self._factors, self._scratch, self._work, save_at, saved, most_steps
        )
        if outcome == kernel.FINISHED:
            self.status = "finished"
        elif outcome in REASONS:
            self.status = "failed"
        return int(self._work.counts[kernel.SAVED]) - before, REASONS.get(outcome)
