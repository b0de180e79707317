"""One cell of a sweep: run what its sections say, and measure the observables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.class_sections import CLASSES
from snapdyn.configuration import build_system
from snapdyn.dynamics import InputError, SequenceClasses, Trajectory, momentum_clock, sgd
from snapdyn.sections import (
    SYSTEMS,
    LadderSection,
    Run,
    SGDSection,
    SystemSection,
    transformer_section,
)
from snapdyn.sweep_storage import Values, code_hash
from snapdyn.toml_files import Model, read_section
from snapdyn.validation import phases

if TYPE_CHECKING:
    from snapdyn.dynamics.transformer_runs import TransformerRun
    from snapdyn.validation.gaps import Ladder

ODE, SGD, LADDER, TRANSFORMER = "ode", "sgd", "ladder", "transformer"
RECORDED_STEPS = 200  # of SGD, log-spaced, where the file says nothing


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
    "phase": Variable((), "", ", ".join(f"{number}: {name}" for number, name in enumerate(phases.PHASES))),
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
        "phase": phases.phase(result.run, result.transition),
        "winner_share": phases.winner_share(result.run),
        "late_speed": phases.late_speed(result.run),
    }


def _with_classes(measure: Callable[[Trajectory], Any]) -> Callable[[Result], Any]:
    def measured(result: Result) -> Any:
        _ = result.classes
        return measure(result.run)

    return measured


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
    "transition_time": lambda result: {
        "transition_time": result.transition,
        **phases.transition_times(result.classes, result.eta_Y),
    },
    "phase": _phase,
    "fallen_share": _named("fallen_share", _with_classes(phases.fallen_share)),
    "loss_series": lambda result: {"loss_series": result.run.loss, "time": result.run.t},
    "entropy_series": lambda result: {
        "entropy_series": _with_classes(lambda run: run.entropy().mean(axis=1))(result),
        "time": result.run.t,
    },
}
# Variables of the observables that have not just one of their own name.
ADDS = {
    "transition_time": ("transition_time", *phases.TIMES),
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
    TRANSFORMER: ("entropy", "entropy_series"),
}
DEFAULTS: dict[str, tuple[str, ...]] = {
    ODE: ("entropy", "loss"),
    SGD: ("entropy", "loss"),
    LADDER: ("largest_gap",),
    TRANSFORMER: ("entropy",),
}


def models(kind: str) -> dict[str, Model]:
    """Model of each section of a cell's file."""
    if kind == TRANSFORMER:
        return {"transformer": transformer_section()}
    own: dict[str, dict[str, Model]] = {
        ODE: {"system": SYSTEMS, "run": Run},
        SGD: {"sgd": SGDSection},
        LADDER: {"ladder": LadderSection},
    }
    return {"classes": CLASSES, **own[kind]}


class CellFailed(Exception):
    """A run that did not come to its end, with its own message."""


@dataclass(frozen=True)
class Cell:
    """What a worker needs: settings as canonical JSON by section."""

    number: int
    key: str
    sections: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """A cell's values, or the reason why it has none."""

    number: int
    seconds: float
    values: Values | None = None
    reason: str = ""
    run: TransformerRun | None = None


def run_cells(
    kind: str, observables: Sequence[str], folder: str, out: str, code: str, cells: Sequence[Cell]
) -> list[Outcome]:
    """Run some cells, one after the other; what a worker is sent. A failing cell does not stop the others.

    Raises
    ------
    InputError
        The worker runs another version of the code than the sweep.
    """
    if code_hash() != code:
        raise InputError(
            "expected workers with the code of this sweep, received one with another version of snapdyn; install the "
            "same version everywhere"
        )
    outcomes = []
    for cell in cells:
        started = time.perf_counter()
        run = None
        try:
            if kind == TRANSFORMER:
                run = _trained(cell.sections["transformer"], folder, Path(out) / "checkpoints" / cell.key)
                values = _of_transformer(run, observables)
            else:
                values = _measured(kind, cell.sections, observables, folder)
            found = Outcome(cell.number, time.perf_counter() - started, _plain(values), run=run)
        except Exception as error:  # whatever goes wrong in one cell is that cell's result
            reason = str(error) if isinstance(error, (InputError, CellFailed)) else f"{type(error).__name__}: {error}"
            found = Outcome(cell.number, time.perf_counter() - started, reason=" ".join(reason.split()))
        outcomes.append(found)
    return outcomes


@lru_cache(maxsize=64)
def _section(kind: str, name: str, text: str) -> Any:
    return read_section(models(kind)[name], json.loads(text), f"[{name}]")


@lru_cache(maxsize=8)
def _classes(kind: str, text: str, folder: str) -> SequenceClasses:
    classes: SequenceClasses = _section(kind, "classes", text).build(Path(folder))
    return classes


def _measured(kind: str, sections: dict[str, str], observables: Sequence[str], folder: str) -> Values:
    classes = _classes(kind, sections["classes"], folder) if "classes" in sections else None
    if kind == ODE:
        system, run = (_section(kind, name, sections[name]) for name in ("system", "run"))
        return _observed(_integrated(system, run, classes, observables), observables)
    assert classes is not None
    if kind == LADDER:
        return _of_ladder(_section(kind, "ladder", sections["ladder"]).compute(classes), observables)
    return _observed(_descended(_section(kind, "sgd", sections["sgd"]), classes, observables), observables)


def _observed(result: Result, observables: Sequence[str]) -> Values:
    values: Values = {}
    for name in observables:
        values |= OBSERVABLES[name](result)
    return values


def _integrated(
    section: SystemSection, run: Run, classes: SequenceClasses | None, observables: Sequence[str]
) -> Result:
    system = build_system(section, classes)
    events = {}
    if NEED_TRANSITION & set(observables):
        if classes is None:
            raise InputError(
                f"expected a system of classes for the observables transition_time and phase, received {section.kind}; "
                "leave them out"
            )
        events["transition"] = phases.transition_event(classes.vocab_size)
    trajectory = _whole(run.integrate(system, events=events))
    transition = trajectory.events[0].t if trajectory.events else np.inf
    return Result(trajectory, system.eta_Y, transition)


def _descended(section: SGDSection, classes: SequenceClasses, observables: Sequence[str]) -> Result:
    measures = bool(NEED_TRANSITION & set(observables))
    if measures and section.residual:
        raise InputError(
            "expected no residual with the observable transition_time of SGD, received residual = true; leave one out"
        )
    record: Any = section.record
    if record is None:
        record = np.union1d([0], np.geomspace(1, section.steps, RECORDED_STEPS).round().astype(int))
    (seed,) = section.seed_list()
    trajectory = _whole(
        sgd(classes, section.eta_Y, section.eta_Z, section.steps, seed=seed, record=record, save_decoder=measures,
            **section.settings())
    )  # fmt: skip
    transition = np.inf
    if measures:
        from snapdyn.validation.gaps import decoder_observables

        # Of the state, at infinitely long sequences: the loss of a drawn batch would cross earlier by its noise.
        loss = decoder_observables(trajectory)["loss"] @ classes.prior
        t = trajectory.t if section.optimizer == "adam" else momentum_clock(trajectory.t, section.momentum)
        transition = phases.transition_between(t, loss, classes.vocab_size)
    return Result(trajectory, section.eta_Y, transition)


def _whole(run: Trajectory) -> Trajectory:
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if run.status != "finished":
        raise CellFailed(run.message)
    return run


def _growth_exponent(run: Trajectory) -> float:
    if "B" not in run.extra:
        raise InputError(
            f"expected the system SingleCommonToken for the observable growth_exponent, received {run.system}; "
            "leave it out"
        )
    return float(run.extra["B"][-1, 0])


def _of_ladder(ladder: Ladder, observables: Sequence[str]) -> Values:
    largest = ladder.gaps.gap.max(("observable", "t"))
    gaps = {str(rung): float(value) for rung, value in zip(largest.rung.values, largest.values, strict=True)}
    found = ladder.first_break()
    values = {
        "largest_gap": max(gaps.values()),
        "gap": gaps,
        "first_break": found.rung if found else "none",
    }
    return {name: values[name] for name in observables}


def _trained(section: str, folder: str, checkpoint: Path) -> TransformerRun:
    """Train; a run that was interrupted goes on from its checkpoint, where this machine sees the sweep's folder."""
    options = {"checkpoint": checkpoint} if checkpoint.parent.is_dir() else {}
    run: TransformerRun = _section(TRANSFORMER, "transformer", section).train(Path(folder), **options)
    return run


def _of_transformer(run: TransformerRun, observables: Sequence[str]) -> Values:
    values: Values = {"entropy": run.entropy[-1]} if "entropy" in observables else {}
    if "entropy_series" in observables:
        values |= {"entropy_series": run.entropy, "time": run.iteration.astype(float)}
    return values


def _plain(values: Values) -> Values:
    """Numbers and arrays of numpy as Python's, for JSON."""
    return {
        name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value for name, value in values.items()
    }
