"""Run files of `snapdyn simulate` and `snapdyn compare`, checked before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import xarray

from snapdyn.dynamics import SequenceClasses, System
from snapdyn.errors import InputError
from snapdyn.experiments.class_sections import CLASSES, Classes
from snapdyn.experiments.system_sections import (
    SYSTEMS,
    CompareSection,
    Output,
    Run,
    SGDSection,
    SingleCommonTokenSection,
    SystemSection,
    TransformerSection,
    transformer_section,
)
from snapdyn.experiments.toml_files import read_sections, read_toml
from snapdyn.validation import comparison


@dataclass(frozen=True)
class Simulation:
    """A file for `snapdyn simulate`; paths inside it are relative to `folder`."""

    folder: Path
    classes: Classes | None
    system: SystemSection
    run: Run
    output: Output

    def build(self) -> System:
        """System to integrate."""
        return build_system(self.system, self.classes.build(self.folder) if self.classes else None)


@dataclass(frozen=True)
class Training:
    """A file for `snapdyn simulate` that trains a transformer."""

    folder: Path
    transformer: TransformerSection
    output: Output


def build_system(section: SystemSection, classes: SequenceClasses | None) -> System:
    """Build the system of a section, of the classes of the file."""
    if isinstance(section, SingleCommonTokenSection):
        if classes is not None:
            raise InputError(
                "expected no [classes] with the system SingleCommonToken, which is reduced to one logit, "
                "received some; remove the section or choose another system"
            )
        return section.build()
    if classes is None:
        raise InputError(
            f"expected a section [classes] for the system {section.kind}, received none; "
            'add it, for example with kind = "syn_small"'
        )
    return section.build(classes)


@dataclass(frozen=True)
class Comparison:
    """A file for `snapdyn compare`."""

    folder: Path
    classes: Classes
    sgd: SGDSection
    compare: CompareSection

    def compute(self) -> xarray.Dataset:
        """Run SGD and the theory; see `snapdyn.validation.comparison.compute`."""
        return comparison.compute(
            self.classes.build(self.folder),
            self.sgd.eta_Y,
            self.sgd.eta_Z,
            self.sgd.steps,
            self.sgd.seed_list(),
            self.compare.observables(),
            self.compare.curves,
            self.sgd.record,
            **self.sgd.settings(),
        )


def read_comparison(path: Path) -> Comparison:
    """Read and check a file for `snapdyn compare`; what `read_sections` raises."""
    names = ("classes", "sgd", "compare")
    sections = read_sections(path, {"classes": CLASSES, "sgd": SGDSection, "compare": CompareSection}, required=names)
    return Comparison(path.parent, *(sections[name] for name in names))


def read_simulation(path: Path) -> Simulation | Training:
    """Read and check a file for `snapdyn simulate`; what `read_sections` raises."""
    if "transformer" in read_toml(path):
        sections = read_sections(
            path, {"transformer": transformer_section(), "output": Output}, required=("transformer",)
        )
        return Training(path.parent, sections["transformer"], sections.get("output", Output()))
    sections = read_sections(
        path,
        {"classes": CLASSES, "system": SYSTEMS, "run": Run, "output": Output},
        required=("system", "run"),
    )
    return Simulation(
        path.parent,
        sections.get("classes"),
        sections["system"],
        sections["run"],
        sections.get("output", Output()),
    )
