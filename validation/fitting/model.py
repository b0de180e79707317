"""The theory as a function of its free parameters: observations, derivatives, covariance, and simulated training."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit, logit, stdtr, stdtrit  # of Student; importing scipy.stats takes half a second

from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.traces.clock import TraceClock
from snapdyn.dynamics.traces.noise import covariance_between_times
from snapdyn.dynamics.training.sensitivities import sensitivity
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.fitting import observations
from snapdyn.validation.fitting.result import (
    LEVEL_OF_DOUBT,
    Errors,
    Weights,
    covariance_of_estimates,
    noise_weights,
    p_value_with_allowance,
    visible_share,
)
from snapdyn.validation.rungs.run import FINITE_T, runs_on_rung

# Updates that the theory makes with its derivatives, compiled or not: seconds.
MOST_UPDATES, MOST_FINITE_LENGTH = 2_000_000, 10_000
RTOL = 1e-8
RUNS, DIRECTIONS = 200, 20  # of simulated training, and in which it is compared with the trace
MOST_DRAWS = 4e9  # of counts of tokens in simulated runs: about a minute
POINTS, LARGEST_FACTOR = 21, 30.0  # of a profile, and how far from the estimate it goes
NEAR = 5.0  # factor that the other parameters may move from one point of a profile to the next
FIRST_SEED = 2**40  # runs of the user have other seeds
SMALLEST_SCATTER = 1e-8  # relative; directions with less are rounding


@dataclass(frozen=True, eq=False)
class FitModel:
    """Observations of the theory at the records of a trace, as a function of parameters in unbounded coordinates.

    The coordinate of a rate and of the clock is its logarithm, that of common_probability its logit.

    Attributes
    ----------
    system : type of System
        Built as system(classes, eta_Y, eta_Z), with seq_len and z_initial where it takes them.
    classes : SequenceClasses
    free : tuple of str
        Among `observations.FREE`.
    fixed : mapping
        Values of the parameters that are not free.
    quantity : str
    t : (N,) array
        Times by the clock of the trace, batch-size-1 steps; the theory's time is `clock` times them.
    seq_len : int or None
    z_initial : (Q, M) array or None
    clock : TraceClock
    updates : (N,) array
        Updates at the records.
    flow : bool
        Whether the theory is the flow even if the steps of the trace are known.
    """

    system: type[System]
    classes: SequenceClasses
    free: tuple[str, ...]
    fixed: Mapping[str, float]
    quantity: str
    t: Floats
    seq_len: int | None
    z_initial: Floats | None
    clock: TraceClock
    updates: Floats
    flow: bool = False

    def values(self, coordinates: Floats) -> dict[str, float]:
        """Parameters by name, free and fixed, from the coordinates of the free ones."""
        found = dict(self.fixed)
        for name, x in zip(self.free, coordinates, strict=True):
            found[name] = float(expit(x) if name == "common_probability" else np.exp(x))
        return found

    def coordinates(self, values: Mapping[str, float]) -> Floats:
        """Coordinates of the free parameters (k,)."""
        return np.array([logit(values[n]) if n == "common_probability" else np.log(values[n]) for n in self.free])

    def unit(self, coordinates: Floats) -> Floats:
        """d(parameter)/d(coordinate) of the free parameters, (k,)."""
        values = self.values(coordinates)
        return np.array([values[n] * (1.0 - values[n] if n == "common_probability" else 1.0) for n in self.free])

    def classes_at(self, values: Mapping[str, float]) -> SequenceClasses:
        """Classes with the given common_probability; the profiles within common and within distinct tokens are kept."""
        share = values.get("common_probability")
        return self.classes if share is None else observations.with_common_probability(self.classes, share)

    def build(self, system: type[System], values: Mapping[str, float], **options: Any) -> Any:
        """Build a system at the parameters; the clock multiplies both rates."""
        clock, accepted = values.get("clock", 1.0), inspect.signature(system).parameters
        given = {"seq_len": self.seq_len, "z_initial": self.z_initial}
        options |= {name: value for name, value in given.items() if name in accepted and name not in options}
        constructor: Any = system
        return constructor(self.classes_at(values), clock * values["eta_Y"], clock * values["eta_Z"], **options)

    def evaluate(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Observations (N, m) and their derivatives with respect to the coordinates (k, N, m).

        They are those of finite steps, with the velocity of the heavy ball, if `makes_steps`; else those of the flow.
        """
        values = self.values(coordinates)
        system = self.build(self.system, values)
        wrt: list[Any] = ["eta_Y", "eta_Z"]
        if "common_probability" in self.free:
            wrt.append(("P", observations.common_direction(system.classes)))
        if not self.makes_steps:
            result = sensitivity(system, self.t, wrt, rtol=RTOL, atol=RTOL / 100)
        else:
            size = self.clock.rate_factor
            result = sensitivity(system, size * self.updates, wrt, step_size=size, momentum=self.clock.momentum)
        changes = observations.derivatives(result, self.quantity)
        of_rates = changes[:, :2] * np.array([system.eta_Y, system.eta_Z])[:, None]  # by the logarithms
        by_name = {"eta_Y": of_rates[:, 0], "eta_Z": of_rates[:, 1], "clock": of_rates.sum(axis=1)}
        if "common_probability" in self.free:
            by_name["common_probability"] = changes[:, 2]
        values_at_times = observations.of_theory(result.trajectory, self.quantity)
        return values_at_times, np.stack([by_name[name] for name in self.free])

    def predicted(self, coordinates: Floats) -> Floats:
        """Observations (N, m); their derivatives are computed as well only where this takes no more time."""
        if self.makes_steps:
            return self.evaluate(coordinates)[0]
        return observations.of_theory(self.run(self.system, self.values(coordinates), self.t), self.quantity)

    @property
    def knows_steps(self) -> bool:
        """Whether the training of the trace can be repeated: whole updates of the mean field, and not too many."""
        i = self.updates
        counted = self.clock.counts != "theory" and np.allclose(np.rint(i), i, rtol=0.0, atol=1e-6)
        return bool(counted) and i[-1] <= MOST_UPDATES and self.system in (MeanField, FiniteLengthMeanField)

    @property
    def makes_steps(self) -> bool:
        """Whether the theory makes the updates of the trace; not at finite length, where they are slow."""
        most = MOST_UPDATES if self.system is MeanField else MOST_FINITE_LENGTH
        return self.knows_steps and not self.flow and bool(self.updates[-1] <= most)

    @property
    def simulation_is_short(self) -> bool:
        """Whether runs of the training of the trace can be simulated, and take at most about a minute."""
        classes = self.classes
        sequences = classes.num_classes if self.seq_len is None else self.clock.batch_size
        tokens = sequences * classes.P.data.size / classes.num_classes
        return self.knows_steps and RUNS * float(self.updates[-1]) * tokens <= MOST_DRAWS

    def simulated(self, coordinates: Floats) -> Floats:
        """Observations (RUNS, N, m) of runs of SGD with the steps, batches and momentum of the trace."""
        values = self.values(coordinates)
        factor = self.clock.rate_factor * values.get("clock", 1.0)
        try:
            runs = runs_on_rung(
                FINITE_T, self.classes_at(values), factor * values["eta_Y"], factor * values["eta_Z"],
                np.rint(self.updates).astype(int), momentum=self.clock.momentum, seq_len=self.seq_len,
                batch_size=self.clock.batch_size, seed=range(FIRST_SEED, FIRST_SEED + RUNS),
                init="zeros" if self.z_initial is None else {"z": self.z_initial},
            )  # fmt: skip
        except RuntimeError as error:
            raise RuntimeError(
                f"a run that was simulated with the estimated parameters failed: {error}; use errors='seeds'"
            ) from error
        return np.array([observations.of_theory(run, self.quantity) for run in runs])

    def run(self, system: type[System], values: Mapping[str, float], t: Floats, **options: Any) -> Trajectory:
        """Trajectory of a system at the parameters, at times by the clock of the trace."""
        return whole_run(self.build(system, values), t, rtol=RTOL, atol=RTOL / 100, **options)

    def change(self, coordinates: Floats) -> Floats:
        """Observations minus those at t = 0, (N, m)."""
        run = self.run(self.system, self.values(coordinates), np.concatenate([[0.0], self.t]))
        found = observations.of_theory(run, self.quantity)
        return found[1:] - found[0]

    def weights(self, coordinates: Floats, num_seeds: int) -> Weights:
        """Weights of the mean of the seeds, from the noise at the parameters."""
        dependent = self.classes.num_classes if self.quantity == "attention" else 0
        covariance, squares = self.covariance(coordinates)
        if not np.isfinite(covariance).all():
            raise RuntimeError("the noise of the theory is not finite at the rates of the search")
        return noise_weights(covariance, squares, self.change(coordinates), self.t, num_seeds, dependent)

    def covariance(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Covariance (N m, N m) of the observations of one run, and the square (N,) of the expansion's parameter.

        The square is the variance of all state values together, plus the relative variance of the share of the rarest
        class among the sequences so far: at early times, Y is a sum and z a double sum over these sequences. The loss
        of a batch has in addition the variance from drawing its sequences.
        """
        values = self.values(coordinates)
        mean = self.build(FiniteLengthMeanField, values, lump=False, seq_len=self.seq_len)
        observe = observations.of_state(mean, self.quantity)
        covariance, variance = covariance_between_times(mean, self.clock, self.updates, observe)
        rarest = float(self.classes.prior.min())
        squares = variance + self.clock.noise_factor * (1.0 - rarest) / (rarest * self.t)
        if self.quantity == "loss":
            run = self.run(MeanField, values, self.t, save_decoder=True)
            losses, prior = OBSERVABLES["class_loss"].values(run), self.classes.prior
            covariance += np.diag(((losses - losses @ prior[:, None]) ** 2) @ prior) / self.clock.batch_size
        return covariance, squares


def least_weighted_squares(
    model: FitModel, data: Floats, weights: Weights | None, start: Floats, centre: Floats, reach: float
) -> Floats:
    """Coordinates of the smallest weighted sum of squares within a factor `reach` of `centre`."""

    @lru_cache(maxsize=1)
    def evaluated(*x: float) -> tuple[Floats, Floats]:
        values, J = model.evaluate(np.array(x))
        residual, matrix = (values - data).ravel(), J.reshape(len(x), -1).T
        if not np.isfinite(residual).all():
            raise RuntimeError("the theory is not finite at the rates of the search; give eta_Y and eta_Z")
        return (residual, matrix) if weights is None else (weights.whiten(residual), weights.whiten(matrix))

    lower, upper = centre - np.log(reach), centre + np.log(reach)
    solution = least_squares(
        lambda x: evaluated(*x)[0], np.clip(start, lower + 1e-6, upper - 1e-6), lambda x: evaluated(*x)[1],
        (lower, upper), "trf", xtol=1e-8, ftol=1e-10,
    )  # fmt: skip
    return solution.x


def profile(
    model: FitModel, x: Floats, target: Floats, weights: Weights | None, covariance: Floats, name: str
) -> tuple[Floats, Floats]:
    """Profile of the weighted squares of target (N, m) minus theory over one parameter, as `Fit.profile` returns it.

    `x` and `covariance` are the estimates and their covariance, in coordinates. The squares are scaled such that their
    curvature at the estimates agrees with `covariance`.
    """
    j, middle = model.free.index(name), POINTS // 2
    others = [i for i in range(x.size) if i != j]
    J = model.evaluate(x)[1].reshape(x.size, -1).T
    scale = covariance_of_estimates(J, weights)[j, j] / covariance[j, j]
    offsets = np.linspace(-1.0, 1.0, POINTS) * min(4.0 * np.sqrt(covariance[j, j]), np.log(LARGEST_FACTOR))
    points, squares = np.tile(x, (POINTS, 1)), np.full(POINTS, np.inf)
    points[:, j] += offsets
    for k in (*range(middle, -1, -1), *range(middle + 1, POINTS)):
        point, near = points[k], points[k if k == middle else k + 1 if k < middle else k - 1]
        point[others] = near[others]
        try:
            if others and k != middle:
                fixed = {**model.fixed, name: model.values(point)[name]}
                rest = replace(model, free=tuple(model.free[i] for i in others), fixed=fixed)
                point[others] = least_weighted_squares(rest, target, weights, near[others], near[others], NEAR)
            residual = (target - model.evaluate(point)[0]).ravel()
        except RuntimeError:
            continue
        r = residual if weights is None else weights.whiten(residual)
        squares[k] = r @ r
    return np.array([model.values(point)[name] for point in points]), scale * (squares - squares[middle])


def simulated_errors(
    model: FitModel, x: Floats, J: Floats, predicted: Floats, data: Floats, weights: Weights
) -> Errors:
    """Simulate the training of the trace at the estimates, and fit each run in the same way as the trace.

    With J the derivatives of the observations and L^-1 the whitening, the estimate from observations y moves by
    G (y - predicted), G = (L^-1 J)^+ L^-1, to first order in the change of the parameters. The noise enters exactly.

    There are two tests, and p is twice the smaller p value. One is the distance of the mean of the seeds from that of
    the runs, in the directions of largest scatter and in units of the scatter; the other is the test with the
    allowance in all directions. Where the noise cancels to first order, distances are not distributed as for normal
    numbers. So the logarithm of the distance is compared with the logarithms of the distances of each run from the
    mean of the other runs.

    Parameters
    ----------
    model : FitModel
    x : (k,) array
        Coordinates of the estimates.
    J : (N m, k) array
        Derivatives of the observations there.
    predicted : (N, m) array
        Observations of the theory at the estimates.
    data : (R', N, m) array
        Observations of the seeds of the trace.
    weights : Weights

    Returns
    -------
    Errors

    Raises
    ------
    RuntimeError
        A run diverged.
    """
    G = np.linalg.pinv(weights.whiten(J)) @ weights.inverse
    runs = model.simulated(x).reshape(RUNS, -1) - predicted.ravel()
    seeds = data.reshape(len(data), -1) - predicted.ravel()
    each = runs @ G.T
    share = 1.0 / len(data) + 1.0 / RUNS
    covariance = np.atleast_2d(np.cov(each, rowvar=False)) * share

    def left(values: Floats) -> Floats:
        """Whitened residuals, without the part that a change of the parameters explains."""
        return (values - (values @ G.T) @ J.T) @ weights.inverse.T

    around = left(runs)
    mean = around.mean(axis=0)
    rows, sizes, directions = np.linalg.svd(around - mean, full_matrices=False)
    q = int(min(DIRECTIONS, (sizes > SMALLEST_SCATTER * sizes[0]).sum()))
    unit = np.sqrt((RUNS - 1) / share) / sizes[:q]
    z, of_change = (unit * (directions[:q] @ v) for v in (left(seeds).mean(axis=0) - mean, left(weights.change)))
    # Without the run itself in mean and scatter (Sherman and Morrison's formula).
    h = (rows[:, :q] ** 2).sum(axis=1)
    others = h * (RUNS / (RUNS - 1)) * (RUNS - 2) / (1.0 - h * RUNS / (RUNS - 1))
    logs = np.log(others)
    scale = logs.std(ddof=1) * np.sqrt(1.0 + 1.0 / RUNS)
    score = (np.log(z @ z) - logs.mean()) / scale
    critical = np.exp(logs.mean() - scale * stdtrit(RUNS - 1, LEVEL_OF_DOUBT / 2))
    misfit = visible_share(of_change @ of_change, critical - np.exp(logs).mean())
    resolved = float(stdtr(RUNS - 1, -score))
    everywhere = p_value_with_allowance(seeds - runs.mean(axis=0), J, weights)
    p_value = min(1.0, 2.0 * min(resolved, everywhere))
    shift = runs.mean(axis=0).reshape(predicted.shape)
    return Errors(covariance, np.zeros(x.size), p_value, q, misfit, shift, each.mean(axis=0))
