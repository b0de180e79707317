"""DOP853, compiled with the right-hand side: single steps as in scipy's solvers, or a whole trajectory in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.kernels import dormand_prince as kernel
from snapdyn.dynamics.kernels.dormand_prince_factored import advance_factored_mean_field
from snapdyn.dynamics.kernels.mean_field.factored import Entries, Factors
from snapdyn.dynamics.kernels.mean_field.general import LANES
from snapdyn.dynamics.memory import scratch
from snapdyn.dynamics.symmetry.systems import (
    FiniteLengthQuotient,
    FrozenDecoderQuotient,
    MeanFieldQuotient,
    ModifiedDecoderQuotient,
    ModifiedFlowQuotient,
)
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.layout import Bools, Layout
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder
from snapdyn.dynamics.systems.single_common_token import SingleCommonToken
from snapdyn.dynamics.systems.variational import MeanFieldSensitivity

# The systems whose right-hand side is compiled into the integrator: the compiled function, and whether the right-hand
# side returns the loss (for the mean field with three output columns see `compiled_integrator`). Subclasses are not
# included: they may change the right-hand side.
COMPILED_SYSTEMS: dict[type[System], tuple[Any, bool]] = {
    MeanField: (kernel.advance_mean_field, True),
    MeanFieldSensitivity: (kernel.advance_mean_field_sensitivity, False),
    FrozenDecoder: (kernel.advance_frozen_decoder, True),
    ModifiedDecoder: (kernel.advance_modified_decoder, False),
    MeanFieldQuotient: (kernel.advance_mean_field_quotient, True),
    FrozenDecoderQuotient: (kernel.advance_mean_field_quotient, True),
    ModifiedFlowQuotient: (kernel.advance_frozen_decoder, False),
    ModifiedDecoderQuotient: (kernel.advance_modified_decoder, False),
    FiniteLengthQuotient: (kernel.advance_finite_length_quotient, True),
    SingleCommonToken: (kernel.advance_single_common_token, False),
}
REASONS = {
    kernel.TOO_SMALL_STEP: "Required step size is less than spacing between numbers",
    kernel.NOT_FINITE: "the state is not finite",
}
NOTHING = np.empty(0)
# Measured (docs/how_to/integrators.md): from this size on, and with at least this share of rows of one class only.
LEAST_FACTORED_SIZE, LEAST_SHARE, FEWEST_COLUMNS = 30_000, 0.5, 16


def compiled_integrator(system: System) -> tuple[Any, bool]:
    """Return the integrator compiled with the right-hand side of `system`, and whether that returns the loss."""
    if type(system) is MeanField and system.layout.num_columns == 3:
        return kernel.advance_mean_field_of_three_columns, True
    return COMPILED_SYSTEMS.get(type(system)) or (system.integrator, False)


def is_compiled(system: System) -> bool:
    """Whether the right-hand side of `system` is compiled into the integrator."""
    return type(system) in COMPILED_SYSTEMS or system.integrator is not None


class DormandPrinceSolver:
    """DOP853 from t = 0 to `t_end` (> 0), with the attributes of scipy's solvers that `integrate` uses.

    Parameters
    ----------
    system : System
        One of `COMPILED_SYSTEMS`, or one with an `integrator` of its own.
    clock : Clock
        t or log(1 + t/t_s); `t`, `t_old` and `t_bound` below are values of this variable.
    t_end : float
        In batch-size-1 steps.
    rtol : float
    atol : float
    """

    def __init__(self, system: System, clock: Clock, t_end: float, rtol: float, atol: float) -> None:
        self._advance, self.knows_loss = compiled_integrator(system)
        self._arguments = system.kernel_arguments()
        self.t_bound = clock.from_time(t_end)
        self._work = kernel.new_workspace(
            system.initial_state(), self.t_bound, rtol, atol, clock.scale, system.norm_weights
        )
        self.status = "running"

    @property
    def t(self) -> float:
        return float(self._work.reals[kernel.TAU])

    @property
    def t_old(self) -> float:
        return float(self._work.reals[kernel.TAU_OLD])

    @property
    def y(self) -> Floats:
        """State at `t`, (n,); the second step from here overwrites it."""
        return self._work.vectors[self._work.where[kernel.STATE]]

    @property
    def steps(self) -> int:
        return int(self._work.counts[kernel.STEPS])

    @property
    def nfev(self) -> int:
        return int(self._work.counts[kernel.EVALUATIONS])

    def advance(self, save_at: Floats, saved: Floats, losses: Floats, most_steps: int) -> tuple[int, str | None]:
        """Make steps until the end, for `most_steps` steps, or until `saved` is full.

        Parameters
        ----------
        save_at : (N,) array
            All times to save at, in the integration variable, the same array in every call.
        saved : (rows, width) array
            Receives the first `width` state values at the next times.
        losses : (M,) array
            Receives the losses, M = rows; or none of them, M = 0. Only if `knows_loss`.
        most_steps : int

        Returns
        -------
        saved : int
            Number of times saved in this call.
        reason : str or None
            Why the solver failed.
        """
        before = int(self._work.counts[kernel.SAVED])
        outcome = self._advance(self._arguments, self._work, save_at, saved, losses, most_steps)
        if outcome == kernel.FINISHED:
            self.status = "finished"
        elif outcome in REASONS:
            self.status = "failed"
        return int(self._work.counts[kernel.SAVED]) - before, REASONS.get(outcome)

    def step(self) -> str | None:
        """Make one step; return the reason if it fails."""
        return self.advance(NOTHING, np.empty((0, self.y.size)), NOTHING, 1)[1]

    def dense_output(self) -> Callable[[float | Floats], Floats]:
        """States inside the last step, (n,) or (n, N), valid until the next step; only between calls of `step`."""
        if not self._work.counts[kernel.DENSE_MADE]:
            status = self.status
            self.advance(np.array([self.t_old]), np.empty((0, self.y.size)), NOTHING, 0)
            self.status = status

        def interpolate(tau: float | Floats) -> Floats:
            rows = np.empty((np.size(tau), self.y.size))
            for row, at in zip(rows, np.atleast_1d(tau), strict=True):
                kernel.dense_state(at, self._work, row)
            return rows[0] if np.ndim(tau) == 0 else rows.T

        return interpolate


def is_factored(system: System) -> bool:
    """Whether z of a system is integrated faster with the stage derivatives of Y as factors."""
    if type(system) is not MeanField or system.residual or system.size < LEAST_FACTORED_SIZE:
        return False
    layout = system.layout
    alone = int(np.count_nonzero(_rows_of_one_class(layout)))
    return layout.num_columns >= FEWEST_COLUMNS and alone >= LEAST_SHARE * layout.num_rows


def _rows_of_one_class(layout: Layout) -> Bools:
    """Which rows of Y only one class has an entry in, (num_rows,)."""
    return np.asarray(np.bincount(layout.entry_row, minlength=layout.num_rows) == 1)


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
        L = system.layout
        columns, alone = L.num_columns, _rows_of_one_class(L)
        is_alone = alone[L.entry_row]  # of each entry
        number, shared_number = np.cumsum(is_alone) - 1, np.cumsum(~alone) - 1
        self._rows, self._shared_rows = L.entry_row[is_alone], np.flatnonzero(~alone)
        self._entries = Entries(
            L.indptr,
            L.entry_slot,
            np.where(is_alone, -1, L.num_slots + shared_number[L.entry_row] * columns),
            np.where(is_alone, number, -1),
            L.log_p,
            L.multiplicity,
            L.column,
            L.prior,
            np.array([L.last_column_multiplicity, system.eta_Y, system.eta_Z]),
        )
        classes = np.repeat(np.arange(L.prior.size), np.diff(L.indptr))[is_alone]
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
        start = np.zeros(L.num_slots + self._shared_rows.size * columns)
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
