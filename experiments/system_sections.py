"""Models of the section [system] of run files: one per system, with the constructor's parameters as keys."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import ClassVar

from snapdyn.dynamics import SYSTEMS, SequenceClasses, System
from snapdyn.errors import InputError
from snapdyn.experiments.signature_sections import section_model
from snapdyn.experiments.toml_files import Section


class SystemSection(Section):
    """A system and its parameters."""

    kind: str
    system: ClassVar[Callable[..., System]]

    @classmethod
    def takes_classes(cls) -> bool:
        """Whether the system is one of sequence classes."""
        return "classes" in inspect.signature(cls.system).parameters

    def build(self, classes: SequenceClasses | None) -> System:
        """Build the system of the classes of the file.

        Raises
        ------
        InputError
            Classes are missing, or given to a system that has none; whatever the system's constructor refuses.
        """
        arguments = self.model_dump(exclude={"kind"})
        if not self.takes_classes():
            if classes is not None:
                raise InputError(
                    f"expected no [classes] with the system {self.kind}, which has no sequence classes, received "
                    "some; remove the section or choose another system"
                )
            return self.system(**arguments)
        if classes is None:
            raise InputError(
                f"expected a section [classes] for the system {self.kind}, received none; "
                'add it, for example with kind = "syn_small"'
            )
        return self.system(classes, **arguments)


def system_models(named: object = None) -> dict[str, type[SystemSection]]:
    """Model of [system] for each system of the register, and for the one `named`, which a plugin may give."""
    SYSTEMS.load_named([named])
    return {name: _system_model(system) for name, system in SYSTEMS.items()}


@cache
def _system_model(system: type[System]) -> type[SystemSection]:
    model = section_model(f"{system.__name__}Section", system, SystemSection, skip=("classes",))
    model.system = system
    return model
