"""Adaptive runs with and without the reduction, against the bound that docs/how_to/numerics.md derives ("Symmetry").

In a step that is accepted the error estimate, a root mean square weighted by the shares w, is at most 1 in units of
tau = atol + rtol max|y|, so the estimate in value i is at most tau_i / sqrt(w_i). The full and the reduced run are both
made of such steps of one flow, so they differ in value i at time t at most by

    2 sum over steps k of (|G(t, t_k)| tau / sqrt(w))_i,

G(t, s) the derivative of the state at t by that at s. All of it is taken from the reduced run: G from runs with
perturbed starts.
"""

from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import integrate, log_times
from snapdyn.dynamics.integration.request import Clock
from snapdyn.dynamics.integration.solvers import NOTHING, DormandPrinceSolver
from snapdyn.dynamics.kernels.dormand_prince import Rows
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.reduction import reduced
from tests.dynamics.systems.helpers import random_other, random_system

RTOL, ATOL, SAVES = 1e-8, 1e-10, 15
SHIFT = 1e-5  # of a starting value


def states(small: System, start: np.ndarray, times: np.ndarray, rtol: float) -> tuple[np.ndarray, int]:
    """States (N, n) of a reduced system from any start, and the number of steps."""
    small.initial_state = lambda: start.copy()  # type: ignore[method-assign]
    solver = DormandPrinceSolver(small, Clock(None), float(times[-1]), rtol, 1e-2 * rtol)
    saved = np.empty((times.size, small.size))
    assert solver.advance(Rows(times, saved, NOTHING), 10**6) is None
    assert solver.saved == times.size
    return saved, solver.steps


def bound_of_difference(small: Any, times: np.ndarray) -> np.ndarray:
    """The bound above at each time, (N, n)."""
    start = small.initial_state()
    saved, steps = states(small, start, times, RTOL)
    derivative = np.empty((times.size, small.size, small.size))  # of the state by its start
    for i in range(small.size):
        up, down = (states(small, start + sign * SHIFT * np.eye(small.size)[i], times, 1e-11)[0] for sign in (1, -1))
        derivative[:, :, i] = (up - down) / (2 * SHIFT)
    tau = (ATOL + RTOL * np.abs(np.vstack([start, saved])).max(axis=0)) / np.sqrt(small.norm_weights)
    bound = np.empty_like(saved)
    for j in range(times.size):
        earlier = [np.eye(small.size), derivative[j]]
        earlier += [derivative[j] @ np.linalg.inv(derivative[k]) for k in range(j)]
        bound[j] = 2 * steps * np.max([np.abs(G) @ tau for G in earlier], axis=0)
    return bound


def end_times(system: System) -> np.ndarray:
    """Times to thirty units of the faster of the two rates."""
    return log_times(0.1, 30.0, SAVES) / (system.eta_Y * max(1.0, system.rate_ratio))


def reducible(seed: int) -> tuple[Any, Any]:
    """A random system that has equal values, and its reduction: some draws have none, then the next one is taken."""
    for draw in range(seed, seed + 10_000, 601):
        system = random_system(draw)[0] if draw % 6 == 5 else random_other(draw)[0]
        small = reduced(system)
        if small:
            return system, small
    raise AssertionError("no draw has equal values")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("ignore::snapdyn.dynamics.systems.finite_length.ExpansionWarning")
def test_runs_differ_less_than_two_errors(seed: int) -> None:
    """Assert the bound in every state value at fifteen times, for all systems; every sixth one is a MeanField.

    Half of it bounds the error of each run, here against steps that are not the same.
    """
    system, small = reducible(seed)
    times = end_times(system)
    full, ours = (
        integrate(system, times, "compiled", RTOL, ATOL, reduce=on, dense=True)(times) for on in (False, True)
    )
    exact = small.full_state(states(small, small.initial_state(), times, 1e-4 * RTOL)[0])
    bound = small.full_state(bound_of_difference(small, times))
    assert (np.abs(ours - full) <= bound).all()
    assert (np.abs(full - exact) <= bound / 2).all()
    assert bound.max() < 1e-3 * np.abs(full).max()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::snapdyn.dynamics.systems.finite_length.ExpansionWarning")
def test_a_wrong_count_exceeds_the_bound(seed: int) -> None:
    """Assert that a run with one count that is wrong by one differs by more than ten times the bound."""
    system, small = reducible(seed)
    times, start = end_times(system), small.initial_state()
    right, bound = states(small, start, times, RTOL)[0], bound_of_difference(small, times)
    lists, *rest = small.kernel_arguments()
    name = "root" if hasattr(lists, "root") else "share"
    changed = getattr(lists, name).copy()
    changed.ravel()[-1] += 1
    small.kernel_arguments = lambda: (lists._replace(**{name: changed}), *rest)
    assert (np.abs(states(small, start, times, RTOL)[0] - right) > 10 * bound).any()
