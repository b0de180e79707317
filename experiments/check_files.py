"""Files of `snapdyn check`: the instance on which the register is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from snapdyn.errors import InputError
from snapdyn.experiments.class_sections import CLASSES, ClassSection
from snapdyn.experiments.run_files import Simulation, read_simulation
from snapdyn.experiments.signature_sections import Rows
from snapdyn.experiments.toml_files import Section, read_sections, read_toml
from snapdyn.validation import InstanceReport, check


class CheckSection(Section):
    """Rates, duration and start of the instance: the arguments of `snapdyn.check`."""

    eta_Y: float
    eta_Z: float
    t_end: float | None = None
    only: list[str] | None = None
    start: Rows | None = None
    seq_len: int | None = None
    momentum: float = 0.0
    rungs: list[str] | Literal["all"] = Field(default_factory=list)


@dataclass(frozen=True)
class CheckFile:
    """A file for `snapdyn check`; paths inside it are relative to `folder`."""

    folder: Path
    classes: ClassSection
    check: CheckSection

    def run(self, progress: Callable[[int, int, str], None] | None = None) -> InstanceReport:
        """Check the register on the file's instance; `progress` as in `snapdyn.check`."""
        return check(self.classes.build(self.folder), **self.check.model_dump(), progress=progress)


def read_check(path: Path) -> CheckFile:
    """Read a file for `snapdyn check`: sections [classes] and [check].

    A file for `snapdyn simulate` will do: rates and start are then those of [system], t_end is `last` of [run].

    Raises
    ------
    InputError
        What `read_sections` raises.
    """
    values = read_toml(path)
    if "check" in values or "system" not in values:
        sections = read_sections(path, {"classes": CLASSES, "check": CheckSection}, required=("classes", "check"))
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
