"""One cell of a sweep: run what its sections say, and measure the observables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trajectory, sgd
from snapdyn.dynamics.observables import LADDER, ODE, TRANSFORMER, Observable
from snapdyn.dynamics.user_files import load_file, loaded_files
from snapdyn.errors import InputError
from snapdyn.experiments import training_sections
from snapdyn.experiments.sweep.files import Cell, load_plugins, models
from snapdyn.experiments.sweep.store import checkpoint_file, code_hash
from snapdyn.experiments.system_sections import RunSection, SystemSection
from snapdyn.validation.cells import Values, chosen, declared_values
from snapdyn.validation.observables import transition_event

if TYPE_CHECKING:
    from snapdyn.dynamics import TransformerRun

RECORDED_STEPS = 200  # of SGD, log-spaced, if the file has no record


class CellFailed(Exception):
    """A run failed; the message is that of the run."""


@dataclass(frozen=True)
class Outcome:
    """A cell's values, or the reason why it has none."""

    number: int
    seconds: float
    values: Values | None = None
    reason: str = ""
    bad_input: bool = False  # whether the reason is bad input
    run: TransformerRun | None = None


def run_cells(
    kind: str, observables: Sequence[str], folder: str, out: str, files: Sequence[str], code: str, cells: Sequence[Cell]
) -> list[Outcome]:
    """Run some cells, one after the other, in a worker. A failing cell does not stop the others.

    Parameters
    ----------
    kind : str
        What a cell runs.
    observables : sequence of str
    folder : str
        Folder of the sweep file.
    out : str
        Folder of the results.
    files : sequence of str
        Python files of the user's that the sweep has loaded; the worker loads them too.
    code : str
        `code_hash` of the sweep.
    cells : sequence of Cell

    Returns
    -------
    list of Outcome

    Raises
    ------
    InputError
        The worker runs another version of the code than the sweep.
    """
    for file in files:
        if Path(file) not in loaded_files():
            load_file(file)
    if code_hash() != code:
        raise InputError(
            "expected workers with the code of this sweep, received one with another version of snapdyn; install the "
            "same version everywhere"
        )
    for kind_of_system in {json.loads(cell.sections.get("system", "{}")).get("kind") for cell in cells}:
        load_plugins(kind_of_system, observables)
    wanted, outcomes = chosen(kind, observables), []
    for cell in cells:
        started = time.perf_counter()
        run = None
        try:
            if kind == TRANSFORMER:
                section = _section(kind, "transformer", cell.sections["transformer"])
                measured = run = section.train(Path(folder), checkpoint=checkpoint_file(Path(out), cell.key))
            else:
                measured = _run(kind, cell.sections, wanted, folder)
            plain = _checked(wanted, _plain({each.name: each.values(measured) for each in wanted}))
            outcome = Outcome(cell.number, time.perf_counter() - started, plain, run=run)
        except Exception as error:  # an error in one cell is the result of that cell
            reason = str(error) if isinstance(error, (InputError, CellFailed)) else f"{type(error).__name__}: {error}"
            seconds, bad_input = time.perf_counter() - started, isinstance(error, InputError)
            outcome = Outcome(cell.number, seconds, reason=" ".join(reason.split()), bad_input=bad_input)
        outcomes.append(outcome)
    return outcomes


@lru_cache(maxsize=64)
def _section(kind: str, name: str, text: str) -> Any:
    values, model = json.loads(text), models(kind)[name]
    return (model[values["kind"]] if isinstance(model, Mapping) else model).model_validate(values)


@lru_cache(maxsize=8)
def _classes(kind: str, text: str, folder: str) -> SequenceClasses:
    classes: SequenceClasses = _section(kind, "classes", text).build(Path(folder))
    return classes


def _run(kind: str, sections: dict[str, str], observables: Sequence[Observable], folder: str) -> Any:
    """Run a cell; the result is what its observables measure."""
    classes = _classes(kind, sections["classes"], folder) if "classes" in sections else None
    measures_transition = [each.name for each in observables if each.needs_transition]
    if kind == ODE:
        system, run = (_section(kind, name, sections[name]) for name in ("system", "run"))
        return _integrated(system, run, classes, measures_transition)
    assert classes is not None  # the file has them, or is refused
    if kind == LADDER:
        return _section(kind, "ladder", sections["ladder"]).compute(classes)
    return _descended(_section(kind, "sgd", sections["sgd"]), classes, bool(measures_transition))


def _integrated(
    section: SystemSection, run: RunSection, classes: SequenceClasses | None, measures_transition: Sequence[str]
) -> Trajectory:
    system = section.build(classes)
    events = {}
    if measures_transition:
        if classes is None:
            raise InputError(
                f"expected a system of classes for {' and '.join(measures_transition)}, received {section.kind}; "
                "leave them out of observables"
            )
        events["transition"] = transition_event(classes.vocab_size)
    return _whole(run.integrate(system, events=events))


def _descended(
    section: training_sections.SGDSection, classes: SequenceClasses, measures_transition: bool
) -> Trajectory:
    settings = section.settings()
    if measures_transition and settings["residual"]:
        raise InputError(
            "expected no residual with the observable transition_time of SGD, received residual = true; leave one out"
        )
    record: Any = section.record
    if record is None:
        record = np.union1d([0], np.geomspace(1, section.steps, RECORDED_STEPS).round().astype(int))
    (seed,) = section.seed_list()
    settings |= {"seed": seed, "record": record, "save_decoder": measures_transition}
    return _whole(sgd(classes, section.eta_Y, section.eta_Z, section.steps, **settings))


def _whole(run: Trajectory) -> Trajectory:
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if run.status != "finished":
        raise CellFailed(run.message)
    return run


def _checked(observables: Sequence[Observable], values: Values) -> Values:
    try:
        return declared_values(observables, values)
    except ValueError as error:
        raise InputError(f"{error}; correct the observable") from error


def _plain(values: Values) -> Values:
    """Numbers and arrays of numpy as Python's, for JSON."""
    return {
        name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value for name, value in values.items()
    }
