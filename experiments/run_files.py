"""Run files of `snapdyn simulate`, `compare` and `check`, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray
from pydantic import Field

from snapdyn.core.errors import InputError
from snapdyn.dynamics import SequenceClasses, System
from snapdyn.experiments.class_sections import CLASSES, ClassSection
from snapdyn.experiments.run_sections import (
    RUN,
    SGD,
    TRACE,
    TRANSFORMER,
    CompareSection,
    Output,
    RunSection,
    SGDSection,
    SystemSection,
    TraceSection,
    TransformerSection,
    system_models,
)
from snapdyn.experiments.toml_files import Model, Rows, Section, read_sections, read_toml, under
from snapdyn.validation import comparison

if TYPE_CHECKING:
    from snapdyn.validation import InstanceReport


@dataclass(frozen=True)
class Simulation:
    """A file for `snapdyn simulate`; paths inside it are relative to `folder`."""

    folder: Path
    classes: ClassSection | None
    system: SystemSection
    run: RunSection
    output: Output

    def build(self) -> System:
        """System to integrate."""
        return self.system.build(self.classes.build(self.folder) if self.classes else None)


@dataclass(frozen=True)
class Training:
    """A file for `snapdyn simulate` that trains a transformer."""

    folder: Path
    transformer: TransformerSection
    output: Output


@dataclass(frozen=True)
class Comparison:
    """A file for `snapdyn compare`: SGD over several seeds, or a trace in `file`."""

    folder: Path
    classes: ClassSection
    compare: CompareSection
    run: SGDSection | TraceSection
    file: Path | None

    def compute(self) -> xarray.Dataset:
        """Run SGD, or read the trace, and integrate the theory; see `snapdyn.validation.comparison`."""
        classes, rates = self.classes.build(self.folder), (self.run.eta_Y, self.run.eta_Z)
        shown = self.compare.observables(), self.compare.curves
        if isinstance(self.run, SGDSection):
            sgd = self.run
            return comparison.compute(classes, *rates, sgd.steps, sgd.seed_list(), *shown, sgd.record, **sgd.settings())
        assert self.file is not None
        return comparison.compare(self.run.read(self.file), classes, *rates, *shown)


def read_comparison(path: Path, trace: Path | None = None) -> Comparison:
    """Read and check a file for `snapdyn compare`, with or without --trace; raises what `read_sections` raises."""
    run: dict[str, Model] = {"sgd": SGD} if trace is None else {"trace": TRACE}
    models = {"classes": CLASSES, **run, "compare": CompareSection}
    sections = read_sections(path, models, required=models)
    (of_run,) = (sections[name] for name in run)
    return Comparison(path.parent, sections["classes"], sections["compare"], of_run, trace)


def read_simulation(path: Path) -> Simulation | Training:
    """Read and check a file for `snapdyn simulate`; raises what `read_sections` raises."""
    values = read_toml(path)
    if "transformer" in values:
        sections = read_sections(path, {"transformer": TRANSFORMER, "output": Output}, ("transformer",), values)
        return Training(path.parent, sections["transformer"], sections.get("output", Output()))
    sections = read_sections(
        path,
        {"classes": CLASSES, "system": system_models(under(values, "system", "kind")), "run": RUN, "output": Output},
        ("system", "run"),
        values,
    )
    return Simulation(
        path.parent,
        sections.get("classes"),
        sections["system"],
        sections["run"],
        sections.get("output", Output()),
    )


class CheckSection(Section):
    """Rates, duration and start of the instance: the arguments of `snapdyn.check`."""

    eta_Y: float
    eta_Z: float
    t_end: float | None = None
    only: list[str] | None = None
    start: Rows | None = None
    seq_len: int | None = None
    momentum: float = 0.0
    optimizer: str | dict[str, Any] | None = None
    rungs: list[str] | Literal["all"] = Field(default_factory=list)


class ParametersSection(Section, extra="allow"):
    """Parameters of a theory whose claims have a `Box`, by name; `snapdyn.check` checks them."""


class TheoryCheckSection(Section):
    """Which claims to check at the parameters of a theory."""

    only: list[str] | None = None


@dataclass(frozen=True)
class CheckFile:
    """A file for `snapdyn check`; paths inside it are relative to `folder`."""

    folder: Path
    given: ClassSection | ParametersSection
    check: CheckSection | TheoryCheckSection

    def run(self, progress: Callable[[int, int, str], None] | None = None) -> InstanceReport:
        """Check the register on the file's instance; `progress` as in `snapdyn.check`."""
        from snapdyn.validation import check  # here, since it loads the register

        given: SequenceClasses | dict[str, float]
        if isinstance(self.given, ParametersSection):
            given = self.given.model_extra or {}
        else:
            given = self.given.build(self.folder)
        return check(given, **self.check.model_dump(), progress=progress)


def read_check(path: Path) -> CheckFile:
    """Read a file for `snapdyn check`: sections [classes] and [check], or [parameters] of a theory.

    A file for `snapdyn simulate` can be read too: rates and start are then those of [system], and t_end is `last` of
    [run].

    Raises
    ------
    InputError
        What `read_sections` raises.
    """
    values = read_toml(path)
    if "parameters" in values:
        sections = read_sections(
            path, {"parameters": ParametersSection, "check": TheoryCheckSection}, ("parameters",), values
        )
        return CheckFile(path.parent, sections["parameters"], sections.get("check") or TheoryCheckSection())
    if "check" in values or "system" not in values:
        sections = read_sections(path, {"classes": CLASSES, "check": CheckSection}, ("classes", "check"), values)
        return CheckFile(path.parent, sections["classes"], sections["check"])
    simulation = read_simulation(path)
    if not isinstance(simulation, Simulation) or simulation.classes is None:
        raise InputError(
            f"expected sections [classes] and [check] in {str(path)!r}, received a file without classes; add them"
        )
    rates = {name: getattr(simulation.system, name, None) for name in ("eta_Y", "eta_Z", "seq_len")}
    if rates["eta_Y"] is None or rates["eta_Z"] is None:
        raise InputError(
            f"expected eta_Y and eta_Z in {str(path)!r}, received the system {simulation.system.kind} without them; "
            "add a section [check] with both"
        )
    start = getattr(simulation.system, "z_initial", None)
    last = float(np.max(simulation.run.t_eval()))
    section = CheckSection(**(rates | {"start": start, "t_end": last}))
    return CheckFile(path.parent, simulation.classes, section)
