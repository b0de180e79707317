"""Sweep files, checked before anything runs: the sections of a run file, a design over their keys, observables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pydantic import Field

from snapdyn.dynamics.observables import LADDER, ODE, SGD, TRANSFORMER, Observable
from snapdyn.errors import InputError, shown, unknown_name
from snapdyn.experiments.sweep.cells import Cell, load_plugins, models
from snapdyn.experiments.sweep.design import Axis, Design, Value, build_design
from snapdyn.experiments.sweep.observables import all_observables, chosen, default_observables, observables_of
from snapdyn.experiments.sweep.store import cell_key
from snapdyn.experiments.system_sections import system_models
from snapdyn.experiments.toml_files import Section, check_names, read_section, read_toml, unknown
from snapdyn.experiments.training_sections import SGDSection

# The section that says what a cell runs.
KIND_OF_SECTION = {"system": ODE, "sgd": SGD, "ladder": LADDER, "transformer": TRANSFORMER}
SEED = "sgd.seed"


def taken_names() -> frozenset[str]:
    """Names in a result that no parameter may have."""
    known = all_observables()
    return frozenset([*known, *(dim for each in known.values() for dim in each.dims), "cell", "failure"])


class SweepSection(Section):
    """[sweep], without the parameters."""

    design: str
    observables: list[str] | None = None
    count: int | None = None
    seed: int = 0


class PhaseSection(Section):
    """[phase]: the diagram to draw of the result."""

    x: str
    y: str
    variable: str = Field(min_length=1)


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
        known: dict[tuple[Any, ...], tuple[str, str]] = {}
        for number, (_, parameters) in enumerate(self.design.cells()):
            sections, identities = {}, {}
            for name in self.sections:
                changes = {key: value for key, value in parameters.items() if key.startswith(f"{name}.")}
                # 1, 1.0 and true are equal, but only one of them may be right.
                made_of = (name, *((key, type(value), value) for key, value in changes.items()))
                if made_of not in known:
                    known[made_of] = self._section(name, changes)
                sections[name], identities[name] = known[made_of]
            yield Cell(number, cell_key(code, self.kind, self.observables, identities), sections), parameters

    def _section(self, name: str, changes: Mapping[str, Value]) -> tuple[str, str]:
        """Canonical JSON of a section with some keys changed, and what identifies it: with its files' content."""
        values = dict(self.sections[name])
        for dotted, value in changes.items():
            values |= {"seeds": [value]} if dotted == SEED else {dotted.partition(".")[2]: value}
        model = read_section(self._models[name], values, f"[{name}] of {self.name}.toml")
        text = json.dumps(model.model_dump(), sort_keys=True)
        return text, text + "".join(f" {digest}" for digest in self._digests(model))

    @property
    def measured(self) -> list[Observable]:
        """What each cell measures."""
        return chosen(self.kind, self.observables)

    @cached_property
    def _models(self) -> dict[str, Any]:
        return models(self.kind)

    def _digests(self, section: Section) -> list[str]:
        """Hash of each file that a section names, those in folders included."""
        files = [
            file
            for path in section.files(self.folder)
            for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
            if not file.is_dir()
        ]
        try:
            return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
        except OSError as error:
            raise InputError(
                f"expected a file that can be read, received {error.filename!r} ({error.strerror}); check the path"
            ) from error


def read_sweep(path: Path) -> Sweep:
    """Read and check a file for `snapdyn sweep`.

    Raises
    ------
    InputError
        One sentence with the section or key, what was expected, what was received, what to do.
    """
    values = read_toml(path)
    kind = _kind_of(path, values)
    system, named = values.get("system"), values.get("sweep")
    load_plugins(system.get("kind") if isinstance(system, dict) else None, _listed(named))
    known = models(kind)
    required = known.keys() - ({"classes"} if kind == ODE else set())
    check_names(path, values, (*known, "sweep", "phase"), required)
    sections = {name: _table(path, name, values[name]) for name in known if name in values}
    where = f"[sweep] of {str(path)!r}"
    entry = _table(path, "sweep", values["sweep"])
    in_model = {key: value for key, value in entry.items() if key in SweepSection.model_fields}
    settings: SweepSection = read_section(SweepSection, in_model, where)
    parameters = dict(_dotted({key: value for key, value in entry.items() if key not in in_model}))
    design = _design(path, kind, settings, parameters, sections, known)
    observables = _observables(kind, settings, sections, where)
    phase = read_section(PhaseSection, values["phase"], f"[phase] of {str(path)!r}") if "phase" in values else None
    sweep = Sweep(path.stem, path.parent, kind, sections, design, observables, phase)
    if phase is not None:
        _check_phase(phase, sweep)
    return sweep


def _kind_of(path: Path, values: Mapping[str, Any]) -> str:
    """What a cell runs, by the one section that says it."""
    check_names(path, values, ("classes", *KIND_OF_SECTION, "run", "sweep", "phase"), ("sweep",))
    given = [name for name in KIND_OF_SECTION if name in values]
    if len(given) != 1:
        raise InputError(
            f"expected one of the sections [{'], ['.join(KIND_OF_SECTION)}] in {str(path)!r}, received "
            f"{' and '.join(given) or 'none'}; it says what a cell runs"
        )
    return KIND_OF_SECTION[given[0]]


def _table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"expected [{name}] of {str(path)!r} to be a section, received {value!r:.60}")
    return value


def _design(
    path: Path,
    kind: str,
    settings: SweepSection,
    parameters: Mapping[str, Any],
    sections: Mapping[str, dict[str, Any]],
    known: Mapping[str, Any],
) -> Design:
    """Design of the parameters; the seeds of [sgd] are an axis unless the file varies them itself."""
    where = f"[sweep] of {str(path)!r}"
    whole_numbers = {name: _takes_whole_numbers(name, sections, known, where) for name in parameters}
    seeds_are_an_axis = kind == SGD and SEED not in parameters
    taken = taken_names() | ({"seed"} if seeds_are_an_axis else set())
    design = build_design(settings.design, parameters, whole_numbers, settings.count, settings.seed, taken)
    if seeds_are_an_axis:
        first_values = _first(sections["sgd"], design, "sgd")
        model: SGDSection = read_section(known["sgd"], first_values, f"[sgd] of {str(path)!r}")
        seeds = model.seed_list()
        if not seeds or len(set(seeds)) < len(seeds):
            raise InputError(f"expected different seeds in [sgd], at least one, received {shown(model.seeds)}")
        name = SEED if "classes.seed" in {axis.name for axis in design.axes} else "seed"
        return Design((*design.axes, Axis(name, {SEED: list(seeds)})))
    if SEED in parameters and "seeds" in sections["sgd"]:
        raise InputError(f"expected seeds in [sgd] or {SEED} in {where}, received both; keep one of them")
    return design


def _listed(section: Any) -> list[Any]:
    """Observables that [sweep] names."""
    named = section.get("observables") if isinstance(section, dict) else None
    return named if isinstance(named, list) else []


def _observables(
    kind: str, settings: SweepSection, sections: Mapping[str, dict[str, Any]], where: str
) -> tuple[str, ...]:
    if settings.observables is None:
        system = system_models().get(sections.get("system", {}).get("kind", ""))
        return default_observables(kind, system is None or system.takes_classes(), system and system.system)
    (section,) = (name for name, of_section in KIND_OF_SECTION.items() if of_section == kind)
    for name in settings.observables:
        if name not in observables_of(kind):
            raise unknown_name(f"observables of a sweep with [{section}]", name, observables_of(kind))
    if not settings.observables:
        raise InputError(
            f"expected at least one observable in {where}, received none; choose of {', '.join(observables_of(kind))}"
        )
    return tuple(settings.observables)


def _first(section: dict[str, Any], design: Design, name: str) -> dict[str, Any]:
    """A section with the first value of each of its swept keys."""
    return section | {
        key.partition(".")[2]: values[0] for key, values in design.parameters.items() if key.startswith(f"{name}.")
    }


def _dotted(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters by dotted name: ``"system.eta_Y" = ...`` and ``system.eta_Y = ...`` are the same."""
    for key, value in entry.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and "." not in name:
            yield from _dotted(value, f"{name}.")
        else:
            yield name, value


def _takes_whole_numbers(
    name: str, sections: Mapping[str, dict[str, Any]], known: Mapping[str, Any], where: str
) -> bool:
    """Whether a parameter takes whole numbers and no others; InputError when no section has it."""
    section, _, key = name.partition(".")
    if not key:
        raise unknown("key", name, SweepSection.model_fields, f'{where}, besides parameters such as "system.eta_Y"')
    if section not in sections:
        raise unknown_name(f"the section of {name!r} in {where}", section, sections)
    if name == SEED:
        return True
    if name == "sgd.seeds":
        raise InputError(f"expected {SEED} in {where}, a seed per cell, received sgd.seeds; rename it")
    model = known[section]
    if isinstance(model, dict):
        if key == "kind":
            return False
        model = read_kind(model, sections[section], f"[{section}]")
    if key not in model.model_fields:
        raise unknown("key", key, model.model_fields, f"[{section}] (to vary it in {where})")
    annotation = model.model_fields[key].annotation
    types = set(get_args(annotation) or (annotation,))
    return int in types and float not in types


def read_kind(model: Mapping[str, type[Section]], values: Mapping[str, Any], where: str) -> type[Section]:
    """Model of a section with a key `kind`."""
    if values.get("kind") not in list(model):
        raise unknown_name(f"kind in {where}", str(values.get("kind")), model)
    return model[values["kind"]]


def _check_phase(phase: PhaseSection, sweep: Sweep) -> None:
    axes = {axis.name: len(axis) for axis in sweep.design.axes if axis.name != "cell"}
    is_grid = sweep.design.axes[0].name != "cell"
    if len(axes) < 2 or not is_grid:
        raise InputError(
            "expected a grid of at least two parameters with a section [phase], received "
            f"{'a grid of one' if is_grid else 'another design'}; vary two on a grid, or leave out [phase]"
        )
    for name in (phase.x, phase.y):
        if name not in axes:
            raise unknown_name("an axis in [phase]", name, axes)
    if phase.x == phase.y:
        raise InputError(f"expected two different axes in [phase], received {shown(phase.x)} twice; change one of them")
    for name in (phase.x, phase.y):
        values = next(axis for axis in sweep.design.axes if axis.name == name).parameters.values()
        if axes[name] < 2 or any(isinstance(value, (bool, str)) for column in values for value in column):
            raise InputError(
                f"expected at least two numbers on the axis {name} of [phase], received "
                f"{'one' if axes[name] < 2 else 'texts or true/false'}; take another axis, or no [phase]"
            )
    names = [each.name for each in sweep.measured if not each.dims and not each.text]
    if not names:
        raise InputError(
            f"expected an observable with one number per cell with a section [phase], received "
            f"{', '.join(sweep.observables)}; add one, such as entropy, to observables"
        )
    if phase.variable not in names:
        raise unknown_name("variable in [phase]", phase.variable, names)
    others = [name for name, length in axes.items() if name not in (phase.x, phase.y, "seed") and length > 1]
    if others:
        raise InputError(
            f"expected no axis besides x, y and seed with a section [phase], received {', '.join(others)} with several "
            "values; give one, or draw the dataset with snapdyn.figures.phase_diagrams.draw"
        )
