"""The answer to a fit: estimates with weights from the noise, and the test of what is left."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats
from snapdyn.validation.fitting.bootstrap import (
    DRAWS,
    FEWEST_RUNS,
    FLOOR,
    LEVEL,
    REFERENCE,
    RUNS_PER_SEED,
    Judgement,
    Noise,
    judged,
    noise_of_runs,
    noise_of_seeds,
    weighted,
)
from snapdyn.validation.fitting.problem import SMALLEST_CHANGE, Problem
from snapdyn.validation.fitting.theories import LINEAR, Progress, Theory, least_deviation

REACH = 5.0  # factor from the start within which a search stays
SMALLEST_SHARE = 1e-6  # change of a column, in its unit, below which its error is that of this change
SAME = 0.1  # distance of minima that are one
ROUNDS, NEAR = 3, 0.5  # of simulated runs, until the estimates move by less than this times their errors
HOPELESS = 1e4  # squares of whitened residuals, 1 for a right theory, beyond which no further runs are simulated
POINTS, LARGEST_FACTOR = 21, 30.0  # of a profile, and how far from the estimate it goes
LARGEST_RELATIVE_ERROR = 0.5  # of a parameter that is determined
LARGE_SHIFT = 0.03  # of the mean by the noise, as a share of the change, whose derivatives enter the errors
SHIFT_STEP = 0.15  # of their differences, in coordinates
GRID = 200  # times at which the change of the theory is followed
PROGRESS_OF_BUMPS, WIDTH = (0.25, 0.5, 0.75), 0.7  # where smooth misfits lie, and their width in ln t


class Minimum(NamedTuple):
    """A minimum of the sum of squares, without weights, and whether the search ended at its limit."""

    square: float
    x: Floats
    far: bool


class Answer(NamedTuple):
    """Estimates x in coordinates; expected curves (N, m) of the mean of the seeds; noise, test, and the search.

    `weights` are those of the residuals, (q, n) of contrasts or (n,) of values.
    """

    x: Floats
    expected: Floats
    noise: Noise
    weights: Floats
    test: Judgement
    minima: list[Minimum]
    far: bool

    @property
    def covariance(self) -> Floats:
        """Covariance (k, k) of the estimates."""
        return self.noise.covariance(self.weights)

    def undetermined(self, theory: Theory) -> dict[str, float]:
        """Free parameters that the trace does not determine, with the standard errors of their coordinates."""
        deviations = np.sqrt(np.diagonal(self.covariance))
        return {
            name: float(deviation)
            for name, deviation in zip(theory.free, deviations, strict=True)
            if deviation > LARGEST_RELATIVE_ERROR and theory.scales[name] is not LINEAR
        }

    @property
    def units(self) -> Floats:
        """(k,) variances of the estimates over those at which the weighted squares rise by 1 at one standard error."""
        A = weighted(self.weights, self.noise.J)
        return np.diagonal(self.covariance) / np.diagonal(np.linalg.pinv(A.T @ A))


def minima_of(problem: Problem) -> list[Minimum]:
    """Minima of the sum of squares from the starts, the least first.

    Early curves determine only eta_Y eta_Z, so the sum of squares has a valley along the ratio of the rates, with
    several minima.
    """
    found: list[Minimum] = []
    problem = replace(problem, theory=problem.theory.for_search)
    nothing = np.zeros(problem.values.shape[1:])
    for start in problem.starts:
        try:
            x, far = least(problem, problem.plain, nothing, start)
            square = square_of(problem.plain * (problem.mean - problem.records.flat(problem.theory.curves(x))))
        except RuntimeError:
            continue
        if all(np.abs(x - other.x).max() > SAME for other in found):
            found.append(Minimum(square, x, far))
    if not found:
        raise RuntimeError("the theory cannot be integrated from any start of the search")
    return sorted(found, key=lambda minimum: minimum.square)


def answer_of(problem: Problem, minima: list[Minimum], progress: Progress | None) -> Answer:
    """Estimates with weights from the noise at the estimates, and their test.

    These weights are large where runs hardly differ. That is right for runs of the theory, but drives the estimates far
    off for other traces. So the estimates of a theory that is rejected are those of plain least squares.
    """
    x = before = minima[0].x
    first, diverged = None, False
    for _ in range(ROUNDS):
        try:
            noise, shift = _noise(problem, x, progress)
        except RuntimeError:  # where the weights have led
            if first is None:
                raise
            x, diverged = before, True
            break
        first = first or (noise, shift)
        before = x
        x, far = least(problem, noise.weights, shift, before)
        left = weighted(noise.weights, problem.mean - problem.records.flat(problem.theory.curves(x) + shift))
        if square_of(left) > HOPELESS * left.size:
            break
        if (np.abs(x - before) < NEAR * np.sqrt(np.diagonal(noise.covariance(noise.weights)))).all():
            break
    answer = _judged(problem, x, noise, shift, noise.weights, minima, far)
    if diverged:  # the estimates have not settled, so that nothing can be tested
        return answer._replace(test=replace(answer.test, misfit=np.inf))
    if answer.test.p_value >= LEVEL or first is None:
        return answer
    noise, shift = first
    x, at_limit = least(problem, problem.plain, shift, minima[0].x)
    plain = _judged(problem, x, noise, shift, problem.plain, minima, at_limit or minima[0].far)
    misfits = [plain.test.misfit]
    if plain.undetermined(problem.theory):  # at the other minima there may be more noise
        for other in minima[1:]:
            try:
                noise, shift = _noise(problem, other.x, progress)
            except RuntimeError:  # runs that diverge hide every misfit
                misfits.append(np.inf)
                continue
            misfits.append(_judged(problem, other.x, noise, shift, problem.plain, minima, other.far).test.misfit)
    return plain._replace(test=replace(plain.test, p_value=answer.test.p_value, misfit=max(misfits)))


def _noise(problem: Problem, x: Floats, progress: Progress | None) -> tuple[Noise, Floats]:
    """Noise at the coordinates x, and what it adds to the expected curves, (N, m)."""
    theory, records = problem.theory, problem.records
    curves, derivatives = theory.curves(x), theory.derivatives(x)
    J, changes = records.flat(derivatives).T, np.concatenate([[curves - theory.start(x)], derivatives])
    if idle := [name for name, each in zip(theory.free, J.T, strict=True) if not each.any()]:
        raise InputError(
            f"expected a trace that depends on {idle[0]}, received {', '.join(sorted(set(problem.names))[:3])}, which "
            "does not; leave it out of free"
        )
    change = np.abs(changes[0]).max(axis=0)
    floor = FLOOR * np.maximum(change, SMALLEST_SHARE * problem.unit)[records.column]
    shift, J_mean = np.zeros_like(curves), J
    if problem.errors == "seeds":
        residuals = records.flat(problem.values - curves)
        return noise_of_seeds(residuals, 1.0 / problem.plain, floor, records, changes, J), shift
    count = max(FEWEST_RUNS, RUNS_PER_SEED * len(problem.values))
    require_memory(f"{count} simulated runs", 8.0 * (count + 5 * DRAWS) * curves.size, "fewer records or seeds")
    rounding = theory.rounding(x, DRAWS)
    runs = theory.simulated(x, count, progress)
    if problem.shifts:
        shift = runs.mean(axis=0) - curves
        if np.abs(shift).max() > LARGE_SHIFT * change.max():
            J_mean = J + records.flat(_slopes_of_shift(problem, x)).T
    rounded = records.flat(np.broadcast_to(rounding, (len(rounding), *curves.shape)))
    return noise_of_runs(records.flat(runs), rounded, floor, records, changes, J, J_mean), shift


def _slopes_of_shift(problem: Problem, x: Floats) -> Floats:
    """Derivatives (k, N, m) of the shift by the coordinates: differences of runs of the same seeds."""

    def shift(x: Floats) -> Floats:
        return problem.theory.simulated(x, REFERENCE).mean(axis=0) - problem.theory.curves(x)

    return np.array([(shift(x + move) - shift(x - move)) / (2 * SHIFT_STEP) for move in SHIFT_STEP * np.eye(x.size)])


def least(problem: Problem, weights: Floats, shift: Floats, start: Floats) -> tuple[Floats, bool]:
    """Coordinates with the least weighted square, and whether the search ended at its limit."""
    target = problem.mean - problem.records.flat(shift)
    return least_deviation(
        problem.theory, lambda curves: weighted(weights, target - problem.records.flat(curves)), start, REACH
    )


def _judged(
    problem: Problem, x: Floats, noise: Noise, shift: Floats, weights: Floats, minima: list[Minimum], far: bool
) -> Answer:
    expected = problem.theory.curves(x) + shift
    residuals = problem.mean - problem.records.flat(expected)
    if problem.errors == "seeds":
        noise, _ = _noise(problem, x, None)
    return Answer(x, expected, noise, weights, judged(noise, residuals, _bumps(problem, x)), minima, far)


def _bumps(problem: Problem, x: Floats) -> Floats:
    """Smooth misfits (b, n) as large as the whole change, at times at which parts of the change are made.

    They depend on the theory and on the last record, not on the records between, so that the misfits that traces with
    more and with fewer records notice can be compared.
    """
    theory, records = problem.theory, problem.records
    try:
        t = np.geomspace(1e-4, 1.0, GRID) * theory.t[-1]
        change = theory.flow(x, t) - theory.start(x)
    except RuntimeError:  # finite steps may be stable where the flow is too stiff
        t, change = theory.t, theory.curves(x) - theory.start(x)
    size = np.abs(change)
    whole_change = change[size.argmax(axis=0), np.arange(size.shape[1])]
    done = np.maximum.accumulate((size / problem.unit).sum(axis=1))
    if done[-1] < SMALLEST_CHANGE:
        raise RuntimeError("the theory does not move up to the last record")
    centres = np.log(t[[int(np.searchsorted(done, share * done[-1])) for share in PROGRESS_OF_BUMPS]])
    return whole_change[records.column] * np.exp(-0.5 * ((records.log_t - centres[:, None]) / WIDTH) ** 2)


def square_of(values: Floats) -> float:
    return float(values @ values)


def profile_of(problem: Problem, answer: Answer, name: str) -> tuple[Floats, Floats]:
    """Profile of the weighted squares over one parameter, as `Fit.profile` returns it."""
    theory, x = problem.theory, answer.x
    shift = answer.expected - theory.curves(x)
    j, middle = theory.free.index(name), POINTS // 2
    others = [i for i in range(x.size) if i != j]
    largest = np.inf if theory.scales[name] is LINEAR else np.log(LARGEST_FACTOR)
    offsets = np.linspace(-1.0, 1.0, POINTS) * min(4.0 * math.sqrt(answer.covariance[j, j]), largest)
    points, squares = np.tile(x, (POINTS, 1)), np.full(POINTS, np.inf)
    points[:, j] += offsets
    for k in (*range(middle, -1, -1), *range(middle + 1, POINTS)):
        point, near = points[k], points[k if k == middle else k + 1 if k < middle else k - 1]
        point[others] = near[others]
        try:
            if others and k != middle:
                rest = theory.without(name, theory.values(point)[name])
                point[others], _ = least(replace(problem, theory=rest), answer.weights, shift, near[others])
            residuals = problem.mean - problem.records.flat(theory.curves(point) + shift)
            squares[k] = square_of(weighted(answer.weights, residuals))
        except RuntimeError:
            continue
    values = np.array([theory.values(point)[name] for point in points])
    return values, (squares - squares[middle]) / answer.units[j]
