"""Sweep files, checked before anything runs: the sections of a run file, a design over their keys, observables."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field, create_model, model_validator

from snapdyn.core.errors import InputError, choice, positive, shown, shown_path, suggest, unknown_name
from snapdyn.dynamics import SYSTEMS
from snapdyn.dynamics.files.storage import hashed_name
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
from snapdyn.experiments import run_sections
from snapdyn.experiments.class_sections import CLASSES
from snapdyn.experiments.run_sections import RUN, system_models
from snapdyn.experiments.sweep.columns import all_observables, chosen, default_observables, observables_of
from snapdyn.experiments.toml_files import Model, Section, file_model, of_kind, read_model, read_toml, under
from snapdyn.validation.grid import MOST_CELLS, Design, Value, design_of

SEED = "sgd.seed"
FORMAT = 1  # of the files of cells


# Well below the largest number, so that the distance of two of them is finite.
Bounded = Annotated[float, Field(ge=-1e18, le=1e18)]


class Range(Section):
    """Evenly spaced values, both ends included."""

    first: Bounded
    last: Bounded
    count: int = Field(ge=1, le=MOST_CELLS)
    spacing: Literal["linear", "log"] = "linear"

    def values(self, name: str, whole_numbers: bool) -> list[Value]:
        """The values of a parameter; those of a whole parameter are rounded, and repeated ones are left out."""
        if self.spacing == "log":
            first, last = positive(f"first of {name}", self.first), positive(f"last of {name}", self.last)
            numbers = np.geomspace(first, last, self.count)
        else:
            numbers = np.linspace(self.first, self.last, self.count)
        return list(dict.fromkeys(map(round, numbers.tolist()))) if whole_numbers else numbers.tolist()


class Spread(Section):
    """A distribution to draw from."""

    low: Bounded
    high: Bounded
    distribution: Literal["uniform", "log-uniform"] = "uniform"

    def draw(self, name: str, rng: np.random.Generator, count: int, whole_numbers: bool) -> list[Value]:
        """Draw values of a parameter; whole numbers are drawn from low to high, both included."""
        low, high = self.low, self.high
        if not low < high:
            raise InputError(f"expected low below high for {name}, received {low:g} and {high:g}; exchange them")
        if whole_numbers:
            low, high = math.ceil(low) - 0.5, math.floor(high) + 0.5
            if not low < high:
                raise InputError(
                    f"expected a range that contains a whole number for {name}, received {self.low:g} to "
                    f"{self.high:g}; widen the range"
                )
        if self.distribution == "log-uniform":
            positive(f"low of {name}", self.low)
            numbers = np.exp(rng.uniform(np.log(low), np.log(high), count))
        else:
            numbers = rng.uniform(low, high, count)
        return [round(number) for number in numbers.tolist()] if whole_numbers else numbers.tolist()


def _entry(table: type[Section], entry: Any) -> Any:
    """What [sweep] gives for a parameter: a list of values, or a `table`."""
    if isinstance(entry, dict):
        return table.model_validate(entry)
    if not isinstance(entry, list) or not entry or not all(isinstance(value, Value) for value in entry):
        raise ValueError(
            f"its values as a list of numbers, texts or true/false, received {shown(entry)}; write, for example, "
            "[0.1, 1.0]"
        )
    return entry


class GridSection(Section, extra="allow"):
    """[sweep]: its design, its observables, and what it gives for each parameter by its dotted name.

    A grid combines each value of a parameter with all values of the others.
    """

    design: str
    observables: list[str] | None = None
    __pydantic_extra__: dict[str, Annotated[Any, BeforeValidator(partial(_entry, Range))]]

    @model_validator(mode="before")
    @classmethod
    def _has_dotted_names(cls, values: Any) -> Any:
        """``"system.eta_Y" = ...`` and ``system.eta_Y = ...`` are the same."""
        settings = {key: value for key, value in values.items() if key in cls.model_fields}
        parameters = dict(_dotted({key: value for key, value in values.items() if key not in settings}))
        for name in parameters:
            if "." not in name:
                raise ValueError(
                    f'only {", ".join(cls.model_fields)} besides parameters such as "system.eta_Y", received '
                    f"{shown(name)}{suggest(name, cls.model_fields) or '; remove it'}"
                )
        if not parameters:
            raise ValueError('at least one parameter, received none; add, for example, "system.eta_Y" = [0.1, 1.0]')
        return settings | parameters

    @property
    def parameters(self) -> dict[str, Any]:
        """What the section gives for each parameter."""
        return self.model_extra or {}

    def design_of(self, whole_numbers: Mapping[str, bool], seeds: Mapping[str, list[Value]]) -> Design:
        """Build the design; `whole_numbers` says which parameters take only whole ones, `seeds` adds a parameter."""
        return design_of({**self.values(whole_numbers), **seeds}, {}, reserved_names())

    def values(self, whole_numbers: Mapping[str, bool]) -> dict[str, list[Value]]:
        """Values of each parameter."""
        return {
            name: entry.values(name, whole_numbers[name])
            if isinstance(entry, Range)
            else _whole(entry, whole_numbers[name])
            for name, entry in self.parameters.items()
        }


class ListSection(GridSection):
    """A list: the first cell has the first value of every parameter, the second cell the second, and so on."""

    def design_of(self, whole_numbers: Mapping[str, bool], seeds: Mapping[str, list[Value]]) -> Design:
        return design_of(seeds, self.values(whole_numbers), reserved_names())


class RandomSection(ListSection):
    """A random design; a design with more cells starts with the cells of the smaller one."""

    count: int = Field(ge=1, le=MOST_CELLS)
    seed: int = Field(0, ge=0)
    __pydantic_extra__: dict[str, Annotated[Any, BeforeValidator(partial(_entry, Spread))]]

    def values(self, whole_numbers: Mapping[str, bool]) -> dict[str, list[Value]]:
        values = {}
        for name, entry in self.parameters.items():
            # A stream per parameter, by its name: another parameter changes no value of this one.
            rng = np.random.default_rng(np.random.SeedSequence([self.seed, *name.encode()]))
            if isinstance(entry, Spread):
                values[name] = entry.draw(name, rng, self.count, whole_numbers[name])
            else:
                choices = _whole(entry, whole_numbers[name])
                values[name] = [choices[i] for i in (rng.random(self.count) * len(choices)).astype(int)]
        return values


def _whole(values: list[Value], whole_numbers: bool) -> list[Value]:
    """Values in the type that the key takes; where it takes whole numbers, 100.0 and 1e5 count as whole numbers."""
    return [
        int(value) if whole_numbers and isinstance(value, float) and value.is_integer() else value for value in values
    ]


def _dotted(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in entry.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and "." not in name:
            yield from _dotted(value, f"{name}.")
        else:
            yield name, value


class PhaseSection(Section):
    """[phase]: the diagram to draw of the result."""

    x: str
    y: str
    variable: str
    width: float | None = Field(None, gt=0)
    style: str | None = None


class SweptSeeds(run_sections.SeedsSection, extra="allow"):
    """Seeds of [sgd]; its other keys are checked with the values of each cell."""


DESIGNS: Model = {"grid": GridSection, "list": ListSection, "random": RandomSection}
# Kind of cell by the section that says what a cell runs.
KINDS = {"system": ODE, "sgd": SGD, "ladder": LADDER, "transformer": TRANSFORMER}


Sections = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """A cell as sent to a worker: its number in the design, its key, and the checked values of its sections."""

    number: int
    key: str
    sections: Sections


@dataclass(frozen=True)
class Sweep:
    """A file for `snapdyn sweep`; paths inside it are relative to `folder`."""

    name: str
    folder: Path
    kind: str
    sections: dict[str, dict[str, Any]]
    design: Design
    observables: tuple[str, ...]
    phase: PhaseSection | None

    def cells(self, code: str) -> Iterator[tuple[Cell, dict[str, Value]]]:
        """Each cell and the values of its parameters, in the order of the design.

        Raises
        ------
        InputError
            A value of the wrong type for its key.
        """
        known: dict[tuple[Any, ...], tuple[dict[str, Any], str]] = {}
        for number, parameters in enumerate(self.design.cells()):
            sections, identities = {}, {}
            for name, values in self.sections.items():
                changes = {
                    key.partition(".")[2]: value for key, value in parameters.items() if key.startswith(f"{name}.")
                }
                # 1, 1.0 and true are equal, but only one of them may be right.
                made_of = (name, *((key, type(value), value) for key, value in changes.items()))
                if made_of not in known:
                    known[made_of] = self._described(name, changed(values, changes))
                sections[name], identities[name] = known[made_of]
            facts = (FORMAT, code, self.kind, sorted(self.observables), sorted(identities.items()))
            yield Cell(number, hashed_name(facts), sections), parameters

    def _described(self, name: str, values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Checked values of a section, and its identity: these, followed by the hash of each file that it names."""
        if name == "sgd":
            values = values | {"seeds": [values["seed"]]}
            del values["seed"]
        file, source = {name: values}, f"{self.name}.toml"
        model = file_model({name: models(self.kind)[name]}, (name,), file, source)
        section: Section = getattr(read_model(model, file, source), name)
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

    @property
    def measured(self) -> list[Observable]:
        """What each cell measures."""
        return chosen(self.kind, self.observables)


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


def reserved_names() -> frozenset[str]:
    """Names in a result that no parameter may have."""
    known = all_observables()
    return frozenset([*known, *(dim for each in known.values() for dim in each.dims), "cell", "failure"])


def read_sweep(path: Path) -> Sweep:
    """Read and check a file for `snapdyn sweep`; keys of the sections of a cell are checked with its values.

    Raises
    ------
    InputError
        One sentence with the section or key, what was expected, what was received, what to do.
    """
    values = read_toml(path)
    given = [name for name in KINDS if name in values]
    if len(given) != 1:
        raise InputError(
            f"expected exactly one of the sections [{'], ['.join(KINDS)}] in {str(path)!r}, received "
            f"{' and '.join(given) or 'none'}; this section says what a cell runs"
        )
    kind = KINDS[given[0]]
    load_plugins(under(values, "system", "kind"), under(values, "sweep", "observables"))
    of_cell: dict[str, Any] = {
        name: (SweptSeeds if name == "sgd" else dict[str, Any], None if (kind, name) == (ODE, "classes") else ...)
        for name in models(kind)
    }
    source = repr(str(path))
    design = of_kind(DESIGNS, values.get("sweep"), f"[sweep] of {source}", "design")
    model = create_model(
        "SweepFile", __base__=Section, sweep=(design, ...), phase=(PhaseSection | None, None), **of_cell
    )
    file: Any = read_model(model, values, source)
    sections = {name: values[name] for name in of_cell if name in values}
    observables = _observables(kind, given[0], file.sweep.observables, sections)
    whole_numbers = {}
    for name in file.sweep.parameters:
        section, _, key = name.partition(".")
        if section not in sections:
            raise unknown_name(f"the section of {name!r} in [sweep]", section, sections)
        whole_numbers[name] = _takes_whole_numbers(models(kind)[section], sections[section].get("kind"), key)
    seeds = _seeds(file) if kind == SGD else {}
    return Sweep(
        path.stem,
        path.parent,
        kind,
        sections,
        file.sweep.design_of(whole_numbers, seeds),
        observables,
        file.phase,
    )


def _seeds(file: Any) -> dict[str, list[Value]]:
    """Seeds of [sgd], a parameter besides those of [sweep]; none where [sweep] varies the seed."""
    if "sgd.seeds" in file.sweep.parameters:
        raise InputError(f"expected {SEED} in [sweep], a seed per cell, received sgd.seeds; rename it")
    if SEED not in file.sweep.parameters:
        return {SEED: list(file.sgd.seed_list())}
    if "seeds" in file.sgd.model_fields_set:
        raise InputError(f"expected seeds in [sgd] or {SEED} in [sweep], received both; keep one of them")
    return {}


def _observables(
    kind: str, section: str, named: list[str] | None, sections: dict[str, dict[str, Any]]
) -> tuple[str, ...]:
    """Observables to measure in each cell: those that the file names, or the defaults of its kind of cell."""
    if named is None:
        system = system_models().get(str(under(sections, "system", "kind"))) if kind == ODE else None
        return default_observables(kind, system is None or system.takes_classes(), system and system.system)
    known = observables_of(kind)
    if not named:
        raise InputError(f"expected at least one observable in [sweep], received none; choose from {', '.join(known)}")
    return tuple(choice(f"observables of a sweep with [{section}]", name, known) for name in named)


def _takes_whole_numbers(model: Model, kind: Any, key: str) -> bool:
    """Whether the key of a section takes whole numbers and no others; a key that does not exist takes none."""
    if isinstance(model, Mapping):
        model = model[kind] if kind in list(model) else Section
    if issubclass(model, run_sections.SGDSection) and key == "seed":
        return True
    annotation = model.model_fields[key].annotation if key in model.model_fields else None
    types = set(get_args(annotation) or (annotation,))
    return int in types and float not in types
