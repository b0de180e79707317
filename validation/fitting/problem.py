"""What a fit is given: a theory, the recorded values, and the points from which the search starts."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, choice, instance, list_of, shown, unknown_name, whole
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.systems.base import System, checked_classes
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.own.own_system import OwnSystem
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.validation.fitting import observations
from snapdyn.validation.fitting.bootstrap import Records
from snapdyn.validation.fitting.theories import LINEAR, LOGARITHM, ODDS, ClassTheory, OwnTheory, Theory

# Start of free rates: eta_Y t_end and eta_Z/eta_Y over these grids.
CLOCKS = np.geomspace(0.03, 30.0, 13)  # where both rates are given
SPANS, RATIOS = np.geomspace(1.0, 3000.0, 9), np.geomspace(0.01, 30.0, 8)
STARTS = 4  # points of the grid from which minima are sought
FEWEST_SEEDS, FEWEST_RECORDS = 8, 4
SMALLEST_CHANGE = 1e-9  # of observations: smaller changes are errors of the integration
MOST_VALUES = 20_000  # recorded values that enter a fit


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


def problem_of_classes(
    trace: Trace,
    classes: SequenceClasses,
    system: type[System],
    free: Any,
    rates: dict[str, float | None],
    quantity: str | None,
    errors: Any,
    z_initial: ArrayLike | None,
    most_records: int,
) -> Problem:
    """The problem of a theory of sequence classes."""
    if trace.observables:
        raise InputError(
            "expected a trace of attention, loss or entropy for sequence classes, received one of the observables "
            f"{', '.join(trace.observables)}; give their system in place of the classes"
        )
    trace = trace.for_classes(checked_classes(classes))
    choice("errors", errors, ("simulation", "seeds"))
    names = observations.checked_free(free)
    fixed, start = observations.fixed_and_start(names, rates["eta_Y"], rates["eta_Z"], classes)
    quantity = observations.chosen_quantity(trace, quantity)
    if trace.clock.has_rule and system is not MeanField:
        raise InputError(
            f"expected system=MeanField for a trace of {trace.clock.words}, received {shown(system)}; leave system out"
        )
    length = None if trace.clock.has_rule else trace.finite_length
    system = _checked_system(system, length, names, z_initial is not None)
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
        records=records_of(values[:, rows], theory.t),
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
    return replace(problem, starts=starts_of(problem, {**fixed, **start}))


def problem_of_own(trace: Trace, system: System, free: Any, errors: Any, most_records: int) -> Problem:
    """The problem of a system of the user."""
    own: OwnSystem = instance("classes", system, OwnSystem, "give sequence classes, or a system of System.from_sympy")
    if not trace.observables:
        raise InputError(
            f"expected a trace of observables of {own.name}, received one of a training run; build it with "
            "Trace(steps, observables={name: values})"
        )
    listed = (free,) if isinstance(free, str) else tuple(free) if isinstance(free, (list, tuple)) else ()
    numbers = {name: value for name, value in own.parameters.items() if isinstance(value, (int, float))}
    list_of("free", listed, str, at_least=1, different=True)
    for name in listed:
        if name not in numbers:
            raise unknown_name(f"a parameter of {own.name}", name, numbers)
    for name in trace.observables:
        choice(f"an observable of {own.name}", name, own.scalar_names())
    if not callable(errors):
        choice("errors", errors, ("simulation", "seeds"))
    values = np.stack(list(trace.observables.values()), axis=-1)
    rows = _chosen_rows(values, trace.t, most_records, "an observable")
    theory = OwnTheory(
        free=listed,
        scales={name: LOGARITHM if numbers[name] > 0 else LINEAR for name in listed},
        fixed={name: float(value) for name, value in numbers.items() if name not in listed},
        t=trace.t[rows],
        system=own,
        names=tuple(trace.observables),
        process=errors if callable(errors) else None,
        rows=rows,
    )
    problem = Problem(
        theory=theory,
        values=values[:, rows],
        records=records_of(values[:, rows], theory.t),
        errors="simulation" if callable(errors) else "seeds",
        names=list(trace.observables),
        unit=_unit(values),
        starts=[theory.coordinates(numbers)],
        at_zero=_at_zero(values, trace.t),
        clock="t is the recorded step, the time of the system",
        knows_length=True,
        shifts=True,
        name=own.name,
    )
    _check_values(problem)
    return problem


def _unit(values: Floats) -> Floats:
    """Range of each column (m,) of values (R, N, m); its largest value where it stays the same, 1 where this is 0."""
    lowest, highest = np.nanmin(values, axis=(0, 1)), np.nanmax(values, axis=(0, 1))
    size = np.maximum(np.abs(lowest), np.abs(highest))
    unit = np.where(highest - lowest > SMALLEST_CHANGE * size, highest - lowest, size)
    return np.where(unit > 0, unit, 1.0)


def _chosen_rows(values: Floats, t: Floats, most: int, quantity: str) -> Ints:
    """At most so many records after t = 0 with a value of some seed, evenly spaced."""
    used = np.flatnonzero((t > 0) & np.isfinite(values).any(axis=(0, 2)))
    whole(f"the number of records of {quantity} after t = 0", used.size, FEWEST_RECORDS, advice="record more often")
    most = max(FEWEST_RECORDS, min(most, MOST_VALUES // values.shape[2], used.size))
    return used[np.unique(np.linspace(0, used.size - 1, most).astype(int))]


def records_of(values: Floats, t: Floats) -> Records:
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


def starts_of(problem: Problem, given: dict[str, float]) -> list[Floats]:
    """Coordinates of the best span eta_Y t_end for each ratio of a grid of rates, best first; given rates are kept."""
    theory, t_end = problem.theory, float(problem.theory.t[-1])
    has_rule = isinstance(theory, ClassTheory) and theory.clock.has_rule
    spans = [given["eta_Y"] * t_end] if "eta_Y" in given else SPANS / 10.0 if has_rule else SPANS
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
