"""`fit`: least squares of a theory on a trace, judged by simulated runs of the theory or by the seeds of the trace."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, instance, optional_function, whole
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.rules import Optimizer
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.validation.fitting.alternatives import after_rejection
from snapdyn.validation.fitting.answer import SAME, Answer, answer_of, least, minima_of, profile_of, square_of
from snapdyn.validation.fitting.bootstrap import LARGEST_MISFIT, LEVEL, weighted
from snapdyn.validation.fitting.problem import FEWEST_RECORDS, Problem, problem_of_classes, problem_of_own
from snapdyn.validation.fitting.result import Fit
from snapdyn.validation.fitting.theories import ClassTheory, Process, Progress

# By chance the scatter of seeds leaves these bounds in about 1 of 5000 traces; factors below 1.5 are not named.
UNLIKELY_SCATTER, NAMED_SCATTER = 1e-4, 1.5
LARGEST_RISE = 9.0  # of the weighted squares, at minima that are not excluded
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
    quantity: str | None = None,
    errors: str | Process = "simulation",
    z_initial: ArrayLike | None = None,
    optimizer: Optimizer | None = None,
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
        class; the search starts from that of `classes`). Both rates and the clock cannot be free together: only their
        products matter. For an own system the names of its parameters; the search starts from their values.
    eta_Y : float, optional
        Value of the rate; if it is free, the start of the search (default: found on a grid).
    eta_Z : float, optional
        As eta_Y.
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
    optimizer : str, rule or pair of rules, optional
        Rule of the training; default: what the trace states.
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
        given: dict[str, Any] = {
            "eta_Y": eta_Y,
            "eta_Z": eta_Z,
            "quantity": quantity,
        }
        given |= {"z_initial": z_initial, "system": None if system is MeanField else system, "optimizer": optimizer}
        if beside := [name for name, value in given.items() if value is not None]:
            raise InputError(
                f"expected no {beside[0]} beside an own system, received it; leave it out, and set parameters with "
                "with_parameters"
            )
        problem = problem_of_own(trace, classes, free, errors, records)
    else:
        trace = trace if optimizer is None else trace.with_optimizer(optimizer)
        problem = problem_of_classes(
            trace, classes, system, free, {"eta_Y": eta_Y, "eta_Z": eta_Z}, quantity, errors,
            z_initial, records,
        )  # fmt: skip
    try:
        answer = answer_of(problem, minima_of(problem), progress)
        sentences = _problems(problem, answer) + after_rejection(problem, answer)
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
        largest=_largest(problem, answer),
        trajectory=theory.trajectory(x),
        scales=theory.scales,
        profiler=partial(profile_of, problem, answer),
        not_quadratic=bool(answer.undetermined(theory)),
        warnings=sentences,
        recorded=_recorded(problem),
    )


def _recorded(problem: Problem) -> list[str]:
    """Which curves the trace has no value of, in one sentence; none where it has values of all."""
    empty = np.isnan(problem.values).all(axis=(0, 1))
    names = [problem.names[column] for column in np.flatnonzero(empty).tolist()]
    if not names:
        return []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    used = f"{empty.size - len(names)} of {empty.size} curves were recorded"
    return [f"{used}: the trace has no value of {', '.join(names[:3])}{more}"]


def _problems(problem: Problem, answer: Answer) -> list[str]:
    """What the trace does not determine, and what makes the estimates doubtful."""
    theory, found = problem.theory, []
    if not problem.knows_length:
        found.append(UNKNOWN_LENGTH)
    if answer.far:
        found.append(AT_THE_LIMIT)
    found += _scatter(problem, answer)
    if answer.test.p_value < LEVEL:
        return found
    for name, deviation in answer.undetermined(theory).items():
        what = "logit" if name == "common_probability" else "logarithm"
        found.append(
            f"{name} is not determined: the standard error of its {what} is {deviation:.2g}; fix it, or record at "
            "other times"
        )
    if rivals := _rivals(problem, answer):
        found.append(f"the trace does not tell these estimates from {', nor from '.join(rivals)}; add later records")
    if answer.test.misfit > LARGEST_MISFIT:
        found.append(
            f"the test has no power: the noise and the free parameters hide a misfit up to {answer.test.misfit:.2g} "
            "times the change of the curves; use more seeds or larger batches"
        )
    return found


def _scatter(problem: Problem, answer: Answer) -> list[str]:
    """A sentence where the seeds scatter more or less than simulated runs: the mean alone does not show the batch size.

    The square of the scatter, over that of the simulated runs and averaged over the values, is about chi-squared; its
    degrees of freedom follow from the correlations of the values (Satterthwaite).
    """
    from scipy.stats import chi2

    seeds, weights, draws = len(problem.values), problem.records.weights, answer.noise.draws
    if seeds == 1 or problem.errors == "seeds":
        return []
    deviations = np.where(weights > 0, problem.records.flat(problem.values) - problem.mean, 0.0)
    scatter = seeds / (seeds - 1) * ((weights * deviations) ** 2).sum(axis=0)
    ratio = float((scatter / draws.var(axis=0)).mean())
    units = (draws - draws.mean(axis=0)) / (draws.std(axis=0) * np.sqrt(draws.size))
    freedom = (seeds - 1) / ((units @ units.T) ** 2).sum()
    likely = chi2.ppf([UNLIKELY_SCATTER, 1 - UNLIKELY_SCATTER], freedom) / freedom
    if likely[0] <= ratio <= likely[1] or 1 / NAMED_SCATTER <= ratio**0.5 <= NAMED_SCATTER:
        return []
    stated = f" ({problem.theory.clock.sampling})" if isinstance(problem.theory, ClassTheory) else ""
    return [
        f"the seeds scatter {ratio**0.5:.2g} times as much as the simulated runs{stated}, from which errors and p "
        "follow; check batch_size, and that each column is one seed"
    ]


def _rivals(problem: Problem, answer: Answer) -> list[str]:
    """Estimates at other minima that the weighted squares do not exclude."""
    theory, rivals = problem.theory, []
    shift = answer.expected - theory.curves(answer.x)

    def square(x: Floats) -> float:
        residuals = problem.mean - problem.records.flat(theory.curves(x) + shift)
        return square_of(weighted(answer.weights, residuals)) / float(np.mean(answer.units))

    for other in answer.minima[1:]:
        try:
            x, _ = least(problem, answer.weights, shift, other.x)
            rise = square(x) - square(answer.x)
        except RuntimeError:
            continue
        if rise < LARGEST_RISE and np.abs(x - answer.x).max() > SAME:
            rivals.append(theory.in_words(x))
    return list(dict.fromkeys(rivals))


def _largest(problem: Problem, answer: Answer) -> str:
    """The value with the largest residual, in words."""
    residuals = np.abs(problem.mean - problem.records.flat(answer.expected)) / answer.test.s
    i = int(residuals.argmax())
    k, j = int(problem.records.row[i]), int(problem.records.column[i])
    return (
        f"{problem.names[j]} at t = {problem.theory.t[k]:.4g}: the trace has {problem.mean[i]:.4g}, the theory "
        f"{answer.expected[k, j]:.4g}, {residuals[i]:.2g} standard deviations away"
    )
