"""What a sweep measures in each cell: every observable with its variables, and how each kind of cell measures it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trajectory, TransformerRun
from snapdyn.dynamics.registry import Registry
from snapdyn.dynamics.systems.own.declaration import OwnSystem
from snapdyn.errors import InputError, shown
from snapdyn.validation import Ladder
from snapdyn.validation import observables as of_run
from snapdyn.validation.rungs.run import BRANCHES

# Kinds of cells: what a cell runs.
ODE, SGD, LADDER, TRANSFORMER = "ode", "sgd", "ladder", "transformer"
STEPS = "batch-size-1 steps"
RUNGS = {rung for rungs in BRANCHES.values() for rung in rungs}
LARGEST_INTEGER = int(sys.float_info.max)  # that a float can hold
Values = dict[str, Any]  # of the variables of one cell: numbers, texts, or lists of them


@dataclass(frozen=True)
class Variable:
    """A variable of the result of a sweep.

    Attributes
    ----------
    name : str
    units : str
        "" for a pure number.
    meaning : str
        Becomes `long_name` in the dataset.
    dims : tuple of str
        Dimensions besides those of the design.
    text : bool
        Whether the values are texts.

    Examples
    --------
    >>> from snapdyn import Variable
    >>> Variable("loss", "nats", "loss at the end").dims
    ()
    """

    name: str
    units: str = ""
    meaning: str = ""
    dims: tuple[str, ...] = ()
    text: bool = False


@dataclass(frozen=True)
class CellRun:
    """What an observable measures in a cell that integrates a system or trains by SGD.

    Attributes
    ----------
    run : Trajectory
    eta_Y : float
        Learning rate of the decoder, per batch-size-1 step.
    transition : float
        Measured time of the transition in batch-size-1 steps; inf: not by the end of the run. Only for observables
        with `needs_transition`.
    has_theory : bool
        Whether the theory's times apply: not with Adam, a random start or weight decay.
    """

    run: Trajectory
    eta_Y: float
    transition: float
    has_theory: bool = True

    @property
    def classes(self) -> SequenceClasses:
        """The sequence classes; InputError for a system that has none."""
        if self.run.classes is None:
            raise InputError(
                f"expected observables of a system without classes (loss, growth_exponent), received others with "
                f"{self.run.system}; see docs/how_to/sweeps.md"
            )
        return self.run.classes

    @property
    def run_of_classes(self) -> Trajectory:
        """The trajectory; InputError for a system without classes."""
        _ = self.classes
        return self.run


@dataclass(frozen=True)
class Observable:
    """An observable of a sweep.

    Attributes
    ----------
    name : str
        What [sweep] observables names.
    variables : tuple of Variable
        What it adds to the result.
    measures : mapping of str to callable
        By kind of cell (ODE, SGD, LADDER, TRANSFORMER), from its run to the value of the only variable, or to a
        mapping of the names of all variables to their values. The run is a `CellRun` for ODE and SGD, a `Ladder`, or a
        `TransformerRun`.
    needs_transition : bool
        Whether the time of the transition is measured for it.
    default : bool
        Whether a sweep that names no observables measures it.
    needs_classes : bool
        Whether it belongs to systems of sequence classes.

    Examples
    --------
    >>> import snapdyn as sd
    >>> final = sd.Observable(
    ...     "final_loss",
    ...     (sd.Variable("final_loss", "nats", "loss at the end"),),
    ...     {"ode": lambda cell: cell.run.loss[-1]},
    ... )
    >>> final.measures.keys()
    dict_keys(['ode'])
    """

    name: str
    variables: tuple[Variable, ...]
    measures: Mapping[str, Callable[[Any], Any]]
    needs_transition: bool = False
    default: bool = False
    needs_classes: bool = True

    def values(self, kind: str, run: Any) -> Values:
        """Values of the variables in one cell."""
        value = self.measures[kind](run)
        return dict(value) if len(self.variables) > 1 else {self.variables[0].name: value}


def _of_trajectory(measure: Callable[[CellRun], Any]) -> dict[str, Callable[[Any], Any]]:
    return {ODE: measure, SGD: measure}


def _growth_exponent(cell: CellRun) -> float:
    if "B" not in cell.run.extra:
        raise InputError(
            f"expected the system SingleCommonToken for the observable growth_exponent, received {cell.run.system}; "
            "leave it out"
        )
    return float(cell.run.extra["B"][-1, 0])


def _transition(cell: CellRun) -> Values:
    times = of_run.transition_times(cell.classes, cell.eta_Y)
    return {"transition_time": cell.transition, **(times if cell.has_theory else dict.fromkeys(times, np.nan))}


def _phase(cell: CellRun) -> Values:
    run = cell.run_of_classes
    return {
        "phase": of_run.phase(run, cell.transition),
        "winner_share": of_run.winner_share(run),
        "late_speed": of_run.late_speed(run),
    }


def _loss_series(cell: CellRun) -> Values:
    return {"loss_series": cell.run.loss, "time": cell.run.t}


def _entropy_series(cell: CellRun) -> Values:
    return {"entropy_series": cell.run_of_classes.entropy().mean(axis=1), "time": cell.run.t}


def _iterations(run: TransformerRun) -> np.ndarray:
    return run.iteration.astype(float)


def _gaps(ladder: Ladder) -> dict[str, float]:
    largest = ladder.gaps.gap.max(("observable", "t"))
    return {str(rung): float(value) for rung, value in zip(largest.rung.values, largest.values, strict=True)}


def _first_break(ladder: Ladder) -> str:
    first = ladder.first_break()
    return first.rung if first else "none"


TIME = Variable("time", STEPS, "times of the series", ("time",))
OBSERVABLES: Registry[Observable] = Registry(
    "observable",
    lambda observable: observable.name,
    [
        Observable(
            "entropy",
            (Variable("entropy", "nats", "entropy of attention at the end, mean over classes"),),
            _of_trajectory(lambda cell: cell.run_of_classes.entropy()[-1].mean())
            | {TRANSFORMER: lambda run: run.entropy[-1]},
            default=True,
        ),
        Observable(
            "class_entropy",
            (Variable("class_entropy", "nats", "entropy of attention at the end", ("class",)),),
            _of_trajectory(lambda cell: cell.run_of_classes.entropy()[-1]),
        ),
        Observable(
            "distinct_entropy",
            (
                Variable(
                    "distinct_entropy", "nats",
                    "entropy at the end of attention to the class's distinct tokens, renormalised, mean over classes",
                ),
            ),
            _of_trajectory(lambda cell: cell.run_of_classes.entropy(distinct_only=True)[-1].mean()),
        ),
        Observable(
            "growth_exponent",
            (Variable("growth_exponent", "", "growth exponent B at the end"),),
            {ODE: _growth_exponent},
            needs_classes=False,
        ),
        Observable(
            "loss",
            (Variable("loss", "nats", "loss at the end"),),
            _of_trajectory(lambda cell: cell.run.loss[-1]) | {TRANSFORMER: lambda run: run.loss[-1]},
            default=True,
            needs_classes=False,
        ),
        Observable(
            "transition_time",
            (
                Variable(
                    "transition_time", STEPS,
                    "time at which the speed of attention peaks, judged by the loss; inf: not by the end of the run",
                ),
                Variable("t_peak", STEPS, "t*: peak of gamma"),
                Variable("t_start", STEPS, "t0' = K ln V/eta_Y"),
                Variable("t_end", STEPS, "t0 = 2 (1+omega_1) K ln V/eta_Y"),
            ),
            _of_trajectory(_transition),
            needs_transition=True,
        ),
        Observable(
            "phase",
            (
                Variable("phase", "", ", ".join(f"{number}: {name}" for number, name in enumerate(of_run.PHASES))),
                Variable("winner_share", "", "largest attention to one distinct token at the end, mean over classes"),
                Variable("late_speed", "", "speed of attention per unit of ln t in the last decade, over its fastest"),
            ),
            {ODE: _phase},
            needs_transition=True,
        ),
        Observable(
            "fallen_share",
            (Variable("fallen_share", "", "share of distinct tokens whose logit has fallen from its highest"),),
            {ODE: lambda cell: of_run.fallen_share(cell.run_of_classes)},
        ),
        Observable(
            "loss_series",
            (Variable("loss_series", "nats", "loss", ("time",)), TIME),
            _of_trajectory(_loss_series)
            | {TRANSFORMER: lambda run: {"loss_series": run.loss, "time": _iterations(run)}},
        ),
        Observable(
            "entropy_series",
            (Variable("entropy_series", "nats", "entropy of attention, mean over classes", ("time",)), TIME),
            _of_trajectory(_entropy_series)
            | {TRANSFORMER: lambda run: {"entropy_series": run.entropy, "time": _iterations(run)}},
        ),
        Observable(
            "largest_gap",
            (Variable("largest_gap", "of what happens", "largest gap between neighbouring rungs of the ladder"),),
            {LADDER: lambda ladder: max(_gaps(ladder).values())},
            default=True,
        ),
        Observable(
            "gap",
            (Variable("gap", "of what happens", "largest gap of each rung to the one above", ("rung",)),),
            {LADDER: _gaps},
        ),
        Observable(
            "first_break",
            (Variable("first_break", "", "first rung, from the finest down, that breaks the tolerance", text=True),),
            {LADDER: _first_break},
        ),
    ],
)  # fmt: skip
"""Observables that sweep files can name; `OBSERVABLES.add` adds a user's observable."""


def of_own_system(system: OwnSystem) -> list[Observable]:
    """Observables of a sweep with a user's system: each of its scalar observables and state values, at the end."""

    def last(name: str) -> Callable[[CellRun], Any]:
        return lambda cell: cell.run.observable(name)[-1]

    return [
        Observable(name, (Variable(name, "", f"{name} at the end"),), {ODE: last(name)}, needs_classes=False)
        for name in system.scalar_names()
    ]


def declare_own_observables(system: Any) -> None:
    """Add the observables of a user's system to `OBSERVABLES`; another system may measure one of the same name."""
    for observable in of_own_system(system):
        if observable.name not in OBSERVABLES:
            OBSERVABLES.add(observable)


def declared_values(variables: Sequence[Variable], values: Mapping[str, Any]) -> Values:
    """Return the values of declared variables, after checking that each is what its variable holds.

    Parameters
    ----------
    variables : sequence of Variable
    values : mapping of str to number, text, list of them, or mapping of rungs to numbers
        As JSON has them. Names of no variable are left out.

    Raises
    ------
    ValueError
        A variable has no value, or a value of another kind.
    """
    declared = {variable.name: variable for variable in variables}
    for name, variable in declared.items():
        if name not in values:
            raise ValueError(f"expected a value of {name}, received none")
        if not _fits(variable, values[name]):
            expected = "text" if variable.text else "number"
            form = f"a list of {expected}s" if variable.dims else f"one {expected}"
            raise ValueError(f"expected {name} to be {form}, received {shown(values[name])}")
    return {name: value for name, value in values.items() if name in declared}


def _fits(variable: Variable, value: Any) -> bool:
    entries = [value]
    if variable.dims:
        if isinstance(value, dict) and variable.dims == ("rung",):
            if not value.keys() <= RUNGS:
                return False
            entries = list(value.values())
        elif isinstance(value, list):
            entries = value
        else:
            return False
    if variable.text:
        return all(isinstance(entry, str) for entry in entries)
    return all(
        isinstance(entry, float) or (isinstance(entry, int) and abs(entry) <= LARGEST_INTEGER) for entry in entries
    )


def observables_of(kind: str) -> tuple[str, ...]:
    """Names of the observables that a kind of cell has."""
    return tuple(name for name, observable in OBSERVABLES.items() if kind in observable.measures)


def default_observables(kind: str, has_classes: bool = True, system: Any = None) -> tuple[str, ...]:
    """Names of the observables of a sweep that names none; of a user's system, and of no other, those that it has."""
    if isinstance(system, type) and issubclass(system, OwnSystem):
        return tuple(name for name in system().scalar_names() if name in OBSERVABLES)
    if has_classes:
        return tuple(name for name in observables_of(kind) if OBSERVABLES[name].default)
    return tuple(
        name for name in observables_of(kind) if name in OBSERVABLES.own and not OBSERVABLES[name].needs_classes
    )


def variables() -> dict[str, Variable]:
    """All variables of the result by name."""
    return {variable.name: variable for observable in OBSERVABLES.values() for variable in observable.variables}
