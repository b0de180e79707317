"""The cells of a sweep: what each runs, how it is run, and the table of what was measured in them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.core.errors import InputError, shown_path
from snapdyn.dynamics import SYSTEMS, SequenceClasses, sgd
from snapdyn.dynamics.files.storage import provenance
from snapdyn.dynamics.observables import (
    LADDER,
    OBSERVABLES,
    ODE,
    SGD,
    TRANSFORMER,
    Observable,
    declare_own_observables,
)
from snapdyn.dynamics.systems.own.own_system import OwnSystem
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.experiments import run_sections
from snapdyn.experiments.class_sections import CLASSES
from snapdyn.experiments.run_sections import RUN, RunFailed, SGDSection, finished, run_for, system_models
from snapdyn.experiments.sweep.columns import TIME, Values, chosen, declared_values, table
from snapdyn.experiments.toml_files import Model, Section, checked_sections, of_kind
from snapdyn.validation.grid import Design, Value

FORMAT = "snapdyn sweep 1"
NOT_RUN = "not run yet"
RECORDED_STEPS = 200  # of SGD, log-spaced, if the file has no record


class PhaseSection(Section):
    """[phase]: the diagram to draw of the result."""

    x: str
    y: str
    variable: str
    width: float | None = Field(None, gt=0)
    style: str | None = None


Sections = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """A cell as sent to a worker: its number in the design, its parameters, and the checked values of its sections.

    Cells that run the same have the same `identity`: it has these values and the hash of each file that they name.
    """

    number: int
    parameters: dict[str, Value]
    sections: Sections
    identity: str


@dataclass(frozen=True)
class Sweep:
    """A file for `snapdyn sweep`; paths inside it are relative to `folder`."""

    name: str
    folder: Path
    kind: str
    sections: Sections
    design: Design
    observables: tuple[str, ...]
    phase: PhaseSection | None

    def cells(self) -> Iterator[Cell]:
        """Yield the cells in the order of the design; a section is checked once for each set of its values.

        Raises
        ------
        InputError
            A value of the wrong type for its key, or a file that cannot be read.
        """
        known: dict[tuple[Any, ...], tuple[dict[str, Any], str]] = {}
        for number, parameters in enumerate(self.design.cells()):
            sections, identities = {}, []
            for name, values in self.sections.items():
                changes = {
                    key.partition(".")[2]: value for key, value in parameters.items() if key.startswith(f"{name}.")
                }
                # 1, 1.0 and true are equal, but only one of them may be right.
                made_of = (name, *((key, type(value), value) for key, value in changes.items()))
                if made_of not in known:
                    known[made_of] = self._checked(name, changed(values, changes))
                sections[name], identity = known[made_of]
                identities.append(f"{name} {identity}")
            yield Cell(number, parameters, sections, "\n".join(sorted(identities)))

    def _checked(self, name: str, values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Checked values of a section, and its identity: these, followed by the hash of each file that it names."""
        if name == "sgd":
            values = values | {"seeds": [values["seed"]]}
            del values["seed"]
        section = checked_sections({name: values}, {name: models(self.kind)[name]}, (name,), f"{self.name}.toml")[name]
        try:
            files = [
                file
                for path in section.files(self.folder)
                for file in (sorted(path.rglob("*")) if os.path.isdir(path) else [path])
                if not file.is_dir()
            ]
            digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
        except OSError as error:
            raise InputError(
                f"expected a file that can be read, received {shown_path(error.filename)} ({error.strerror}); check "
                "the path"
            ) from error
        found = section.model_dump()
        return found, " ".join([json.dumps(found, sort_keys=True), *digests])


def changed(values: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a section with these changes; "optimizer.beta2" is the key beta2 of the table optimizer.

    A text in place of the table is the name that the table would have: optimizer = "adam".
    """
    for key, value in changes.items():
        outer, _, inner = key.partition(".")
        table = values.get(outer, {})
        if inner and isinstance(table, str | dict):
            key, value = outer, changed({"name": table} if isinstance(table, str) else table, {inner: value})
        values = values | {key: value}
    return values


def models(kind: str) -> dict[str, Model]:
    """Model of each section of a cell."""
    if kind == TRANSFORMER:
        return {"transformer": run_sections.TRANSFORMER}
    own: dict[str, dict[str, Model]] = {
        ODE: {"system": system_models(), "run": RUN},
        SGD: {"sgd": run_sections.SGD},
        LADDER: {"ladder": run_sections.LADDER},
    }
    return {"classes": CLASSES, **own[kind]}


def section_of(kind: str, name: str, values: dict[str, Any]) -> Any:
    """The section of a cell, whose values `Sweep.cells` has checked."""
    return of_kind(models(kind)[name], values, name).model_construct(**values)


def load_plugins(system: Any, observables: Any) -> None:
    """Import the plugins that a sweep names: its kind of system, which may bring observables, and its observables."""
    SYSTEMS.load_named([system])
    for known in SYSTEMS.values():
        if issubclass(known, OwnSystem):
            declare_own_observables(known())
    OBSERVABLES.load_named(observables if isinstance(observables, (list, tuple)) else [])


@dataclass(frozen=True)
class Outcome:
    """A cell's values, or the reason why it has none."""

    number: int
    values: Values | None = None
    reason: str = ""
    bad_input: bool = False  # whether the reason is bad input
    run: TransformerRun | None = None


def outcome_of(kind: str, observables: Sequence[str], folder: Path, cell: Cell) -> Outcome:
    """Run a cell here; the arguments are those of `run_cell`."""
    try:
        values, run = measured(kind, cell.sections, chosen(kind, observables), folder)
        return Outcome(cell.number, values, run=run)
    except Exception as error:
        reason = str(error) if isinstance(error, (InputError, RunFailed)) else f"{type(error).__name__}: {error}"
        return Outcome(cell.number, reason=" ".join(reason.split()), bad_input=isinstance(error, InputError))


def run_in_process(sweep: Sweep) -> xarray.Dataset:
    """Run the cells of a sweep one after the other, and keep nothing on disk; the table is that of `run_sweep`."""
    outcomes = [outcome_of(sweep.kind, sweep.observables, sweep.folder, cell) for cell in sweep.cells()]
    reasons = {outcome.number: outcome.reason for outcome in outcomes if outcome.values is None}
    return dataset_of(sweep, [outcome.values for outcome in outcomes], reasons)


def measured(
    kind: str, sections: Sections, observables: Sequence[Observable], folder: Path
) -> tuple[Values, TransformerRun | None]:
    """Run a cell; return its values, and the run if it is a transformer's.

    Raises
    ------
    InputError
        The cell cannot be built, or an observable has another value than it declares.
    RunFailed
        The run did not reach its end.
    """
    found = _run(kind, sections, observables, folder)
    read = {each.name: each.values(found) for each in observables}
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in read.items()}
    try:
        values = declared_values(observables, plain)
    except ValueError as error:
        raise InputError(f"{error}; correct the observable") from error
    return values, found if kind == TRANSFORMER else None


@lru_cache(maxsize=8)
def _classes(kind: str, text: str, folder: Path) -> SequenceClasses:
    classes: SequenceClasses = section_of(kind, "classes", json.loads(text)).build(folder)
    return classes


def _run(kind: str, sections: Sections, observables: Sequence[Observable], folder: Path) -> Any:
    """Run a cell; the result is what its observables measure."""
    of_cell = {name: section_of(kind, name, values) for name, values in sections.items()}
    if kind == TRANSFORMER:
        return of_cell["transformer"].train(folder)
    classes = _classes(kind, json.dumps(sections["classes"]), folder) if "classes" in sections else None
    if kind == ODE:
        return run_for(observables, of_cell["system"], of_cell["run"], classes)
    assert classes is not None  # the file has them, or is refused
    if kind == LADDER:
        return of_cell["ladder"].compute(classes)
    sgd_section: SGDSection = of_cell["sgd"]
    settings, record = sgd_section.settings(), sgd_section.record
    transition = any(each.needs_transition for each in observables)
    if transition and settings["residual"]:
        raise InputError(
            "expected no residual with the observable transition_time of SGD, received residual = true; leave one out"
        )
    if record is None:
        record = np.union1d([0], np.geomspace(1, sgd_section.steps, RECORDED_STEPS).round().astype(int)).tolist()
    decoder = transition or any(each.needs_decoder for each in observables)
    (seed,) = sgd_section.seed_list()
    settings |= {"seed": seed, "record": record, "save_decoder": decoder}
    return finished(sgd(classes, sgd_section.eta_Y, sgd_section.eta_Z, sgd_section.steps, **settings))


def dataset_of(sweep: Sweep, values: Sequence[Values | None], reasons: Mapping[int, str]) -> xarray.Dataset:
    """Build the dataset from the values of every cell, in the order of the design.

    The dataset is the `table` of the design; `failure` says why a cell has no values, and the attributes say what was
    run.
    """
    time = replace(TIME, unit="SGD steps") if sweep.kind == TRANSFORMER else TIME
    columns = [time if each is TIME else each for each in chosen(sweep.kind, sweep.observables)]
    dataset = table(sweep.design, values, columns)
    missing = {number: NOT_RUN for number, of_cell in enumerate(values) if of_cell is None} | dict(reasons)
    failure = np.array([missing.get(number, "") for number in range(len(values))], dtype=object)
    dims = tuple(axis.name for axis in sweep.design.axes)
    dataset["failure"] = (dims, failure.reshape(sweep.design.shape), {"long_name": "why a cell has no values"})
    return dataset.assign_attrs(
        name=sweep.name,
        kind=sweep.kind,
        settings=json.dumps(sweep.sections, sort_keys=True),
        observables=json.dumps(sweep.observables),
        finished=f"{len(values) - len(missing)} of {len(values)} cells",
        provenance=json.dumps(provenance(), sort_keys=True),
        format=FORMAT,
    )
