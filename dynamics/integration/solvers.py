"""Solvers with `advance`, which makes many steps in a call: the compiled DOP853, and those with `step`, as in scipy.

This module also writes the messages of runs whose solver fails or would take very long: at which time, in which
quantity, what to try.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from snapdyn.core.memory import MOST_OF_A_RUN
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.cvode import CVODESolver
from snapdyn.dynamics.integration.request import LARGEST_DENSE_JACOBIAN, Problem
from snapdyn.dynamics.kernels import dormand_prince as kernel
from snapdyn.dynamics.systems.base import System

REASONS = {
    kernel.TOO_SMALL_STEP: "Required step size is less than spacing between numbers",
    kernel.NOT_FINITE: "the state is not finite",
}
NOTHING = np.empty(0)
NO_SAMPLES = kernel.Rows(NOTHING, np.empty((0, 1)), NOTHING)
IMPLICIT_OF_SCIPY = ("LSODA", "BDF", "Radau")  # they take a Jacobian
STEP_IN_PYTHON = 1.2e5  # multiplications that take as long as the part of Python in one evaluation, some 30 us
# A jump is known up to rounding: the rate sees times up to this relative distance before it, and from there after it.
BESIDE = 1e-14
AFTER_THE_START = 1e-300  # the first time that the rate sees if it jumps at t = 0
STEP_AT_JUMP = 1e-12  # of t: how far a step is taken to reach that has vanished
# A solution slides along a jump of the rate if the jump lies within REACH steps, at two looks SECOND_LOOK steps apart,
# and more than CHATTERING such steps are left.
REACH, SECOND_LOOK, CHATTERING, HALVINGS = 100.0, 100, 1e5, 60
FIRST_LOOK = 2000  # steps; later looks follow at twice as many steps each


def new_solver(problem: Problem) -> Any:
    """Solver at t = 0."""
    if problem.integrator:
        return DormandPrinceSolver(problem)
    method, request, system = problem.method, problem.request, problem.system
    if method != "CVODE":
        import scipy.integrate  # takes a third of a second, and the compiled integrator does not need it

        from snapdyn.dynamics.integration.scipy_solvers import LSODA, RKC

        kind = {"LSODA": LSODA, "RKC": RKC}.get(method) or getattr(scipy.integrate, method)

    def begin(problem: Problem, start: float, state: Floats, end: float) -> Any:
        tolerances = {"rtol": request.rtol, "atol": request.atol}
        if method == "CVODE":
            write_rate, product = problem.in_variable(system.write_rate_at), system.jacobian_product()
            write_product = problem.in_variable(product) if product else None
            return CVODESolver(
                write_rate, write_product, start, state, end, **tolerances, max_step=request.max_step or 0.0
            )
        options: dict[str, Any] = {"max_step": request.max_step or np.inf}
        if method in IMPLICIT_OF_SCIPY and system.has_jacobian and system.size <= LARGEST_DENSE_JACOBIAN:
            options["jac"] = problem.jacobian
        elif method == "LSODA":  # a diagonal Jacobian: the full one would allocate n^2 numbers
            options |= {"lband": 0, "uband": 0}
        return kind(problem.derivative, start, state, end, **tolerances, **options)

    return SteppedSolver(begin, problem)


class Piece(NamedTuple):
    """A part of a run without jumps of the rate: its end, and the first and last time that the rate may see in it."""

    end: float
    first: float
    last: float


def pieces_of(problem: Problem) -> list[Piece]:
    """Parts of a run between the times at which the rate jumps."""
    jumps, t_end = problem.jumps, problem.t_end
    if not jumps.size:
        return [Piece(t_end, 0.0, math.inf)]
    ends = np.append(jumps[(jumps > 0.0) & (jumps < t_end)], t_end)
    begins = np.append(0.0, ends[:-1])
    first = np.where(np.isin(begins, jumps), begins * (1.0 + BESIDE) + AFTER_THE_START, 0.0)
    last = np.where(np.isin(ends, jumps), ends * (1.0 - BESIDE), math.inf)
    return [Piece(*map(float, each)) for each in zip(ends, first, last, strict=True) if each[1] < each[2]]


class SteppedSolver:
    """Solvers with `step`, one for each part of a run without jumps, behind the `advance` of the compiled integrator.

    Parameters
    ----------
    begin : callable
        ``begin(problem, start, state, end)`` makes the solver of a part.
    problem : Problem

    Attributes
    ----------
    t, t_old, t_bound : float
        Values of the integration variable: at the end and at the start of the last step, and at the end of the run.
    status : str
        "running", "finished" or "failed".
    steps, saved, sampled, nfev : int
        Accepted steps, times saved, samples taken and evaluations since t = 0.
    """

    knows_loss = False

    def __init__(self, begin: Callable[..., Any], problem: Problem) -> None:
        self._begin, self._problem, self._pieces = begin, problem, pieces_of(problem)
        self.steps = self.saved = self.sampled = self._evaluations = 0
        self.t_bound = problem.clock.from_time(problem.t_end)
        self.status, self._is_at_end = "running", False
        self._next(0.0, problem.system.initial_state())

    def _next(self, start: float, state: Floats) -> None:
        piece = self._pieces.pop(0)
        part = replace(self._problem, first=piece.first, last=piece.last)
        self._solver = self._begin(part, start, state, part.clock.from_time(piece.end))
        self.t, self.y = start, state
        self._interpolant: Callable[[Floats], Floats] | None = None
        self._is_at_start = True

    @property
    def nfev(self) -> int:
        return self._evaluations + int(self._solver.nfev)

    def advance(self, saves: kernel.Rows, most_steps: int, samples: kernel.Rows = NO_SAMPLES) -> str | None:
        """Make steps and saves, as `DormandPrinceSolver.advance` does."""
        rows, row, place, last = len(saves.states), 0, 0, self.steps + most_steps
        while True:
            ends = saves.at.size if self._is_at_end else int(np.searchsorted(saves.at, self.t, side="right"))
            part = saves.at[self.saved : min(ends, self.saved + rows - row)]
            if part.size:
                saves.states[row : row + part.size] = self._states(part)[:, : saves.states.shape[1]]
                row, self.saved = row + part.size, self.saved + part.size
            if self.saved < ends:  # the rows are full
                return None
            if self._is_at_end:
                self.status = "finished"
            if self.status == "finished" or self.steps == last:
                return None
            if samples.at.size and place == samples.at.size:
                return None
            if reason := self._step():
                self.status = "failed"
                return reason
            if samples.at.size:
                step = slice(place, place + kernel.SAMPLES)
                samples.at[step] = np.linspace(self.t_old, self.t, kernel.SAMPLES + 1)[1:]
                samples.states[step] = self._states(samples.at[step])
                place, self.sampled = place + kernel.SAMPLES, self.sampled + kernel.SAMPLES

    def _step(self) -> str | None:
        """Make one step; return the reason if it fails."""
        if self._solver.status == "finished":
            self._evaluations = self.nfev
            self._next(self.t, self.y)
        try:
            with warnings.catch_warnings():  # of a failure, which is reported with its time and quantity instead
                warnings.simplefilter("ignore", UserWarning)  # LSODA
                warnings.simplefilter("ignore", RuntimeWarning)  # BDF, Radau: a matrix is singular: the step is halved
                reason: str | None = self._solver.step()
        except ValueError as error:  # of the rate, of a matrix that holds NaN, of a step that is repeated for ever
            return str(error)
        self.t_old, self.t, self.y = self.t, float(self._solver.t), self._solver.y
        if self._solver.status == "failed" or not np.isfinite(self.y).all():
            return reason or "the state is not finite"
        self.steps, self._interpolant, self._is_at_start = self.steps + 1, None, False
        self._is_at_end = self._solver.status == "finished" and not self._pieces
        return None

    def _states(self, at: Floats) -> Floats:
        """States (N, size) at N increasing values of the integration variable up to the end of the last step."""
        inside = 0 if self._is_at_start else int(np.searchsorted(at, self.t))
        states = np.empty((at.size, self.y.size))
        states[inside:] = self.y
        if inside:
            if self._interpolant is None:
                self._interpolant = self._solver.dense_output()
            states[:inside] = self._interpolant(at[:inside]).T
        return states


class DormandPrinceSolver:
    """DOP853, compiled, with attributes that are named as in scipy's solvers.

    Parameters
    ----------
    problem : Problem
        Its system has an `integrator`, and its last time is above 0. The attributes `t` and `t_bound` are values of its
        integration variable; its largest step is one of this variable too.
    """

    def __init__(self, problem: Problem) -> None:
        system, request, self._clock = problem.system, problem.request, problem.clock
        assert system.integrator is not None
        self._advance, self.knows_loss, _ = system.integrator
        self._arguments, self._pieces = system.kernel_arguments(), pieces_of(problem)
        start = system.initial_state()
        self.t_bound = self._clock.from_time(problem.t_end)
        vectors = np.empty((kernel.VECTORS, start.size))
        vectors[kernel.STATE] = start
        scale, longest = self._clock.scale or 0.0, request.max_step or math.inf
        reals = np.array((0.0, 0.0, 0.0, self.t_bound, request.rtol, request.atol, scale, 0.0, longest, 0.0, np.inf))
        where, counts = kernel.START_WHERE.copy(), kernel.START_COUNTS.copy()
        weights = kernel.START_WEIGHTS.copy()
        self._work = kernel.Workspace(vectors, where, reals, counts, weights, system.norm_weights)
        self.status = "running"
        self._next()
        self._read()

    def _next(self) -> None:
        """Begin the next part of the run, at its first step."""
        piece, reals = self._pieces.pop(0), self._work.reals
        reals[kernel.END] = self._clock.from_time(piece.end)
        reals[kernel.FIRST], reals[kernel.LAST] = piece.first, piece.last
        self._work.counts[kernel.STARTED] = 0

    def _read(self) -> None:
        """Take over where the last step begins and ends, and what is counted since t = 0."""
        work = self._work
        self.t, self.t_old = work.reals[: kernel.TAU_OLD + 1].tolist()
        self.steps, self.nfev, self.saved, _, _, self.sampled = work.counts.tolist()
        self.y: Floats = work.vectors[work.where[kernel.STATE]]  # (n,); the second step from here overwrites it

    def advance(self, saves: kernel.Rows, most_steps: int, samples: kernel.Rows = NO_SAMPLES) -> str | None:
        """Make steps until the end, for `most_steps` steps, or until rows are full.

        Parameters
        ----------
        saves : Rows
            All times to save at, in the integration variable and the same in every call, and rows for those not yet
            saved. Losses are computed only if `knows_loss`.
        most_steps : int
        samples : Rows
            Rows for `SAMPLES` points of every step, given in every call or in none.

        Returns
        -------
        str or None
            Why the solver failed.
        """
        saved, sampled, counts = self.saved, self.sampled, self._work.counts
        outcome = self._advance(self._arguments, self._work, saves, samples, most_steps)
        while outcome == kernel.FINISHED and self._pieces:
            self._next()
            done, full = counts[kernel.SAVED] - saved, counts[kernel.SAMPLED] - sampled
            if samples.at.size and full == samples.at.size:
                break  # the next call samples the next part
            left = kernel.Rows(saves.at, saves.states[done:], saves.losses[done:])
            more = kernel.Rows(*(each[full:] for each in samples))
            outcome = self._advance(self._arguments, self._work, left, more, most_steps)
        self._read()
        if outcome == kernel.FINISHED and not self._pieces:
            self.status = "finished"
        elif outcome in REASONS:
            self.status = "failed"
        return REASONS.get(outcome)


def failure_message(solver: Any, problem: Problem, reason: str | None) -> str:
    """Explain a failure by the state value that is not finite, or that changes fastest relative to its tolerance.

    Parameters
    ----------
    solver : object
        A solver from `new_solver`, after its last step.
    problem : Problem
        Has the tolerances; not every solver of scipy keeps them.
    reason : str or None
        The solver's message; None if the state is not finite.

    Returns
    -------
    str
    """
    state, derivative, request = solver.y, problem.derivative, problem.request
    t = problem.clock.to_time(solver.t)
    bad = np.flatnonzero(~np.isfinite(state))
    if bad.size == 0:
        with np.errstate(all="ignore"):
            rate = np.abs(derivative(solver.t, state)) / (request.atol + request.rtol * np.abs(state))
            after = derivative(solver.t * (1.0 + 1e-13), state)
        bad, later = np.flatnonzero(~np.isfinite(rate)), np.flatnonzero(~np.isfinite(after))
        if bad.size or later.size:
            worst = int(bad[0] if bad.size else later[0])
            trouble = "its rate is not finite" + ("" if bad.size else " just after")
        else:
            worst, trouble = int(np.argmax(rate)), "it changes fastest relative to its tolerance"
            # Implicit methods of scipy shrink their step at a jump until it vanishes.
            step = max(abs(solver.t - solver.t_old), STEP_AT_JUMP * abs(solver.t))
            jumping = _jump_ahead(derivative, solver.t, state, REACH * step)
            if reason and jumping is not None:
                return _sliding_message(problem.system, jumping, t, "the step vanishes there")
    else:
        worst, trouble = int(bad[0]), "it is not finite"
    return (
        f"failed at t = {t:.6g} in {problem.system.value_name(worst)} ({trouble}): "
        f"{(reason or 'the state is not finite').rstrip('.')}; try smaller rates, a looser rtol, or another method"
    )


class Outlook:
    """Estimates the evaluations that are left, and ends a run without `most_evaluations` if they are too many.

    The estimate assumes that each further growth of t by a factor e takes as many evaluations as such a growth took
    between the last two estimates. This is about right where steps grow with t, as the dynamics slow down. Where steps
    do not grow, the estimate is a lower bound.

    Parameters
    ----------
    solver : object
        A solver from `new_solver`.
    problem : Problem
        Its request has the limit.
    """

    def __init__(self, solver: Any, problem: Problem) -> None:
        self._solver, self._problem, self._t_end = solver, problem, problem.t_end
        self._may_chatter = bool(problem.request.most_evaluations)
        one = problem.system.multiplications + (0.0 if problem.integrator else STEP_IN_PYTHON)
        self._most = math.inf if self._may_chatter else MOST_OF_A_RUN / one
        self.next_look = FIRST_LOOK  # in steps
        self._t, self._evaluations = 0.0, 0
        self._suspected: tuple[int, float] | None = None  # steps, and the integration variable

    def look(self, steps: int, t: float) -> str:
        """Message if the run must end after `steps` steps, at time t, since too many evaluations are left; else ""."""
        if steps < self.next_look:
            return ""
        if sliding := "" if self._may_chatter else self._sliding(steps):
            return sliding
        if self._suspected:
            return ""
        evaluations = int(self._solver.nfev)
        left = 0.0
        if t > self._t > 0.0:
            left = (evaluations - self._evaluations) * math.log(self._t_end / t) / math.log(t / self._t)
        self.next_look, self._t, self._evaluations = 2 * steps, t, evaluations
        if left <= self._most:
            return ""
        method = "" if self._problem.method == "CVODE" else "method='CVODE', "
        return (
            f"stopped at t = {t:.4g} after {evaluations} evaluations of the right-hand side, since the rest to t_end = "
            f"{self._t_end:.4g} was estimated to take {left:.2g}, more than the limit of {self._most:.2g}; try {method}"
            "a looser rtol, slower rates or an earlier last time, or give most_evaluations to run on"
        )

    def _sliding(self, steps: int) -> str:
        """Message if the steps chatter across a jump of the rate, as a second look after some more steps confirms."""
        solver, problem = self._solver, self._problem
        before, self._suspected = self._suspected, None
        step = solver.t - solver.t_old
        if before:
            step = max(step, (solver.t - before[1]) / (steps - before[0]))
        if solver.t_bound - solver.t < CHATTERING * step:
            return ""
        jumping = _jump_ahead(problem.derivative, solver.t, solver.y, REACH * (solver.t - solver.t_old))
        if jumping is None:
            return ""
        if not before:
            self._suspected, self.next_look = (steps, solver.t), steps + SECOND_LOOK
            return ""
        steps_there = f"the steps chatter across it, {step:.1g} each"
        advice = ", or give most_evaluations to run on"
        return _sliding_message(problem.system, jumping, problem.clock.to_time(solver.t), steps_there) + advice


def _sliding_message(system: System, jumping: int, t: float, steps_there: str) -> str:
    return (
        f"stopped at t = {t:.6g}: the solution slides along a jump of the rate of {system.value_name(jumping)}, and "
        f"{steps_there}; make the jump smooth, such as tanh(x/width) in place of sign(x), or state the sliding motion"
    )


def _jump_ahead(rate: Callable[[float, Floats], Floats], tau: float, state: Floats, distance: float) -> int | None:
    """Index of the state value whose rate jumps between a state and the one that its rate leads to, or None.

    Halving the way between the two states tells a jump from a steep rate: across a jump, the difference of the rates
    stays, however close the states are (half of it, where the rate has a value in between at the jump itself). Across a
    pole it grows.
    """
    with np.errstate(all="ignore"):
        here = rate(tau, state).copy()
        ahead = state + distance * here
        one, other = (state, here), (ahead, rate(tau, ahead).copy())
        difference = np.abs(other[1] - here).max()
        for _ in range(HALVINGS):
            middle = 0.5 * (one[0] + other[0])
            if (middle == one[0]).all() or (middle == other[0]).all():
                break
            half = middle, rate(tau, middle).copy()
            if np.abs(half[1] - one[1]).max() > np.abs(other[1] - half[1]).max():
                other = half
            else:
                one = half
        jump = np.abs(other[1] - one[1])
    stays = np.isfinite(jump).all() and 0.0 < difference < 4.0 * jump.max() < 16.0 * difference
    return int(np.argmax(jump)) if stays else None
