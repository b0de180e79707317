"""Errors of a fit from runs of SGD, simulated at its estimates: noise of any size, with the shift that it causes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as t_distribution

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.traces.clock import TraceClock
from snapdyn.validation.fitting import observations
from snapdyn.validation.fitting.model import FitModel
from snapdyn.validation.fitting.residuals import MOST_COMPONENTS, Weights, p_value_with_allowance
from snapdyn.validation.rungs.run import FINITE_T, runs_on_rung

RUNS = 200
FIRST_SEED = 2**40  # runs of the user have other seeds
SMALLEST_SCATTER = 1e-8  # relative; directions with less are rounding


@dataclass(frozen=True)
class SimulatedErrors:
    """What R simulated runs say of the estimates.

    Attributes
    ----------
    shift : (n,) array
        Mean of the runs minus the prediction, descent on the expectation: what the noise adds to the mean.
    bias : (k,) array
        What this adds to the estimates, in their coordinates.
    covariance : (k, k) array
        Of the estimates from the mean of the seeds of the trace, after the bias is taken off.
    p_value : float
    degrees : int
    """

    shift: Floats
    bias: Floats
    covariance: Floats
    p_value: float
    degrees: int


def simulated_errors(
    model: FitModel, x: Floats, clock: TraceClock, updates: Floats, predicted: Floats, data: Floats, weights: Weights
) -> SimulatedErrors:
    """Simulate the training of the trace at the estimates, and estimate from each run as from the trace.

    With J the derivatives of the observations and L^-1 the whitening, the estimate from observations y moves by
    G (y - predicted), G = (L^-1 J)^+ L^-1, to first order in the change of the parameters. The noise enters exactly.

    Two tests, of which the smaller p value counts twice: the distance of the mean of the seeds from that of the runs,
    in the directions of largest scatter and in units of the scatter, and the test with the allowance in all
    directions. Where the noise cancels to first order, distances are not those of normal numbers. So the logarithm of
    the distance is compared with those of the runs, each from the mean of the others.

    Parameters
    ----------
    model : FitModel
    x : (k,) array
        Coordinates of the estimates.
    clock : TraceClock
    updates : (N,) array
        Updates at the records.
    predicted : (N, m) array
        Observations at the estimates, of the theory corrected for finite steps.
    data : (R', N, m) array
        Those of the seeds of the trace.
    weights : Weights

    Returns
    -------
    SimulatedErrors

    Raises
    ------
    RuntimeError
        A run diverged.
    """
    J = model.evaluate(x)[1].reshape(x.size, -1).T
    G = np.linalg.pinv(weights.whiten(J)) @ weights.inverse
    runs = simulated_runs(model, x, clock, updates).reshape(RUNS, -1) - predicted.ravel()
    seeds = data.reshape(len(data), -1) - predicted.ravel()
    each = runs @ G.T
    share = 1.0 / len(data) + 1.0 / RUNS
    covariance = np.atleast_2d(np.cov(each, rowvar=False)) * share

    def left(values: Floats) -> Floats:
        """Whitened residuals, after the estimate from them is taken off."""
        return (values - (values @ G.T) @ J.T) @ weights.inverse.T

    around = left(runs)
    mean = around.mean(axis=0)
    rows, sizes, directions = np.linalg.svd(around - mean, full_matrices=False)
    q = int(min(MOST_COMPONENTS, (sizes > SMALLEST_SCATTER * sizes[0]).sum()))
    z = directions[:q] @ (left(seeds).mean(axis=0) - mean) * np.sqrt((RUNS - 1) / share) / sizes[:q]
    # Without the run itself in mean and scatter (Sherman and Morrison's formula).
    h = (rows[:, :q] ** 2).sum(axis=1)
    others = h * (RUNS / (RUNS - 1)) * (RUNS - 2) / (1.0 - h * RUNS / (RUNS - 1))
    logs = np.log(others)
    score = (np.log(z @ z) - logs.mean()) / (logs.std(ddof=1) * np.sqrt(1.0 + 1.0 / RUNS))
    resolved = float(t_distribution.sf(score, RUNS - 1))
    everywhere = p_value_with_allowance(seeds - runs.mean(axis=0), J, weights)
    p_value = min(1.0, 2.0 * min(resolved, everywhere))
    return SimulatedErrors(runs.mean(axis=0), each.mean(axis=0), covariance, p_value, q)


def simulated_runs(model: FitModel, x: Floats, clock: TraceClock, updates: Floats) -> Floats:
    """Observations (RUNS, N, m) of runs of SGD with the steps, batches and momentum of the trace."""
    values = model.values(x)
    factor = clock.rate_factor * values.get("clock", 1.0)
    rates, record = (factor * values["eta_Y"], factor * values["eta_Z"]), np.rint(updates).astype(int)
    options = model.training(clock) | {"seq_len": model.seq_len, "batch_size": clock.batch_size}
    options["seed"] = range(FIRST_SEED, FIRST_SEED + RUNS)
    try:
        runs = runs_on_rung(FINITE_T, model.classes_at(values), *rates, record, **options)
    except RuntimeError as error:
        raise RuntimeError(f"a run simulated at the estimates {error}; use errors='seeds'") from error
    return np.array([observations.of_theory(run, model.quantity) for run in runs])
