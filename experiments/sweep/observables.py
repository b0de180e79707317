"""What a sweep measures in each cell: observables by name, the variables that they add, and for which cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.errors import InputError
from snapdyn.experiments.sweep.store import Values
from snapdyn.validation import observables as of_run

# Kinds of cells.
ODE, SGD, LADDER, TRANSFORMER = "ode", "sgd", "ladder", "transformer"


@dataclass(frozen=True)
class Variable:
    """A variable of the result: its dimensions besides those of the design, its units and its meaning."""

    dims: tuple[str, ...] = ()
    units: str = ""
    meaning: str = ""
    text: bool = False


STEPS = "batch-size-1 steps"
VARIABLES: dict[str, Variable] = {
    "entropy": Variable((), "nats", "entropy of attention at the end, mean over classes"),
    "class_entropy": Variable(("class",), "nats", "entropy of attention at the end"),
    "distinct_entropy": Variable(
        (), "nats", "entropy at the end of attention to the class's distinct tokens, renormalised, mean over classes"
    ),
    "loss": Variable((), "nats", "loss at the end"),
    "growth_exponent": Variable((), "", "growth exponent B at the end"),
    "transition_time": Variable(
        (), STEPS, "time at which the speed of attention peaks, judged by the loss; inf: not by the end of the run"
    ),
    "t_peak": Variable((), STEPS, "t*: peak of gamma"),
    "t_start": Variable((), STEPS, "t0' = K ln V/eta_Y"),
    "t_end": Variable((), STEPS, "t0 = 2 (1+omega_1) K ln V/eta_Y"),
    "phase": Variable((), "", ", ".join(f"{number}: {name}" for number, name in enumerate(of_run.PHASES))),
    "winner_share": Variable((), "", "largest attention to one distinct token at the end, mean over classes"),
    "late_speed": Variable((), "", "speed of attention per unit of ln t in the last decade, over its fastest"),
    "fallen_share": Variable((), "", "share of distinct tokens whose logit has fallen from its highest"),
    "time": Variable(("time",), STEPS, "times of the series"),
    "loss_series": Variable(("time",), "nats", "loss"),
    "entropy_series": Variable(("time",), "nats", "entropy of attention, mean over classes"),
    "largest_gap": Variable((), "of what happens", "largest gap between neighbouring rungs of the ladder"),
    "gap": Variable(("rung",), "of what happens", "largest gap of each rung to the one above"),
    "first_break": Variable((), "", "first rung, from the finest down, that breaks the tolerance", text=True),
}


@dataclass(frozen=True)
class Result:
    """What an observable may look at: the trajectory, the times of the transition, what was run."""

    run: Trajectory
    eta_Y: float
    transition: float
    has_theory: bool = True  # of the transition's time: not Adam, a random start or weight decay

    @property
    def classes(self) -> SequenceClasses:
        """The classes, which a reduced system does not have."""
        if self.run.classes is None:
            raise InputError(
                f"expected observables of a system without classes (loss, growth_exponent), received others with "
                f"{self.run.system}; see docs/sweeps.md"
            )
        return self.run.classes


Observable = Callable[[Result], Values]


def _phase(result: Result) -> Values:
    _ = result.classes
    return {
        "phase": of_run.phase(result.run, result.transition),
        "winner_share": of_run.winner_share(result.run),
        "late_speed": of_run.late_speed(result.run),
    }


def _theory_times(result: Result) -> Values:
    times = of_run.transition_times(result.classes, result.eta_Y)
    return times if result.has_theory else dict.fromkeys(times, np.nan)


def _with_classes(measure: Callable[[Trajectory], Any]) -> Callable[[Result], Any]:
    def measured(result: Result) -> Any:
        _ = result.classes
        return measure(result.run)

    return measured


def _growth_exponent(run: Trajectory) -> float:
    if "B" not in run.extra:
        raise InputError(
            f"expected the system SingleCommonToken for the observable growth_exponent, received {run.system}; "
            "leave it out"
        )
    return float(run.extra["B"][-1, 0])


def _named(name: str, measure: Callable[[Result], Any]) -> Observable:
    return lambda result: {name: measure(result)}


# By the name that a file gives; each adds variables of VARIABLES.
OBSERVABLES: dict[str, Observable] = {
    "entropy": _named("entropy", _with_classes(lambda run: run.entropy()[-1].mean())),
    "class_entropy": _named("class_entropy", _with_classes(lambda run: run.entropy()[-1])),
    "distinct_entropy": _named(
        "distinct_entropy", _with_classes(lambda run: run.entropy(distinct_only=True)[-1].mean())
    ),
    "loss": _named("loss", lambda result: result.run.loss[-1]),
    "growth_exponent": _named("growth_exponent", lambda result: _growth_exponent(result.run)),
    "transition_time": lambda result: {"transition_time": result.transition, **_theory_times(result)},
    "phase": _phase,
    "fallen_share": _named("fallen_share", _with_classes(of_run.fallen_share)),
    "loss_series": lambda result: {"loss_series": result.run.loss, "time": result.run.t},
    "entropy_series": lambda result: {
        "entropy_series": _with_classes(lambda run: run.entropy().mean(axis=1))(result),
        "time": result.run.t,
    },
}
# Variables of the observables that have not just one of their own name.
ADDS = {
    "transition_time": ("transition_time", *of_run.TIMES),
    "phase": ("phase", "winner_share", "late_speed"),
    "loss_series": ("loss_series", "time"),
    "entropy_series": ("entropy_series", "time"),
}
NEED_TRANSITION = {"transition_time", "phase"}
# What may be asked of each kind of cell; the first ones are the default.
KINDS: dict[str, tuple[str, ...]] = {
    ODE: tuple(OBSERVABLES),
    SGD: tuple(name for name in OBSERVABLES if name not in ("growth_exponent", "phase", "fallen_share")),
    LADDER: ("largest_gap", "gap", "first_break"),
    TRANSFORMER: ("entropy", "loss", "entropy_series", "loss_series"),
}
DEFAULTS: dict[str, tuple[str, ...]] = {
    ODE: ("entropy", "loss"),
    SGD: ("entropy", "loss"),
    LADDER: ("largest_gap",),
    TRANSFORMER: ("entropy", "loss"),
}
