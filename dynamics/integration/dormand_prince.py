"""DOP853, compiled with the right-hand side: single steps as in scipy's solvers, or a whole trajectory in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.kernels import dormand_prince as kernel
from snapdyn.dynamics.symmetry.finite_length import ReducedFiniteLength
from snapdyn.dynamics.symmetry.frozen_decoder import ReducedFrozenDecoder
from snapdyn.dynamics.symmetry.modified_decoder import ReducedModifiedDecoder
from snapdyn.dynamics.symmetry.reduced_mean_field import ReducedMeanField
from snapdyn.dynamics.symmetry.symmetric_mean_field import SymmetricMeanField
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
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
    ReducedMeanField: (kernel.advance_mean_field_quotient, True),
    FrozenDecoder: (kernel.advance_frozen_decoder, True),
    ReducedFrozenDecoder: (kernel.advance_frozen_decoder_quotient, True),
    ModifiedDecoder: (kernel.advance_modified_decoder, False),
    ReducedModifiedDecoder: (kernel.advance_modified_decoder_quotient, False),
    ReducedFiniteLength: (kernel.advance_finite_length_quotient, True),
    SymmetricMeanField: (kernel.advance_mean_field_quotient, True),
    SingleCommonToken: (kernel.advance_single_common_token, False),
}
REASONS = {
    kernel.TOO_SMALL_STEP: "Required step size is less than spacing between numbers",
    kernel.NOT_FINITE: "the state is not finite",
}
NOTHING = np.empty(0)


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
