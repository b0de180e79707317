"""Systems on one value for all that stay equal, against the full systems."""

from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import (
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    integrate,
    log_times,
)
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.solvers import NOTHING, DormandPrinceSolver
from snapdyn.dynamics.kernels.dormand_prince import Rows
from snapdyn.dynamics.symmetry.reduction import reduced
from snapdyn.dynamics.systems.base import System
from tests.dynamics.symmetry.helpers import random_other, random_system


def drawn(seed: int) -> tuple[Any, bool]:
    """A random system, a MeanField every second time, and whether it has equal classes."""
    return random_other(seed // 2) if seed % 2 else random_system(seed // 2)


def rounding(system: System) -> float:
    """Largest relative difference that rounding leaves: of sums of a thousand terms, and of the inverse of G."""
    if not isinstance(system, ModifiedDecoder):
        return 1e-13
    return 1e-13 * float(np.linalg.cond(system.classes.gram(system.z_initial)))


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.kernel] if s < 8 else []) for s in range(24)])
def test_rates_are_those_of_the_full_system(seed: int) -> None:
    """Assert the rate, the loss and what is saved at a random symmetric state, and that equal classes are found."""
    system, symmetric = drawn(seed)
    small = reduced(system)
    if isinstance(system, FrozenDecoder):  # Y is integrated in place of the coefficients C: rates cannot be compared
        return
    if small is None:
        assert not symmetric
        return
    state = small.initial_state() + np.abs(np.random.default_rng(seed).normal(size=small.size))
    full_state = small.full_state(state)
    rate, full_rate = np.empty(small.size), np.empty(system.size)
    small.write_rate(state, rate)
    system.write_rate(full_state, full_rate)
    bound = rounding(system) * np.abs(full_rate).max()
    np.testing.assert_allclose(small.full_state(rate), full_rate, rtol=0, atol=bound)
    rel = 1e-13 if type(system) is MeanField else 1e-12
    assert small.loss(state) == pytest.approx(system.loss(full_state), rel=rel)
    assert np.array_equal(small.z_support(state), system.z_support(full_state))
    assert np.array_equal(small.full_state(small.initial_state()), system.initial_state())
    for name, violation in system.invariants(full_state).items():
        assert small.invariants(state)[name] == pytest.approx(violation, rel=1e-9)
    for name, values in system.extra(full_state).items():
        np.testing.assert_allclose(small.extra(state)[name], values, rtol=1e-12)
    assert len({small.value_name(i) for i in range(small.size)}) == small.size


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore::snapdyn.dynamics.systems.finite_length.ExpansionWarning")
def test_runs_are_those_of_the_full_system(seed: int) -> None:
    """Assert equal steps, and everything that is saved, to rounding that grows along the run.

    With frozen attention the quotient integrates Y in place of C, so that its steps are its own: its values differ by
    errors of both runs.
    """
    system, symmetric = drawn(seed)
    times = log_times(0.1, 30.0, 7) / max(system.eta_Y, system.eta_Y * system.rate_ratio)
    decoder, is_frozen = not isinstance(system, ModifiedDecoder), isinstance(system, FrozenDecoder)
    method = "DOP853" if isinstance(system, FiniteLengthMeanField) else "compiled"
    full, small = (integrate(system, times, save_decoder=decoder, method=method, reduce=on) for on in (False, True))
    assert full.status == small.status
    assert small.stats["full_state_size"] == full.stats["state_size"] == system.size
    assert not symmetric or small.stats["state_size"] < system.size or is_frozen
    assert is_frozen or small.stats["steps"] == full.stats["steps"]
    assert small.extra.keys() == full.extra.keys()
    tolerance = 1e-7 if is_frozen else 1e-9
    pairs = [(getattr(small, name), getattr(full, name)) for name in ("z", "attention", "loss", *["Y"] * decoder)]
    pairs += [(small.extra[name], full.extra[name]) for name in full.extra] + [(small(times), full(times))]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * (1 + np.nanmax(np.abs(theirs))))
    assert set(small.invariants) == set(full.invariants)
    assert all(values.max() < 1e-10 * (1 + np.abs(full.z).max()) for values in small.invariants.values())


# Adaptive runs with and without the reduction, against the bound that docs/how_to/numerics.md derives ("Symmetry").
#
# In a step that is accepted the error estimate, a root mean square weighted by the shares w, is at most 1 in units of
# tau = atol + rtol max|y|, so the estimate in value i is at most tau_i / sqrt(w_i). The full and the reduced run are
# both made of such steps of one flow, so they differ in value i at time t at most by
#
#     2 sum over steps k of (|G(t, t_k)| tau / sqrt(w))_i,
#
# G(t, s) the derivative of the state at t by that at s. All of it is taken from the reduced run: G from runs with
# perturbed starts.
RTOL, ATOL, SAVES = 1e-8, 1e-10, 15
SHIFT = 1e-5  # of a starting value


def states(small: System, start: np.ndarray, times: np.ndarray, rtol: float) -> tuple[np.ndarray, int]:
    """States (N, n) of a reduced system from any start, and the number of steps."""
    small.initial_state = lambda: start.copy()  # type: ignore[method-assign]
    solver = DormandPrinceSolver(small, Clock(None), float(times[-1]), rtol, 1e-2 * rtol)
    saved = np.empty((times.size, small.size))
    assert solver.advance(Rows(times, saved, NOTHING), 10**6)[0] == times.size
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
        # With frozen attention Y is integrated in place of C, in steps of its own.
        if small and not isinstance(system, FrozenDecoder):
            return system, small
    raise AssertionError("no draw has equal values")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::snapdyn.dynamics.systems.finite_length.ExpansionWarning")
def test_runs_differ_less_than_two_errors(seed: int) -> None:
    """Assert the bound in every state value at fifteen times, for all systems; every sixth one is a MeanField.

    Half of it bounds the error of each run, here against steps that are not the same.
    """
    system, small = reducible(seed)
    times = end_times(system)
    method = "DOP853" if isinstance(system, FiniteLengthMeanField) else "compiled"
    full, ours = (integrate(system, times, method, RTOL, ATOL, reduce=on)(times) for on in (False, True))
    exact = small.full_state(states(small, small.initial_state(), times, 1e-4 * RTOL)[0])
    bound = small.full_state(bound_of_difference(small, times))
    assert (np.abs(ours - full) <= bound).all()
    assert (np.abs(full - exact) <= bound / 2).all()
    assert bound.max() < 1e-3 * np.abs(full).max()


@pytest.mark.parametrize("seed", [5, 2])
@pytest.mark.filterwarnings("ignore::snapdyn.dynamics.systems.finite_length.ExpansionWarning")
def test_a_wrong_count_exceeds_the_bound(seed: int) -> None:
    """Assert that a run with one count that is wrong by one differs by more than the bound."""
    system = random_system(seed)[0] if seed % 6 == 5 else random_other(seed)[0]
    small: Any = reduced(system)
    times, start = end_times(system), small.initial_state()
    right, bound = states(small, start, times, RTOL)[0], bound_of_difference(small, times)
    lists, *rest = small.kernel_arguments()
    name = "root" if hasattr(lists, "root") else "drive"
    changed = getattr(lists, name).copy()
    changed.ravel()[-1] += 1
    small.kernel_arguments = lambda: (lists._replace(**{name: changed}), *rest)
    assert (np.abs(states(small, start, times, RTOL)[0] - right) > 10 * bound).any()
