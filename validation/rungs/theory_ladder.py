"""The ladder of a theory of one's own, made again at other step sizes: orders in the step size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics import System, Trajectory, descend, descend_samples, momentum_clock
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.errors import InputError, whole
from snapdyn.validation.rungs.gaps import Ladder
from snapdyn.validation.rungs.names import DESCENT, STOCHASTIC
from snapdyn.validation.rungs.runs import ladder_run
from snapdyn.validation.statistics import Order, fit_order

# Gaps below this are the errors of the flow's integration (rtol 1e-8), not of the steps.
EXACT = 1e-7


@dataclass(frozen=True, eq=False)
class FittedOrder:
    """Order of a rung's approximation in the step size h, fitted at a fixed time of the flow.

    Attributes
    ----------
    rung : str
        "descent": largest difference from the flow. "stochastic": spread of the seeds, root of the mean variance.
    parameter : (N,) array
        Step sizes.
    gap : (N,) array
        Relative to the largest change of the state on the flow.
    expected : float
        1 for descent, 1/2 for the spread.
    order : Order
        The fit.
    """

    rung: str
    parameter: Floats
    gap: Floats
    expected: float
    order: Order

    @property
    def agrees(self) -> bool:
        """Whether the fitted order is the expected one, within a margin that separates neighbouring orders."""
        return self.order.agrees(self.expected)


@dataclass(frozen=True, eq=False)
class TheoryLadder(Ladder):
    """A ladder of `ladder_of`, which knows how to make its rungs at other step sizes.

    Attributes
    ----------
    system : System or None
    step_size : float
    momentum : float
    sample_update : callable or None
    seeds : int
    seed : int
    steps : (N,) array of int or None
        Steps at which the rungs are compared.
    """

    system: System | None = None
    step_size: float = 1.0
    momentum: float = 0.0
    sample_update: Callable[..., Any] | None = None
    seeds: int = 20
    seed: int = 0
    steps: Ints | None = None

    def orders(self, halvings: int = 4, seeds: int | None = None) -> dict[str, FittedOrder]:
        """Halve the step size, at fixed times of the flow, and fit the orders of descent and of the stochastic rung.

        Parameters
        ----------
        halvings : int
            Number of halvings, at least 3.
        seeds : int, optional
            Seeds at each step size; default 10 times those of the ladder.

        Returns
        -------
        dict of str to FittedOrder
            By rung; a rung that the ladder does not have is left out, and so is descent where it equals the flow to the
            tolerance of the integration.

        Raises
        ------
        InputError
            Samples that do not differ between seeds.

        Examples
        --------
        >>> import snapdyn as sd, sympy
        >>> u = sympy.Symbol("u")
        >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u})
        >>> sd.ladder_of(decay, [1.0], step_size=0.1).orders()["descent"].agrees
        True
        """
        whole("halvings", halvings, 3)
        names = {rung.name for rung in self.rungs} & {DESCENT, STOCHASTIC}
        if self.system is None or self.steps is None or not names:
            return {}
        seeds = 10 * self.seeds if seeds is None else whole("seeds", seeds, 2)
        sizes: Floats = self.step_size * 0.5 ** np.arange(halvings + 1.0)
        gaps, spreads, errors = np.zeros((3, sizes.size))
        for k, size in enumerate(sizes):
            record = self.steps * 2**k
            times = size * momentum_clock(record, self.momentum)
            flow = _kept(ladder_run(self.system, times))
            change = float(np.abs(flow - self.system.initial_state()).max()) or 1.0
            arguments = (int(record[-1]), float(size))
            if DESCENT in names:
                run = descend(self.system, *arguments, self.momentum, record)
                gaps[k] = np.abs(_kept(run) - flow).max() / change
            if STOCHASTIC in names and self.sample_update is not None:
                first = self.seed + self.seeds + k * seeds
                runs = descend_samples(
                    self.system, self.sample_update, *arguments, range(first, first + seeds), self.momentum, record
                )
                assert isinstance(runs, list)
                states = np.array([_kept(run) for run in runs])
                variance = ((states - states.mean(axis=0)) ** 2).reshape(seeds, -1).mean(axis=1) * seeds / (seeds - 1)
                spreads[k] = np.sqrt(variance.mean()) / change
                errors[k] = variance.std(ddof=1) / np.sqrt(seeds) / (2 * np.sqrt(variance.mean())) / change
        found = {}
        if STOCHASTIC in names and not (errors > 0).all():
            raise InputError(
                "expected samples that differ between seeds, received runs without spread; draw from rng in "
                "sample_update"
            )
        if DESCENT in names and gaps.max() > EXACT:
            found[DESCENT] = FittedOrder(DESCENT, sizes, gaps, 1.0, fit_order(sizes, gaps, next_order=1.0))
        if STOCHASTIC in names:
            order = fit_order(sizes, spreads, errors, next_order=1.0)
            found[STOCHASTIC] = FittedOrder(STOCHASTIC, sizes, spreads, 0.5, order)
        return found


def _kept(run: Trajectory) -> Floats:
    """States of a complete run; its message as an error otherwise."""
    if not run.success:
        raise InputError(f"expected runs to the last time, received one that {run.message}")
    return run.require_state()
