"""One cell of a sweep: run what its sections say, and measure the observables."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trajectory, momentum_clock, sgd
from snapdyn.errors import InputError
from snapdyn.experiments.class_sections import CLASSES
from snapdyn.experiments.run_files import build_system
from snapdyn.experiments.sweep.observables import LADDER, NEED_TRANSITION, OBSERVABLES, ODE, SGD, TRANSFORMER, Result
from snapdyn.experiments.sweep.store import Values, code_hash
from snapdyn.experiments.system_sections import (
    SYSTEMS,
    LadderSection,
    Run,
    SGDSection,
    SystemSection,
    transformer_section,
)
from snapdyn.experiments.toml_files import Model, read_section
from snapdyn.validation.comparison import OF_THEORY
from snapdyn.validation.observables import transition_between, transition_event

if TYPE_CHECKING:
    from snapdyn.dynamics.training.transformer.runs import TransformerRun
    from snapdyn.validation.rungs.gaps import Ladder

RECORDED_STEPS = 200  # of SGD, log-spaced, where the file says nothing


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
    bad_input: bool = False  # whether that is the reason
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
            seconds, bad_input = time.perf_counter() - started, isinstance(error, InputError)
            found = Outcome(cell.number, seconds, reason=" ".join(reason.split()), bad_input=bad_input)
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
        events["transition"] = transition_event(classes.vocab_size)
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
        from snapdyn.validation.rungs.gaps import decoder_observables

        # Of the state, at infinitely long sequences: the loss of a drawn batch would cross earlier by its noise.
        with np.errstate(all="ignore"):  # of rates so large that probabilities underflow
            loss = decoder_observables(trajectory)["loss"] @ classes.prior
        t = trajectory.t if section.optimizer == "adam" else momentum_clock(trajectory.t, section.momentum)
        transition = transition_between(t, loss, classes.vocab_size)
    has_theory = all(getattr(section, name) == value for name, value in OF_THEORY.items())
    return Result(trajectory, section.eta_Y, transition, has_theory)


def _whole(run: Trajectory) -> Trajectory:
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if run.status != "finished":
        raise CellFailed(run.message)
    return run


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
    time = run.iteration.astype(float)
    values: dict[str, Values] = {
        "entropy": {"entropy": run.entropy[-1]},
        "loss": {"loss": run.loss[-1]},
        "entropy_series": {"entropy_series": run.entropy, "time": time},
        "loss_series": {"loss_series": run.loss, "time": time},
    }
    return {name: value for observable in observables for name, value in values[observable].items()}


def _plain(values: Values) -> Values:
    """Numbers and arrays of numpy as Python's, for JSON."""
    return {
        name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value for name, value in values.items()
    }
