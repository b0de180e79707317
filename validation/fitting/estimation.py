"""`fit`: least squares of a theory on a trace, judged by simulated runs of the theory or by the seeds of the trace."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, choice, instance, list_of, optional_function, shown, unknown_name, whole
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.systems.base import System, checked_classes
from snapdyn.dynamics.systems.finite_length import ExpansionWarning, FiniteLengthMeanField
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.own.declaration import OwnSystem
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.validation.fitting import observations
from snapdyn.validation.fitting.bootstrap import (
    DRAWN,
    DRAWN_PER_SEED,
    DRAWS,
    LEVEL,
    REFERENCE,
    Judgement,
    Noise,
    Records,
    judged,
    noise_of_runs,
    noise_of_seeds,
    weighted,
)
from snapdyn.validation.fitting.result import LARGEST_MISFIT, Fit
from snapdyn.validation.fitting.theories import (
    LINEAR,
    LOGARITHM,
    ODDS,
    ClassTheory,
    OwnTheory,
    Process,
    Progress,
    Theory,
    least_deviation,
)

# Start of free rates: eta_Y t_end and eta_Z/eta_Y over these grids.
CLOCKS = np.geomspace(0.03, 30.0, 13)  # where both rates are given
SPANS, RATIOS = np.geomspace(1.0, 3000.0, 9), np.geomspace(0.01, 30.0, 8)
STARTS, SAME = 4, 0.1  # points of the grid from which minima are sought, and distance of minima that are one
REACH = 5.0  # factor from the start within which a search stays
LARGEST_RISE = 9.0  # of the weighted squares, at minima that are not excluded
ROUNDS, NEAR = 3, 0.5  # of simulated runs, until the estimates move by less than this times their errors
LARGEST_RELATIVE_ERROR = 0.5
FEWEST_SEEDS, FEWEST_RECORDS = 8, 4
SMALLEST_CHANGE = 1e-9  # of observations: smaller changes are errors of the integration
MOST_VALUES = 20_000  # recorded values that enter a fit
POINTS, LARGEST_FACTOR = 21, 30.0  # of a profile, and how far from the estimate it goes
GRID = 200  # times at which the change of the theory is followed
PROGRESS_OF_BUMPS, WIDTH = (0.25, 0.5, 0.75), 0.7  # where smooth misfits lie, and their width in ln t
MOMENTA, LENGTHS = (0.0, 0.5, 0.9), (10, 30, 100, 300, math.inf)  # that are tried after a rejection
MOST_SWAPPED = 5  # classes whose order is tried
BETTER = 0.5  # share of the squares below which another trace or theory is simulated
START_TOLERANCE = 0.1  # distance of the start, as a share of the change, above which it is named
AT_THE_LIMIT = (
    "the search ended at its limit: if a start was given, give another one or none; otherwise the theory does not fit "
    "the trace"
)
UNKNOWN_LENGTH = (
    "the length of the sequences is unknown, and this theory is for infinitely long ones: with shorter sequences the "
    "estimates may be far off; state seq_len with the trace, T-1 tokens or math.inf"
)


class IdentifiabilityWarning(UserWarning):
    """A trace does not determine a parameter, does not separate several, or does not show if the theory describes it.

    Examples
    --------
    >>> import snapdyn as sd
    >>> issubclass(sd.IdentifiabilityWarning, UserWarning)
    True
    """


def fit(
    trace: Trace,
    classes: SequenceClasses | System,
    system: type[System] = MeanField,
    free: Any = ("eta_Y", "eta_Z"),
    eta_Y: float | None = None,
    eta_Z: float | None = None,
    common_probability: float | None = None,
    quantity: str | None = None,
    errors: str | Process = "simulation",
    z_initial: ArrayLike | None = None,
    records: int = 100,
    progress: Progress | None = None,
) -> Fit:
    """Fit parameters of a theory to a trace by least squares, and test whether the residuals are as predicted.

    The errors, the weights and the test come from runs of the theory that are simulated at the estimates, with the
    seeds, batches, length, momentum and records of the trace: a parametric bootstrap, whose refits are linearised. How
    often the intervals contain the truth, and how often a true theory is rejected, is in docs/how_to/traces.md.

    Parameters
    ----------
    trace : Trace
        The data. If its `seq_len` is a number, MeanField becomes FiniteLengthMeanField. If the length is unknown, the
        theory is that of infinitely long sequences, and the verdict is always "not testable".
    classes : SequenceClasses, or an own system
        Classes of the sequences; if common_probability is free, the profiles of their common tokens are kept. Or a
        system of `System.from_sympy` or `System.from_function`, whose observables the trace holds.
    system : type of System
        MeanField, FiniteLengthMeanField, or another one that is built as system(classes, eta_Y, eta_Z). The noise is
        that of SGD in each case.
    free : sequence of str
        Parameters to estimate, among "eta_Y", "eta_Z" (per batch-size-1 step), "clock" (time of the theory over the
        time by the clock of the trace) and "common_probability" (of all common tokens together, the same in every
        class). Both rates and the clock cannot be free together: only their products matter. For an own system the
        names of its parameters; the search starts from their values.
    eta_Y : float, optional
        Value of the rate; if it is free, the start of the search (default: found on a grid).
    eta_Z : float, optional
        As eta_Y.
    common_probability : float, optional
        Start of the search; default that of `classes`.
    quantity : {"attention", "entropy", "loss"}, optional
        What is fitted; default the first of these that the trace has. Attention enters as its logarithm minus the mean
        over each class. The loss is that of the batch of an update.
    errors : {"simulation", "seeds"} or callable
        "simulation": runs of SGD at the estimates, with the steps, batches and momentum of the trace. "seeds": scatter
        of at least 8 seeds, for any noise that is symmetric; it does not include the shift of the mean by the noise,
        which is of the order of the rates. For an own system a function (parameters, seed) -> {observable: array over
        the steps of the trace}, one run with noise; without one, "seeds" is used.
    z_initial : (Q, M) array_like, optional
        Initial attention logits. Default 0.
    records : int
        Most records that are used, evenly spaced among those after t = 0; at least 4.
    progress : callable (made, all), optional
        Called while runs are simulated.

    Returns
    -------
    Fit

    Raises
    ------
    InputError
        A parameter is unknown, or neither free nor given; both rates and the clock are free; the trace does not fit the
        classes, or is too short; the theory cannot be integrated at the rates that the search reaches, or simulated
        runs diverge.

    Warns
    -----
    IdentifiabilityWarning
        The trace does not determine a parameter, or does not separate several; or it does not show whether the theory
        describes it, since the length of its sequences is unknown, or the noise hides a misfit of half of the change of
        the curves.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=2, common_probability=0.3)
    >>> run = sd.sgd(classes, eta_Y=0.02, eta_Z=0.04, steps=2000, batch_size=10, seed=1, record=range(0, 2001, 100))
    >>> fit = sd.fit(sd.Trace.from_runs(run), classes, eta_Y=0.02, eta_Z=0.04)
    >>> {name: round(value, 2) for name, value in fit.estimates.items()}
    {'eta_Y': 0.02, 'eta_Z': 0.04}
    >>> fit.describes
    True
    """
    trace = instance("trace", trace, Trace, "build it with Trace(steps, ...) or read_trace(path)")
    optional_function("progress", progress)
    whole("records", records, FEWEST_RECORDS)
    if isinstance(classes, System):
        problem = _of_own(trace, classes, free, errors, records)
    else:
        problem = _of_classes(
            trace, classes, system, free, {"eta_Y": eta_Y, "eta_Z": eta_Z}, common_probability, quantity, errors,
            z_initial, records,
        )  # fmt: skip
    try:
        answer = _answer(problem, _minima(problem), progress)
        sentences = _problems(problem, answer) + _after_rejection(problem, answer)
    except RuntimeError as error:
        raise InputError(
            f"expected a trace that {problem.name} can follow at some parameters, received one for which {error}; give "
            "a start (eta_Y, eta_Z), or check the classes and the clock of the trace"
        ) from error
    theory, x, test = problem.theory, answer.x, answer.test
    for sentence in sentences:
        warnings.warn(sentence, IdentifiabilityWarning, stacklevel=2)
    values, deviations = theory.values(x), np.sqrt(np.diagonal(answer.covariance))
    slopes = {name: theory.scales[name].slope(values[name]) for name in theory.free}
    return Fit(
        estimates={name: values[name] for name in theory.free},
        standard_errors={
            name: float(slopes[name] * deviation) for name, deviation in zip(theory.free, deviations, strict=True)
        },
        fixed=dict(theory.fixed),
        correlation=answer.covariance / np.outer(deviations, deviations),
        p_value=test.p_value,
        visible_misfit=test.misfit,
        errors=problem.errors,
        num_seeds=trace.num_seeds,
        clock=problem.clock,
        knows_length=problem.knows_length,
        t=theory.t,
        residuals=problem.values - answer.expected,
        largest=problem.largest(answer),
        trajectory=theory.trajectory(x),
        scales=theory.scales,
        profiler=partial(_profile, problem, answer),
        not_quadratic=bool((deviations > LARGEST_RELATIVE_ERROR).any()),
        warnings=sentences,
    )


@dataclass(frozen=True, eq=False)
class Problem:
    """A theory and the recorded values (R, N, m) that it is fitted to.

    Attributes
    ----------
    theory : Theory
    values : (R, N, m) array
        NaN where a seed lacks a value.
    records : Records
    errors : {"simulation", "seeds"}
    names : sequence of str
        Of the m columns.
    unit : (m,) array
        In which the columns are compared before their noise is known.
    starts : list of (k,) arrays
        Coordinates from which the search starts, the best first.
    at_zero : (m,) array or None
        The recorded mean at t = 0.
    clock : str
        In words.
    knows_length : bool
        Whether the length of the sequences is stated, or plays no role.
    shifts : bool
        Whether the simulated runs are those of the theory, so that their mean replaces its curve.
    name : str
        Of the theory.
    """

    theory: Theory
    values: Floats
    records: Records
    errors: str
    names: Sequence[str]
    unit: Floats
    starts: list[Floats]
    at_zero: Floats | None
    clock: str
    knows_length: bool
    shifts: bool
    name: str

    @cached_property
    def mean(self) -> Floats:
        """Mean of the seeds, (n,)."""
        return (np.nan_to_num(self.records.flat(self.values)) * self.records.weights).sum(axis=0)

    @property
    def plain(self) -> Floats:
        """Weights (n,) where the noise plays no role."""
        return 1.0 / self.unit[self.records.column]

    def largest(self, answer: Answer) -> str:
        """The value with the largest residual, in words."""
        residuals = np.abs(self.mean - self.records.flat(answer.expected)) / answer.test.s
        i = int(residuals.argmax())
        k, j = int(self.records.row[i]), int(self.records.column[i])
        return (
            f"{self.names[j]} at t = {self.theory.t[k]:.4g}: the trace has {self.mean[i]:.4g}, the theory "
            f"{answer.expected[k, j]:.4g}, {residuals[i]:.2g} standard deviations away"
        )


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

    @property
    def units(self) -> Floats:
        """(k,) variances of the estimates over those at which the weighted squares rise by 1 at one standard error."""
        A = weighted(self.weights, self.noise.J)
        return np.diagonal(self.covariance) / np.diagonal(np.linalg.pinv(A.T @ A))


class Minimum(NamedTuple):
    """A minimum of the sum of squares, without weights, and whether the search ended at its limit."""

    square: float
    x: Floats
    far: bool


def _of_classes(
    trace: Trace,
    classes: SequenceClasses,
    system: type[System],
    free: Any,
    rates: dict[str, float | None],
    common_probability: float | None,
    quantity: str | None,
    errors: Any,
    z_initial: ArrayLike | None,
    most_records: int,
) -> Problem:
    """The problem of a theory of sequence classes."""
    trace = trace.for_classes(checked_classes(classes))
    choice("errors", errors, ("simulation", "seeds"))
    names = observations.checked_free(free)
    fixed, start = observations.fixed_and_start(names, rates["eta_Y"], rates["eta_Z"], common_probability, classes)
    quantity = observations.chosen_quantity(trace, quantity)
    system = _checked_system(system, trace.finite_length, names, z_initial is not None)
    values = observations.of_trace(trace, classes, quantity)
    rows = _chosen_rows(values, trace.t, most_records, quantity)
    theory = ClassTheory(
        free=names,
        scales={name: ODDS if name == "common_probability" else LOGARITHM for name in names},
        fixed=fixed,
        t=trace.t[rows],
        system=system,
        classes=classes,
        quantity=quantity,
        clock=trace.clock,
        updates=trace.clock.updates(trace.steps)[rows],
        seq_len=trace.finite_length,
        z_initial=None if z_initial is None else classes.check_z(z_initial),
        digits=observations.Digits.of(getattr(trace, quantity)),
    )
    if errors == "simulation" and not theory.knows_steps:
        raise InputError(
            "expected a trace of whole updates, whose training can be simulated, received the clock "
            f"{trace.clock.sentence!r}; use errors='seeds' with at least {FEWEST_SEEDS} seeds"
        )
    problem = Problem(
        theory=theory,
        values=values[:, rows],
        records=_records(values[:, rows], theory.t),
        errors=errors,
        names=[observations.value_name(classes, quantity, column) for column in range(values.shape[2])],
        unit=np.ones(values.shape[2]),
        starts=[],
        at_zero=_at_zero(values, trace.t),
        clock=trace.clock.sentence,
        knows_length=trace.seq_len is not None,
        shifts=theory.is_training,
        name=system.__name__,
    )
    _check_values(problem)
    return replace(problem, starts=_grid(problem, {**fixed, **start}))


def _of_own(trace: Trace, system: System, free: Any, errors: Any, most_records: int) -> Problem:
    """The problem of a system of the user."""
    system = instance("classes", system, OwnSystem, "give sequence classes, or a system of System.from_sympy")
    if trace.observables is None:
        raise InputError(
            f"expected a trace of observables of {system.name}, received one of a training run; build it with "
            "Trace(steps, observables={name: values})"
        )
    listed = (free,) if isinstance(free, str) else tuple(free)
    numbers = {name: value for name, value in system.parameters.items() if isinstance(value, (int, float))}
    list_of("free", listed, str, at_least=1, different=True)
    for name in listed:
        if name not in numbers:
            raise unknown_name(f"a parameter of {system.name}", name, numbers)
    for name in trace.observables:
        choice(f"an observable of {system.name}", name, system.scalar_names())
    if not callable(errors):
        choice("errors", errors, ("simulation", "seeds"))
    values = np.stack(list(trace.observables.values()), axis=-1)
    rows = _chosen_rows(values, trace.t, most_records, "an observable")
    theory = OwnTheory(
        free=listed,
        scales={name: LOGARITHM if numbers[name] > 0 else LINEAR for name in listed},
        fixed={name: float(value) for name, value in numbers.items() if name not in listed},
        t=trace.t[rows],
        system=system,
        names=tuple(trace.observables),
        process=errors if callable(errors) else None,
        rows=rows,
    )
    problem = Problem(
        theory=theory,
        values=values[:, rows],
        records=_records(values[:, rows], theory.t),
        errors="simulation" if callable(errors) else "seeds",
        names=list(trace.observables),
        unit=np.nan_to_num(np.nanmax(values, axis=(0, 1)) - np.nanmin(values, axis=(0, 1))) + 1e-300,
        starts=[theory.coordinates(numbers)],
        at_zero=_at_zero(values, trace.t),
        clock="t is the recorded step, the time of the system",
        knows_length=True,
        shifts=True,
        name=system.name,
    )
    _check_values(problem)
    return problem


def _chosen_rows(values: Floats, t: Floats, most: int, quantity: str) -> Ints:
    """At most so many records after t = 0 with a value of some seed, evenly spaced."""
    used = np.flatnonzero((t > 0) & np.isfinite(values).any(axis=(0, 2)))
    whole(f"the number of records of {quantity} after t = 0", used.size, FEWEST_RECORDS, advice="record more often")
    most = max(FEWEST_RECORDS, min(most, MOST_VALUES // values.shape[2], used.size))
    return used[np.unique(np.linspace(0, used.size - 1, most).astype(int))]


def _records(values: Floats, t: Floats) -> Records:
    """Which of the values (R, N, m) are recorded."""
    recorded = np.isfinite(values)
    row, column = np.nonzero(recorded.any(axis=0))
    weights = recorded[:, row, column].astype(float)
    return Records(row, column, np.log(t[row]), weights / weights.sum(axis=0))


def _at_zero(values: Floats, t: Floats) -> Floats | None:
    """Mean of the seeds at t = 0; None if some value is not recorded there."""
    found = values[:, t == 0].mean(axis=0)
    return found[0] if len(found) and np.isfinite(found).all() else None


def _check_values(problem: Problem) -> None:
    """Raise InputError for a trace that stays the same, and for too few seeds where the errors come from them."""
    mean, records = problem.mean, problem.records
    changes = max(np.ptp(mean[records.column == column]) for column in np.unique(records.column))
    if changes < SMALLEST_CHANGE:
        raise InputError(
            "expected values that change over the records, received some that stay the same; record a longer run, or "
            "fit another quantity"
        )
    if problem.errors == "seeds":
        values = records.flat(problem.values)
        advice = "give more seeds, or simulate the noise (errors)"
        whole("the number of seeds of a trace with errors='seeds'", len(values), FEWEST_SEEDS, advice=advice)
        if np.isnan(values).any():
            raise InputError(
                "expected every value of every seed with errors='seeds', received blank ones (NaN); leave out records "
                "that some seeds lack, or simulate the noise (errors)"
            )
        if np.ptp(values, axis=0).max() == 0.0:
            raise InputError(f"expected seeds that differ, received {len(values)} equal ones; simulate the noise")


def _checked_system(
    system: type[System], seq_len: int | None, names: tuple[str, ...], with_start: bool
) -> type[System]:
    """The system for sequences of length `seq_len`; None means infinitely long sequences."""
    if not (isinstance(system, type) and issubclass(system, System)):
        raise InputError(f"expected system as a type such as MeanField, received {shown(system)}; give it without ()")
    accepted = inspect.signature(system).parameters
    if seq_len is not None:
        if "common_probability" in names or (system is not MeanField and "seq_len" not in accepted):
            theory_of = "a free common_probability" if "common_probability" in names else system.__name__
            raise InputError(
                f"expected a trace with seq_len=math.inf for {theory_of}, which is for infinitely long sequences, "
                f"received seq_len={seq_len}; use MeanField with both rates free"
            )
        system = FiniteLengthMeanField if system is MeanField else system
    if with_start and "z_initial" not in accepted:
        raise InputError(f"expected z_initial=None for {system.__name__}, which does not take it; use MeanField")
    return system


def _grid(problem: Problem, given: dict[str, float]) -> list[Floats]:
    """Coordinates of the best span eta_Y t_end for each ratio of a grid of rates, best first; given rates are kept."""
    theory, t_end = problem.theory, float(problem.theory.t[-1])
    spans = [given["eta_Y"] * t_end] if "eta_Y" in given else SPANS
    clocks = CLOCKS if "clock" in theory.free and {"eta_Y", "eta_Z"} <= given.keys() else [given.get("clock", 1.0)]
    best: dict[tuple[float, float], tuple[float, Floats]] = {}
    for span, clock in product(spans, clocks):
        rate = span / t_end
        for ratio in [given["eta_Z"] / rate] if "eta_Z" in given else RATIOS:
            trial = theory.coordinates({**given, "eta_Y": rate, "eta_Z": ratio * rate, "clock": clock})
            try:
                values = problem.records.flat(theory.flow(trial, theory.t))
            except RuntimeError:
                continue
            distance = float(((values - problem.mean) ** 2).sum())
            if (ratio, clock) not in best or distance < best[ratio, clock][0]:
                best[ratio, clock] = distance, trial
    return [trial for _, trial in sorted(best.values(), key=lambda each: each[0])][:STARTS]


def _minima(problem: Problem) -> list[Minimum]:
    """Minima of the sum of squares from the starts, the least first.

    Early curves determine only eta_Y eta_Z, so the sum of squares has a valley along the ratio of the rates, with
    several minima.
    """
    found: list[Minimum] = []
    nothing = np.zeros(problem.values.shape[1:])
    for start in problem.starts:
        try:
            x, far = _least(problem, problem.plain, nothing, start)
            square = _square(problem.plain * (problem.mean - problem.records.flat(problem.theory.curves(x))))
        except RuntimeError:
            continue
        if all(np.abs(x - other.x).max() > SAME for other in found):
            found.append(Minimum(square, x, far))
    if not found:
        raise RuntimeError("the theory cannot be integrated from any start of the search")
    return sorted(found, key=lambda minimum: minimum.square)


def _answer(problem: Problem, minima: list[Minimum], progress: Progress | None) -> Answer:
    """Estimates with weights from the noise at the estimates, and their test.

    These weights are large where runs hardly differ. That is right for runs of the theory, but drives the estimates far
    off for other traces. So the estimates of a theory that is rejected are those of plain least squares.
    """
    x, far, first = minima[0].x, minima[0].far, None
    for _ in range(ROUNDS):
        noise, shift = _noise(problem, x, progress)
        first = first or (noise, shift)
        before = x
        x, at_limit = _least(problem, noise.whitening, shift, before)
        far |= at_limit
        if (np.abs(x - before) < NEAR * np.sqrt(np.diagonal(noise.covariance(noise.whitening)))).all():
            break
    answer = _judged(problem, x, noise, shift, noise.whitening, minima, far)
    if answer.test.p_value >= LEVEL or first is None:
        return answer
    noise, shift = first
    x, at_limit = _least(problem, problem.plain, shift, minima[0].x)
    plain = _judged(problem, x, noise, shift, problem.plain, minima, at_limit or minima[0].far)
    return plain._replace(test=replace(plain.test, p_value=answer.test.p_value))


def _noise(problem: Problem, x: Floats, progress: Progress | None) -> tuple[Noise, Floats]:
    """Noise at the coordinates x, and what it adds to the expected curves, (N, m)."""
    theory, records = problem.theory, problem.records
    curves, derivatives = theory.curves(x), theory.derivatives(x)
    J, changes = records.flat(derivatives).T, np.concatenate([[curves - theory.start(x)], derivatives])
    shift = np.zeros_like(curves)
    if problem.errors == "seeds":
        return noise_of_seeds(records.flat(problem.values), records, changes, J), shift
    rounding = theory.rounding(x, DRAWS)
    runs = theory.simulated(x, REFERENCE + max(DRAWN, DRAWN_PER_SEED * len(problem.values)), progress)
    if problem.shifts:
        shift = runs[:REFERENCE].mean(axis=0) - curves
    rounded = records.flat(np.broadcast_to(rounding, (len(rounding), *curves.shape)))
    return noise_of_runs(records.flat(runs), rounded, records, changes, J), shift


def _least(problem: Problem, weights: Floats, shift: Floats, start: Floats) -> tuple[Floats, bool]:
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
        noise = noise.with_signs(problem.records.flat(problem.values - expected))
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


def _problems(problem: Problem, answer: Answer) -> list[str]:
    """What the trace does not determine, and what makes the estimates doubtful."""
    theory, found = problem.theory, []
    if not problem.knows_length:
        found.append(UNKNOWN_LENGTH)
    if answer.far:
        found.append(AT_THE_LIMIT)
    if answer.test.p_value < LEVEL:
        return found
    for name, variance in zip(theory.free, np.diagonal(answer.covariance), strict=True):
        if variance > LARGEST_RELATIVE_ERROR**2 and theory.scales[name] is not LINEAR:
            what = "logit" if name == "common_probability" else "logarithm"
            found.append(
                f"{name} is not determined: the standard error of its {what} is {math.sqrt(variance):.2g}; fix it, or "
                "record at other times"
            )
    if rivals := _rivals(problem, answer):
        found.append(f"the trace does not tell these estimates from {', nor from '.join(rivals)}; add later records")
    if answer.test.misfit > LARGEST_MISFIT:
        found.append(
            f"the test has no power: the noise and the free parameters hide a misfit up to {answer.test.misfit:.2g} "
            "times the change of the curves; use more seeds or larger batches"
        )
    return found


def _rivals(problem: Problem, answer: Answer) -> list[str]:
    """Estimates at other minima that the weighted squares do not exclude."""
    theory, rivals = problem.theory, []
    shift = answer.expected - theory.curves(answer.x)

    def square(x: Floats) -> float:
        residuals = problem.mean - problem.records.flat(theory.curves(x) + shift)
        return _square(weighted(answer.weights, residuals)) / float(np.mean(answer.units))

    for other in answer.minima[1:]:
        try:
            x, _ = _least(problem, answer.weights, shift, other.x)
            rise = square(x) - square(answer.x)
        except RuntimeError:
            continue
        if rise < LARGEST_RISE and np.abs(x - answer.x).max() > SAME:
            rivals.append(_in_words(theory, x))
    return rivals


def _square(values: Floats) -> float:
    return float(values @ values)


def _in_words(theory: Theory, x: Floats) -> str:
    values = theory.values(x)
    return ", ".join(f"{name} = {values[name]:.3g}" for name in theory.free)


def _after_rejection(problem: Problem, answer: Answer) -> list[str]:
    """What may be stated wrongly with a trace that is not described, or whose length is unknown."""
    theory = problem.theory
    if not isinstance(theory, ClassTheory) or (answer.test.p_value >= LEVEL and problem.knows_length):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExpansionWarning)
        return [*_of_the_start(problem, answer), *_of_alternatives(problem, answer)]


def _of_the_start(problem: Problem, answer: Answer) -> list[str]:
    """A sentence on a trace that does not start where the theory does."""
    if problem.at_zero is None:
        return []
    start = problem.theory.start(answer.x)
    off = np.abs(problem.at_zero - start).max() / np.abs(answer.expected - start).max()
    if off <= START_TOLERANCE:
        return []
    return [
        f"the trace starts {off:.2g} times the change away from the start of this theory; check the probabilities P, "
        "the vocabulary and the start of the training (z_initial)"
    ]


def _of_alternatives(problem: Problem, answer: Answer) -> list[str]:
    """A sentence on the alternative that comes closest, after a fit of it that is judged as the first one."""
    nothing, tried = np.zeros_like(answer.expected), {}
    for words, other in _alternatives(problem):
        try:
            x, _ = _least(other, 1.0 / answer.test.s, nothing, answer.x)
            residuals = other.mean - other.records.flat(other.theory.curves(x))
        except (InputError, RuntimeError):
            continue
        tried[words] = _square(residuals / answer.test.s), other, x
    if not tried:
        return []
    best = min(tried, key=lambda words: tried[words][0])
    square, other, x = tried[best]
    listed = f"(tried: {', '.join(tried)})"
    if square > BETTER * _square((problem.mean - problem.records.flat(answer.expected)) / answer.test.s):
        return [f"no alternative comes closer {listed}"]
    try:
        found = _answer(other, [Minimum(square, x, False)], None)
    except RuntimeError as error:
        return [f"{best} comes closer, but could not be simulated: {error} {listed}"]
    p = f"p = {found.test.p_value:.2g}, {_in_words(other.theory, found.x)}"
    if found.test.p_value < LEVEL:
        return [f"with {best} the theory comes closer, and is rejected too ({p}) {listed}"]
    return [f"with {best} the theory describes the trace ({p}) {listed}"]


def _alternatives(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """What may be stated wrongly with a trace: momentum, length, the base of logarithms, the order of classes."""
    theory = problem.theory
    assert isinstance(theory, ClassTheory)
    if theory.system in (MeanField, FiniteLengthMeanField) and "common_probability" not in theory.free:
        for length in LENGTHS:
            finite = None if math.isinf(length) else int(length)
            if finite != theory.seq_len:
                system = MeanField if finite is None else FiniteLengthMeanField
                words = "infinitely long sequences" if finite is None else f"sequences of {finite} tokens"
                yield words, replace(problem, theory=replace(theory, system=system, seq_len=finite))
    if theory.knows_steps and problem.knows_length:
        for momentum in MOMENTA:
            if momentum != theory.clock.momentum:
                clock = replace(theory.clock, momentum=momentum)
                t = clock.to_time(theory.updates * (theory.clock.batch_size if clock.counts == "sequences" else 1))
                other = replace(problem, theory=replace(theory, clock=clock, t=t))
                yield f"momentum {momentum:g}", replace(other, records=_records(problem.values, t))
    if theory.quantity in ("loss", "entropy"):
        yield "bits in place of nats", replace(problem, values=problem.values * math.log(2.0))
    columns = problem.values.shape[2]
    if theory.quantity == "entropy" and columns <= MOST_SWAPPED:
        for a, b in combinations(range(columns), 2):
            order = np.arange(columns)
            order[[a, b]] = b, a
            values = problem.values[:, :, order]
            other = replace(problem, values=values, records=_records(values, theory.t))
            yield f"classes {a} and {b} exchanged", other


def _profile(problem: Problem, answer: Answer, name: str) -> tuple[Floats, Floats]:
    """Profile of the weighted squares over one parameter, as `Fit.profile` returns it."""
    theory, x = problem.theory, answer.x
    shift = answer.expected - theory.curves(x)
    j, middle = theory.free.index(name), POINTS // 2
    others = [i for i in range(x.size) if i != j]
    offsets = np.linspace(-1.0, 1.0, POINTS) * min(4.0 * math.sqrt(answer.covariance[j, j]), np.log(LARGEST_FACTOR))
    points, squares = np.tile(x, (POINTS, 1)), np.full(POINTS, np.inf)
    points[:, j] += offsets
    for k in (*range(middle, -1, -1), *range(middle + 1, POINTS)):
        point, near = points[k], points[k if k == middle else k + 1 if k < middle else k - 1]
        point[others] = near[others]
        try:
            if others and k != middle:
                rest = theory.without(name, theory.values(point)[name])
                point[others], _ = _least(replace(problem, theory=rest), answer.weights, shift, near[others])
            residuals = problem.mean - problem.records.flat(theory.curves(point) + shift)
            squares[k] = _square(weighted(answer.weights, residuals))
        except RuntimeError:
            continue
    values = np.array([theory.values(point)[name] for point in points])
    return values, (squares - squares[middle]) / answer.units[j]
