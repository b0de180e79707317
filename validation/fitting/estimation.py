"""`fit`: least squares of a theory on a trace, with standard errors from the linear noise or from seeds."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, choice, instance, shown, whole
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.systems.base import System, checked_classes
from snapdyn.dynamics.systems.finite_length import ExpansionWarning, FiniteLengthMeanField
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.validation.fitting import observations
from snapdyn.validation.fitting.model import FitModel, least_weighted_squares, profile, simulated_errors
from snapdyn.validation.fitting.result import (
    LARGEST_MISFIT,
    LEVEL_OF_TEST,
    Errors,
    Fit,
    Weights,
    covariance_of_estimates,
    errors_from_noise,
    errors_from_seeds,
)

# Start of free rates: eta_Y t_end and eta_Z/eta_Y over these grids.
CLOCKS = np.geomspace(0.03, 30.0, 13)  # where both rates are given
SPANS, RATIOS = np.geomspace(1.0, 3000.0, 9), np.geomspace(0.01, 30.0, 8)
LARGEST_RISE = 9.0  # of the weighted squares, at minima that are not excluded
STARTS, SAME = 4, 0.1  # points of the grid from which minima are sought, and distance of minima that are one
LARGEST_RELATIVE_ERROR = 0.5
FEWEST_SEEDS = 8
LARGEST_SQUARE = 1.0  # of what the linear noise expands in
# The search stays within these factors of its start, the best of the grid, and then of the unweighted estimate.
FIRST_REACH, LATER_REACH = 5.0, 2.0
SMALLEST_CHANGE = 1e-9  # of observations: smaller changes are errors of the integration
LARGEST_ALLOWANCE = 0.5  # share of the variance of an estimate, above which the interval is said to be too wide
ROUNDS = 2  # of weights at the latest estimates
MOST_ON_GRID = 10_000  # updates with which the grid is made in steps: seconds
# Where the length of the sequences is unknown, these are fitted.
LENGTHS = (10, 30, 100, 300, math.inf)
LARGEST_STATE, MOST_OF_LENGTHS = 60, 3000  # state values and updates, for these fits: up to a minute in all
ALIKE = 2.0  # lengths are not told apart where their squares differ by less than this times the square of the noise
AT_THE_LIMIT = (
    "the search ended at its limit: if a start was given, give another one or none; otherwise the theory or its noise "
    "does not fit the trace"
)
UNKNOWN_LENGTH = (
    "the length of the sequences is unknown, and this theory is for infinitely long ones: with shorter sequences the "
    "estimates may be far off; state seq_len with the trace, T-1 tokens or math.inf"
)
STEPS_DIVERGE = (
    "the finite steps of the trace diverge at the rates of the search, so the flow is fitted; train with smaller "
    "rates or less momentum"
)
NOT_SIMULATED = (
    "no runs were simulated, so the mean of these finite sequences is an expansion in 1/(T-1): with 20 tokens eta_Y "
    "was 15 % too low; use errors='simulation'"
)
TOO_WIDE = (
    "the intervals of {} are wider than needed: more than half of their variance is the allowance for the second "
    "order of the noise; errors='simulation' uses simulated noise instead"
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
    classes: SequenceClasses,
    system: type[System] = MeanField,
    free: Any = ("eta_Y", "eta_Z"),
    eta_Y: float | None = None,
    eta_Z: float | None = None,
    common_probability: float | None = None,
    quantity: str | None = None,
    errors: str = "auto",
    z_initial: ArrayLike | None = None,
    records: int = 24,
) -> Fit:
    """Fit parameters of a theory to a trace by least squares, and test whether the residuals are as predicted.

    Residuals of different times are correlated: a run that is ahead stays ahead. So they are weighted by the
    covariance of all records together, which the linear noise predicts (`fluctuations`); or the standard errors are
    taken from the scatter of the seeds. The derivation, and how often the intervals contain the truth, are in
    docs/how_to/traces.md.

    Parameters
    ----------
    trace : Trace
        The data. If its `seq_len` is a number, MeanField becomes FiniteLengthMeanField. If the length is unknown, the
        theory is that of infinitely long sequences, and the verdict is never that it describes the trace.
    classes : SequenceClasses
        Classes of the sequences. If common_probability is free, the profiles of their common tokens are kept.
    system : type of System
        MeanField, FiniteLengthMeanField, or another one that is built as system(classes, eta_Y, eta_Z).
    free : sequence of str
        Parameters to estimate, among "eta_Y", "eta_Z" (per batch-size-1 step), "clock" (time of the theory over the
        time by the clock of the trace) and "common_probability" (of all common tokens together, the same in every
        class). Both rates and the clock cannot be free together: only their products matter.
    eta_Y : float, optional
        Value of the rate; if it is free, the start of the search (default: found on a grid).
    eta_Z : float, optional
        As eta_Y.
    common_probability : float, optional
        Start of the search; default that of `classes`.
    quantity : {"attention", "entropy", "loss"}, optional
        What is fitted; default the first of these that the trace has. Attention enters as its logarithm minus the mean
        over each class. The loss is that of the batch of an update, or of more sequences; at finite length it needs
        errors="seeds".
    errors : {"auto", "noise", "simulation", "seeds"}
        "noise": linear-noise covariance, up to 400 state values. "simulation": in addition 200 runs of SGD at the
        estimates, with the steps, batches and momentum of the trace; it holds also where the second order of the noise
        matters, whose bias is subtracted. "auto": "simulation" at finite length and where the linear noise gives no
        sharp verdict, if this takes at most about a minute; else "noise". "seeds": scatter of at least 8 seeds, for
        any noise; it does not include the shift of the mean by the noise, which is of the order of the rates.
    z_initial : (Q, M) array_like, optional
        Initial attention logits. Default 0.
    records : int
        Most records that are used, evenly spaced among those after t = 0 at which every seed has the quantity; at
        least 4.

    Returns
    -------
    Fit

    Raises
    ------
    InputError
        A parameter is unknown, or neither free nor given; both rates and the clock are free; the trace does not fit the
        classes, or is too short; the covariance has more than 400 state values; the theory cannot be integrated at the
        rates that the search reaches, or simulated runs diverge.

    Warns
    -----
    IdentifiabilityWarning
        The trace does not determine a parameter, or does not separate several; or it does not show whether the theory
        describes it, since the length of its sequences is unknown, or the noise and its allowance hide a misfit of
        half of the change of the curves.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=2, common_probability=0.3)
    >>> run = sd.sgd(classes, eta_Y=0.02, eta_Z=0.04, steps=2000, batch_size=10, seed=1, record=range(0, 2001, 100))
    >>> fit = sd.fit(sd.Trace.from_runs(run), classes)
    >>> {name: round(value, 3) for name, value in fit.estimates.items()}
    {'eta_Y': 0.02, 'eta_Z': 0.04}
    >>> fit.describes
    True
    """
    trace = instance("trace", trace, Trace, "build it with Trace(steps, ...) or read_trace(path)")
    trace = trace.for_classes(checked_classes(classes))
    choice("errors", errors, ("auto", "noise", "simulation", "seeds"))
    names = observations.checked_free(free)
    fixed, start = observations.fixed_and_start(names, eta_Y, eta_Z, common_probability, classes)
    quantity = observations.chosen_quantity(trace, quantity)
    system = _checked_system(system, trace.finite_length, names, z_initial is not None)
    rows = observations.chosen_rows(trace, quantity, whole("records", records, 4))
    data = observations.of_trace(trace, classes, quantity, rows)
    if errors == "seeds":
        _check_seeds(data)
    z, updates = None if z_initial is None else classes.check_z(z_initial), trace.clock.updates(trace.steps)[rows]
    model = FitModel(
        system, classes, names, fixed, quantity, trace.t[rows], trace.finite_length, z, trace.clock, updates
    )
    if errors == "simulation" and not model.knows_steps:
        raise InputError(
            "expected a trace of the mean field with at most 2,000,000 whole updates for errors='simulation', received "
            f"another theory ({system.__name__}) or clock ({trace.clock.sentence}); use errors='noise'"
        )

    if quantity == "loss" and trace.finite_length is not None and errors != "seeds":
        raise InputError(
            f"expected errors='seeds' for a fit of the loss at finite length, received errors={errors!r} and "
            f"seq_len={trace.seq_len}, for which the noise of the loss is not computed; or fit quantity='attention'"
        )
    if np.ptp(data, axis=1).max() < SMALLEST_CHANGE:
        raise InputError(
            f"expected {quantity} that changes over the records, received one that stays the same; record a longer "
            "run, or fit another quantity"
        )
    seeds = trace.num_seeds
    try:
        found = _estimated(model, data.mean(axis=0), start, None if errors == "seeds" else seeds)
        result, found, used = _errors(data, found, errors)
    except RuntimeError as error:
        raise InputError(
            f"expected a trace that {system.__name__} can follow at some rates, received one for which {error}; give "
            "rates to start from (eta_Y, eta_Z), or check the classes and the clock of the trace"
        ) from error
    model, x, weights = found.model, found.x, found.weights
    target = data.mean(axis=0) - result.shift
    doubts = _doubts(result, None if used == "simulation" else weights)
    values = model.values(x)
    try:
        flow = model.run(system, values, model.t)
    except RuntimeError:  # finite steps may be stable where the flow is too stiff
        flow = None
    deviations = np.sqrt(np.diagonal(result.covariance))
    correlation = result.covariance / np.outer(deviations, deviations)
    condition = float(np.linalg.cond(correlation))
    undetermined = _undetermined(names, deviations)
    problems = _problems(found, target, start, used, seeds, undetermined, trace.seq_len is None) + doubts
    for sentence in problems:
        warnings.warn(sentence, IdentifiabilityWarning, stacklevel=2)
    wide = [name for name, share in zip(names, result.allowance, strict=True) if share > LARGEST_ALLOWANCE]
    return Fit(
        estimates={name: values[name] for name in names},
        standard_errors=dict(zip(names, (model.unit(x) * deviations).tolist(), strict=True)),
        fixed=fixed,
        allowance=dict(zip(names, result.allowance.tolist(), strict=True)),
        correlation=correlation,
        condition=condition,
        finite_step_bias=dict(zip(names, found.bias.tolist(), strict=True)),
        p_value=float("nan") if doubts else result.p_value,
        degrees=result.degrees,
        errors=used,
        num_seeds=seeds,
        clock=trace.clock.sentence,
        seq_len=trace.seq_len,
        t=model.t,
        residuals=data - (found.theory + result.shift),
        trajectory=flow,
        visible_misfit=result.misfit,
        profiler=partial(profile, model, x, target, weights, result.covariance),
        not_quadratic=bool(undetermined),
        warnings=[*problems, TOO_WIDE.format(", ".join(wide))] if wide else problems,
    )


class Estimate(NamedTuple):
    """Estimates, in coordinates, and the quantities from which they were computed.

    These are: the model, that of the flow if finite steps diverge; its observations at the estimates (N, m) and their
    derivatives (N m, k); the bias of the flow (NaN: not known); weights (None: no weights); whether the estimates lie
    at the limit of the search; and the minima of the sum of squares, the least first, from which the estimates were
    found.
    """

    model: FitModel
    x: Floats
    theory: Floats
    J: Floats
    bias: Floats
    weights: Weights | None
    far: bool
    minima: list[Minimum]

    def expected_square(self, num_seeds: int) -> float:
        """Sum of squares of the residuals of the mean of the seeds that the linear noise predicts."""
        return 0.0 if self.weights is None else float(np.trace(self.weights.covariance)) / num_seeds


class Minimum(NamedTuple):
    """A minimum of the sum of squares, without weights, and whether the search ended at its limit."""

    square: float
    x: Floats
    far: bool


def _estimated(model: FitModel, mean: Floats, start: dict[str, float], num_seeds: int | None) -> Estimate:
    """Estimates from the mean (N, m) of the seeds; without weights if no number of seeds is given."""
    flow = replace(model, flow=True)
    if not model.makes_steps:
        return _weighted(flow, mean, _minima(flow, mean, start), num_seeds)
    few = model.system is MeanField and model.updates[-1] <= MOST_ON_GRID
    try:
        found = _weighted(model, mean, _minima(model if few else flow, mean, start), num_seeds)
    except RuntimeError:  # the flow may be stable where steps of its size are not
        return _weighted(flow, mean, _minima(flow, mean, start), num_seeds)
    alone = least_weighted_squares(flow, mean, found.weights, found.x, found.x, FIRST_REACH)
    return found._replace(bias=model.unit(found.x) * (alone - found.x))


def _is_far(x: Floats, centre: Floats, reach: float) -> bool:
    """Whether a search within a factor `reach` has ended at its limit."""
    return bool(np.abs(x - centre).max() > np.log(reach) - 1e-3)


def _weighted(model: FitModel, mean: Floats, minima: list[Minimum], num_seeds: int | None) -> Estimate:
    """Estimates from the first of some minima, with weights that are updated at the latest estimates."""
    start = minima[0].x
    centre = x = least_weighted_squares(model, mean, None, start, start, FIRST_REACH)
    weights = None
    if num_seeds is not None:
        for _ in range(ROUNDS):
            weights = model.weights(x, num_seeds)
            x = least_weighted_squares(model, mean, weights, x, centre, LATER_REACH)
    theory, derivatives = model.evaluate(x)
    far = minima[0].far or _is_far(centre, start, FIRST_REACH) or _is_far(x, centre, LATER_REACH)
    J, unknown = derivatives.reshape(x.size, -1).T, np.full(x.size, np.nan)
    return Estimate(model, x, theory, J, unknown, weights, far, minima)


def _errors(data: Floats, found: Estimate, errors: str) -> tuple[Errors, Estimate, str]:
    """Errors of the estimates; the estimates, less the bias by simulated runs; and the method that was used."""
    residuals = (data - found.theory).reshape(len(data), -1)
    model, weights = found.model, found.weights
    if weights is None:
        change = model.change(found.x).ravel()
        return errors_from_seeds(residuals, found.J, change), found, "seeds"
    linear = errors_from_noise(residuals, found.J, weights)
    # The mean at finite length is of second order in 1/(T-1): with 20 tokens eta_Y was 15 % too low.
    blunt = model.seq_len is not None or bool((linear.allowance > LARGEST_ALLOWANCE).any())
    if errors == "noise" or (
        errors == "auto" and not (model.simulation_is_short and (blunt or _doubts(linear, weights)))
    ):
        return linear, found, "noise"
    try:
        simulated = simulated_errors(model, found.x, found.J, found.theory, data, weights)
    except RuntimeError:
        if errors == "simulation":
            raise
        return linear, found, "noise"
    x = found.x - simulated.bias
    return simulated, found._replace(x=x, theory=model.evaluate(x)[0]), "simulation"


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


def _check_seeds(data: Floats) -> None:
    """Raise InputError if the observations (R, N, m) come from too few seeds, or from equal ones."""
    whole("the number of seeds of a trace with errors='seeds'", len(data), FEWEST_SEEDS, advice="use errors='noise'")
    if np.ptp(data, axis=0).max() == 0.0:
        raise InputError(f"expected seeds that differ, received {len(data)} equal ones; use errors='noise'")


def _problems(
    found: Estimate,
    target: Floats,
    start: dict[str, float],
    used: str,
    num_seeds: int,
    undetermined: list[str],
    unknown_length: bool,
) -> list[str]:
    """What is not determined and what would help; sentences on the length, on other minima, and on the search."""
    model, problems = found.model, list(undetermined)
    if model.seq_len is not None and used != "simulation":
        problems.append(NOT_SIMULATED)
    if undetermined and found.weights is not None:
        problems.append(_what_would_help(model, found.x, num_seeds))
    if unknown_length:
        weighted = found.weights is not None
        problems.append(_of_unknown_length(model, target, start, num_seeds if weighted else None))
    if rivals := _rivals(found, target):
        problems.append(f"the trace does not tell these estimates from {', nor from '.join(rivals)}; add later records")
    if found.far:
        problems.append(AT_THE_LIMIT)
    if model.flow and replace(model, flow=False).makes_steps:
        problems.append(STEPS_DIVERGE)
    return problems


def _rivals(found: Estimate, target: Floats) -> list[str]:
    """Estimates at other minima that the weighted squares do not exclude."""
    model, weights, rivals = found.model, found.weights, []
    if weights is None:
        return []

    def squares(theory: Floats) -> float:
        r = weights.whiten((target - theory).ravel())
        return float(r @ r)

    for other in found.minima[1:]:
        try:
            x = least_weighted_squares(model, target, weights, other.x, other.x, LATER_REACH)
            rise = squares(model.predicted(x)) - squares(found.theory)
        except RuntimeError:
            continue
        if rise < LARGEST_RISE and np.abs(x - found.x).max() > SAME:
            rivals.append(_in_words(model, x))
    return rivals


def _undetermined(names: tuple[str, ...], deviations: Floats) -> list[str]:
    """Sentences on the parameters that the trace does not determine."""
    found = []
    for name, deviation in zip(names, deviations, strict=True):
        if deviation > LARGEST_RELATIVE_ERROR:
            what = "logit" if name == "common_probability" else "logarithm"
            found.append(
                f"{name} is not determined: the standard error of its {what} is {deviation:.2g}; fix it, or record at "
                "other times"
            )
    return found


def _what_would_help(model: FitModel, x: Floats, num_seeds: int) -> str:
    """Which other records would determine the parameters better, by the linear noise at the estimates."""

    def largest_error(trial: FitModel) -> float:
        weights = trial.weights(x, num_seeds)
        J = trial.evaluate(x)[1].reshape(x.size, -1).T
        return float(np.sqrt(np.diagonal(covariance_of_estimates(J, weights)).max()))

    others = [name for name in observations.QUANTITIES if name != model.quantity]
    trials = {f"{name} at the same times": replace(model, quantity=name) for name in others}
    for factor in (3, 10):
        later = replace(model, t=factor * model.t, updates=factor * model.updates)
        trials[f"records up to {factor} times as late"] = later
    errors: dict[str, float] = {}
    for words, trial in {"": model, **trials}.items():
        try:
            errors[words] = largest_error(trial)
        except (InputError, RuntimeError, np.linalg.LinAlgError):
            continue
    best = min(errors, key=errors.__getitem__, default="")
    if not best or "" not in errors or errors[best] > 0.5 * errors[""]:
        return "neither another quantity nor records up to 10 times as late would halve the largest standard error"
    return f"{best} would divide the largest standard error by about {errors[''] / errors[best]:.2g}"


def _of_unknown_length(model: FitModel, target: Floats, start: dict[str, float], num_seeds: int | None) -> str:
    """The warning of an unknown length of sequences, and the lengths that describe the trace best."""
    size = model.classes.P.data.size + model.classes.num_tokens * (model.classes.next_tokens.size + 1)
    fitted = model.system is MeanField and "common_probability" not in model.free and model.quantity != "loss"
    if not fitted or num_seeds is None or size > LARGEST_STATE or model.updates[-1] > MOST_OF_LENGTHS:
        return UNKNOWN_LENGTH
    found: dict[float, Estimate] = {}
    for length in LENGTHS:
        trial = model
        if math.isfinite(length):
            trial = replace(model, system=FiniteLengthMeanField, seq_len=int(length))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExpansionWarning)
                found[length] = _estimated(trial, target, start, num_seeds)
        except (InputError, RuntimeError, np.linalg.LinAlgError):
            continue
    if len(found) < 2:
        return UNKNOWN_LENGTH
    square = {length: float(((target - each.theory) ** 2).sum()) for length, each in found.items()}
    best = min(square, key=square.__getitem__)
    highest = square[best] + ALIKE * found[best].expected_square(num_seeds)
    near = [length for length in found if length != best and square[length] <= highest]
    others = f"; the trace does not tell them from {_lengths(near)}" if near else ", better than the others"
    return (
        f"{UNKNOWN_LENGTH}. Of sequences of {_lengths(found)} tokens, those of {_lengths([best])} describe the trace "
        f"best, with {_in_words(model, found[best].x)}{others}"
    )


def _lengths(lengths: Iterable[float]) -> str:
    return ", ".join("infinitely many" if math.isinf(length) else f"{length:g}" for length in lengths)


def _in_words(model: FitModel, x: Floats) -> str:
    values = model.values(x)
    return ", ".join(f"{name} = {values[name]:.3g}" for name in model.free)


def _doubts(errors: Errors, weights: Weights | None) -> list[str]:
    """Why the test allows no verdict, if it allows none; `weights` are those of the linear noise, if it is used."""
    if weights is not None and weights.largest_square > LARGEST_SQUARE:
        return [
            "the noise expected at the estimates is too large for its expansion (square "
            f"{weights.largest_square:.3g}, above {LARGEST_SQUARE:g}): neither the standard errors nor the test are "
            "valid; use errors='simulation'"
        ]
    if errors.p_value >= LEVEL_OF_TEST and errors.misfit > LARGEST_MISFIT:
        hidden, help_ = "noise", "more seeds, larger batches or later records"
        if weights is not None:
            hidden, help_ = "noise, the allowance for its second order", f"errors='simulation', {help_}"
        return [
            f"the test has no power: the {hidden} and the free parameters hide a misfit up to {errors.misfit:.2g} "
            f"times the change of the curves; use {help_}"
        ]
    return []


def _minima(model: FitModel, data: Floats, start: dict[str, float]) -> list[Minimum]:
    """Minima of the sum of squares from the best points of a grid of rates, the least first.

    Early curves determine only eta_Y eta_Z, so the sum of squares has a valley along the ratio of the rates, with
    several minima.
    """
    found: list[Minimum] = []
    for trial in grid_points(model, data, start)[:STARTS]:
        try:
            x = least_weighted_squares(model, data, None, trial, trial, FIRST_REACH)
            square = float(((model.predicted(x) - data) ** 2).sum())
        except RuntimeError:
            continue
        if all(np.abs(x - other.x).max() > SAME for other in found):
            found.append(Minimum(square, x, _is_far(x, trial, FIRST_REACH)))
    if not found:
        raise RuntimeError(
            "the theory cannot be integrated from any starting rates of the search; give other eta_Y and eta_Z"
        )
    moved = max(float(np.abs(model.change(minimum.x)).max()) for minimum in found)
    if moved < SMALLEST_CHANGE:
        raise InputError(
            f"expected a theory that moves up to the last record, received a change of {model.quantity} of "
            f"{moved:.2g}, which is rounding; record a longer run, or fit another quantity"
        )
    return sorted(found, key=lambda minimum: minimum.square)


def grid_points(model: FitModel, data: Floats, start: dict[str, float]) -> list[Floats]:
    """Coordinates of the best span eta_Y t_end for each ratio of a grid of rates, best first; given rates are kept."""
    given = {**model.fixed, **start}
    t_end = float(model.t[-1])
    spans = [given["eta_Y"] * t_end] if "eta_Y" in given else SPANS
    clocks = CLOCKS if "clock" in model.free and {"eta_Y", "eta_Z"} <= given.keys() else [given.get("clock", 1.0)]
    best: dict[tuple[float, float], tuple[float, Floats]] = {}
    for span, clock in product(spans, clocks):
        rate = span / t_end
        for ratio in [given["eta_Z"] / rate] if "eta_Z" in given else RATIOS:
            trial = model.coordinates({**given, "eta_Y": rate, "eta_Z": ratio * rate, "clock": clock})
            try:
                distance = float(((model.predicted(trial) - data) ** 2).sum())
            except RuntimeError:
                continue
            if (ratio, clock) not in best or distance < best[ratio, clock][0]:
                best[ratio, clock] = distance, trial
    return [trial for _, trial in sorted(best.values(), key=lambda each: each[0])]
