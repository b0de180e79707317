"""Sweep files, checked before anything runs: the sections of a run file, a design over their keys, observables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from snapdyn.core.errors import InputError, positive, shown, suggest, unknown_name
from snapdyn.dynamics import SYSTEMS
from snapdyn.dynamics.observables import (
    LADDER,
    ODE,
    SGD,
    TRANSFORMER,
)
from snapdyn.experiments import run_sections
from snapdyn.experiments.sweep.cells import PhaseSection, Sweep, load_plugins, models
from snapdyn.experiments.sweep.columns import all_observables, names_of
from snapdyn.experiments.toml_files import Model, Section, of_kind, read_sections, read_toml, under
from snapdyn.validation.grid import MOST_CELLS, Design, Value, design_of

SEED = "sgd.seed"


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


class SweptSection(Section, extra="allow"):
    """A section of a cell, whose keys are checked with the values of each cell."""


class SweptSeeds(run_sections.SeedsSection, extra="allow"):
    """Seeds of [sgd]; its other keys are checked with the values of each cell."""


DESIGNS: Model = {"grid": GridSection, "list": ListSection, "random": RandomSection}
# Kind of cell by the section that says what a cell runs.
KINDS = {"system": ODE, "sgd": SGD, "ladder": LADDER, "transformer": TRANSFORMER}


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
    values, source = read_toml(path), repr(str(path))
    named = under(values, "system", "kind"), under(values, "sweep", "observables")
    design_model = of_kind(DESIGNS, values.get("sweep"), f"[sweep] of {source}", "design")
    load_plugins(*named)
    given = [name for name in KINDS if name in values]
    if len(given) != 1:
        raise InputError(
            f"expected exactly one of the sections [{'], ['.join(KINDS)}] in {source}, received "
            f"{' and '.join(given) or 'none'}; this section says what a cell runs"
        )
    kind = KINDS[given[0]]
    of_cell = models(kind)
    whole_file: dict[str, Model] = {name: SweptSeeds if name == "sgd" else SweptSection for name in of_cell}
    required = ["sweep", *(name for name in of_cell if (kind, name) != (ODE, "classes"))]
    whole_file |= {"sweep": design_model, "phase": PhaseSection}
    file = read_sections(path, whole_file, required, values)
    sections = {name: values[name] for name in of_cell if name in values}
    design: GridSection = file["sweep"]
    whole_numbers = {}
    for name in design.parameters:
        section, _, key = name.partition(".")
        if section not in sections:
            raise unknown_name(f"the section of {name!r} in [sweep]", section, sections)
        whole_numbers[name] = _takes_whole_numbers(of_cell[section], sections[section].get("kind"), key)
    seeds = _seeds(design.parameters, file["sgd"]) if kind == SGD else {}
    return Sweep(
        path.stem,
        path.parent,
        kind,
        sections,
        design.design_of(whole_numbers, seeds),
        names_of(kind, design.observables, "classes" in sections, SYSTEMS.get(str(named[0]))),
        file.get("phase"),
    )


def _seeds(swept: Mapping[str, Any], section: SweptSeeds) -> dict[str, list[Value]]:
    """Seeds of [sgd], a parameter besides those of [sweep]; none where [sweep] varies the seed."""
    if "sgd.seeds" in swept:
        raise InputError(f"expected {SEED} in [sweep], a seed per cell, received sgd.seeds; rename it")
    if SEED not in swept:
        return {SEED: list(section.seed_list())}
    if "seeds" in section.model_fields_set:
        raise InputError(f"expected seeds in [sgd] or {SEED} in [sweep], received both; keep one of them")
    return {}


def _takes_whole_numbers(model: Model, kind: Any, key: str) -> bool:
    """Whether the key of a section takes whole numbers and no others; a key that does not exist takes none."""
    if isinstance(model, Mapping):
        model = model[kind] if kind in list(model) else Section
    if issubclass(model, run_sections.SGDSection) and key == "seed":
        return True
    annotation = model.model_fields[key].annotation if key in model.model_fields else None
    types = set(get_args(annotation) or (annotation,))
    return int in types and float not in types
