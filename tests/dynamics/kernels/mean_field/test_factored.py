"""The integrator with stage derivatives as factors, against the one with whole vectors."""

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, integrate, log_times
from snapdyn.dynamics.integration import methods
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.methods import plan_run
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.integration.solvers import NOTHING, DormandPrinceSolver, FactoredMeanFieldSolver
from snapdyn.dynamics.kernels.dormand_prince import Rows
from snapdyn.dynamics.kernels.mean_field.factored import FACTORED

SOLVERS = (FactoredMeanFieldSolver, DormandPrinceSolver)


def jittered(seed: int) -> SequenceClasses:
    """Classes of several queries with unequal priors, common tokens, and distinct ones of which some are lumped."""
    rng = np.random.default_rng(seed)
    S, common, distinct = 12, 2, 4
    P = np.zeros((S, common + S * distinct))
    for n in range(S):
        P[n, :common] = rng.uniform(0.1, 1.0, common)
        own = P[n, common + n * distinct :][:distinct]
        own[:] = rng.uniform(0.1, 1.0, distinct)
        own[0] = own[1]
    P /= P.sum(axis=1, keepdims=True)
    query = P.shape[1] + np.arange(S) % 3
    return SequenceClasses(P, query, P.shape[1] + 3 + np.arange(S), rng.uniform(0.5, 2.0, S), vocab_size=200)


def is_factored(system: MeanField) -> bool:
    return plan_run(system, Request([1.0], z_only=True, reduce=False)).integrator is FACTORED


def states(solver: DormandPrinceSolver, times: np.ndarray, width: int, steps_at_once: int) -> np.ndarray:
    """Logits at the times, by calls of so many steps."""
    saved, filled = np.empty((times.size, width)), 0
    while solver.status == "running":
        filled += solver.advance(Rows(times, saved[filled:], NOTHING), steps_at_once)[0]
    assert filled == times.size
    return saved


@pytest.mark.parametrize(
    ("seed", "scale", "eta_Z"), [pytest.param(0, None, 0.5, marks=pytest.mark.kernel), (1, 0.5, 2.0), (0, None, 100.0)]
)
def test_runs_are_those_of_whole_vectors(seed: int, scale: float | None, eta_Z: float) -> None:
    """Assert equal steps, and logits and the last state equal to rounding, in t and in log time.

    Where attention is fast, steps are rejected, and rounding of error estimates may move one or two of them.
    """
    classes = jittered(seed)
    start = np.zeros((3, classes.num_tokens))
    start[:, ::5] = seed * np.random.default_rng(seed).normal(size=start[:, ::5].shape)
    system = MeanField(classes, 1.0, eta_Z, z_initial=start)
    clock, times = Clock(scale), np.append(0.0, log_times(0.1, 100.0, 30))
    at = times if scale is None else np.array([clock.from_time(t) for t in times])
    ours, theirs = (solver(system, clock, float(times[-1]), 1e-8, 1e-10) for solver in SOLVERS)
    assert np.array_equal(ours.y, system.initial_state())
    z, expected = (states(each, at, system.num_logit_values, 10**6) for each in (ours, theirs))
    rejected = eta_Z == 100.0
    assert not rejected or theirs.nfev > 12 * theirs.steps + 2 + 3
    assert abs(ours.steps - theirs.steps) <= 2 * rejected
    # Rounding of a sum of a hundred terms in each of some hundred evaluations.
    tolerance = 1e-6 if rejected else 1e-11
    np.testing.assert_allclose(z, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    np.testing.assert_allclose(ours.y, theirs.y, rtol=0, atol=tolerance * np.abs(theirs.y).max())
    again = FactoredMeanFieldSolver(system, clock, float(times[-1]), 1e-8, 1e-10)
    assert np.array_equal(states(again, at, system.num_logit_values, 1), z)


def test_integrate_takes_it_for_large_systems_and_logits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert which runs are made with factors, and that they give the logits of the others."""
    system, times = MeanField(jittered(1), 1.0, 1.0), [1.0, 100.0]
    expected = integrate(system, times, z_only=True)
    assert not is_factored(system)
    monkeypatch.setattr(methods, "LEAST_FACTORED_SIZE", system.size)
    monkeypatch.setattr(methods, "FEWEST_COLUMNS", system.layout.num_columns)
    assert is_factored(system)
    assert not is_factored(MeanField(jittered(1), 1.0, 1.0, residual=True))
    run = integrate(system, times, z_only=True)
    np.testing.assert_allclose(run.z, expected.z, rtol=0, atol=1e-11 * np.abs(expected.z).max())
    assert integrate(system, times, z_only=True, most_evaluations=30).status == "failed"
    assert integrate(system, times, save_decoder=True).Y is not None
